//! Texts: trimming, cutting, replacing, encoding, hashing, regular expressions and paths.

use gotmpl::Value;
use regex::Regex;
use sha2::{Digest, Sha256};

use super::super::value::{list, map, text};
use super::super::{MAX_ITEMS, MAX_TEXT};
use super::{Call, Fault, Function, Outcome, shown, wrong};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("trunc", |c| trunc(c.int(0)?, c.text(1)?)),
    ("trim", |c| unary(c, |s| s.trim().to_owned())),
    ("upper", |c| unary(c, upper)),
    ("lower", |c| unary(c, lower)),
    ("title", |c| unary(c, title)),
    ("substr", substr),
    ("repeat", repeat),
    ("trimall", |c| binary(c, |set, s| s.trim_matches(|x| set.contains(x)).to_owned())),
    ("trimAll", |c| binary(c, |set, s| s.trim_matches(|x| set.contains(x)).to_owned())),
    ("trimSuffix", |c| binary(c, |end, s| s.strip_suffix(end).unwrap_or(s).to_owned())),
    ("trimPrefix", |c| binary(c, |start, s| s.strip_prefix(start).unwrap_or(s).to_owned())),
    ("contains", |c| test(c, |part, s| s.contains(part))),
    ("hasPrefix", |c| test(c, |start, s| s.starts_with(start))),
    ("hasSuffix", |c| test(c, |end, s| s.ends_with(end))),
    ("quote", |c| present(c, |v| go_quote(&shown(v)))),
    ("squote", |c| present(c, |v| format!("'{}'", shown(v)))),
    ("cat", |c| present(c, shown).map(|v| text(shown(&v).trim()))),
    ("indent", |c| indent(c, "")),
    ("nindent", |c| indent(c, "\n")),
    ("replace", replace),
    ("plural", |c| {
        c.exactly(3)?;
        Ok(text(if c.int(2)? == 1 { c.text(0)? } else { c.text(1)? }))
    }),
    ("sha256sum", |c| unary(c, |s| hex(&Sha256::digest(s.as_bytes())))),
    ("adler32sum", |c| unary(c, |s| adler32(s.as_bytes()).to_string())),
    ("toString", |c| {
        c.exactly(1)?;
        match c.any(0)? {
            missing @ Value::Nil => Err(wrong(0, "a value", missing)),
            value => Ok(text(shown(value))),
        }
    }),
    ("split", |c| parts(c.text(0)?, None, c.text(1)?)),
    ("splitn", |c| parts(c.text(0)?, Some(c.int(1)?), c.text(2)?)),
    ("splitList", |c| {
        c.exactly(2)?;
        Ok(list(cut(c.text(0)?, -1, c.text(1)?)?.into_iter().map(text)))
    }),
    ("b64enc", |c| unary(c, |s| encode(s.as_bytes(), BASE64, 6))),
    ("b64dec", |c| decode(c, BASE64, 6)),
    ("b32enc", |c| unary(c, |s| encode(s.as_bytes(), BASE32, 5))),
    ("b32dec", |c| decode(c, BASE32, 5)),
    ("base", |c| unary(c, base)),
    ("dir", |c| unary(c, dir)),
    ("clean", |c| unary(c, clean)),
    ("ext", |c| unary(c, ext)),
    ("isAbs", |c| is_abs(c)),
    ("osBase", |c| unary(c, base)),
    ("osDir", |c| unary(c, dir)),
    ("osClean", |c| unary(c, clean)),
    ("osExt", |c| unary(c, ext)),
    ("osIsAbs", |c| is_abs(c)),
    ("fail", |c| {
        c.exactly(1)?;
        Err(Fault::Failed(c.text(0)?.to_owned()))
    }),
    // A broken expression does not match, in slim-sprig too.
    ("regexMatch", |c| {
        c.exactly(2)?;
        let (pattern, s) = (c.text(0)?, c.text(1)?);
        Ok(Value::Bool(pattern_of(c, pattern, s)?.is_some_and(|pattern| pattern.is_match(s))))
    }),
    ("mustRegexMatch", |c| {
        c.exactly(2)?;
        Ok(Value::Bool(regex(c, c.text(0)?, c.text(1)?)?.is_match(c.text(1)?)))
    }),
    ("regexFind", regex_find),
    ("mustRegexFind", regex_find),
    ("regexFindAll", regex_find_all),
    ("mustRegexFindAll", regex_find_all),
    ("regexReplaceAll", |c| regex_replace(c, false)),
    ("mustRegexReplaceAll", |c| regex_replace(c, false)),
    ("regexReplaceAllLiteral", |c| regex_replace(c, true)),
    ("mustRegexReplaceAllLiteral", |c| regex_replace(c, true)),
    ("regexSplit", regex_split),
    ("mustRegexSplit", regex_split),
    ("regexQuoteMeta", |c| unary(c, quote_meta)),
];

