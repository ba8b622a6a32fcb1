//! Option values parsed as by `sbatch`: numbers, times, memory, nodes, arrays.

use std::collections::BTreeSet;

use super::request::{ArrayRequest, TimeLimit};
use super::source::SlurmVersion;

/// Largest index under the largest `MaxArraySize`.
const LAST_INDEX: i64 = 4_000_000;

/// Number of 32-bit integers.
const I32_RANGE: u64 = 1 << 32;

/// Largest index of an array unless the site sets `MaxArraySize`.
pub(super) const USUAL_LAST_INDEX: i64 = 1000;

/// Parses the integer at the start of a text like C's `strtol`, and returns the rest; `None` without digits.
pub(super) fn leading_number(text: &str) -> Option<(i64, &str)> {
    let body = text.trim_start();
    let unsigned = body.strip_prefix(['-', '+']).unwrap_or(body);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let length = body.len() - unsigned.len() + digits;
    if digits == 0 {
        return None;
    }
    let number = body[..length].parse().unwrap_or(if body.starts_with('-') { i64::MIN } else { i64::MAX });
    Some((number, &body[length..]))
}

/// Returns the value of a numeric option.
///
/// # Errors
/// The message of `sbatch`.
pub(super) fn count(name: &str, text: &str, least: i64) -> Result<u64, String> {
    let wrong = || format!("Invalid numeric value \"{text}\" for --{name}.");
    let (number, rest) = leading_number(text).unwrap_or((0, text));
    if !rest.is_empty() || number < least {
        return Err(wrong());
    }
    if number >= i64::from(i32::MAX) {
        return Err(format!("Numeric argument ({number}) too large for --{name}."));
    }
    u64::try_from(number).map_err(|_| wrong())
}

/// Returns a time limit, rounded up to minutes; `None` for other text.
pub(super) fn time_limit(text: &str) -> Option<TimeLimit> {
    if ["-1", "infinite", "unlimited"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Some(TimeLimit::Unlimited);
    }
    // Slurm stores seconds in signed and minutes in unsigned 32-bit integers; the largest number of minutes
    // means no limit.
    let wrapped = i64::try_from((duration(text)? + I32_RANGE / 2) % I32_RANGE).ok()?;
    let minutes = (wrapped - i64::from(i32::MAX) - 1 + 59) / 60;
    Some(match u64::try_from(minutes) {
        Ok(0) => TimeLimit::Unlimited,
        Ok(minutes) => TimeLimit::Seconds(60 * minutes),
        Err(_) if minutes == -1 => TimeLimit::Unlimited,
        Err(_) => TimeLimit::Seconds(60 * (I32_RANGE - minutes.unsigned_abs())),
    })
}

/// Returns the seconds of `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M` or `D-H:M:S`.
pub(super) fn duration(text: &str) -> Option<u64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(days.parse::<u32>().ok()?), clock),
        None => (None, text),
    };
    let number = |part: &str| {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse::<u32>().ok().map(u64::from)).flatten()
    };
    let parts = match (days, clock) {
        (Some(_), "") => Vec::new(),
        _ => clock.split(':').map(number).collect::<Option<Vec<u64>>>()?,
    };
    let (hours, minutes, seconds) = match (days, &parts[..]) {
        (Some(_), []) => (0, 0, 0),
        (Some(_), [hours]) => (*hours, 0, 0),
        (Some(_), [hours, minutes]) => (*hours, *minutes, 0),
        (None, [minutes]) => (0, *minutes, 0),
        (None, [minutes, seconds]) => (0, *minutes, *seconds),
        (_, [hours, minutes, seconds]) => (*hours, *minutes, *seconds),
        _ => return None,
    };
    Some(u64::from(days.unwrap_or(0)) * 86_400 + hours * 3600 + minutes * 60 + seconds)
}

/// Returns an amount of memory in MiB; `None` for other text.
pub(super) fn mebibytes(text: &str) -> Option<u64> {
    let (number, rest) = leading_number(text)?;
    let number = u64::try_from(number).ok().filter(|number| *number < u64::MAX / 2)?;
    let unit = rest.strip_suffix(['b', 'B']).filter(|unit| unit.len() == 1).unwrap_or(rest);
    match unit.to_ascii_lowercase().as_str() {
        "" | "m" if rest.is_empty() || !unit.is_empty() => Some(number),
        "k" => Some(number.div_ceil(1024)),
        "g" => number.checked_mul(1024),
        "t" => number.checked_mul(1024 * 1024),
        _ => None,
    }
}

