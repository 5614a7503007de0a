//! `etcd-warden schedule`: when a schedule is due next, or why it is none.

use std::io::{self, Write};

use clap::Args;
use k8s_openapi::jiff::Timestamp;
use thiserror::Error;

use crate::rules::cron::{CronError, Schedule};

/// What to preview.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// The schedule, as a Plan has it: five fields, a descriptor or @every, with an optional TZ= in front.
    pub expression: String,
    /// Where to start from; now where absent.
    #[arg(long, value_name = "RFC3339")]
    pub from: Option<Timestamp>,
    /// How many times to show.
    #[arg(long, default_value_t = 5)]
    pub count: usize,
}

/// Why there is nothing to show. Nothing of it passes by itself.
#[derive(Debug, Error)]
pub enum Error {
    /// It is no schedule, or none that is of use.
    #[error("{0:?} is no schedule")]
    Schedule(String, #[source] CronError),
    /// The output could not be written.
    #[error("cannot write")]
    Output(#[from] io::Error),
}

/// Prints the next times, one a line, in UTC.
pub fn run(settings: &Settings) -> Result<(), Error> {
    let from = settings.from.unwrap_or_else(Timestamp::now);
    let schedule = Schedule::parse_useful(&settings.expression, from)
        .map_err(|error| Error::Schedule(settings.expression.clone(), error))?;
    let mut out = io::stdout().lock();
    let times = std::iter::successors(schedule.next(from), |at| schedule.next(*at));
    for at in times.take(settings.count) {
        writeln!(out, "{at}")?;
    }
    Ok(())
}
