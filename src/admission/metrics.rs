//! What the server tells of itself, under the names that controller-runtime's users have dashboards for.

use prometheus::{CounterVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};

use crate::checks::{Kind, Verdict};
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
    /// Unix time at which the serving certificate ends.
    pub(super) certificate_end: IntGauge,
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
            certificate_end: registry.register(IntGauge::new(
                "etcd_warden_webhook_certificate_expiry_timestamp_seconds",
                "Unix time at which the serving certificate ends.",
            )?)?,
        })
    }

    /// Counts what was found. Rules are a closed set, so that labels stay bounded.
    pub(super) fn count(&self, kind: Kind, verdict: &Verdict, seconds: f64) {
        self.evaluation.with_label_values(&[kind.name()]).inc_by(seconds);
        for finding in &verdict.findings {
            let action = match finding.action {
                crate::policy::Action::Deny => "Deny",
                crate::policy::Action::Warn => "Warn",
                crate::policy::Action::Audit => "Audit",
            };
            self.findings.with_label_values(&[&*finding.policy, action, kind.name()]).inc();
        }
    }
}
