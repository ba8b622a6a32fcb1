//! `hsched curve`: predicts a metric at the last epoch, and judges whether training until then is worthwhile.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::app::context::{Context, Format};
use crate::app::input;
use crate::app::named::WordParser;
use crate::commands::cli::{Subcommand, json_text, print};
use hsched_model::formats::history::{self, Case, History, TrainingLog};
use hsched_model::{ErrorId, GoalMode, Stop, StopRule};
use hsched_plan::curve::{
    CurvePoint, CurveVerdict, Goal, MetricKind, NoConclusion, Prediction, StopReason, judge, predict_at,
};
use hsched_ui::{CurvePicture, Exit, Failure, curve_svg, curve_text, wrap, write_output};

/// Predict a metric at the last epoch from a training log, and decide whether to stop
///
/// Reads CSV with a column `epoch`, JSON lines with `epoch` (such as hsched's reports), event files of `TensorBoard`,
/// and JSON with one curve (`mode`, `epochs`, `history`). Needs no cluster. The prediction does not account
/// for later changes of the learning rate: see docs/stopping.md.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Training log; - reads standard input.
    #[arg(value_name = "FILE", required_unless_present = "history")]
    file: Option<PathBuf>,
    /// Training log, the same as FILE.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    history: Option<PathBuf>,
    /// Metric to predict [default: the only one, else the loss].
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Whether a low (min) or a high (max) value is better [default: min for a loss or an error, else max].
    #[arg(long, value_parser = WordParser(&GoalMode::NAMES), value_name = "MODE")]
    mode: Option<GoalMode>,
    /// Total number of epochs [default: twice the epochs in the log].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    epochs: Option<u64>,
    /// Target value of the metric.
    #[arg(long, value_name = "VALUE", allow_negative_numbers = true, value_parser = finite)]
    target: Option<f64>,
    /// Early-stopping rule [default: target if --target is given, else best].
    #[arg(long, value_parser = WordParser(&StopRule::OF_CURVE), value_name = "RULE")]
    rule: Option<StopRule>,
    /// Stop after this many epochs without a better value.
    #[arg(long, value_name = "EPOCHS", value_parser = clap::value_parser!(u64).range(1..))]
    patience: Option<u64>,
    /// Probability that a prediction must reach to stop the training.
    #[arg(long, value_name = "P")]
    confidence: Option<f64>,
    /// Smallest improvement that counts, in the unit of the metric [default: 0.02 of the range seen].
    #[arg(long, value_name = "STEP", value_parser = zero_or_more)]
    tolerance: Option<f64>,
    /// Also stop when the target is out of reach.
    #[arg(long)]
    give_up: bool,
    /// Also write a chart to this file, as SVG.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

fn finite(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "must be a finite number".to_owned())
}

fn zero_or_more(text: &str) -> Result<f64, String> {
    finite(text).ok().filter(|number| *number >= 0.0).ok_or_else(|| "must be a number, 0 or more".to_owned())
}

/// A curve is not extrapolated beyond this multiple of the observed epochs, where every shape fits and no
/// prediction was ever verified.
const FAR: u64 = 100;

/// A curve with its goal.
struct CurveQuestion {
    metric: String,
    reports: Vec<CurvePoint>,
    goal: Goal,
    stop: Stop,
    busy: bool,
    notes: Vec<String>,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let asked = self.asked()?;
        let Some(verdict) = judge(&asked.reports, &asked.goal, &asked.stop, asked.busy) else {
            return Err(self.wrong("has no value of the metric"));
        };
        let picture = picture(&asked, &verdict);
        if let Some(path) = &self.svg {
            write_output(path, curve_svg(&picture)).map_err(|error| {
                Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
                    .id(ErrorId::FileUnwritable)
            })?;
        }
        let text = match self.format {
            Format::Json => json_text(&json(&asked, &verdict))?,
            Format::Table => {
                let mut text = curve_text(&picture, context.terminal.width());
                for line in sentences(&asked, &verdict).iter().chain(&asked.notes) {
                    text.push_str(&wrap(line, context.terminal.width(), "  "));
                    text.push('\n');
                }
                text
            }
        };
        print(context, &text)?;
        Ok(Exit::Done)
    }
}

impl Args {
    fn path(&self) -> PathBuf {
        self.file.as_ref().or(self.history.as_ref()).cloned().unwrap_or_default()
    }

    fn wrong(&self, what: &str) -> Failure {
        Failure::new(Exit::BadInput, format!("{}: {what}", input::name(&self.path()))).id(ErrorId::CurveFile)
    }

