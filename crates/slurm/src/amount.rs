//! Amounts as Slurm prints them: counts with suffixes, memory, durations.

use hsched_model::number::to_u64;
use hsched_model::{Bytes, Seconds};

/// Longest duration in seconds, 31 years: the maximum of cluster files as well.
const LONGEST: f64 = 1e9;

/// Returns a count such as `4`, `12K` or `1M` (binary suffixes, any case), or `None` for other text.
pub fn count(text: &str) -> Option<u64> {
    let (digits, shift) = split_suffix(text)?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // A count with too many digits is capped.
    Some(digits.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(1 << shift))
}

/// Returns an amount of memory such as `300M`, `1.50G` or `64000`, which is in MiB.
pub fn memory(text: &str) -> Option<Bytes> {
    let (digits, shift) = split_suffix(text)?;
    if let Ok(whole) = digits.parse::<u64>() {
        return Some(Bytes(whole.saturating_mul(1 << if shift == 0 { 20 } else { shift })));
    }
    let amount = digits.parse::<f64>().ok().filter(|amount| amount.is_finite() && *amount >= 0.0)?;
    let unit = f64::from(1 << 10).powi(if shift == 0 { 2 } else { i32::from(shift) / 10 });
    Some(Bytes(to_u64(amount * unit)))
}

/// Returns a duration: `[days-]hours:minutes:seconds`, `minutes:seconds`, `days-hours[:minutes]`.
///
/// `None` for any other text, including `UNLIMITED` and `infinite`; see `is_unlimited`.
pub fn duration(text: &str) -> Option<Seconds> {
    let (days, clock) = match text.trim().split_once('-') {
        Some((days, clock)) => (Some(days), clock),
        None => (None, text.trim()),
    };
    let parts =
        clock.split(':').map(|part| part.parse::<u32>().ok().map(f64::from)).collect::<Option<Vec<f64>>>()?;
    let seconds = match (days, parts.as_slice()) {
        (_, [hours, minutes, seconds]) => hours * 3600.0 + minutes * 60.0 + seconds,
        (Some(_), [hours, minutes]) => hours * 3600.0 + minutes * 60.0,
        (Some(_), [hours]) => hours * 3600.0,
        (None, [minutes, seconds]) => minutes * 60.0 + seconds,
        _ => return None,
    };
    let days = days.map_or(Some(0), |days| days.parse::<u32>().ok())?;
    let all = f64::from(days) * 86400.0 + seconds;
    (all <= LONGEST).then_some(Seconds(all))
}

/// Writes a time limit in the format of `sbatch`: `08:00:00`, `2-00:00:00`.
pub fn time_limit(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let clock = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if days > 0 { format!("{days}-{clock}") } else { clock }
}

/// Writes a time limit in the format of `sbatch`, rounded up to whole minutes.
pub(crate) fn minutes_limit(limit: Seconds) -> String {
    time_limit(to_u64((limit.0 / 60.0).ceil()).saturating_mul(60))
}

/// Writes an amount of memory in MiB in the format of `sbatch`: `8G`, `1500M`.
pub(crate) fn sbatch_memory(mebibytes: u64) -> String {
    if mebibytes.is_multiple_of(1024) { format!("{}G", mebibytes / 1024) } else { format!("{mebibytes}M") }
}

/// Returns whether the text is one of Slurm's words for no limit.
pub(crate) fn is_unlimited(text: &str) -> bool {
    ["infinite", "unlimited"].iter().any(|word| text.trim().eq_ignore_ascii_case(word))
}

/// Splits off a binary suffix; returns the text before it and the binary logarithm of its factor.
fn split_suffix(text: &str) -> Option<(&str, u8)> {
    let text = text.trim();
    let last = text.chars().next_back()?;
    let shift = match last.to_ascii_uppercase() {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        'T' => 40,
        'P' => 50,
        _ => return Some((text, 0)),
    };
    Some((&text[..text.len() - 1], shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_take_suffixes_and_saturate() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(count(text), expected, "{text}");
        check("4", Some(4));
        check("2K", Some(2048));
        check("1m", Some(1 << 20));
        check("99999999999999999999P", Some(u64::MAX));
        for text in ["", "K", "a", "-1", "1.5", "0x3", "3g.20gb", "1 2"] {
            check(text, None);
        }
    }

    #[test]
    fn memory_is_in_mebibytes_unless_it_says_otherwise() {
        let check =
            |text: &str, expected: Option<u64>| assert_eq!(memory(text), expected.map(Bytes), "{text}");
        check("300M", Some(300 << 20));
        check("64000", Some(64000 << 20));
        check("1.50G", Some(1536 << 20));
        check("4T", Some(4 << 40));
        check("0", Some(0));
        for text in ["", "N/A", "M", "-1", "inf", "nanG"] {
            check(text, None);
        }
    }

    #[test]
    fn durations_have_days_before_a_dash_and_seconds_last() {
        let check = |text: &str, expected: Option<f64>| {
            assert_eq!(duration(text), expected.map(Seconds), "{text}");
        };
        check("30:00", Some(1800.0));
        check("1:00:00", Some(3600.0));
        check("7-00:00:00", Some(604_800.0));
        check("1-12", Some(129_600.0));
        check("1-00:30", Some(88_200.0));
        for text in ["", "infinite", "n/a", "1:2:3:4", "x-1:00:00", "5", "INVALID", "-1:00", "19300-0"] {
            check(text, None);
        }
        assert_eq!([90, 28_800, 216_000].map(time_limit), ["00:01:30", "08:00:00", "2-12:00:00"]);
        assert_eq!(minutes_limit(Seconds(61.0)), "00:02:00");
        assert!(is_unlimited("infinite") && is_unlimited("UNLIMITED") && !is_unlimited("n/a"));
    }
}
