//! What the server tells of itself, under the names that controller-runtime's users have dashboards for.

use prometheus::{CounterVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};

use crate::checks::{Kind, Operation, Verdict};
use crate::policy::Action;
use crate::runtime::metrics::Metrics as Registry;

/// Upper bounds of the latency histogram, in seconds.
const LATENCY: [f64; 12] = [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 10.0];

/// The server's metrics.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    /// Requests by path and HTTP status.
    pub(super) requests: IntCounterVec,
    /// Seconds from the last byte of a request to its answer.
    pub(super) latency: HistogramVec,
    /// Requests being answered.
    pub(super) in_flight: IntGaugeVec,
    /// Panics that were answered with a 500.
    pub(super) panics: IntCounter,
    /// Findings by rule, action and kind.
    pub(super) findings: IntCounterVec,
    /// Seconds spent on judging, by kind.
    pub(super) evaluation: CounterVec,
    /// Judgements by kind, operation and outcome.
    pub(super) reviews: IntCounterVec,
    /// Unix time at which the serving certificate ends.
    pub(super) certificate_end: IntGauge,
    /// Unix time at which the first authority of the bundle ends, the one that signed the serving certificate.
    pub(super) authority_end: IntGauge,
    /// Connections that are open.
    pub(super) connections: IntGauge,
    /// Connections that were closed at once, because there were too many.
    pub(super) connections_refused: IntCounter,
    /// Connections that were closed to make room for others.
    pub(super) connections_evicted: IntCounter,
    /// Whether the live configurations refuse what nobody answers for, and we are seen answering.
    pub(super) enforcing: IntGauge,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self {
            requests: registry.register(IntCounterVec::new(
                Opts::new("controller_runtime_webhook_requests_total", "Admission requests by path and HTTP status."),
                &["webhook", "code"],
            )?)?,
            latency: registry.register(HistogramVec::new(
                HistogramOpts::new("controller_runtime_webhook_latency_seconds", "Time to answer, by path.")
                    .buckets(LATENCY.to_vec()),
                &["webhook"],
            )?)?,
            in_flight: registry.register(IntGaugeVec::new(
                Opts::new("controller_runtime_webhook_requests_in_flight", "Requests being answered, by path."),
                &["webhook"],
            )?)?,
            panics: registry.register(IntCounter::new(
                "controller_runtime_webhook_panics_total",
                "Panics that were answered with a 500.",
            )?)?,
            findings: registry.register(IntCounterVec::new(
                Opts::new("etcd_warden_policy_findings_total", "Findings by rule, action and kind."),
                &["policy", "action", "kind"],
            )?)?,
            evaluation: registry.register(CounterVec::new(
                Opts::new("etcd_warden_policy_evaluation_seconds_total", "Time spent on judging, by kind."),
                &["kind"],
            )?)?,
            reviews: registry.register(IntCounterVec::new(
                Opts::new(
                    "etcd_warden_policy_reviews_total",
                    "Changes that were judged, by kind, operation and verdict.",
                ),
                &["kind", "operation", "verdict"],
            )?)?,
            certificate_end: registry.register(IntGauge::new(
                "etcd_warden_webhook_certificate_expiry_timestamp_seconds",
                "Unix time at which the serving certificate ends.",
            )?)?,
            authority_end: registry.register(IntGauge::new(
                "etcd_warden_webhook_authority_expiry_timestamp_seconds",
                "Unix time at which the authority of the serving certificate ends.",
            )?)?,
            connections: registry
                .register(IntGauge::new("etcd_warden_webhook_connections", "Connections that are open.")?)?,
            connections_evicted: registry.register(IntCounter::new(
                "etcd_warden_webhook_connections_evicted_total",
                "Idle connections that were closed to make room for others.",
            )?)?,
            connections_refused: registry.register(IntCounter::new(
                "etcd_warden_webhook_connections_refused_total",
                "Connections that were closed at once, because there were too many.",
            )?)?,
            enforcing: registry.register(IntGauge::new(
                "etcd_warden_webhook_enforcing",
                "1 while the webhook configuration is there with failure policy Fail and this replica sees itself answer \
                 through the API server.",
            )?)?,
        })
    }

    /// Counts what was found. Rules are a closed set, so that labels stay bounded.
    pub(super) fn count(&self, kind: Kind, operation: Operation, verdict: &Verdict, seconds: f64) {
        let outcome = if !verdict.allowed() {
            "denied"
        } else if verdict.with(Action::Warn).next().is_some() {
            "warned"
        } else {
            "allowed"
        };
        self.reviews.with_label_values(&[kind.name(), operation.as_str(), outcome]).inc();
        self.evaluation.with_label_values(&[kind.name()]).inc_by(seconds);
        for finding in &verdict.findings {
            let action = match finding.action {
                Action::Deny => "Deny",
                Action::Warn => "Warn",
                Action::Audit => "Audit",
            };
            self.findings.with_label_values(&[&*finding.policy, action, kind.name()]).inc();
        }
    }
}
