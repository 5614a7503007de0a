//! Kubernetes quantities (`1Gi`, `500m`, `2e3`), which the API server accepts as text or as an integer.

use std::borrow::Cow;
use std::cmp::Ordering;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

/// The pattern that the API server's own schemas give quantities.
pub const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// A quantity as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Quantity(pub String);

impl Quantity {
    /// What was written, as a number.
    ///
    /// # Errors
    /// A text that Kubernetes would not read as a quantity. Nothing of it passes by itself.
    pub fn amount(&self) -> Result<Amount, InvalidQuantity> {
        Amount::parse(&self.0).ok_or_else(|| InvalidQuantity(self.0.clone()))
    }
}

/// A text that is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a quantity: expected a number with a suffix such as Ki, Mi, Gi, k, M, G or e3, as in 10Gi")]
pub struct InvalidQuantity(String);

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Integer(i64),
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Text(text) => Self(text),
            Written::Integer(number) => Self(number.to_string()),
        })
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY_PATTERN,
            "x-kubernetes-int-or-string": true,
        })
    }
}

/// The exact value of a quantity, as Kubernetes understands it: finer than 10^-9 is rounded away from zero, and with a
/// binary suffix nothing is greater than 2^63-1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Amount {
    negative: bool,
    /// Decimal digits, the most significant first, without zeros at either end; none for zero.
    digits: Vec<u8>,
    /// The value is `digits` times ten to this.
    exponent: i64,
}

/// The finest step of a quantity: 10^-9.
const NANO: i64 = -9;

impl Amount {
    /// Zero.
    #[must_use]
    pub fn zero() -> Self {
        Self::default()
    }

    /// A whole number.
    #[must_use]
    pub fn from_i64(number: i64) -> Self {
        let digits = number.unsigned_abs().to_string().into_bytes().iter().map(|byte| byte - b'0').collect();
        Self { negative: number < 0, digits, exponent: 0 }.trimmed()
    }

    /// The whole number of units (bytes, for a size), a fraction counted as one more; at the ends of `i64` where the
    /// value lies beyond.
    #[must_use]
    pub fn to_i64(&self) -> i64 {
        let limit = if self.negative { i64::MIN.unsigned_abs() } else { i64::MAX.unsigned_abs() };
        let magnitude = self.magnitude().min(limit);
        if self.negative { 0_i64.saturating_sub_unsigned(magnitude) } else { 0_i64.saturating_add_unsigned(magnitude) }
    }

    /// As [`Amount::to_i64`], with 0 for what is negative.
    #[must_use]
    pub fn to_u64(&self) -> u64 {
        if self.negative { 0 } else { self.magnitude() }
    }

    /// Whether it is greater than zero.
    #[must_use]
    pub fn is_positive(&self) -> bool {
        !self.negative && !self.digits.is_empty()
    }

    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
            Some(rest) => (text.starts_with('-'), rest),
            None => (false, text),
        };
        let (whole, rest) = digits_of(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits_of);
        let digits = whole.bytes().chain(fraction.bytes()).map(|byte| byte - b'0').collect();
        let exponent = -i64::try_from(fraction.len()).ok()?;
        let number = Self { negative, digits, exponent };
        Some(match Suffix::parse(suffix)? {
            Suffix::Decimal(power) => number.shifted(power).trimmed().rounded(),
            Suffix::Binary(power) => number.doubled(power).trimmed().rounded().capped(),
        })
    }

    fn shifted(mut self, power: i64) -> Self {
        self.exponent += power;
        self
    }

    fn doubled(mut self, times: u32) -> Self {
        for _ in 0..times {
            let mut carry = 0;
            for digit in self.digits.iter_mut().rev() {
                let double = *digit * 2 + carry;
                *digit = double % 10;
                carry = double / 10;
            }
            if carry > 0 {
                self.digits.insert(0, carry);
            }
        }
        self
    }

    /// The one form of a value, so that equal values are equal.
    fn trimmed(mut self) -> Self {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
            self.exponent += 1;
        }
        let zeros = self.digits.iter().take_while(|digit| **digit == 0).count();
        self.digits.drain(..zeros);
        if self.digits.is_empty() { Self::default() } else { self }
    }

    fn rounded(self) -> Self {
        if self.digits.is_empty() || self.exponent >= NANO {
            return self;
        }
        Self { negative: self.negative, digits: rounded_away(&self.digits, self.exponent, NANO), exponent: NANO }
            .trimmed()
    }

    fn capped(self) -> Self {
        let limit = Self { negative: self.negative, ..Self::from_i64(i64::MAX) };
        if self.cmp_magnitude(&limit).is_gt() { limit } else { self }
    }

    /// The absolute value in whole units, rounded up, at most `u64::MAX`.
    fn magnitude(&self) -> u64 {
        let whole = rounded_away(&self.digits, self.exponent.min(0), 0);
        let digits = whole.iter().fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(*digit)));
        match u32::try_from(self.exponent) {
            Ok(_) if digits == 0 => 0,
            Ok(power) => digits.saturating_mul(10_u64.saturating_pow(power)),
            Err(_) if self.exponent > 0 && digits > 0 => u64::MAX,
            Err(_) => digits,
        }
    }

    fn cmp_magnitude(&self, other: &Self) -> Ordering {
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        let size = |amount: &Self| amount.exponent.saturating_add_unsigned(amount.digits.len() as u64);
        size(self).cmp(&size(other)).then_with(|| self.digits.cmp(&other.digits))
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.cmp_magnitude(other),
            (true, true) => other.cmp_magnitude(self),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

enum Suffix {
    /// Times ten to this.
    Decimal(i64),
    /// Times two to this.
    Binary(u32),
}

impl Suffix {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "" => Self::Decimal(0),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            "Ki" => Self::Binary(10),
            "Mi" => Self::Binary(20),
            "Gi" => Self::Binary(30),
            "Ti" => Self::Binary(40),
            "Pi" => Self::Binary(50),
            "Ei" => Self::Binary(60),
            // Kubernetes keeps 32 bits of an exponent and wraps beyond; nobody means that.
            _ => Self::Decimal(text.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?.into()),
        })
    }
}

/// The digits at the front, and what follows them.
fn digits_of(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// The digits of a value times ten to `from`, as digits times ten to `to`, which is not less; a remainder makes the last
/// digit one greater.
fn rounded_away(digits: &[u8], from: i64, to: i64) -> Vec<u8> {
    let cut = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    let kept = digits.len().saturating_sub(cut);
    let mut rounded = digits[..kept].to_vec();
    if digits[kept..].iter().any(|digit| *digit != 0) {
        add_one(&mut rounded);
    }
    rounded
}

fn add_one(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < 9 {
            *digit += 1;
            return;
        }
        *digit = 0;
    }
    digits.insert(0, 1);
}
