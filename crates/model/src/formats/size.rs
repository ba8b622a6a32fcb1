//! Amounts of bytes in common notations: `46.8MB`, `192GiB`, `512B`.

use super::problem::{ValueError, quoted};
use crate::Bytes;
use crate::ErrorId;

/// Units with their bytes; the `i` distinguishes powers of two from powers of ten.
const UNITS: [(&str, u64); 12] = [
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("PiB", 1 << 50),
];

/// Number of decimals that count; further ones are ignored, because they are worth hardly more than a byte.
const FRACTION_LIMIT: usize = 15;

/// Returns the bytes of a decimal number with a unit (B, kB, MB, GB, TB, PB, KiB … PiB), rounded to
/// whole bytes.
///
/// # Errors
/// If the text is not such an amount, its unit is missing or ambiguous, or it exceeds 2^64 - 1 bytes.
pub fn parse_size(text: &str) -> Result<Bytes, ValueError> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim_start();
    if number.is_empty() {
        return Err(not_a_size(text));
    }
    let Some(&(_, factor)) = UNITS.iter().find(|&&(name, _)| name == unit) else {
        return Err(unit_error(text, number, unit));
    };
    scaled(number, factor).ok_or_else(|| not_a_size(text))?
}

/// Returns the bytes of a size with a unit, or of a bare integer.
///
/// # Errors
/// The errors of [`parse_size`], except that a missing unit means bytes.
pub(super) fn parse_size_or_bytes(text: &str) -> Result<Bytes, ValueError> {
    let trimmed = text.trim();
    if !trimmed.is_empty() && trimmed.bytes().all(|byte| byte.is_ascii_digit()) {
        return scaled(trimmed, 1).ok_or_else(|| not_a_size(text))?;
    }
    parse_size(text)
}

/// Returns `number * factor`; `None` if `number` is not a decimal number.
fn scaled(number: &str, factor: u64) -> Option<Result<Bytes, ValueError>> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let pointed = number.contains('.');
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || (pointed && fraction.is_empty()) {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(FRACTION_LIMIT)];
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? };
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let factor = u128::from(factor);
    let bytes = whole
        .parse::<u128>()
        .ok()
        .and_then(|whole| whole.checked_mul(factor))
        .and_then(|bytes| bytes.checked_add((part * factor + scale / 2) / scale))
        .and_then(|bytes| u64::try_from(bytes).ok());
    Some(
        bytes
            .map(Bytes)
            .ok_or_else(|| ValueError::new("is too large: at most 2^64 - 1 bytes").id(ErrorId::SizeFormat)),
    )
}

fn unit_error(text: &str, number: &str, unit: &str) -> ValueError {
    let error = ValueError::new(format!("has an unknown unit: {}", quoted(text))).id(ErrorId::SizeUnit);
    let letter = unit.trim_end_matches(['b', 'B']).trim_end_matches(['i', 'I']).to_uppercase();
    match letter.as_str() {
        "" => ValueError::new(format!("has no unit: {}", quoted(text)))
            .id(ErrorId::SizeUnit)
            .hint(format!("write {number}GiB, {number}MB or {number}B")),
        "K" | "M" | "G" | "T" | "P" => {
            let decimal = if letter == "K" { "kB".to_owned() } else { format!("{letter}B") };
            error.hint(format!("write {number}{letter}iB (powers of 2) or {number}{decimal} (powers of 10)"))
        }
        _ => error.hint("units are B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB"),
    }
}

fn not_a_size(text: &str) -> ValueError {
    ValueError::new(format!("must be a size in bytes, got {}", quoted(text)))
        .id(ErrorId::SizeFormat)
        .hint("write it like 46.8MB or 192GiB")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_exact() {
        let check = |text: &str, bytes| assert_eq!(parse_size_or_bytes(text), Ok(Bytes(bytes)), "{text}");
        check("46.8MB", 46_800_000);
        check("44.6MiB", 46_766_490);
        check("46800000B", 46_800_000);
        check("46800000", 46_800_000);
        check("192 GiB", 192 << 30);
        check("0", 0);
        check("0B", 0);
        check("1kB", 1000);
        check("18446744073709551615B", u64::MAX);
    }

    #[test]
    fn what_is_unclear_is_refused() {
        let check = |text: &str, expected: &str| {
            let error = parse_size(text).expect_err(text);
            assert!(error.to_string().contains(expected), "{text}: {error}");
        };
        check("192G", "write 192GiB (powers of 2) or 192GB (powers of 10)");
        check("46.8mb", "write 46.8MiB (powers of 2) or 46.8MB");
        check("192", "write 192GiB, 192MB or 192B");
        check("12 parsecs", "units are B, kB");
        check("-1GB", "must be a size in bytes");
        check("1e3B", "has an unknown unit");
        check("1.GB", "must be a size in bytes");
        check("1.2.3GB", "must be a size in bytes");
        check("16384PiB", "is too large");
        check("999999999999999999999999999999999999999999GB", "is too large");
        check("NaN", "must be a size");
    }

    proptest! {
        #[test]
        fn every_amount_reads_back(bytes: u64) {
            prop_assert_eq!(parse_size(&Bytes(bytes).to_string()), Ok(Bytes(bytes)));
        }

        #[test]
        fn no_text_panics(text in "[0-9.]{0,50}\\PC{0,4}") {
            let _any = parse_size_or_bytes(&text);
        }
    }
}
