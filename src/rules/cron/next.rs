//! The next time of a calendar schedule, found as robfig's module finds it: field by field from the largest, in local
//! time, with Go's answers to local times that do not exist or exist twice.

use k8s_openapi::jiff::civil::{DateTime, date};
use k8s_openapi::jiff::tz::{Offset, TimeZone};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::Calendar;

/// How far ahead is looked.
const YEARS: i16 = 5;

/// A moment with its local reading.
#[derive(Clone, Copy)]
struct Moment {
    at: Timestamp,
    local: DateTime,
}

pub(super) fn next(calendar: &Calendar, after: Timestamp) -> Option<Timestamp> {
    let zone = &calendar.zone;
    let from = Timestamp::from_second(after.as_second().checked_add(1)?).ok()?;
    let mut now = Moment::new(from, zone);
    let last_year = now.local.year() + YEARS;
    // Once a field was moved on, all smaller ones begin anew.
    let mut moved = false;
    'year: loop {
        if now.local.year() > last_year {
            return None;
        }
        while !calendar.month.has(now.local.month()) {
            if !moved {
                moved = true;
                now = Moment::of(date(now.local.year(), now.local.month(), 1).at(0, 0, 0, 0), zone)?;
            }
            now = now.first_of_next_month(zone)?;
            if now.local.month() == 1 {
                continue 'year;
            }
        }
        while !day_matches(calendar, now.local) {
            if !moved {
                moved = true;
                now = Moment::of(now.local.date().at(0, 0, 0, 0), zone)?;
            }
            now = Moment::of(now.local.checked_add(SignedDuration::from_hours(24)).ok()?, zone)?;
            now = now.at_midnight(zone)?;
            if now.local.day() == 1 {
                continue 'year;
            }
        }
        while !calendar.hour.has(now.local.hour()) {
            if !moved {
                moved = true;
                now = Moment::of(now.local.date().at(now.local.hour(), 0, 0, 0), zone)?;
            }
            now = now.later(SignedDuration::from_hours(1), zone)?;
            if now.local.hour() == 0 {
                continue 'year;
            }
        }
        while !calendar.minute.has(now.local.minute()) {
            if !moved {
                moved = true;
                now = Moment::new(whole_minute(now.at)?, zone);
            }
            now = now.later(SignedDuration::from_mins(1), zone)?;
            if now.local.minute() == 0 {
                continue 'year;
            }
        }
        // Seconds are always zero: the standard parser has no field for them.
        let rest = 60 - i64::from(now.local.second());
        if rest == 60 {
            return Some(now.at);
        }
        moved = true;
        now = now.later(SignedDuration::from_secs(rest), zone)?;
    }
}

/// A day counts if both fields agree; when both were asked for, either is enough.
fn day_matches(calendar: &Calendar, local: DateTime) -> bool {
    let day = calendar.day.has(local.day());
    let weekday = calendar.weekday.has(local.weekday().to_sunday_zero_offset());
    if calendar.day.star || calendar.weekday.star { day && weekday } else { day || weekday }
}

/// Go truncates to the minute since the year 1, which is the same as since 1970.
fn whole_minute(at: Timestamp) -> Option<Timestamp> {
    Timestamp::from_second(at.as_second() - at.as_second().rem_euclid(60)).ok()
}

impl Moment {
    fn new(at: Timestamp, zone: &TimeZone) -> Self {
        Self { at, local: zone.to_datetime(at) }
    }

    /// The moment of a local reading. Where there is none or there are two, Go takes the offset that holds at the
    /// reading taken for UTC, unless the result falls out of that offset's time; then the one that holds there.
    fn of(local: DateTime, zone: &TimeZone) -> Option<Self> {
        let taken_for_utc = Offset::UTC.to_timestamp(local).ok()?;
        let first = zone.to_offset(taken_for_utc);
        let mut at = first.to_timestamp(local).ok()?;
        let there = zone.to_offset(at);
        if first.seconds() != 0 && there != first {
            at = there.to_timestamp(local).ok()?;
        }
        Some(Self::new(at, zone))
    }

    fn later(self, by: SignedDuration, zone: &TimeZone) -> Option<Self> {
        Some(Self::new(self.at.checked_add(by).ok()?, zone))
    }

    fn first_of_next_month(self, zone: &TimeZone) -> Option<Self> {
        let (year, month) = match self.local.month() {
            12 => (self.local.year().checked_add(1)?, 1),
            month => (self.local.year(), month + 1),
        };
        // The day and the time of day stay as they are: the first, at midnight or where that does not exist near it.
        let day = self.local.day();
        let reading = date(year, month, 1).at(self.local.hour(), self.local.minute(), self.local.second(), 0);
        let reading = reading.checked_add(SignedDuration::from_hours(24 * (i64::from(day) - 1))).ok()?;
        Self::of(reading, zone)
    }

    /// Back to midnight, where a change of the clock has moved the day's beginning.
    fn at_midnight(self, zone: &TimeZone) -> Option<Self> {
        match i64::from(self.local.hour()) {
            0 => Some(self),
            hour if hour > 12 => self.later(SignedDuration::from_hours(24 - hour), zone),
            hour => self.later(SignedDuration::from_hours(-hour), zone),
        }
    }
}