/// Returns the minimum and maximum number of nodes; a maximum of 0 means any number.
///
/// # Errors
/// The message of `sbatch`.
pub(super) fn nodes(text: &str, version: SlurmVersion) -> Result<(u64, u64), String> {
    let wrong = |part: &str| format!("\"{part}\" is not a valid node count");
    let (least, most) = if version.is_at_least(23, 2) && text.contains([',', ':']) {
        node_list(text).ok_or_else(|| wrong(text))?
    } else if let Some((least, most)) = text.split_once('-') {
        let count = |part| node_count(part).ok_or_else(|| wrong(part));
        (count(least)?.max(-1).abs(), count(most)?)
    } else {
        let count = node_count(text).filter(|count| *count >= 0).ok_or_else(|| wrong(text))?;
        (count, count)
    };
    if most != 0 && most < least {
        return Err(format!("Maximum node count {most} is less than minimum node count {least}"));
    }
    let number = |count: i64| u64::try_from(count).map_err(|_| wrong(text));
    Ok((number(least)?, number(most)?))
}

/// Returns a number of nodes; -1 for blanks and for a number out of range; `None` for other text.
fn node_count(text: &str) -> Option<i64> {
    let Some((number, mut rest)) = leading_number(text) else {
        return text.trim().is_empty().then_some(-1);
    };
    let mut number = number;
    for (suffix, factor) in [('k', 1024), ('m', 1024 * 1024)] {
        if let Some(before) = rest.strip_prefix([suffix, suffix.to_ascii_uppercase()]) {
            (number, rest) = (number.saturating_mul(factor), before);
        }
    }
    if !rest.trim().is_empty() {
        return None;
    }
    Some(if (0..=i64::from(i32::MAX)).contains(&number) { number } else { -1 })
}

/// Returns the minimum and maximum of a list such as `1-4:2,7`.
fn node_list(text: &str) -> Option<(i64, i64)> {
    let (mut least, mut most) = (i64::MAX, 0);
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last, step) = match part.split_once('-') {
            None => (part, part, "1"),
            Some((first, rest)) => {
                let (last, step) = rest.split_once(':').unwrap_or((rest, "1"));
                (first, last, step)
            }
        };
        let number = |text: &str| text.parse::<i64>().ok().filter(|number| (0..1 << 16).contains(number));
        let (first, last, step) = (number(first)?, number(last)?, number(step).filter(|step| *step > 0)?);
        if last < first {
            return None;
        }
        least = least.min(first);
        most = most.max(last - (last - first) % step);
    }
    (least <= most).then_some((least, most))
}

/// Returns the tasks of an array; the second value is its largest index.
///
/// # Errors
/// Slurm's message.
pub(super) fn array(text: &str) -> Result<(ArrayRequest, i64), String> {
    let wrong = || "Invalid job array specification".to_owned();
    let (mut indices, mut count) = (BTreeSet::new(), 0_i64);
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last, step) = indices_of(part).ok_or_else(wrong)?;
        count = count.saturating_add((last - first) / step);
        if last > LAST_INDEX || count > LAST_INDEX {
            return Err(wrong());
        }
        indices.extend((first..=last).step_by(usize::try_from(step).map_err(|_| wrong())?));
    }
    let last = *indices.last().ok_or_else(wrong)?;
    let limit = text.split_once('%').and_then(|(_, limit)| leading_number(limit));
    let limit = limit.and_then(|(limit, _)| u64::try_from(limit).ok()).filter(|limit| *limit > 0);
    Ok((ArrayRequest { tasks: Some(indices.len() as u64), limit }, last))
}

