//! controller-runtime's reconcile metrics, by its names, so that dashboards and alerts made for Go controllers work.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};

use crate::runtime::metrics::Metrics;

/// Upper bounds of the duration histogram, in seconds.
const BUCKETS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];

/// The metrics of all controllers of a process.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    total: IntCounterVec,
    errors: IntCounterVec,
    terminal: IntCounterVec,
    panics: IntCounterVec,
    seconds: HistogramVec,
    active: IntGaugeVec,
}

impl ControllerMetrics {
    /// Registers them.
    pub fn new(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            metrics.register(IntCounterVec::new(Opts::new(format!("controller_runtime_{name}"), help), labels)?)
        };
        Ok(Self {
            total: counter("reconcile_total", "Reconciles by controller and result.", &["controller", "result"])?,
            errors: counter("reconcile_errors_total", "Reconciles that failed.", &["controller"])?,
            terminal: counter(
                "terminal_reconcile_errors_total",
                "Reconciles that failed and wait for a change.",
                &["controller"],
            )?,
            panics: counter("reconcile_panics_total", "Reconciles that panicked.", &["controller"])?,
            seconds: metrics.register(HistogramVec::new(
                HistogramOpts::new(
                    "controller_runtime_reconcile_time_seconds",
                    "How long reconciles took, in seconds.",
                )
                .buckets(BUCKETS.to_vec()),
                &["controller"],
            )?)?,
            active: metrics.register(IntGaugeVec::new(
                Opts::new("controller_runtime_active_workers", "Reconciles that are under way."),
                &["controller"],
            )?)?,
        })
    }

    /// The metrics of one controller. All series exist from the start, so that a rate over them has a beginning.
    #[must_use]
    pub fn of(&self, controller: &str) -> ReconcileMetrics {
        let total = |result: &str| self.total.with_label_values(&[controller, result]);
        ReconcileMetrics {
            success: total("success"),
            requeue_after: total("requeue_after"),
            error: total("error"),
            errors: self.errors.with_label_values(&[controller]),
            terminal: self.terminal.with_label_values(&[controller]),
            panics: self.panics.with_label_values(&[controller]),
            seconds: self.seconds.with_label_values(&[controller]),
            active: self.active.with_label_values(&[controller]),
        }
    }
}

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well; waits for a change.
    Success,
    /// Well; will be looked at again after a time.
    RequeueAfter,
    /// Badly.
    Error {
        /// Whether it is tried again by itself.
        retried: bool,
        /// Whether it panicked.
        panicked: bool,
    },
}

/// The metrics of one controller.
#[derive(Clone, Debug)]
pub struct ReconcileMetrics {
    success: IntCounter,
    requeue_after: IntCounter,
    error: IntCounter,
    errors: IntCounter,
    terminal: IntCounter,
    panics: IntCounter,
    seconds: Histogram,
    active: IntGauge,
}

/// A reconcile that is under way; counted as such until it is dropped.
pub struct Active(IntGauge);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl ReconcileMetrics {
    /// A reconcile begins.
    #[must_use]
    pub fn begin(&self) -> Active {
        self.active.inc();
        Active(self.active.clone())
    }

    /// A reconcile ended after this time.
    pub fn took(&self, duration: Duration) {
        self.seconds.observe(duration.as_secs_f64());
    }

    /// A reconcile ended like this.
    pub fn count(&self, outcome: Outcome) {
        match outcome {
            Outcome::Success => self.success.inc(),
            Outcome::RequeueAfter => self.requeue_after.inc(),
            Outcome::Error { retried, panicked } => {
                self.error.inc();
                self.errors.inc();
                if !retried {
                    self.terminal.inc();
                }
                if panicked {
                    self.panics.inc();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_controller_runtimes() {
        let metrics = Metrics::new("program", "1").unwrap();
        let one = ControllerMetrics::new(&metrics).unwrap().of("etcdcluster");
        drop(one.begin());
        one.took(Duration::from_millis(20));
        one.count(Outcome::Success);
        one.count(Outcome::Error { retried: false, panicked: true });
        let text = metrics.render().unwrap();
        for line in [
            r#"controller_runtime_reconcile_total{controller="etcdcluster",result="success"} 1"#,
            r#"controller_runtime_reconcile_total{controller="etcdcluster",result="error"} 1"#,
            r#"controller_runtime_reconcile_total{controller="etcdcluster",result="requeue_after"} 0"#,
            r#"controller_runtime_reconcile_errors_total{controller="etcdcluster"} 1"#,
            r#"controller_runtime_terminal_reconcile_errors_total{controller="etcdcluster"} 1"#,
            r#"controller_runtime_reconcile_panics_total{controller="etcdcluster"} 1"#,
            r#"controller_runtime_active_workers{controller="etcdcluster"} 0"#,
            r#"controller_runtime_reconcile_time_seconds_count{controller="etcdcluster"} 1"#,
        ] {
            assert!(text.contains(line), "{line} not in:\n{text}");
        }
    }
}
