//! Times of `sbatch --begin`.

use chrono::{DateTime, Days, Duration, Local, NaiveDate, NaiveTime, TimeZone};

use hsched_model::Time;
use hsched_model::number::{to_f64, to_u64};

/// Returns the time for a text on this machine at the time `now`; `None` if this version does not know the
/// format.
///
/// Examples are `now`, `now+60`, `now+2hours`, `16:00`, `noon`, `tomorrow`, `2030-01-01` and
/// `2030-01-01T12:00`; a time of day means its next occurrence.
pub(crate) fn begin(text: &str, now: Time) -> Option<Time> {
    let seconds = i64::try_from(to_u64(now.0)).ok()?;
    begin_in(&Local.timestamp_opt(seconds, 0).single()?, text).map(|seconds| Time(to_f64(seconds)))
}

fn begin_in<Z: TimeZone>(now: &DateTime<Z>, text: &str) -> Option<i64> {
    let text = text.trim().to_ascii_lowercase();
    if let Some(rest) = text.strip_prefix("now") {
        return now.timestamp().checked_add(offset(rest.trim())?);
    }
    let today = now.date_naive();
    let of = |date: NaiveDate, time: NaiveTime| {
        Some(now.timezone().from_local_datetime(&date.and_time(time)).earliest()?.timestamp())
    };
    match text.as_str() {
        "today" => return of(today, NaiveTime::MIN),
        "tomorrow" => return of(today.checked_add_days(Days::new(1))?, NaiveTime::MIN),
        _ => {}
    }
    let named = [("midnight", 0), ("noon", 12), ("fika", 15), ("teatime", 16)];
    let hour = named.iter().find(|(name, _)| *name == text).map(|(_, hour)| *hour);
    if let Some(time) = hour.and_then(|hour| NaiveTime::from_hms_opt(hour, 0, 0)).or_else(|| clock(&text)) {
        let next = if time > now.time() { today } else { today.checked_add_days(Days::new(1))? };
        return of(next, time);
    }
    let (date, time) = text.split_once('t').map_or((text.as_str(), None), |(date, time)| (date, Some(time)));
    let date = NaiveDate::parse_from_str(date, "%Y-%m-%d").ok()?;
    of(date, time.map_or(Some(NaiveTime::MIN), clock)?)
}

/// Returns a time of day: `16:00`, `16:00:30`.
fn clock(text: &str) -> Option<NaiveTime> {
    ["%H:%M", "%H:%M:%S"].iter().find_map(|format| NaiveTime::parse_from_str(text, format).ok())
}

/// Returns the seconds after `now` in `+60`, `+2hours` or `+1day`.
fn offset(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let text = text.strip_prefix('+')?.trim();
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let count: i64 = number.parse().ok()?;
    let unit = match text[number.len()..].trim() {
        "" => Duration::seconds(1),
        unit => {
            let known = [
                ("seconds", Duration::seconds(1)),
                ("minutes", Duration::minutes(1)),
                ("hours", Duration::hours(1)),
                ("days", Duration::days(1)),
                ("weeks", Duration::weeks(1)),
            ];
            known.into_iter().find(|(name, _)| name.starts_with(unit))?.1
        }
    };
    unit.num_seconds().checked_mul(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::FixedOffset;

    #[test]
    fn times_are_read_as_sbatch_reads_them() {
        let east = FixedOffset::east_opt(2 * 3600).expect("a zone");
        let now = east.with_ymd_and_hms(2026, 11, 22, 14, 30, 0).single().expect("a date");
        let hours = |text: &str| begin_in(&now, text).map(|at| to_f64(at - now.timestamp()) / 3600.0);
        for (text, expected) in [
            ("now", 0.0),
            ("now+60", 1.0 / 60.0),
            ("now+2hours", 2.0),
            ("now+1hour", 1.0),
            ("now + 30 minutes", 0.5),
            ("NOW+1day", 24.0),
            ("16:00", 1.5),
            ("14:30:00", 24.0),
            ("tomorrow", 9.5),
            ("today", -14.5),
            ("midnight", 9.5),
            ("noon", 21.5),
            ("teatime", 1.5),
            ("2026-11-23", 9.5),
            ("2026-11-22T18:30", 4.0),
            ("2026-11-22T18:30:00", 4.0),
        ] {
            assert_eq!(hours(text), Some(expected), "{text}");
        }
        for odd in ["", "next week", "now-1", "now+", "now+1fortnight", "25:00", "01/01/30"] {
            assert_eq!(hours(odd), None, "{odd}");
        }
    }
}
