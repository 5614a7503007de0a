//! The last word of a task: termination message, standard output and exit code.

use std::fs::File;
use std::io::{self, Write};

use crate::api::agent::{Report, TERMINATION_MESSAGE_LIMIT, TERMINATION_MESSAGE_PATH, TERMINATION_MESSAGE_PATH_ENV};

/// The report as one JSON object below the kubelet's limit; the message for people gives way.
#[must_use]
pub(crate) fn render(report: &Report) -> String {
    let mut report = report.clone();
    loop {
        let text = serde_json::to_string(&report).unwrap_or_default();
        if text.len() < TERMINATION_MESSAGE_LIMIT || report.message.is_empty() {
            return text;
        }
        let keep = report.message.chars().count() / 2;
        report.message = report.message.chars().take(keep).collect();
    }
}

/// Writes the termination message. Outside a Pod the default path does not exist, and nothing is written.
///
/// # Errors
/// The file is there and cannot be written.
pub(crate) fn write(report: &Report) -> io::Result<()> {
    let (path, create) = match std::env::var_os(TERMINATION_MESSAGE_PATH_ENV).filter(|path| !path.is_empty()) {
        Some(path) => (path, true),
        None => (TERMINATION_MESSAGE_PATH.into(), false),
    };
    match File::options().write(true).truncate(true).create(create).open(path) {
        Ok(mut file) => file.write_all(render(report).as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !create => Ok(()),
        Err(error) => Err(error),
    }
}

/// The line that ends a snapshot's standard output, in the form that tools which read Pod logs know.
///
/// # Errors
/// Standard output is closed.
pub(crate) fn print_success(report: &Report) -> io::Result<()> {
    match &report.artifact {
        Some(artifact) if report.ok => writeln!(
            io::stdout(),
            "snapshot uploaded: uri=\"{}\" size={} sha256={}",
            artifact.uri,
            artifact.size_bytes,
            artifact.sha256
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::agent::{Reason, Task};

    #[test]
    fn a_long_message_gives_way_to_the_limit() {
        let report = Report {
            task: Task::Restore,
            ok: false,
            reason: Reason::EtcdutlFailed,
            message: "ä\"".repeat(9_000),
            retryable: false,
            artifact: None,
            rehearsal: None,
            restore: None,
            duration_seconds: 1.5,
        };
        let text = render(&report);
        assert!(text.len() < TERMINATION_MESSAGE_LIMIT);
        let read: Report = serde_json::from_str(&text).unwrap();
        assert!(report.message.starts_with(&read.message) && !read.message.is_empty());
    }
}