    /// Returns the curve, with options of the command line in place of the file's.
    fn asked(&self) -> Result<CurveQuestion, Failure> {
        let history =
            history::parse(&input::bytes(&self.path())?).map_err(|error| self.wrong(&error.to_string()))?;
        let mut asked = match history {
            History::Case(case) => self.of_case(&case)?,
            History::Log(log) => self.of_log(log)?,
        };
        let (goal, stop) = (&mut asked.goal, &mut asked.stop);
        let last = asked.reports.last().map_or(0, |report| report.epoch);
        if let Some(epochs) = self.epochs.filter(|epochs| *epochs < last) {
            return Err(self.wrong(&format!("is already at epoch {last}, beyond --epochs {epochs}")));
        }
        goal.epochs = self.epochs.unwrap_or(goal.epochs);
        goal.target = self.target.or(goal.target);
        goal.tolerance = self.tolerance.or(goal.tolerance);
        let farthest = last.saturating_mul(FAR);
        if goal.epochs > farthest && asked.reports.len() >= goal.min_reports {
            return Err(self
                .wrong(&format!("epoch {} is too far from epoch {last} for a prediction", goal.epochs))
                .hint(format!("give at most --epochs {farthest}, {FAR} times the epochs of the log")));
        }
        stop.rule = self.rule.unwrap_or(stop.rule);
        stop.patience = self.patience.or(stop.patience);
        stop.confidence = self.confidence.unwrap_or(stop.confidence);
        stop.give_up |= self.give_up;
        if !(0.5..1.0).contains(&stop.confidence) {
            return Err(
                self.wrong(&format!("confidence must be at least 0.5 and below 1, got {}", stop.confidence))
            );
        }
        Ok(asked)
    }

    fn of_case(&self, case: &Case) -> Result<CurveQuestion, Failure> {
        let rule = |key: &str, name: &Option<String>| match name.as_deref() {
            None => Ok(StopRule::Epochs),
            Some(name) => named(&StopRule::OF_CURVE, name)
                .ok_or_else(|| self.wrong(&format!("{key} must be epochs, best or target, got {name:?}"))),
        };
        let mode = named(&GoalMode::NAMES, &case.mode)
            .ok_or_else(|| self.wrong(&format!("mode must be min or max, got {:?}", case.mode)))?;
        let stop = Stop {
            rule: rule("rule", &case.rule)?,
            when_busy: rule("when_busy", &case.when_busy)?,
            patience: case.patience,
            not_before: case.not_before.unwrap_or(0),
            confidence: case.confidence.unwrap_or(Stop::default().confidence),
            brackets: 1,
            give_up: case.give_up,
        };
        Ok(CurveQuestion {
            metric: "metric".to_owned(),
            reports: reports(&case.history),
            goal: Goal {
                mode: self.mode.unwrap_or(mode),
                // The file does not name the metric.
                kind: MetricKind::Other,
                epochs: case.epochs,
                target: case.target,
                tolerance: case.tolerance,
                min_reports: case.min_reports.unwrap_or(Goal::MIN_REPORTS),
            },
            stop,
            busy: case.busy,
            notes: Vec::new(),
        })
    }

    fn of_log(&self, log: TrainingLog) -> Result<CurveQuestion, Failure> {
        let TrainingLog { metrics, mut notes } = log;
        let names: Vec<&str> = metrics.keys().map(String::as_str).collect();
        let metric = match &self.metric {
            Some(metric) => metric.as_str(),
            None => *usual(&names).ok_or_else(|| {
                self.wrong("has several metrics")
                    .hint(format!("choose one with --metric NAME: {}", names.join(", ")))
            })?,
        };
        let points = metrics.get(metric).ok_or_else(|| {
            self.wrong(&format!("has no metric {metric:?}")).hint(format!("it has: {}", names.join(", ")))
        })?;
        let last = points.last().map_or(1, |(epoch, _)| *epoch);
        let epochs = self.epochs.unwrap_or_else(|| {
            notes.push(format!(
                "assuming {} epochs in total, twice those of the log; give the real number with --epochs",
                2 * last
            ));
            2 * last
        });
        let mode = self.mode.unwrap_or_else(|| MetricKind::of(metric).usual_mode());
        let rule = if self.target.is_some() { StopRule::Target } else { StopRule::Best };
        Ok(CurveQuestion {
            metric: metric.to_owned(),
            reports: reports(points),
            goal: Goal {
                mode,
                kind: MetricKind::of(metric),
                epochs,
                target: self.target,
                tolerance: None,
                min_reports: Goal::MIN_REPORTS,
            },
            stop: Stop { rule, ..Stop::default() },
            busy: false,
            notes,
        })
    }
}

/// Returns the default metric: the only one, else the validation loss, else the loss.
fn usual<'a>(names: &'a [&'a str]) -> Option<&'a &'a str> {
    let known = ["val_loss", "loss/val", "loss/validation", "loss"];
    let only = if let [only] = names { Some(only) } else { None };
    only.or_else(|| known.iter().find_map(|known| names.iter().find(|name| name.eq_ignore_ascii_case(known))))
}

/// Parses a word of the file.
fn named<T: Copy>(words: &[(&str, T)], word: &str) -> Option<T> {
    words.iter().find(|(candidate, _)| *candidate == word).map(|(_, value)| *value)
}