/// Returns the first index, the last and the step of a part such as `0-15:4%2`.
fn indices_of(part: &str) -> Option<(i64, i64, i64)> {
    let part = part.strip_prefix('[').unwrap_or(part);
    let number = |text| {
        let (number, rest) = leading_number(text).unwrap_or((0, text));
        (number, rest.strip_prefix(']').unwrap_or(rest))
    };
    let ends = |rest: &str| rest.is_empty() || rest.starts_with('%');
    let (first, rest) = number(part);
    let Some(rest) = rest.strip_prefix('-') else {
        return (first >= 0 && ends(rest)).then_some((first, first, 1));
    };
    let (last, rest) = number(rest);
    let (step, rest) = rest.strip_prefix(':').map_or((1, rest), number);
    (first >= 0 && last >= first && step > 0 && ends(rest)).then_some((first, last, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_to_minutes() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(time_limit(text), expected.map(TimeLimit::Seconds), "{text}");
        };
        check("5", Some(300));
        check("1:30", Some(120));
        check("24:00", Some(1440));
        check("1:2:3", Some(3780));
        check("1-12", Some(129_600));
        check("1-12:30:15", Some(131_460));
        check("0-60:00:00", Some(216_000));
        check("1-", Some(86_400));
        check("0:0:30", Some(60));
        check("71582789", Some(60));
        check("99999999", Some(1_705_032_660));
        check("50000000", Some(60 * 4_273_384_509));
        for text in
            ["", "2h", "30s", "1:", "1-0:", "12:00:00.5", "01:30:00:00", "1d-0", "-5", "1--2", "NOT_SET"]
        {
            check(text, None);
        }
        for text in ["0", "-1", "00:00:00", "UNLIMITED", "Infinite", "71582788", "4294967294"] {
            assert_eq!(time_limit(text), Some(TimeLimit::Unlimited), "{text}");
        }
    }

    #[test]
    fn memory_has_few_units() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(mebibytes(text), expected, "{text}");
        check("0", Some(0));
        check("1000", Some(1000));
        check("16G", Some(16 * 1024));
        check("16gb", Some(16 * 1024));
        check("2T", Some(2 << 20));
        check("100K", Some(1));
        check("500m", Some(500));
        for text in ["", "b", "16B", "16GiB", "1.5G", "1P", "-1", "16G,", "1e3", "max"] {
            check(text, None);
        }
    }

    #[test]
    fn node_counts_are_numbers_ranges_and_lists() {
        let new = |text: &str| nodes(text, SlurmVersion::DEFAULT).ok();
        assert_eq!(new("2"), Some((2, 2)));
        assert_eq!(new("2-4"), Some((2, 4)));
        assert_eq!(new("2k"), Some((2048, 2048)));
        assert_eq!(new("-4"), Some((1, 4)));
        assert_eq!(new("1,3"), Some((1, 3)));
        assert_eq!(new("1-4:2"), Some((1, 3)));
        for text in ["", "4-2", "all", "2-", "1,x", "{nodes}", "2:3", "1,2:3"] {
            assert_eq!(new(text), None, "{text}");
        }
        let old = SlurmVersion { year: 22, month: 5 };
        assert_eq!(nodes("1-5,7", old), Err("\"5,7\" is not a valid node count".to_owned()));
    }

    #[test]
    fn arrays_are_unions_of_ranges() {
        let tasks =
            |text: &str| array(text).ok().map(|(array, _)| (array.tasks.unwrap_or_default(), array.limit));
        assert_eq!(tasks("0-15:4"), Some((4, None)));
        assert_eq!(tasks("0-3,2-5"), Some((6, None)));
        assert_eq!(tasks("[1-5]"), Some((5, None)));
        assert_eq!(tasks("1-9%2"), Some((9, Some(2))));
        assert_eq!((tasks("1-9%0"), tasks("1-5%")), (Some((9, None)), Some((5, None))));
        assert_eq!(tasks("1-10:20"), Some((1, None)));
        for text in ["3-1", "-1", "1-", "a", "1-10:0", "1:5", "$N", ",", "0-99999999999"] {
            assert_eq!(tasks(text), None, "{text}");
        }
    }

    #[test]
    fn counts_are_whole_and_fit() {
        assert_eq!(count("ntasks", "4", 1), Ok(4));
        assert_eq!(count("ntasks", "2k", 1), Err("Invalid numeric value \"2k\" for --ntasks.".to_owned()));
        for text in ["", "0", "-1", "x", "9999999999", "99999999999999999999"] {
            assert!(count("ntasks", text, 1).is_err(), "{text}");
        }
        assert_eq!(count("core-spec", "0", 0), Ok(0));
    }
}
