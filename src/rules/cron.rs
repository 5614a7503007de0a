//! Schedules of Plans, in the language that the platform's Plans have always had: that of the Go module robfig/cron,
//! version 3, with its standard parser. Five fields, descriptors, `@every`, and a time zone in front. What it accepts is
//! accepted here, what it refuses is refused, and the times are the same.

mod next;
mod parse;

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::tz::TimeZone;
use thiserror::Error;

/// Why a text is no schedule, or none that is of use. Terminal until the text changes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CronError {
    /// Nothing at all.
    #[error("the schedule is empty")]
    Empty,
    /// Not five fields.
    #[error("expected five fields (minute, hour, day of month, month, day of week), found {0}")]
    Fields(usize),
    /// A part of a field that cannot be read.
    #[error("{field} {part:?}: {why}")]
    Part {
        /// Which field.
        field: &'static str,
        /// The part of it.
        part: String,
        /// What is wrong.
        why: String,
    },
    /// An unknown `@` word.
    #[error("{0:?} is not known: expected @yearly, @monthly, @weekly, @daily, @hourly or @every DURATION")]
    Descriptor(String),
    /// `@every` with something that is no duration.
    #[error("@every {0:?}: expected a duration such as 90m or 24h")]
    Every(String),
    /// An unknown time zone.
    #[error("time zone {0:?} is not known: expected a name such as Europe/Berlin, or UTC")]
    TimeZone(String),
    /// A time zone and nothing after it.
    #[error("nothing follows the time zone")]
    OnlyTimeZone,
    /// It parses, and there is no such day.
    #[error("this schedule does not come up within five years: there is no such date")]
    Never,
    /// Shorter than a backup can be.
    #[error("@every {0:?} is shorter than a minute")]
    TooOften(String),
}

/// When something is due.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// At points of the calendar.
    Calendar(Box<Calendar>),
    /// After each interval.
    Every(Duration),
}

/// Points of the calendar.
#[derive(Clone, Debug, PartialEq)]
pub struct Calendar {
    minute: Bits,
    hour: Bits,
    day: Bits,
    month: Bits,
    weekday: Bits,
    zone: TimeZone,
}

/// Which values of a field count, and whether that is all of them because nothing was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bits {
    values: u64,
    star: bool,
}

impl Bits {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.values & (1 << value) != 0)
    }
}

impl Schedule {
    /// Reads a schedule as robfig's standard parser does. Without a time zone it is in UTC.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        parse::schedule(text)
    }

    /// Reads a schedule, and refuses one that never comes up or that is due more often than each minute.
    pub fn parse_useful(text: &str, now: Timestamp) -> Result<Self, CronError> {
        let schedule = Self::parse(text)?;
        match &schedule {
            Self::Every(interval) if *interval < Duration::from_mins(1) => {
                Err(CronError::TooOften(text.rsplit_once(' ').map_or(text, |(_, duration)| duration).to_owned()))
            }
            Self::Calendar(_) if schedule.next(now).is_none() => Err(CronError::Never),
            Self::Every(_) | Self::Calendar(_) => Ok(schedule),
        }
    }

    /// The first time after `after`; absent if there is none within five years. An interval counts from `after` itself.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Calendar(calendar) => next::next(calendar, after),
            Self::Every(interval) => {
                let whole = Timestamp::from_second(after.as_second()).ok()?;
                whole.checked_add(*interval).ok()
            }
        }
    }
}

#[cfg(test)]
mod tests;
