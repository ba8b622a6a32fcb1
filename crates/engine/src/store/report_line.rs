//! A line of a rank's report. An error in one field does not invalidate the others.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::StepTiming;
use hsched_model::Seconds;
use hsched_model::formats::{history, loose};
use hsched_model::number::to_u64;

/// Maximum number of characters shown of an invalid value.
const LONGEST_VALUE: usize = 30;

/// Upper limit of counts and of times in seconds. Sums of larger numbers may not be finite, and the state
/// cannot represent those.
const MOST: f64 = 1e15;

/// A rank's line about one epoch; unknown keys are ignored.
#[derive(Debug, Default)]
pub(super) struct EpochLine {
    /// Epoch number, from 1; a line without one is not about an epoch.
    pub epoch: Option<u64>,
    pub samples: Option<u64>,
    pub compute: Option<Seconds>,
    pub length: Option<Seconds>,
    /// Size and mean time of a (micro-)step.
    pub step: Option<StepTiming>,
    /// The rank's share of each global batch.
    pub batch: Option<u64>,
    /// Version of the shares that the ranks adopted while running.
    pub shares: Option<u64>,
    /// Sizes and times of trial steps.
    pub probes: Vec<StepTiming>,
    /// Maximum device memory that the rank has used so far, in bytes.
    pub max_memory: Option<u64>,
    /// Metrics of the training, as finite numbers.
    pub metrics: BTreeMap<String, f64>,
    /// Ignored fields by name, with their values.
    pub ignored: Vec<(String, String)>,
}

impl EpochLine {
    /// Parses a line.
    ///
    /// # Errors
    /// If it is not a JSON object, or if its epoch is not a whole number below [`MOST`]; as a message.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let value = loose::parse(text).map_err(|error| {
            let error = error.to_string();
            error.split_once(" at line").map_or(error.as_str(), |(why, _)| why).to_owned()
        })?;
        let Value::Object(fields) = value else { return Err("it is no JSON object".to_owned()) };
        let epoch = match fields.get("epoch") {
            None | Some(Value::Null) => None,
            Some(value) => {
                let number = value.as_f64().filter(|number| number.fract() == 0.0).and_then(count);
                Some(number.ok_or_else(|| format!("epoch is {}, no whole number", shown(value)))?)
            }
        };
        let mut line = Self { epoch, ..Self::default() };
        line.samples = line.number(&fields, "samples").and_then(count);
        line.compute = line.time(&fields, "compute_s");
        line.length = line.time(&fields, "epoch_s");
        line.batch = line.number(&fields, "batch").and_then(count);
        line.shares = line.number(&fields, "shares").and_then(count);
        line.max_memory = line.number(&fields, "max_memory").and_then(count);
        let batch = line.number(&fields, "micro_batch").and_then(count);
        line.step = line.time(&fields, "step_s").and_then(|time| timed(batch?, time.0));
        line.probes = line.trials(&fields);
        line.read_metrics(&fields);
        Ok(line)
    }

    /// Returns a number of at least 0 and below [`MOST`]; any other value is ignored, and `null` counts as
    /// missing.
    fn number(&mut self, fields: &Map<String, Value>, name: &str) -> Option<f64> {
        let value = fields.get(name).filter(|value| !value.is_null())?;
        let number = value.as_f64().filter(|number| (0.0..MOST).contains(number));
        if number.is_none() {
            self.ignore(name, value);
        }
        number
    }

    fn time(&mut self, fields: &Map<String, Value>, name: &str) -> Option<Seconds> {
        self.number(fields, name).filter(|time| *time > 0.0).map(Seconds)
    }

    fn trials(&mut self, fields: &Map<String, Value>) -> Vec<StepTiming> {
        let Some(value) = fields.get("probe").filter(|value| !value.is_null()) else { return Vec::new() };
        let Ok(pairs) = serde_json::from_value::<Vec<(f64, f64)>>(value.clone()) else {
            self.ignore("probe", value);
            return Vec::new();
        };
        pairs.into_iter().filter_map(|(batch, time)| timed(count(batch)?, time)).collect()
    }

    /// Reads all metrics; if one is in both places, the value under `metrics` counts.
    fn read_metrics(&mut self, fields: &Map<String, Value>) {
        self.metrics = history::beside(fields)
            .filter(|(_, number)| number.is_finite())
            .map(|(name, number)| (name.to_owned(), number))
            .collect();
        let diverged: Vec<&str> =
            history::beside(fields).filter(|(_, number)| !number.is_finite()).map(|(name, _)| name).collect();
        for name in diverged {
            self.ignore(name, &fields[name]);
        }
        match fields.get("metrics") {
            None | Some(Value::Null) => {}
            Some(Value::Object(under)) => {
                for (name, value) in under.iter().filter(|(_, value)| !value.is_null()) {
                    match value.as_f64() {
                        Some(number) => {
                            self.metrics.insert(name.clone(), number);
                        }
                        None => self.ignore(name, value),
                    }
                }
            }
            Some(other) => self.ignore("metrics", other),
        }
    }

    fn ignore(&mut self, name: &str, value: &Value) {
        self.ignored.push((name.to_owned(), shown(value)));
    }
}

