//! Durations in common notations: `90s`, `1h30m`, `2d`, and Slurm's `12:00:00` and `1-12:00:00`.
//!
//! A bare number is refused, because Slurm reads it as minutes and most other tools as seconds. `12:30` is
//! also refused, because Slurm reads it as minutes and seconds, and people as hours and minutes.

use super::problem::{ValueError, quoted};
use crate::ErrorId;
use crate::Seconds;

/// Longest duration, about 30 years: longer ones overflow Slurm's times.
const LIMIT: f64 = 1e9;

/// Units with their seconds, longest first, the order required in a text.
const UNITS: [(&str, f64); 5] = [("d", 86_400.0), ("h", 3_600.0), ("m", 60.0), ("s", 1.0), ("ms", 0.001)];

/// Parses a duration.
///
/// # Errors
/// If the text is in none of the forms, is ambiguous, or is longer than 10^9 s.
pub fn parse_duration(text: &str) -> Result<Seconds, ValueError> {
    let trimmed = text.trim();
    if trimmed.starts_with('-') {
        let message = format!("must not be negative, got {}", quoted(text));
        return Err(ValueError::new(message).id(ErrorId::TimeFormat));
    }
    let by_clock = trimmed.contains(':') || trimmed.contains('-');
    let seconds = if by_clock { clock(trimmed)? } else { units(trimmed)? };
    if seconds > LIMIT {
        return Err(ValueError::new(format!("is too long: at most 10^9 s, got {}", quoted(text)))
            .id(ErrorId::TimeFormat));
    }
    Ok(Seconds(seconds))
}

/// Formats a duration so that it is read back exactly, such as `5400s`.
pub fn duration_text(duration: Seconds) -> String {
    format!("{}s", duration.0)
}

/// Reads `HH:MM:SS`, `D-HH`, `D-HH:MM` and `D-HH:MM:SS`.
fn clock(text: &str) -> Result<f64, ValueError> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(days), rest),
        None => (None, text),
    };
    let parts: Vec<&str> = rest.split(':').collect();
    if days.is_none() && parts.len() == 2 {
        let [first, second] = [parts[0], parts[1]];
        return Err(ValueError::new(format!("is ambiguous: {}", quoted(text))).id(ErrorId::TimeFormat).hint(format!(
            "write {first}:{second}:00 for hours and minutes, or 00:{first}:{second} for minutes and seconds"
        )));
    }
    let numbers: Option<Vec<f64>> = days.into_iter().chain(parts.iter().copied()).map(digits).collect();
    let Some(mut numbers) = numbers else {
        return Err(not_a_duration(text));
    };
    if days.is_none() {
        numbers.insert(0, 0.0);
    }
    numbers.resize(numbers.len().max(4), 0.0);
    let [days, hours, minutes, seconds] = numbers[..] else {
        return Err(not_a_duration(text));
    };
    if minutes >= 60.0 || seconds >= 60.0 {
        let message = format!("has minutes or seconds above 59, got {}", quoted(text));
        return Err(ValueError::new(message).id(ErrorId::TimeFormat));
    }
    Ok(days * 86_400.0 + hours * 3_600.0 + minutes * 60.0 + seconds)
}

/// Reads `90s`, `1.5h`, `1h30m`.
fn units(text: &str) -> Result<f64, ValueError> {
    if decimal(text).is_some() {
        let hint = format!("write {text}s, {text}m or {text}h");
        return Err(ValueError::new(format!("has no unit: {}", quoted(text)))
            .id(ErrorId::TimeUnit)
            .hint(hint));
    }
    let mut total = 0.0;
    let mut allowed = &UNITS[..];
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = split_number(rest);
        let name_end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (name, after) = after.split_at(name_end);
        let position = allowed.iter().position(|&(unit, _)| unit == name);
        let (Some(number), Some(position)) = (decimal(number), position) else {
            return Err(not_a_duration(text));
        };
        // Milliseconds are divided by 1000, because the factor 0.001 is not exact.
        let (unit, factor) = allowed[position];
        total += if unit == "ms" { number / 1000.0 } else { number * factor };
        (allowed, rest) = (&allowed[position + 1..], after);
    }
    if text.is_empty() { Err(not_a_duration(text)) } else { Ok(total) }
}

fn split_number(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len()))
}

fn digits(text: &str) -> Option<f64> {
    (text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

fn decimal(text: &str) -> Option<f64> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain.then(|| text.parse().ok()).flatten()
}

fn not_a_duration(text: &str) -> ValueError {
    ValueError::new(format!("must be a duration, got {}", quoted(text)))
        .id(ErrorId::TimeFormat)
        .hint("write it like 90s, 45m, 1h30m, 2d, 12:00:00 or 1-12:00:00")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_read_in_every_form() {
        let check = |text: &str, seconds| assert_eq!(parse_duration(text), Ok(Seconds(seconds)), "{text}");
        check("90s", 90.0);
        check("1.5h", 5400.0);
        check("1h30m", 5400.0);
        check("2d", 172_800.0);
        check("250ms", 0.25);
        check("0s", 0.0);
        check("12:00:00", 43_200.0);
        check("100:00:01", 360_001.0);
        check("1-12", 129_600.0);
        check("1-12:30", 131_400.0);
        check("1-12:30:05", 131_405.0);
    }

    #[test]
    fn what_is_unclear_is_refused() {
        let check = |text: &str, expected: &str| {
            let error = parse_duration(text).expect_err(text);
            assert!(error.to_string().contains(expected), "{text}: {error}");
        };
        check("30", "write 30s, 30m or 30h");
        check("12:30", "write 12:30:00 for hours");
        check("00:61:00", "above 59");
        check("", "must be a duration");
        check("-5s", "must not be negative");
        check("5s5s", "must be a duration");
        check("5s1h", "must be a duration");
        check("1e3s", "must be a duration");
        check("NaNs", "must be a duration");
        check("1-2-3", "must be a duration");
        check("1:2:3:4", "must be a duration");
        check("::", "must be a duration");
        check("1e9d", "must be a duration");
        check("99999999999d", "is too long");
        check(&format!("{}s", "9".repeat(400)), "is too long");
    }

    proptest! {
        #[test]
        fn every_duration_reads_back(seconds in 0.0..1e9_f64) {
            prop_assert_eq!(parse_duration(&duration_text(Seconds(seconds))), Ok(Seconds(seconds)));
        }

        #[test]
        fn no_text_panics(text in "[0-9.:hms-]{0,12}|\\PC{0,8}") {
            let _any = parse_duration(&text);
        }
    }
}
