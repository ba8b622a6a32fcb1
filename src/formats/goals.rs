//! What a job is to reach and by when: the keys `deadline`, `target` and `stop`.

use chrono::{DateTime, Local, LocalResult, NaiveDateTime, TimeZone as _, Utc};

use super::jobs::label;
use super::problem::{ValueError, quoted};
use super::reader::{Fields, Value};
use crate::model::number::{to_f64, to_i64};
use crate::model::{Deadline, GoalMode, Seconds, Stop, StopRule, Target, Time};

/// Forms of a deadline without an offset, which is local time.
const LOCAL_FORMS: [&str; 2] = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"];

/// The most epochs that a rule may name.
const MOST_EPOCHS: u64 = 1_000_000_000_000;

/// Reads a date and time, or a duration.
pub(super) fn read_deadline(value: &Value<'_>) -> Option<Deadline> {
    let is_date = value.text().is_some_and(looks_like_date);
    if is_date { value.parsed(date).map(Deadline::At) } else { within(value).map(Deadline::Within) }
}

/// Returns whether a text is meant as a date: it has a time as dates do, or a hyphen within.
fn looks_like_date(text: &str) -> bool {
    text.contains('T')
        || text.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with('-') && text.len() > 4
}

fn within(value: &Value<'_>) -> Option<Seconds> {
    if value.is_bare_seconds() {
        return value.duration();
    }
    let text = value.text()?;
    let wrong = |error: ValueError| {
        // A duration that is nearly right has its own words.
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
        .hint("write it like 12h, 2030-01-31T18:00:00 (local) or 2030-01-31T18:00:00+01:00")
}

/// Returns a deadline as [`read_deadline`] reads it.
pub(super) fn deadline_text(deadline: Deadline) -> String {
    match deadline {
        Deadline::Within(time) => super::duration_text(time),
        Deadline::At(Time(seconds)) => {
            let date = DateTime::from_timestamp(to_i64(seconds), 0).unwrap_or_default();
            date.format("%Y-%m-%dT%H:%M:%SZ").to_string()
        }
    }
}

pub(super) fn read_target(value: &Value<'_>) -> Option<Target> {
    let fields = value.fields(&["metric", "value", "mode"]);
    let metric = fields.required("metric").and_then(|metric| metric.parsed(label));
    let number = fields.or("value", None, |number| number.number().map(Some));
    let mode = fields.required("mode").and_then(|mode| mode.word_of(&GoalMode::NAMES));
    Some(Target { metric: metric?, value: number?, mode: mode? })
}

pub(super) fn read_stop(value: &Value<'_>) -> Option<Stop> {
    let fields = value.fields(&["rule", "when_busy", "patience", "not_before", "confidence", "give_up"]);
    let usual = Stop::default();
    let rule = fields.or("rule", StopRule::Epochs, |value| value.word_of(&StopRule::NAMES));
    let of_curve = &StopRule::NAMES[..3];
    let when_busy = fields.or("when_busy", StopRule::Epochs, |value| value.word_of(of_curve));
    let patience = fields.or("patience", None, |value| value.whole(1..=MOST_EPOCHS).map(Some));
    let not_before = fields.or("not_before", 0, |value| value.whole(0..=MOST_EPOCHS));
    let confidence = fields.or("confidence", usual.confidence, |value| {
        value.ranged(|own| (0.5..1.0).contains(&own).then_some(own), "at least 0.5 and below 1")
    });
    let give_up = fields.or("give_up", false, Value::switch);
    Some(Stop {
        rule: rule?,
        when_busy: when_busy?,
        patience: patience?,
        not_before: not_before?,
        confidence: confidence?,
        give_up: give_up?,
    })
}

/// Reports a rule without a metric to go by.
pub(super) fn check_stop(fields: &Fields<'_>, stop: Option<&Stop>, target: Option<&Target>) {
    let goes_by_metric = stop.is_some_and(|stop| stop.rule.max(stop.when_busy) > StopRule::Epochs);
    // A target that is there but wrong has an error of its own.
    let lacks_target = target.is_none() && fields.get("target").is_none();
    if let Some(value) = fields.get("stop").filter(|_| goes_by_metric && lacks_target) {
        let error = ValueError::new("needs a metric, but the job has no target");
        value.report(error.hint("add target: {metric: loss, mode: min}; the rule target also needs a value"));
    }
}
