//! Time. A time is the number of seconds since 1970: what `now` gives, and what all of these take. The local zone is UTC.

use std::fmt::Write as _;

use gotmpl::Value;
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::Zoned;
use k8s_openapi::jiff::tz::TimeZone;

use super::super::value::text;
use super::{Call, Fault, Function, Outcome};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("now", |c| {
        c.exactly(0)?;
        Ok(Value::Int(c.session.now.as_second()))
    }),
    ("date", |c| {
        c.exactly(2)?;
        date(c, c.text(0)?, 1, "UTC")
    }),
    ("dateInZone", date_in_zone),
    ("date_in_zone", date_in_zone),
    ("htmlDate", |c| {
        c.exactly(1)?;
        date(c, "2006-01-02", 0, "UTC")
    }),
    ("htmlDateInZone", |c| {
        c.exactly(2)?;
        date(c, "2006-01-02", 0, c.text(1)?)
    }),
    ("unixEpoch", |c| {
        c.exactly(1)?;
        Ok(text(c.int(0)?.to_string()))
    }),
    ("dateModify", |c| modify(c, false)),
    ("date_modify", |c| modify(c, false)),
    ("mustDateModify", |c| modify(c, true)),
    ("must_date_modify", |c| modify(c, true)),
    ("ago", |c| {
        c.exactly(1)?;
        Ok(text(spelled(c.session.now.as_second() - moment(c, 0)?.as_second())))
    }),
    ("duration", |c| {
        c.exactly(1)?;
        Ok(text(spelled(match c.any(0)? {
            Value::String(seconds) => seconds.parse().unwrap_or(0),
            Value::Int(seconds) => *seconds,
            _ => 0,
        })))
    }),
    ("durationRound", |c| {
        c.exactly(1)?;
        Ok(text(rounded(match c.any(0)? {
            Value::String(written) => nanoseconds(written).unwrap_or(0),
            Value::Int(nanoseconds) => i128::from(*nanoseconds),
            _ => 0,
        })))
    }),
];

const SECOND: i128 = 1_000_000_000;

fn date_in_zone(call: &Call<'_>) -> Outcome {
    call.exactly(3)?;
    date(call, call.text(0)?, 1, call.text(2)?)
}

/// The time that an argument names; now, where it names none.
fn moment(call: &Call<'_>, index: usize) -> Result<Timestamp, Fault> {
    match call.any(index)? {
        Value::Int(seconds) => {
            Timestamp::from_second(*seconds).map_err(|_| Fault::Failed(format!("{seconds} is too far from 1970")))
        }
        _ => Ok(call.session.now),
    }
}

fn date(call: &Call<'_>, layout: &str, index: usize, zone: &str) -> Outcome {
    // As in Go: an unknown zone is UTC.
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    Ok(text(format(&moment(call, index)?.to_zoned(zone), layout)))
}

fn modify(call: &Call<'_>, strict: bool) -> Outcome {
    call.exactly(2)?;
    let (written, seconds) = (call.text(0)?, call.int(1)?);
    match nanoseconds(written) {
        Some(change) => Ok(Value::Int(seconds.saturating_add(i64::try_from(change / SECOND).unwrap_or(0)))),
        None if strict => Err(Fault::Failed(format!("{written:?} is not a duration, such as -1h30m"))),
        None => Ok(Value::Int(seconds)),
    }
}

/// Go's `time.ParseDuration`, in nanoseconds.
#[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
fn nanoseconds(written: &str) -> Option<i128> {
    let (sign, mut rest) = match written.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, written.strip_prefix('+').unwrap_or(written)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        total += number
            * match &rest[..end] {
                "ns" => 1.0,
                "us" | "µs" | "μs" => 1e3,
                "ms" => 1e6,
                "s" => 1e9,
                "m" => 60e9,
                "h" => 3600e9,
                _ => return None,
            };
        rest = &rest[end..];
    }
    (total < 9.2e18).then(|| sign * (total.round() as i128))
}

/// Go's `time.Duration.String` of whole seconds.
fn spelled(seconds: i64) -> String {
    let (sign, left) = if seconds < 0 { ("-", seconds.unsigned_abs()) } else { ("", seconds.unsigned_abs()) };
    let (hours, minutes, seconds) = (left / 3600, left / 60 % 60, left % 60);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, _) => format!("{sign}{minutes}m{seconds}s"),
        _ => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// The largest unit alone.
