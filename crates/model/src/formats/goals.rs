//! Deadlines in job files: the key `deadline`.

use chrono::{DateTime, Local, LocalResult, NaiveDateTime, TimeZone as _, Utc};

use super::problem::{ValueError, quoted};
use super::reader::ReaderValue;
use crate::number::{to_f64, to_i64};
use crate::{Deadline, ErrorId, Seconds, Time};

/// Formats of a deadline without an offset, which is in local time.
const LOCAL_FORMS: [&str; 2] = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"];

/// Reads a date and time, or a duration.
pub(super) fn read_deadline(value: &ReaderValue<'_>) -> Option<Deadline> {
    let is_date = value.text().is_some_and(looks_like_date);
    if is_date { value.parsed(date).map(Deadline::At) } else { within(value).map(Deadline::Within) }
}

/// Returns whether a text is intended as a date: it contains a `T`, a year before a hyphen, or two hyphens
/// between digits. `1-12:00:00` is a duration.
fn looks_like_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let year = parts.len() > 1 && is_number(&parts[0]) && parts[0].len() == 4;
    text.contains('T') || year || parts.len() > 2 && parts[..2].iter().all(is_number)
}

fn within(value: &ReaderValue<'_>) -> Option<Seconds> {
    if value.is_bare_seconds() {
        return value.duration();
    }
    let text = value.text()?;
    let wrong = |error: ValueError| {
        // An almost valid duration has its own message.
        if text.starts_with(|c: char| c.is_ascii_digit()) { error } else { no_deadline(text) }
    };
    value.accept(super::parse_duration(text).map_err(wrong))
}

fn date(text: &str) -> Result<Time, ValueError> {
    if let Ok(date) = DateTime::parse_from_rfc3339(text) {
        return Ok(moment(date.with_timezone(&Utc)));
    }
    let local = LOCAL_FORMS.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
    match local.map(|local| Local.from_local_datetime(&local)) {
        Some(LocalResult::Single(date) | LocalResult::Ambiguous(date, _)) => {
            Ok(moment(date.with_timezone(&Utc)))
        }
        Some(LocalResult::None) | None => Err(no_deadline(text)),
    }
}

fn moment(date: DateTime<Utc>) -> Time {
    Time(to_f64(date.timestamp()))
}

fn no_deadline(text: &str) -> ValueError {
    ValueError::new(format!("must be a date and time or a duration, got {}", quoted(text)))
        .id(ErrorId::TimeFormat)
        .hint("write it like 12h, 2030-01-31T18:00:00 (local) or 2030-01-31T18:00:00+01:00")
}

/// Formats a deadline for [`read_deadline`].
pub(super) fn deadline_text(deadline: Deadline) -> String {
    match deadline {
        Deadline::Within(time) => super::duration_text(time),
        Deadline::At(Time(seconds)) => {
            let date = DateTime::from_timestamp(to_i64(seconds), 0).unwrap_or_default();
            date.format("%Y-%m-%dT%H:%M:%SZ").to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::looks_like_date;

    #[test]
    fn a_year_or_two_hyphens_make_a_date_and_days_before_a_time_do_not() {
        for date in ["2030-02-28T10:00:00", "2030-02-28", "2030-02", "28-02-2030", "2-3-30"] {
            assert!(looks_like_date(date), "{date}");
        }
        for other in ["1-12:00:00", "12-00:00:00", "12:00:00", "90s", "soon", "", "-1h"] {
            assert!(!looks_like_date(other), "{other}");
        }
    }
}
