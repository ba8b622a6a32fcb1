//! Metrics by epoch, from training logs: CSV, JSON lines, `TensorBoard` event files, or a single JSON object
//! with one curve and its rule.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::event_file;
use super::loose;
use super::problem::ValueError;
use crate::ErrorId;
use crate::number::to_u64;

/// Names of columns or keys that count epochs.
const EPOCHS: [&str; 2] = ["epoch", "epochs"];
/// Names of columns or keys that count steps; the values of a log without epochs are renumbered from 1.
const STEPS: [&str; 3] = ["step", "global_step", "iteration"];

/// The metrics of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainingLog {
    /// Metrics by name, each in epoch order, with epochs from 1; the last value of an epoch counts.
    pub metrics: BTreeMap<String, Vec<(u64, f64)>>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// One curve with its goal.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Case {
    pub mode: String,
    pub epochs: u64,
    pub history: Vec<(u64, f64)>,
    pub rule: Option<String>,
    pub when_busy: Option<String>,
    #[serde(default)]
    pub busy: bool,
    pub target: Option<f64>,
    pub patience: Option<u64>,
    pub not_before: Option<u64>,
    #[serde(default)]
    pub give_up: bool,
    pub confidence: Option<f64>,
    pub tolerance: Option<f64>,
    pub min_reports: Option<usize>,
}

/// The content of a file with curves.
#[derive(Clone, Debug, PartialEq)]
pub enum History {
    Case(Box<Case>),
    Log(TrainingLog),
}

/// Parses a file of any of these kinds.
///
/// # Errors
/// If it has none of these formats, is damaged, or has no readable data.
pub fn parse(bytes: &[u8]) -> Result<History, ValueError> {
    let log = if event_file::is_event_file(bytes) {
        numbered(event_file::parse(bytes)?, "steps")
    } else {
        let text = std::str::from_utf8(bytes).map_err(|_| {
            ValueError::new("is neither UTF-8 text nor a TensorBoard event file").id(ErrorId::CurveFile)
        })?;
        match text.trim_start() {
            "" => return Err(ValueError::new("is empty").id(ErrorId::CurveFile)),
            json if json.starts_with('{') => match serde_json::from_str::<Json>(json) {
                Ok(value) if value.get("history").is_some() => {
                    let case = serde_json::from_value(value).map_err(|error| {
                        ValueError::new(format!("is not a valid curve: {error}")).id(ErrorId::CurveFile)
                    })?;
                    return checked(case).map(|case| History::Case(Box::new(case)));
                }
                _ => json_lines(text)?,
            },
            _ => csv(text)?,
        }
    };
    if log.metrics.is_empty() {
        return Err(ValueError::new("has no numeric metric").id(ErrorId::CurveFile));
    }
    Ok(History::Log(log))
}

/// Checks that a case has epochs to train, and that the epochs of its history are at least 1 and increase.
fn checked(case: Case) -> Result<Case, ValueError> {
    let rises = case.history.windows(2).all(|pair| pair[0].0 < pair[1].0);
    if case.epochs == 0 || !rises || case.history.iter().any(|(epoch, _)| *epoch == 0) {
        return Err(ValueError::new("epochs must increase from 1").id(ErrorId::CurveFile));
    }
    Ok(case)
}

/// Keys of a rank's report other than metrics.
const OF_REPORTS: [&str; 11] = [
    "epoch",
    "rank",
    "samples",
    "compute_s",
    "epoch_s",
    "step_s",
    "batch",
    "micro_batch",
    "shares",
    "probe",
    "max_memory",
];

/// Returns the metrics of a report line outside its key `metrics`: all numbers except the report's own keys
/// and counters of epochs or steps.
pub fn beside(line: &Map<String, Json>) -> impl Iterator<Item = (&str, f64)> {
    let is_own = |name: &str| OF_REPORTS.contains(&name) || counts(name);
    line.iter().filter(move |(name, _)| !is_own(name)).filter_map(number)
}

fn number<'a>((name, value): (&'a String, &Json)) -> Option<(&'a str, f64)> {
    let number = value.as_f64().or_else(|| loose::is_not_finite(value).then_some(f64::NAN));
    Some((name.as_str(), number?))
}

/// Returns whether a name is a counter of epochs or steps.
fn counts(name: &str) -> bool {
    [&EPOCHS[..], &STEPS].concat().contains(&name.to_ascii_lowercase().as_str())
}

