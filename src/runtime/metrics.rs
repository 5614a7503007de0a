//! The registry that `/metrics` shows, with what every process tells of itself.

use prometheus::core::Collector;
use prometheus::{IntGauge, Opts, Registry, TextEncoder};

/// The registry of one process.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    registry: Registry,
}

impl Metrics {
    /// A registry that tells the build: `<prefix>_build_info{version}` is always 1.
    pub fn new(prefix: &str, version: &str) -> Result<Self, prometheus::Error> {
        let metrics = Self { registry: Registry::new() };
        let build = IntGauge::with_opts(
            Opts::new(format!("{prefix}_build_info"), "The build that is running; always 1.")
                .const_label("version", version),
        )?;
        build.set(1);
        metrics.register(build)?;
        Ok(metrics)
    }

    /// Adds a collector and gives it back, ready to be counted with.
    pub fn register<C: Collector + Clone + 'static>(&self, collector: C) -> Result<C, prometheus::Error> {
        self.registry.register(Box::new(collector.clone()))?;
        Ok(collector)
    }

    /// All metrics in Prometheus' text format.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

#[cfg(test)]
mod tests {
    use super::Metrics;

    #[test]
    fn the_build_is_told() {
        let text = Metrics::new("program", "1.2.3").unwrap().render().unwrap();
        assert!(text.contains(r#"program_build_info{version="1.2.3"} 1"#), "{text}");
    }
}
