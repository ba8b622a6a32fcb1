//! Validation of times for `--begin` and `--deadline`, without computing them.

/// Words for a day or a time of day.
const NAMES: [&str; 7] = ["today", "tomorrow", "midnight", "noon", "elevenses", "fika", "teatime"];

/// Units of time.
const UNITS: [&str; 10] =
    ["seconds", "second", "minutes", "minute", "hours", "hour", "days", "day", "weeks", "week"];

/// Returns whether Slurm reads a text as a time.
///
/// Examples: `now`, `now+2hours`, `16:00`, `4:00 PM`, `tomorrow`, `2030-01-31T12:00`, `01/31`, `013126`,
/// `uts1700000000`.
pub(super) fn is_moment(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    if let Some(seconds) = lower.strip_prefix("uts") {
        return seconds.parse::<i64>().is_ok_and(|seconds| seconds >= 1_000_000);
    }
    let (mut rest, mut is_known) = (lower.as_str(), false);
    loop {
        rest = rest.trim_start_matches([' ', '\t', '-', 't']);
        // The `t` of `today` is also a letter that may separate a date and a time.
        let word = NAMES.iter().find(|name| rest.starts_with(**name) || rest.starts_with(&name[1..]));
        if rest.is_empty() {
            return is_known;
        }
        is_known = true;
        if let Some(name) = word {
            let length = if rest.starts_with(*name) { name.len() } else { name.len() - 1 };
            rest = &rest[length..];
        } else if let Some(behind) = rest.strip_prefix("now") {
            match after_offset(behind.trim_start_matches([' ', '\t'])) {
                Some(behind) => rest = behind,
                None => return false,
            }
        } else {
            match clock(rest).or_else(|| date(rest)) {
                Some(behind) => rest = behind,
                None => return false,
            }
        }
    }
}

/// Returns the text after a sign, a number and at most one unit; an empty text needs none of them.
fn after_offset(text: &str) -> Option<&str> {
    let Some(text) = text.strip_prefix(['+', '-']) else { return text.is_empty().then_some(text) };
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c.is_ascii_whitespace());
    text[..text.len() - unit.len()].contains(|c: char| c.is_ascii_digit()).then_some(())?;
    if unit.is_empty() { Some(unit) } else { UNITS.iter().find_map(|name| unit.strip_prefix(name)) }
}

/// Returns the text after a time of day.
fn clock(text: &str) -> Option<&str> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let hour: u32 = text.get(..digits).filter(|_| (1..=2).contains(&digits))?.parse().ok()?;
    let (minute, mut rest) = two_digits(text[digits..].strip_prefix(':')?)?;
    if let Some(behind) = rest.strip_prefix(':') {
        let (second, behind) = two_digits(behind)?;
        (second < 60).then_some(())?;
        rest = behind;
    }
    let rest = rest.trim_start();
    let rest = rest.strip_prefix("am").or_else(|| rest.strip_prefix("pm")).unwrap_or(rest);
    (hour < 24 && minute < 60).then_some(rest)
}

/// Returns the text after a date: `2030-01-31`, `01/31/30`, `01.31`, `013130`.
fn date(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    if bytes.get(4) == Some(&b'-') && bytes[..4].iter().all(u8::is_ascii_digit) {
        let (month, rest) = number(&text[5..])?;
        let (day, rest) = number(rest.strip_prefix('-')?)?;
        return ((1..=12).contains(&month) && (1..=31).contains(&day)).then_some(rest);
    }
    let separated = |text| str::strip_prefix(text, ['.', '/']).unwrap_or(text);
    let (month, rest) = number(text)?;
    let (day, rest) = number(separated(rest))?;
    let rest = separated(rest);
    let rest = if rest.starts_with(|c: char| c.is_ascii_digit()) { two_digits(rest)?.1 } else { rest };
    ((1..=12).contains(&month) && (1..=31).contains(&day)).then_some(rest)
}

/// Returns a number of one or two digits and the text after it.
fn number(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    Some((text.get(..digits)?.parse().ok()?, &text[digits..]))
}

fn two_digits(text: &str) -> Option<(u32, &str)> {
    number(text).filter(|(_, rest)| rest.len() + 2 == text.len())
}

#[cfg(test)]
mod tests {
    use super::is_moment;

    #[test]
    fn times_are_told_from_other_text() {
        for text in [
            "now",
            "now+60",
            "now+2hours",
            "now + 30 minutes",
            "now-1hour",
            "NOW+1week",
            "now+0hour",
            "now+1 0 weeks",
            "now+1day 16:00",
            "16:00",
            "4:00 PM",
            "today",
            "tomorrow",
            "tomorrow 16:00",
            "midnight",
            "noon",
            "teatime",
            "fika",
            "elevenses",
            "01/01/30",
            "12/31",
            "2030-01-01",
            "2030-01-01T12:00",
            "2030-01-01T12:00:30",
            "0131",
            "013130",
            "01.31.30",
            "01/31-12:00",
            "uts1700000000",
            "23:59",
        ] {
            assert!(is_moment(text), "{text}");
        }
        for text in [
            "",
            "0",
            "next week",
            "now+",
            "now+x",
            "now2",
            "now+2hoursx",
            "now+2h",
            "now+hours",
            "25:00",
            "12:61",
            "13/45",
            "2030-13-01",
            "uts5",
            "soon",
            "16:0",
            "-",
        ] {
            assert!(!is_moment(text), "{text}");
        }
    }
}