/// Reads one object per line: `epoch` or `step`, with metrics beside it or under `metrics`, as in ranks'
/// reports. Other lines are skipped.
fn json_lines(text: &str) -> Result<TrainingLog, ValueError> {
    let mut rows = Rows::default();
    let mut unread = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let Ok(Json::Object(object)) = loose::parse(line) else {
            unread += 1;
            continue;
        };
        let inner = object.get("metrics").and_then(Json::as_object).into_iter().flatten();
        let place = object.iter().filter(|(name, _)| counts(name)).filter_map(number);
        // If a name is in both places, the value under `metrics` counts.
        rows.add(place.chain(beside(&object)).chain(inner.filter_map(number)));
    }
    rows.log(unread)
}

/// Reads a table with a header; empty cells are skipped, and other non-numbers count as NaN.
fn csv(text: &str) -> Result<TrainingLog, ValueError> {
    let mut reader =
        csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(text.as_bytes());
    let headings =
        reader.headers().map_err(|error| ValueError::new(error.to_string()).id(ErrorId::CurveFile))?.clone();
    let mut rows = Rows::default();
    let mut unread = 0;
    for record in reader.records() {
        let Ok(record) = record else {
            unread += 1;
            continue;
        };
        let cells = headings.iter().zip(record.iter());
        let told = cells.filter(|(_, cell)| !cell.is_empty());
        rows.add(told.map(|(name, cell)| (name, cell.parse().unwrap_or(f64::NAN))));
    }
    rows.log(unread)
}

/// Numbers by name, row by row.
#[derive(Default)]
struct Rows {
    by_epoch: BTreeMap<String, Vec<(u64, f64)>>,
    by_step: BTreeMap<String, Vec<(u64, f64)>>,
    /// Number of non-finite values, by name.
    odd: BTreeMap<String, usize>,
    first: Option<u64>,
}

impl Rows {
    /// Adds a row; a row without epoch or step is skipped.
    fn add<'a>(&mut self, cells: impl Iterator<Item = (&'a str, f64)>) {
        let (cells, odd): (Vec<_>, Vec<_>) = cells.partition(|(_, number)| number.is_finite());
        for (name, _) in odd {
            *self.odd.entry(name.to_owned()).or_default() += 1;
        }
        let place = |names: &[&str]| {
            cells
                .iter()
                .find(|(name, _)| names.contains(&name.to_ascii_lowercase().as_str()))
                .and_then(|cell| whole(cell.1))
        };
        let (epoch, step) = (place(&EPOCHS), place(&STEPS));
        let Some((number, series)) = (match (epoch, step) {
            (Some(epoch), _) => Some((epoch, &mut self.by_epoch)),
            (None, Some(step)) => Some((step, &mut self.by_step)),
            (None, None) => None,
        }) else {
            return;
        };
        self.first = self.first.into_iter().chain(epoch).min();
        for (name, value) in cells.into_iter().filter(|(name, _)| !counts(name)) {
            series.entry(name.to_owned()).or_default().push((number, value));
        }
    }

    fn log(mut self, unread: usize) -> Result<TrainingLog, ValueError> {
        if self.by_epoch.is_empty() && self.by_step.is_empty() {
            let error = ValueError::new("has no rows with an epoch and a number").id(ErrorId::CurveFile);
            return Err(
                error.hint("a log is CSV with a column epoch, or a JSON object with epoch on each line")
            );
        }
        let odd = std::mem::take(&mut self.odd);
        let mut log = if self.by_epoch.is_empty() { numbered(self.by_step, "steps") } else { self.epochs() };
        // A column without any number is not a metric.
        for (name, count) in odd.iter().filter(|(name, _)| log.metrics.contains_key(*name)) {
            let note = format!("skipped values of {name} that are not finite numbers: {count}");
            log.notes.push(note);
        }
        if unread > 0 {
            log.notes.push(format!("skipped lines that cannot be read: {unread}"));
        }
        Ok(log)
    }

    /// Returns the metrics by epoch; a log that counts from 0 is shifted to count from 1.
    fn epochs(self) -> TrainingLog {
        let shift = u64::from(self.first == Some(0));
        let mut log = TrainingLog::default();
        for (name, points) in self.by_epoch {
            let last: BTreeMap<u64, f64> =
                points.into_iter().map(|(epoch, value)| (epoch + shift, value)).collect();
            log.metrics.insert(name, last.into_iter().collect());
        }
        log
    }
}