fn unary(call: &Call<'_>, change: fn(&str) -> String) -> Outcome {
    call.exactly(1)?;
    Ok(text(change(call.text(0)?)))
}

fn binary(call: &Call<'_>, change: fn(&str, &str) -> String) -> Outcome {
    call.exactly(2)?;
    Ok(text(change(call.text(0)?, call.text(1)?)))
}

fn test(call: &Call<'_>, holds: fn(&str, &str) -> bool) -> Outcome {
    call.exactly(2)?;
    Ok(Value::Bool(holds(call.text(0)?, call.text(1)?)))
}

/// The arguments that are there, each shown, with blanks between. A missing one would be left out unseen in Go.
fn present(call: &Call<'_>, show: fn(&Value) -> String) -> Outcome {
    let mut shown = Vec::new();
    for (index, value) in call.args.iter().enumerate() {
        if matches!(value, Value::Nil) {
            return Err(wrong(index, "a value", value));
        }
        shown.push(show(value));
    }
    Ok(text(shown.join(" ")))
}

fn upper(s: &str) -> String {
    s.chars().map(|c| single(c, c.to_uppercase())).collect()
}

fn lower(s: &str) -> String {
    s.chars().map(|c| single(c, c.to_lowercase())).collect()
}

/// Go maps a character to one character or leaves it.
fn single(c: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

fn title(s: &str) -> String {
    let mut start = true;
    s.chars()
        .map(|c| {
            let shown = if start { single(c, c.to_uppercase()) } else { c };
            start = if c.is_ascii() { !(c.is_ascii_alphanumeric() || c == '_') } else { c.is_whitespace() };
            shown
        })
        .collect()
}

fn slice(s: &str, start: usize, end: usize) -> Result<&str, Fault> {
    s.get(start..end)
        .ok_or_else(|| Fault::Failed(format!("cannot cut bytes {start} to {end} out of a text of {} bytes", s.len())))
}

fn trunc(count: i64, s: &str) -> Outcome {
    let length = i64::try_from(s.len()).unwrap_or(i64::MAX);
    let (start, end) = match count {
        negative if negative < 0 && length + negative > 0 => (length + negative, length),
        positive if positive >= 0 && length > positive => (0, positive),
        _ => (0, length),
    };
    Ok(text(slice(s, usize::try_from(start).unwrap_or_default(), usize::try_from(end).unwrap_or_default())?))
}

fn substr(call: &Call<'_>) -> Outcome {
    call.exactly(3)?;
    let (start, end, s) = (call.int(0)?, call.int(1)?, call.text(2)?);
    let length = s.len();
    let index = |number: i64| {
        usize::try_from(number).map_err(|_| Fault::Failed(format!("{number} is no place in a text of {length} bytes")))
    };
    Ok(text(match (start, usize::try_from(end).ok().filter(|end| *end <= length)) {
        (negative, _) if negative < 0 => slice(s, 0, index(end)?)?,
        (_, None) => slice(s, index(start)?, length)?,
        (_, Some(end)) => slice(s, index(start)?, end)?,
    }))
}

fn repeat(call: &Call<'_>) -> Outcome {
    call.exactly(2)?;
    let (count, s) = (call.int(0)?, call.text(1)?);
    let count = usize::try_from(count).map_err(|_| Fault::Failed(format!("cannot repeat {count} times")))?;
    if s.len().saturating_mul(count) > MAX_TEXT {
        return Err(Fault::TooMuch);
    }
    Ok(text(s.repeat(count)))
}

fn indent(call: &Call<'_>, before: &str) -> Outcome {
    call.exactly(2)?;
    let (spaces, s) = (call.int(0)?, call.text(1)?);
    let spaces = usize::try_from(spaces).map_err(|_| Fault::Failed(format!("cannot indent by {spaces}")))?;
    if spaces.saturating_mul(s.matches('\n').count() + 1) > MAX_TEXT {
        return Err(Fault::TooMuch);
    }
    let pad = " ".repeat(spaces);
    Ok(text(format!("{before}{pad}{}", s.replace('\n', &format!("\n{pad}")))))
}

fn replace(call: &Call<'_>) -> Outcome {
    call.exactly(3)?;
    let (old, new, s) = (call.text(0)?, call.text(1)?, call.text(2)?);
    if s.matches(old).count().saturating_mul(new.len()) > MAX_TEXT {
        return Err(Fault::TooMuch);
    }
    Ok(text(s.replace(old, new)))
}

/// Go's `strings.SplitN`.
fn cut<'a>(separator: &str, count: i64, s: &'a str) -> Result<Vec<&'a str>, Fault> {
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    if most == 0 {
        return Ok(Vec::new());
    }
    let parts: Vec<&str> = if separator.is_empty() {
        let mut cuts: Vec<usize> = s.char_indices().map(|(index, _)| index).take(most).collect();
        cuts.push(s.len());
        cuts.windows(2).map(|pair| &s[pair[0]..pair[1]]).collect()
    } else {
        s.splitn(most, separator).collect()
    };
    if parts.len() > MAX_ITEMS { Err(Fault::TooMuch) } else { Ok(parts) }
}

