//! Durations as Go writes them (`1h30m`, `250ms`, `-1.5s`), which etcd's flags and cron's `@every` take.

use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

/// A signed duration in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration {
    nanoseconds: i64,
}

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidDuration {
    /// Not a list of numbers with units.
    #[error("{0:?} is not a duration: expected numbers with a unit (h, m, s, ms, us, ns), such as 1h30m")]
    Form(String),
    /// More than 2^63 nanoseconds, about 292 years.
    #[error("{0:?} is too long for a duration: at most 292 years")]
    Range(String),
}

impl GoDuration {
    /// Nanoseconds, negative for a duration into the past.
    #[must_use]
    pub fn nanoseconds(self) -> i64 {
        self.nanoseconds
    }

    /// As a span of time; absent where it is negative.
    #[must_use]
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.nanoseconds).ok().map(Duration::from_nanos)
    }
}

impl FromStr for GoDuration {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || InvalidDuration::Form(text.to_owned());
        let range = || InvalidDuration::Range(text.to_owned());
        let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
            Some(rest) => (text.starts_with('-'), rest),
            None => (false, text),
        };
        if rest == "0" {
            return Ok(Self::default());
        }
        if rest.is_empty() {
            return Err(form());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (part, after) = Part::take(rest).ok_or_else(form)?;
            let nanoseconds = part.nanoseconds().ok_or_else(range)?;
            total = total.checked_add(nanoseconds).filter(|sum| *sum <= LIMIT).ok_or_else(range)?;
            rest = after;
        }
        let nanoseconds = if negative { 0_i64.checked_sub_unsigned(total) } else { 0_i64.checked_add_unsigned(total) };
        Ok(Self { nanoseconds: nanoseconds.ok_or_else(range)? })
    }
}

/// 2^63: one more than the longest duration, and as a negative one still representable.
const LIMIT: u64 = 1 << 63;

/// One number with its unit.
struct Part<'a> {
    whole: &'a str,
    fraction: &'a str,
    /// Nanoseconds of the unit.
    unit: u64,
}

impl<'a> Part<'a> {
    fn take(text: &'a str) -> Option<(Self, &'a str)> {
        let (whole, rest) = digits_of(text);
        let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), digits_of);
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let end = rest.find(|character: char| character == '.' || character.is_ascii_digit()).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let unit = match name {
            "ns" => 1,
            // The sign for micro is in Unicode twice: as a symbol and as a Greek letter.
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        Some((Self { whole, fraction, unit }, rest))
    }

    /// Absent where it is too long.
    fn nanoseconds(&self) -> Option<u64> {
        let whole = if self.whole.is_empty() { 0 } else { self.whole.parse::<u64>().ok()? };
        let whole = whole.checked_mul(self.unit)?;
        whole.checked_add(self.fraction_nanoseconds()).filter(|sum| *sum <= LIMIT)
    }

    /// The fraction, in floating point as Go does it, so that both mean the same nanosecond.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the fraction of a unit is at most 3.6e12 nanoseconds, far below where either loses anything"
    )]
    fn fraction_nanoseconds(&self) -> u64 {
        let mut value: u64 = 0;
        let mut scale = 1.0_f64;
        for digit in self.fraction.bytes().map(|byte| u64::from(byte - b'0')) {
            match value.checked_mul(10).map(|tens| tens + digit).filter(|next| *next <= LIMIT) {
                Some(next) => value = next,
                // What follows is worth less than a nanosecond in any unit.
                None => break,
            }
            scale *= 10.0;
        }
        (value as f64 * (self.unit as f64 / scale)) as u64
    }
}

fn digits_of(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for line in include_str!("../../tests/golden/duration.tsv").lines() {
            let (text, expected) = line.split_once('\t').unwrap();
            let text: String = serde_json::from_str(text).unwrap();
            let read = text.parse::<GoDuration>().map(|duration| duration.nanoseconds().to_string());
            match expected {
                "error" => assert!(read.is_err(), "{text:?} was read as {read:?}"),
                _ => assert_eq!(read.as_deref(), Ok(expected), "{text:?}"),
            }
        }
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        assert!(matches!("1d".parse::<GoDuration>(), Err(InvalidDuration::Form(_))));
        assert!(matches!("2562048h".parse::<GoDuration>(), Err(InvalidDuration::Range(_))));
    }

    #[test]
    fn a_duration_into_the_past_is_no_span() {
        assert_eq!("-1s".parse::<GoDuration>().unwrap().to_std(), None);
        assert_eq!("1.5s".parse::<GoDuration>().unwrap().to_std(), Some(Duration::from_millis(1500)));
    }

    proptest! {
        #[test]
        fn parts_add_up(hours in 0..1000_i64, minutes in 0..600_i64, seconds in 0..600_i64, nanos in 0..1_000_000_000_i64) {
            let text = format!("{hours}h{minutes}m{seconds}s{nanos}ns");
            let total = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + nanos;
            prop_assert_eq!(text.parse::<GoDuration>().unwrap().nanoseconds(), total);
            prop_assert_eq!(format!("-{text}").parse::<GoDuration>().unwrap().nanoseconds(), -total);
        }

        #[test]
        fn any_text_is_survived(text in "[-+0-9.hmsnuµ ]{0,30}") {
            let _ = text.parse::<GoDuration>();
        }
    }
}