fn rounded(nanoseconds: i128) -> String {
    let left = nanoseconds.abs();
    let units = [
        (365 * 24 * 3600 * SECOND, "y"),
        (30 * 24 * 3600 * SECOND, "mo"),
        (24 * 3600 * SECOND, "d"),
        (3600 * SECOND, "h"),
        (60 * SECOND, "m"),
        (SECOND, "s"),
    ];
    units
        .into_iter()
        .find(|(unit, _)| left > *unit)
        .map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", left / unit))
}

/// The pieces of Go's reference time, longest first among those that begin alike.
const PIECES: [&str; 33] = [
    "January",
    "Jan",
    "Monday",
    "Mon",
    "MST",
    "2006",
    "-07:00:00",
    "-070000",
    "-07:00",
    "-0700",
    "-07",
    "Z07:00:00",
    "Z070000",
    "Z07:00",
    "Z0700",
    "Z07",
    "002",
    "01",
    "02",
    "03",
    "04",
    "05",
    "06",
    "15",
    "__2",
    "_2",
    "PM",
    "pm",
    "1",
    "2",
    "3",
    "4",
    "5",
];

/// Go's `Time.Format`, without fractions of a second (a time has none here).
fn format(time: &Zoned, layout: &str) -> String {
    let (mut shown, mut rest) = (String::new(), layout);
    while let Some(c) = rest.chars().next() {
        let piece = PIECES.into_iter().find(|piece| {
            rest.starts_with(piece)
                // "Jan" in "January" was found before; in "Jane" Go sees no month.
                && !(matches!(*piece, "Jan" | "Mon") && rest[3..].starts_with(|next: char| next.is_ascii_lowercase()))
        });
        if let Some(piece) = piece {
            write_piece(&mut shown, time, piece);
            rest = &rest[piece.len()..];
        } else {
            shown.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    shown
}

fn write_piece(shown: &mut String, time: &Zoned, piece: &str) {
    let hour = (time.hour() + 11) % 12 + 1;
    let written = match piece {
        "2006" => format!("{:04}", time.year()),
        "06" => format!("{:02}", time.year().rem_euclid(100)),
        "01" => format!("{:02}", time.month()),
        "1" => time.month().to_string(),
        "02" => format!("{:02}", time.day()),
        "_2" => format!("{:2}", time.day()),
        "2" => time.day().to_string(),
        "002" => format!("{:03}", time.day_of_year()),
        "__2" => format!("{:3}", time.day_of_year()),
        "15" => format!("{:02}", time.hour()),
        "03" => format!("{hour:02}"),
        "3" => hour.to_string(),
        "04" => format!("{:02}", time.minute()),
        "4" => time.minute().to_string(),
        "05" => format!("{:02}", time.second()),
        "5" => time.second().to_string(),
        "PM" => (if time.hour() >= 12 { "PM" } else { "AM" }).to_owned(),
        "pm" => (if time.hour() >= 12 { "pm" } else { "am" }).to_owned(),
        "January" => time.strftime("%B").to_string(),
        "Jan" => time.strftime("%b").to_string(),
        "Monday" => time.strftime("%A").to_string(),
        "Mon" => time.strftime("%a").to_string(),
        "MST" => time.strftime("%Z").to_string(),
        offset => shown_offset(time.offset().seconds(), offset),
    };
    let _ = write!(shown, "{written}");
}

fn shown_offset(seconds: i32, piece: &str) -> String {
    let zulu = piece.strip_prefix('Z');
    if zulu.is_some() && seconds == 0 {
        return "Z".to_owned();
    }
    let sign = if seconds < 0 { '-' } else { '+' };
    let (left, shape) = (seconds.unsigned_abs(), zulu.unwrap_or(&piece[1..]));
    let (hours, minutes, seconds) = (left / 3600, left / 60 % 60, left % 60);
    match shape {
        "07" => format!("{sign}{hours:02}"),
        "0700" => format!("{sign}{hours:02}{minutes:02}"),
        "07:00" => format!("{sign}{hours:02}:{minutes:02}"),
        "070000" => format!("{sign}{hours:02}{minutes:02}{seconds:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
    }
}