fn parts(separator: &str, count: Option<i64>, s: &str) -> Outcome {
    let parts = cut(separator, count.unwrap_or(-1), s)?;
    let names: Vec<String> = (0..parts.len()).map(|index| format!("_{index}")).collect();
    Ok(map(names.iter().map(String::as_str).zip(parts.into_iter().map(text))))
}

/// Go's `%q`.
fn go_quote(s: &str) -> String {
    let mut quoted = String::from("\"");
    for c in s.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            c if c < ' ' || c == '\u{7f}' => {
                quoted.push_str(&["\\x", &hex(&[u8::try_from(c).unwrap_or_default()])].concat());
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1u32, 0u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    (b << 16) | a
}

const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// RFC 4648 with padding; `bits` for each character.
fn encode(bytes: &[u8], alphabet: &[u8], bits: u32) -> String {
    let mut encoded = String::new();
    let (mut held, mut count) = (0u32, 0u32);
    let mask = (1u32 << bits) - 1;
    for byte in bytes {
        held = (held << 8) | u32::from(*byte);
        count += 8;
        while count >= bits {
            count -= bits;
            encoded.push(char::from(alphabet[((held >> count) & mask) as usize]));
        }
        held &= (1 << count) - 1;
    }
    if count > 0 {
        encoded.push(char::from(alphabet[((held << (bits - count)) & mask) as usize]));
    }
    let group = if bits == 6 { 4 } else { 8 };
    while !encoded.len().is_multiple_of(group) {
        encoded.push('=');
    }
    encoded
}

/// The reverse; unlike slim-sprig's, which returns the error's text as if it were the result.
fn decode(call: &Call<'_>, alphabet: &[u8], bits: u32) -> Outcome {
    call.exactly(1)?;
    let invalid = || Fault::Failed("the text is not encoded that way".to_owned());
    let encoded: Vec<u8> = call.text(0)?.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let body: Vec<u8> = encoded.iter().copied().take_while(|byte| *byte != b'=').collect();
    let mut bytes = Vec::new();
    let (mut held, mut count) = (0u32, 0u32);
    for byte in &body {
        let digit = alphabet.iter().position(|letter| letter == byte).ok_or_else(invalid)?;
        held = (held << bits) | u32::try_from(digit).unwrap_or_default();
        count += bits;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((held >> count) & 0xff).unwrap_or_default());
        }
        held &= (1 << count) - 1;
    }
    let decoded = String::from_utf8(bytes).map_err(|_| invalid())?;
    if encode(decoded.as_bytes(), alphabet, bits).as_bytes() != encoded {
        return Err(invalid());
    }
    Ok(text(decoded))
}

