//! Slurm's dates, which are in the time zone of the printing machine.

use chrono::{DateTime, Local, NaiveDateTime, TimeZone, Utc};

use hsched_model::number::to_f64;

/// The format selected by `SLURM_TIME_FORMAT=standard`.
const FORMAT: &str = "%Y-%m-%dT%H:%M:%S";

/// Returns a date such as `2026-11-21T06:13:16` as Unix seconds; `None` for `Unknown`, `N/A` and similar.
///
/// In the hour repeated at the end of summer time, the first occurrence is assumed.
pub fn unix(text: &str) -> Option<f64> {
    unix_in(&Local, text)
}

/// Returns the last time that a date may be: in the hour repeated at the end of summer time, the second
/// occurrence.
pub(crate) fn latest_unix(text: &str) -> Option<f64> {
    let local = NaiveDateTime::parse_from_str(text.trim(), FORMAT).ok()?;
    Some(to_f64(Local.from_local_datetime(&local).latest()?.timestamp()))
}

/// Returns the date in Slurm's format on this machine, in whole seconds.
pub fn text(time: DateTime<Utc>) -> String {
    time.with_timezone(&Local).format(FORMAT).to_string()
}

/// Returns a date as Unix seconds, assuming UTC: for text of another machine with an unknown time zone.
pub fn without_zone(text: &str) -> Option<f64> {
    unix_in(&Utc, text)
}

fn unix_in<Z: TimeZone>(zone: &Z, text: &str) -> Option<f64> {
    let local = NaiveDateTime::parse_from_str(text.trim(), FORMAT).ok()?;
    let time = zone.from_local_datetime(&local).earliest()?;
    Some(to_f64(time.timestamp()))
}

#[cfg(test)]
mod tests {
    use chrono::FixedOffset;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_date_is_of_its_zone() {
        let east = FixedOffset::east_opt(2 * 3600).expect("a zone");
        assert_eq!(unix_in(&Utc, "1970-01-01T00:00:10"), Some(10.0));
        assert_eq!(unix_in(&Utc, " 2026-11-21T06:13:16 "), Some(1_795_241_596.0));
        assert_eq!(unix_in(&east, "2026-11-21T08:13:16"), Some(1_795_241_596.0));
        for text in ["", "Unknown", "N/A", "None", "(null)", "06:13:16", "2026-13-01T00:00:00", "0"] {
            assert_eq!(unix_in(&Utc, text), None, "{text}");
        }
    }

    proptest! {
        /// A time in a repeated hour is read as up to two hours earlier, because zones repeat one or two
        /// hours.
        #[test]
        fn what_is_printed_is_read(seconds: u32) {
            let time = DateTime::from_timestamp(seconds.into(), 0).expect("a date");
            let difference = unix(&text(time)).expect("a date") - f64::from(seconds);
            prop_assert!(difference == 0.0 || (-7200.0..0.0).contains(&difference), "{difference}");
            prop_assert!(latest_unix(&text(time)).expect("a date") >= f64::from(seconds));
        }

        #[test]
        fn no_text_panics(text in "[0-9T:+-]{0,30}|.*") {
            let _ = unix(&text);
        }
    }
}