fn reports(points: &[(u64, f64)]) -> Vec<CurvePoint> {
    points.iter().map(|&(epoch, value)| CurvePoint { epoch, value }).collect()
}

/// Returns the chart. The band has one point for each remaining epoch, or from 64 to 127 points if at least
/// 64 epochs remain.
fn picture<'a>(asked: &'a CurveQuestion, verdict: &CurveVerdict) -> CurvePicture<'a> {
    let (goal, last) = (&asked.goal, asked.reports.last().map_or(0, |report| report.epoch));
    let stride = (goal.epochs.saturating_sub(last) / 64).max(1);
    let step = usize::try_from(stride).unwrap_or(usize::MAX);
    let epochs = (last + 1..goal.epochs).step_by(step).chain([goal.epochs]);
    let at = |epoch: u64| {
        let prediction = predict_at(&asked.reports, goal.epochs, epoch, goal.kind)?;
        Some((epoch, prediction.mean, prediction.band()))
    };
    let is_known = verdict.prediction.is_some() && goal.epochs > last;
    CurvePicture {
        metric: &asked.metric,
        reports: &asked.reports,
        expected: if is_known { epochs.filter_map(at).collect() } else { Vec::new() },
        target: goal.target,
        epochs: goal.epochs.max(last),
    }
}

/// Describes the verdict in sentences.
fn sentences(asked: &CurveQuestion, verdict: &CurveVerdict) -> Vec<String> {
    let (goal, last) = (&asked.goal, asked.reports.last().map_or(0, |report| report.epoch));
    let best = verdict.best;
    let mut lines = vec![format!(
        "{} after {last} of {} epochs: best {} (epoch {})",
        asked.metric, goal.epochs, best.value, best.epoch
    )];
    lines.extend(verdict.prediction.as_ref().map(|prediction| expectation(prediction, goal.epochs)));
    lines.extend(unknown(asked, verdict));
    lines.extend(verdict.unsettled.map(too_early));
    let what = goal.target.filter(|_| verdict.rule == StopRule::Target);
    let what = what.map_or_else(|| "of a better value".to_owned(), |target| format!("of reaching {target}"));
    lines.extend(
        verdict.probability.map(|probability| format!("probability {what}: {:.1} %", probability * 100.0)),
    );
    let decision = if verdict.stop { "stop" } else { "continue" };
    lines.push(match verdict.reason {
        None => decision.to_owned(),
        Some(reason) => format!("{decision}: {reason}{}", meaning(reason, asked)),
    });
    lines
}

/// Returns the reason if there is no prediction.
fn unknown(asked: &CurveQuestion, verdict: &CurveVerdict) -> Option<String> {
    let (wanted, there) = (asked.goal.min_reports, asked.reports.len());
    verdict.prediction.is_none().then(|| {
        if there < wanted {
            format!("too few reports for a prediction, which needs {wanted}")
        } else {
            "no prediction: no curve fits these values".to_owned()
        }
    })
}

/// Returns why a low probability has no consequence.
fn too_early(unsettled: NoConclusion) -> String {
    match unsettled {
        NoConclusion::NotMoved => "the metric has hardly moved yet, so nothing is concluded from the prediction",
        NoConclusion::GoesOn => {
            "the prediction says that it is not worth training on, but the last trend would still bring what is asked for"
        }
    }
    .to_owned()
}

/// Returns an explanation in parentheses if the name of a reason is not sufficient.
fn meaning(reason: StopReason, asked: &CurveQuestion) -> String {
    match (reason, asked.stop.patience) {
        (StopReason::Patience, Some(epochs)) => format!(" (no better value in {epochs} epochs)"),
        (StopReason::Hopeless, _) => " (the target is out of reach)".to_owned(),
        _ => String::new(),
    }
}

fn expectation(prediction: &Prediction, epochs: u64) -> String {
    let (low, high) = prediction.band();
    format!("predicted at epoch {epochs}: {:.4} (90 % interval: {low:.4} to {high:.4})", prediction.mean)
}

fn json(asked: &CurveQuestion, verdict: &CurveVerdict) -> Value {
    let prediction = verdict.prediction.as_ref();
    json!({
        "schema": "hsched.curve/1",
        "metric": asked.metric,
        "epochs": asked.goal.epochs,
        "epochs_done": asked.reports.last().map(|report| report.epoch),
        "target": asked.goal.target,
        "rule": verdict.rule.name(),
        "best": verdict.best.value,
        "best_epoch": verdict.best.epoch,
        "predicted": prediction.map(|prediction| prediction.mean),
        "spread": prediction.map(|prediction| prediction.spread),
        "band": prediction.map(Prediction::band),
        "probability": verdict.probability,
        "decision": if verdict.stop { "stop" } else { "continue" },
        "reason": verdict.reason.map(|reason| reason.to_string()),
        "notes": unknown(asked, verdict).into_iter().chain(verdict.unsettled.map(too_early)).chain(asked.notes.clone()).collect::<Vec<_>>(),
    })
}