/// Go's `path.Clean`.
fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if kept.last().is_some_and(|last| *last != "..") => {
                kept.pop();
            }
            ".." if rooted => {}
            other => kept.push(other),
        }
    }
    match (rooted, kept.join("/")) {
        (true, joined) => format!("/{joined}"),
        (false, joined) if joined.is_empty() => ".".to_owned(),
        (false, joined) => joined,
    }
}

fn base(path: &str) -> String {
    let trimmed = path.trim_end_matches('/');
    match (path.is_empty(), trimmed.rsplit('/').next().unwrap_or_default()) {
        (true, _) => ".".to_owned(),
        (false, "") => "/".to_owned(),
        (false, last) => last.to_owned(),
    }
}

fn dir(path: &str) -> String {
    clean(path.rfind('/').map_or("", |slash| &path[..=slash]))
}

fn ext(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or_default();
    last.rfind('.').map_or_else(String::new, |dot| last[dot..].to_owned())
}

fn is_abs(call: &Call<'_>) -> Outcome {
    call.exactly(1)?;
    Ok(Value::Bool(call.text(0)?.starts_with('/')))
}

/// A regular expression, as Go's RE2 syntax has it (without look-around and back-references, as here).
fn regex(call: &Call<'_>, pattern: &str, s: &str) -> Result<Regex, Fault> {
    let made = pattern_of(call, pattern, s)?;
    made.ok_or_else(|| Fault::Failed(format!("{pattern:?} is not a regular expression")))
}

/// The same where what is no expression is no fault. Charges for the text that it is held against.
fn pattern_of(call: &Call<'_>, pattern: &str, s: &str) -> Result<Option<Regex>, Fault> {
    call.charge(s.len().saturating_mul(1 + pattern.len() / 16))?;
    call.session.pattern(pattern).map_err(|_| Fault::TooMuch)
}

fn regex_find(call: &Call<'_>) -> Outcome {
    call.exactly(2)?;
    let s = call.text(1)?;
    Ok(text(regex(call, call.text(0)?, s)?.find(s).map_or("", |found| found.as_str())))
}

fn regex_find_all(call: &Call<'_>) -> Outcome {
    call.exactly(3)?;
    let most = usize::try_from(call.int(2)?).unwrap_or(MAX_ITEMS + 1);
    let s = call.text(1)?;
    Ok(list(regex(call, call.text(0)?, s)?.find_iter(s).take(most).map(|found| text(found.as_str()))))
}

fn regex_replace(call: &Call<'_>, literal: bool) -> Outcome {
    call.exactly(3)?;
    let (s, by) = (call.text(1)?, call.text(2)?);
    let pattern = regex(call, call.text(0)?, s)?;
    // A replacement may name groups, each at most the whole text.
    let largest = by.len().saturating_add(s.len().saturating_mul(by.matches('$').count()));
    if pattern.find_iter(s).count().saturating_mul(largest) > 16 * MAX_TEXT {
        return Err(Fault::TooMuch);
    }
    Ok(text(if literal { pattern.replace_all(s, regex::NoExpand(by)) } else { pattern.replace_all(s, by) }))
}

/// Go's `Regexp.Split`.
fn regex_split(call: &Call<'_>) -> Outcome {
    call.exactly(3)?;
    let (source, s, count) = (call.text(0)?, call.text(1)?, call.int(2)?);
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    if most == 0 {
        return Ok(list([]));
    }
    let pattern = regex(call, source, s)?;
    if !source.is_empty() && s.is_empty() {
        return Ok(list([text("")]));
    }
    let (mut parts, mut begin, mut end) = (Vec::new(), 0, 0);
    for found in pattern.find_iter(s) {
        if parts.len() + 1 >= most {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            parts.push(text(&s[begin..end]));
        }
        begin = found.end();
    }
    if end != s.len() {
        parts.push(text(&s[begin..]));
    }
    Ok(list(parts))
}

/// Go's `regexp.QuoteMeta`, which leaves more characters alone than Rust's.
fn quote_meta(s: &str) -> String {
    s.chars().flat_map(|c| r"\.+*?()|[]{}^$".contains(c).then_some('\\').into_iter().chain([c])).collect()
}
