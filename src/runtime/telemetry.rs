//! Logs: one structured line for each thing that happened.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::TryInitError;

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For log collectors: one JSON object a line.
    Json,
}

/// Starts logging to standard error. `filter` is in the syntax of `RUST_LOG`, such as `info,etcd_warden=debug`.
pub fn init(filter: &str, format: LogFormat) -> Result<(), InitError> {
    use tracing_subscriber::util::SubscriberInitExt;
    let filter =
        EnvFilter::try_new(filter).map_err(|source| InitError::Filter { filter: filter.to_owned(), source })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(true);
    match format {
        LogFormat::Text => builder.finish().try_init(),
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init(),
    }
    .map_err(InitError::Started)
}

/// Why logging could not start.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The filter does not parse.
    #[error("--log-level {filter:?} is not a log filter; write for example info or info,etcd_warden=debug")]
    Filter {
        /// What was given.
        filter: String,
        /// What is wrong with it.
        source: tracing_subscriber::filter::ParseError,
    },
    /// Logging had started already.
    #[error("logging was started twice")]
    Started(#[source] TryInitError),
}
