//! Numbers in YAML 1.2 notation, without forms that other readers interpret differently.

use std::ops::RangeInclusive;

use super::problem::{ValueError, quoted};
use crate::ErrorId;

/// Parses an integer.
///
/// Only decimal digits are allowed, after an optional sign: `1e3`, `0x10`, `010` and `100_000` are refused,
/// if possible with a hint.
///
/// # Errors
/// If the text is not an integer, or it is out of range.
pub fn parse_whole(text: &str, range: RangeInclusive<u64>) -> Result<u64, ValueError> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(not_whole(text));
    }
    if digits.len() > 1 && digits.starts_with('0') {
        let plain = digits.trim_start_matches('0');
        let hint =
            format!("write {}: some parsers read it as octal", if plain.is_empty() { "0" } else { plain });
        return Err(ValueError::new(format!("has leading zeros: {}", quoted(text)))
            .id(ErrorId::NumberFormat)
            .hint(hint));
    }
    let number = digits.parse::<u64>().ok();
    let out = |message: String| {
        Err(ValueError::new(format!("must be {message}, got {}", short(text))).id(ErrorId::NumberRange))
    };
    match number {
        Some(number) if !negative && range.contains(&number) => Ok(number),
        Some(0) if range.contains(&0) => Ok(0),
        Some(number) if negative || number < *range.start() => out(format!("at least {}", range.start())),
        None if negative => out(format!("at least {}", range.start())),
        _ => out(format!("at most {}", range.end())),
    }
}

/// Parses a finite number.
///
/// # Errors
/// If the text is not a decimal number, or too large for a double.
pub fn parse_number(text: &str) -> Result<f64, ValueError> {
    if let ".nan" | ".inf" | "-.inf" | "+.inf" = text.to_ascii_lowercase().as_str() {
        return Err(ValueError::new(format!("must be a finite number, got {text}")).id(ErrorId::NumberFormat));
    }
    if !is_decimal(text) {
        let error =
            ValueError::new(format!("must be a number, got {}", quoted(text))).id(ErrorId::NumberFormat);
        // A comma that separates no thousands is a decimal comma.
        let decimal = text.replacen(',', ".", 1);
        return Err(if !separates_thousands(text) && is_decimal(&decimal) {
            error.hint(format!("write {decimal}"))
        } else {
            with_plain_digits(error, text)
        });
    }
    let number: f64 = text
        .parse()
        .map_err(|_| ValueError::new(format!("must be a number, got {text}")).id(ErrorId::NumberFormat))?;
    if number.is_finite() {
        Ok(number)
    } else {
        Err(ValueError::new(format!("is too large: {}", short(text))).id(ErrorId::NumberRange))
    }
}

/// Returns whether the text is a decimal number of YAML's core schema, which includes JSON's numbers.
fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty()) && exponent_fits
}

fn not_whole(text: &str) -> ValueError {
    let error =
        ValueError::new(format!("must be a whole number, got {}", quoted(text))).id(ErrorId::NumberFormat);
    if !is_decimal(text) {
        return with_plain_digits(error, text);
    }
    match text.parse::<f64>() {
        // Doubles print integers below 2^53 exactly.
        Ok(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
            error.hint(format!("write {number:.0}"))
        }
        _ => error,
    }
}

/// Adds a hint for `100_000`, `100,000` and `10^9`.
fn with_plain_digits(error: ValueError, text: &str) -> ValueError {
    let plain: String = text.chars().filter(|c| !matches!(c, '_' | ',' | '\'' | ' ')).collect();
    if plain.len() < text.len() && is_decimal(&plain) && separates_thousands(text) {
        return error.hint(format!("write {plain}"));
    }
    let power = plain
        .split_once('^')
        .and_then(|(base, exponent)| base.parse::<u64>().ok()?.checked_pow(exponent.parse::<u32>().ok()?));
    match power {
        Some(number) => error.hint(format!("write {number}")),
        None => error,
    }
}

/// Returns whether three digits follow each comma.
fn separates_thousands(text: &str) -> bool {
    text.split(',')
        .skip(1)
        .all(|part| part.split(|c: char| !c.is_ascii_digit()).next().map(str::len) == Some(3))
}

/// Returns the digits for a message, shortened if there are many.
fn short(text: &str) -> String {
    if text.len() <= 30 { text.to_owned() } else { format!("{}… ({} characters)", &text[..20], text.len()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(result: Result<impl std::fmt::Display, ValueError>, expected: &str) {
        let shown = result.map_or_else(|error| error.to_string(), |number| number.to_string());
        assert_eq!(shown, expected);
    }

    #[test]
    fn whole_numbers_are_plain_digits() {
        let whole = |text| parse_whole(text, 1..=1000);
        check(whole("1000"), "1000");
        check(whole("+7"), "7");
        check(whole("-3"), "must be at least 1, got -3");
        check(whole("0"), "must be at least 1, got 0");
        check(whole("1001"), "must be at most 1000, got 1001");
        check(whole("1e3"), "must be a whole number, got \"1e3\"; write 1000");
        check(whole("1.5"), "must be a whole number, got \"1.5\"");
        check(whole("100_000"), "must be a whole number, got \"100_000\"; write 100000");
        check(whole("100,000"), "must be a whole number, got \"100,000\"; write 100000");
        check(whole("1,5"), "must be a whole number, got \"1,5\"");
        check(whole("10^9"), "must be a whole number, got \"10^9\"; write 1000000000");
        check(whole("010"), "has leading zeros: \"010\"; write 10: some parsers read it as octal");
        check(whole("0x10"), "must be a whole number, got \"0x10\"");
        check(whole("99999999999999999999999"), "must be at most 1000, got 99999999999999999999999");
        check(whole("-99999999999999999999999"), "must be at least 1, got -99999999999999999999999");
        check(parse_whole("-0", 0..=9), "0");
    }

    #[test]
    fn numbers_are_finite_decimals() {
        check(parse_number("6.5e-1"), "0.65");
        check(parse_number("-.5"), "-0.5");
        check(parse_number("5."), "5");
        check(parse_number(".nan"), "must be a finite number, got .nan");
        check(parse_number("-.INF"), "must be a finite number, got -.INF");
        check(parse_number("NaN"), "must be a number, got \"NaN\"");
        check(parse_number("inf"), "must be a number, got \"inf\"");
        check(parse_number("1e999"), "is too large: 1e999");
        check(parse_number("1_0.5"), "must be a number, got \"1_0.5\"; write 10.5");
        check(parse_number("1,234.5"), "must be a number, got \"1,234.5\"; write 1234.5");
        check(parse_number("1,5"), "must be a number, got \"1,5\"; write 1.5");
        check(parse_number("0,0001"), "must be a number, got \"0,0001\"; write 0.0001");
        check(parse_number("1,5,5"), "must be a number, got \"1,5,5\"");
        check(parse_number("."), "must be a number, got \".\"");
        check(parse_number(""), "must be a number, got \"\"");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9.eE^_x+-]{0,40}|\\PC{0,40}") {
            let _any = (parse_number(&text), parse_whole(&text, 1..=9));
        }

        #[test]
        fn printed_doubles_read_back(number in any::<f64>().prop_filter("finite", |n| n.is_finite())) {
            prop_assert_eq!(parse_number(&format!("{number}")), Ok(number));
            prop_assert_eq!(parse_number(&format!("{number:e}")), Ok(number));
        }
    }
}