/// Returns series by step with their points numbered from 1, because the number of steps per epoch is
/// unknown.
fn numbered(series: BTreeMap<String, Vec<(u64, f64)>>, what: &str) -> TrainingLog {
    let mut log = TrainingLog {
        notes: vec![format!("the log counts {what}: its n-th value counts as epoch n")],
        ..TrainingLog::default()
    };
    for (name, points) in series {
        let by_step: BTreeMap<u64, f64> = points.into_iter().filter(|(_, value)| value.is_finite()).collect();
        if !by_step.is_empty() {
            log.metrics.insert(name, (1..).zip(by_step.into_values()).collect());
        }
    }
    log
}

/// Returns a number if it is a valid counter.
fn whole(number: f64) -> Option<u64> {
    let is_whole = number.fract() == 0.0 && (0.0..1e12).contains(&number);
    is_whole.then_some(to_u64(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_that_diverged_spoils_no_other_value() {
        let log =
            log("{\"epoch\": 1, \"loss\": 0.5, \"acc\": 1}\n{\"epoch\": 2, \"loss\": NaN, \"acc\": 2}\n");
        assert_eq!((log.metrics["loss"].len(), log.metrics["acc"].len()), (1, 2));
        assert_eq!(log.notes, ["skipped values of loss that are not finite numbers: 1"]);
    }

    fn log(text: &str) -> TrainingLog {
        match parse(text.as_bytes()) {
            Ok(History::Log(log)) => log,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_table_is_read_by_its_header() {
        let parsed = log(
            "Epoch, loss, lr, note\n0, 2.5, 0.1, warm\n1, 1.5, 0.1, \n1, 1.25, 0.1, again\n2, nan, 0.01, x\n",
        );
        assert_eq!(parsed.metrics["loss"], [(1, 2.5), (2, 1.25)]);
        assert_eq!(parsed.metrics["lr"].len(), 3);
        assert!(!parsed.metrics.contains_key("note"));
        assert_eq!(parsed.notes, ["skipped values of loss that are not finite numbers: 1"]);
    }

    #[test]
    fn lines_of_json_are_reports_or_flat() {
        let parsed = log(
            "{\"rank\": 0, \"probe\": []}\n{\"epoch\": 1, \"metrics\": {\"loss\": 0.7}}\nnonsense\n{\"epoch\": 2, \"loss\": 0.5}\n",
        );
        assert_eq!(parsed.metrics["loss"], [(1, 0.7), (2, 0.5)]);
        assert_eq!(parsed.notes, ["skipped lines that cannot be read: 1"]);
        let steps = log("{\"step\": 100, \"acc\": 0.1}\n{\"step\": 200, \"acc\": 0.2}\n");
        assert_eq!(steps.metrics["acc"], [(1, 0.1), (2, 0.2)]);
    }

    #[test]
    fn a_report_has_its_metrics_beside_and_under_metrics() {
        let parsed = log(
            "{\"epoch\": 1, \"rank\": 0, \"samples\": 9, \"compute_s\": 1.5, \"val_loss\": 0.3, \"lr\": 9, \"metrics\": {\"lr\": 0.1}}\n",
        );
        let firsts: Vec<_> =
            parsed.metrics.iter().map(|(name, points)| (name.as_str(), points[0].1)).collect();
        assert_eq!(firsts, [("lr", 0.1), ("val_loss", 0.3)]);
    }

    #[test]
    fn what_is_no_log_is_refused() {
        let check = |text: &str, expected: &str| {
            let error = parse(text.as_bytes()).expect_err(text);
            assert!(error.message.contains(expected), "{error:?}");
        };
        check(" \n", "is empty");
        check("a,b\n1,2\n", "no rows with an epoch");
        check("{\"history\": [[1, 0.5]]}", "missing field `mode`");
        check("{\"mode\": \"max\", \"epochs\": 9, \"history\": [[2, 0.5], [1, 0.5]]}", "increase from 1");
        assert!(parse(&[0xff, 0xfe, 0x00]).is_err());
        // An event file that has only begun: the length of its first record.
        let begun = parse(&[0, 0, 0, 0, 0, 0, 0, 0, 41, 3, 152, 7]).expect_err("no metric");
        assert_eq!(begun.message, "has no numeric metric");
        assert_eq!(numbered([("loss".to_owned(), vec![(1, f64::NAN)])].into(), "steps").metrics.len(), 0);
    }

    #[test]
    fn a_case_says_all_that_is_asked_of_its_curve() {
        let text =
            r#"{"mode": "max", "epochs": 9, "history": [[1, 0.5], [2, 0.75]], "rule": "best", "busy": true}"#;
        let Ok(History::Case(case)) = parse(text.as_bytes()) else { panic!("no case") };
        assert_eq!((case.epochs, case.rule.as_deref(), case.busy), (9, Some("best"), true));
    }
}
