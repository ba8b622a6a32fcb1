//! Quantities for people; JSON has the exact values.

use chrono::{DateTime, Local};

use hsched_model::number::{to_i64, to_u64};
use hsched_model::{Seconds, Time};

/// Returns a time as local time in the format of the log.
pub fn date(at: Time) -> String {
    let moment = DateTime::from_timestamp(to_i64(at.0), 0).unwrap_or_default();
    moment.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string()
}

/// Returns a time relative to another one, in local time: `19:10`, `tomorrow 02:00`, `Wed 02:00`, `2 Dec
/// 02:00`.
pub fn moment(at: Time, now: Time) -> String {
    let local =
        |time: Time| DateTime::from_timestamp(to_i64(time.0), 0).unwrap_or_default().with_timezone(&Local);
    let (at, now) = (local(at), local(now));
    let format = match (at.date_naive() - now.date_naive()).num_days() {
        0 => "%H:%M",
        1 => "tomorrow %H:%M",
        2..=6 => "%a %H:%M",
        _ => "%-d %b %H:%M",
    };
    at.format(format).to_string()
}

/// Returns a duration in at most two units, such as `83.8 s`, `3 h 07 min` or `2 d 04 h`; `forever` for more
/// than 1e12 s.
pub fn duration(time: Seconds) -> String {
    let seconds = time.0;
    if seconds < 5e-6 {
        return "0 s".into();
    }
    if seconds < 0.01 {
        return format!("{:.2} ms", seconds * 1e3);
    }
    if seconds < 9.995 {
        return format!("{seconds:.2} s");
    }
    if seconds < 599.95 {
        return format!("{seconds:.1} s");
    }
    if !seconds.is_finite() || seconds > 1e12 {
        return "forever".into();
    }
    let whole = to_u64(seconds.round());
    let (minutes, hours, days) = (whole / 60, whole / 3600, whole / 86_400);
    match () {
        () if days > 0 => format!("{days} d {:02} h", hours % 24),
        () if hours > 0 => format!("{hours} h {:02} min", minutes % 60),
        () => format!("{minutes} min {:02} s", whole % 60),
    }
}

/// Returns a fraction in percent with enough digits to distinguish it from zero: `4.8 %`, `0.02 %`.
pub(super) fn percent(part: f64) -> String {
    let percent = 100.0 * part;
    match percent {
        _ if percent >= 0.995 => format!("{percent:.1} %"),
        _ if percent >= 0.0095 => format!("{percent:.2} %"),
        _ if percent >= 0.00005 => format!("{percent:.4} %"),
        _ => "0.0001 %".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_said_from_today() {
        let now = Time(1_795_345_200.0);
        let day = |days: f64| moment(Time(now.0 + days * 86_400.0), now);
        assert_eq!((day(0.0).len(), &day(1.0)[..9]), (5, "tomorrow "));
        assert_eq!((day(3.0).len(), &day(30.0)[2..6]), (9, " Dec"));
    }

    #[test]
    fn durations_have_at_most_two_units() {
        let check = |seconds, text: &str| assert_eq!(duration(Seconds(seconds)), text);
        check(0.0, "0 s");
        check(0.000_02, "0.02 ms");
        check(1.5, "1.50 s");
        check(83.752, "83.8 s");
        check(600.0, "10 min 00 s");
        check(11_225.8, "3 h 07 min");
        check(187_200.0, "2 d 04 h");
        check(f64::INFINITY, "forever");
    }
}
