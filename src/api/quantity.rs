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

    /// The whole number of units (bytes, for a size), rounded up; at the ends of `i64` where the value lies beyond.
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

    /// The absolute value in whole units, at most `u64::MAX`. The value is rounded up: that takes a negative one nearer to
    /// zero.
    fn magnitude(&self) -> u64 {
        let scale = self.exponent.min(0);
        let whole = if self.negative {
            parted(&self.digits, scale, 0).0.to_vec()
        } else {
            rounded_away(&self.digits, scale, 0)
        };
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

/// The digits of a value times ten to `from`, parted into those that are left when it becomes digits times ten to `to`,
/// which is not less, and those that fall away.
fn parted(digits: &[u8], from: i64, to: i64) -> (&[u8], &[u8]) {
    let gone = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    digits.split_at(digits.len().saturating_sub(gone))
}

/// As [`parted`], where what falls away makes the last digit one greater.
fn rounded_away(digits: &[u8], from: i64, to: i64) -> Vec<u8> {
    let (kept, gone) = parted(digits, from, to);
    let mut rounded = kept.to_vec();
    if gone.iter().any(|digit| *digit != 0) {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amount(text: &str) -> Amount {
        Quantity(text.to_owned()).amount().unwrap()
    }

    /// Digits and exponent, as the golden table writes them.
    fn written(amount: &Amount) -> (String, i64) {
        let digits: String = amount.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        let sign = if amount.negative { "-" } else { "" };
        if digits.is_empty() { ("0".to_owned(), 0) } else { (format!("{sign}{digits}"), amount.exponent) }
    }

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        let mut ranked: Vec<(u32, String, Amount)> = Vec::new();
        for line in include_str!("../../tests/golden/quantity.tsv").lines() {
            let columns: Vec<&str> = line.split('\t').collect();
            let text: String = serde_json::from_str(columns[0]).unwrap();
            let read = Quantity(text.clone()).amount();
            let [_, digits, exponent, whole, rank] = columns.as_slice() else {
                assert!(read.is_err(), "{text:?} was read as {read:?}");
                continue;
            };
            let read = read.unwrap();
            assert_eq!(written(&read), ((*digits).to_owned(), exponent.parse().unwrap()), "{text:?}");
            match *whole {
                "beyond" => assert_eq!(read.to_i64(), i64::MAX, "{text:?}"),
                "unlike" => assert!(read.negative, "{text:?}"),
                _ => assert_eq!(read.to_i64().to_string(), *whole, "{text:?}"),
            }
            ranked.push((rank.parse().unwrap(), text, read));
        }
        for (rank, text, one) in &ranked {
            for (other_rank, other_text, other) in &ranked {
                assert_eq!(one.cmp(other), rank.cmp(other_rank), "{text:?} against {other_text:?}");
            }
        }
    }

    #[test]
    fn one_value_written_in_many_ways_is_one_value() {
        for other in ["4096Mi", "4294967296", "4.294967296G", "4194304Ki", "4294967296000m"] {
            assert_eq!(amount("4Gi"), amount(other), "{other}");
        }
    }

    #[test]
    fn below_zero_rounding_up_is_towards_zero() {
        assert_eq!(amount("-1.5").to_i64(), -1);
        assert_eq!(amount("-1m").to_i64(), 0);
        assert_eq!(amount("-1Ei").to_i64(), -(1 << 60));
    }

    #[test]
    fn integers_and_texts_are_both_quantities() {
        let read = |json: &str| serde_json::from_str::<Quantity>(json).unwrap().amount().unwrap();
        assert_eq!(read("1024"), read("\"1Ki\""));
        assert!(!read("0").is_positive());
        assert!(read("1").is_positive());
        assert!(!read("-1").is_positive());
    }

    #[test]
    fn what_is_beyond_is_held_at_the_end() {
        assert_eq!(amount("1e40").to_u64(), u64::MAX);
        assert_eq!(amount("1e2147483647").to_i64(), i64::MAX);
        assert_eq!(amount("-1e40").to_i64(), i64::MIN);
        assert_eq!(amount("-1").to_u64(), 0);
        assert_eq!(amount("1e-2147483648").to_u64(), 1);
        assert!(Quantity("1e2147483648".to_owned()).amount().is_err());
    }

    proptest! {
        #[test]
        fn whole_numbers_are_exact(number: i64) {
            prop_assert_eq!(amount(&number.to_string()).to_i64(), number);
            prop_assert_eq!(amount(&number.to_string()), Amount::from_i64(number));
        }

        #[test]
        fn numbers_are_ordered(one: i64, other: i64) {
            prop_assert_eq!(Amount::from_i64(one).cmp(&Amount::from_i64(other)), one.cmp(&other));
        }

        #[test]
        fn a_binary_suffix_multiplies(number in 0..1_u64 << 20, power in 1..4_u32) {
            let suffix = ["Ki", "Mi", "Gi"][power as usize - 1];
            prop_assert_eq!(amount(&format!("{number}{suffix}")).to_u64(), number << (10 * power));
        }

        #[test]
        fn fractions_are_rounded_up(whole in 0..1_000_000_u64, fraction in 1..1_000_000_000_u64) {
            prop_assert_eq!(amount(&format!("{whole}.{fraction:09}")).to_u64(), whole + 1);
        }

        #[test]
        fn any_text_is_survived(text in "[-+0-9.eEKMGikmun]{0,40}") {
            if let Ok(amount) = Quantity(text).amount() {
                prop_assert!(amount.to_i64() >= 0 || amount < Amount::zero());
            }
        }
    }
}