/// Returns a value as written, or its beginning.
fn shown(value: &Value) -> String {
    let text = match value.as_str() {
        Some(word) if loose::is_not_finite(value) => word.to_owned(),
        _ => value.to_string(),
    };
    let mut begin: String = text.chars().take(LONGEST_VALUE).collect();
    if begin.len() < text.len() {
        begin.push('…');
    }
    begin
}

/// Returns a number as a count; a fraction is the mean over ranks and is rounded.
fn count(number: f64) -> Option<u64> {
    (0.0..MOST).contains(&number).then(|| to_u64(number.round()))
}

fn timed(batch: u64, time: f64) -> Option<StepTiming> {
    (batch > 0 && time.is_finite() && time > 0.0).then_some(StepTiming { batch, time: Seconds(time) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> EpochLine {
        EpochLine::parse(text).expect("a line")
    }

    fn ignored(text: &str) -> String {
        let line = parse(text);
        assert_eq!(line.epoch, Some(3), "{text}");
        let one = |(name, value): &(String, String)| format!("{name}={value}");
        line.ignored.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn whole_numbers_may_be_written_as_floats() {
        let line = parse(
            r#"{"epoch": 3.0, "rank": 0.0, "samples": 36000.4, "compute_s": 2, "step_s": 0.5, "micro_batch": 8.0, "max_memory": 9e9}"#,
        );
        assert_eq!(line.max_memory, Some(9_000_000_000));
        assert_eq!((line.epoch, line.samples, line.compute), (Some(3), Some(36000), Some(Seconds(2.0))));
        assert_eq!(line.step, Some(StepTiming { batch: 8, time: Seconds(0.5) }));
        assert_eq!((line.metrics.len(), line.ignored.len()), (0, 0));
    }

    #[test]
    fn a_wrong_field_is_ignored_alone() {
        let check = |text: &str, expected: &str| assert_eq!(ignored(text), expected, "{text}");
        check(r#"{"epoch": 3, "samples": "many", "compute_s": -1}"#, r#"samples="many" compute_s=-1"#);
        check(
            r#"{"epoch": 3, "samples": , "compute_s": 3,5, "epoch_s": [1]}"#,
            r#"samples="" compute_s="3,5" epoch_s=[1]"#,
        );
        check(
            r#"{"epoch": 3, "compute_s": 1e308, "epoch_s": 1e15}"#,
            "compute_s=1e+308 epoch_s=1000000000000000.0",
        );
        check(r#"{"epoch": 3, "probe": 7, "metrics": 0.5, "note": "x"}"#, "probe=7 metrics=0.5");
        check(r#"{"epoch": 3, "samples": null, "compute_s": 0, "metrics": {"loss": null}}"#, "");
        let line =
            parse(r#"{"epoch": 3, "samples": 9, "compute_s": true, "metrics": {"kind": "x", "acc": 1}}"#);
        assert_eq!((line.samples, line.compute, line.metrics), (Some(9), None, [("acc".into(), 1.0)].into()));
    }

    #[test]
    fn a_metric_that_is_not_finite_is_left_out() {
        let text =
            r#"{"epoch": 3, "val_loss": NaN, "samples": NaN, "metrics": {"loss": Infinity, "acc": 0.5}}"#;
        assert_eq!(ignored(text), "samples=NaN val_loss=NaN loss=Infinity");
        assert_eq!(parse(text).metrics, [("acc".to_owned(), 0.5)].into());
    }

    #[test]
    fn a_line_without_a_whole_epoch_cannot_be_read() {
        let why = |text: &str| EpochLine::parse(text).expect_err("no line");
        assert_eq!(why(r#"{"epoch": 2.5}"#), "epoch is 2.5, no whole number");
        assert_eq!(why(r#"{"epoch": "2"}"#), "epoch is \"2\", no whole number");
        assert_eq!(why("[1]"), "it is no JSON object");
        assert_eq!(why("{'epoch': 2}"), "key must be a string");
        assert_eq!(parse(r#"{"other": 1, "epoch": null}"#).epoch, None);
    }
}
