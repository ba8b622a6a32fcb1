//! Judges whether a job continues, by the rules of MLF-C.

use std::fmt;

use crate::curve::movement::Movement;
use crate::curve::{CurvePoint, MetricKind, Prediction, predict};
use hsched_model::number::to_usize;
use hsched_model::{GoalMode, Stop, StopRule};

/// The goal of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    pub mode: GoalMode,
    /// Kind of the metric.
    pub kind: MetricKind,
    /// The maximum number of epochs.
    pub epochs: u64,
    /// The sufficient value; without one, the rule `target` acts like `best`.
    pub target: Option<f64>,
    /// Minimum difference that counts as better, in the metric's unit; `None` means 2 % of the observed
    /// range.
    pub tolerance: Option<f64>,
    /// Minimum number of reports for a prediction.
    pub min_reports: usize,
}

impl Goal {
    /// Default minimum number of reports for a prediction.
    pub const MIN_REPORTS: usize = 6;
}

/// Why a job may stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The job has reached its target.
    Reached,
    /// Too many epochs passed without improvement.
    Patience,
    /// The job is unlikely to improve further.
    NothingToGain,
    /// The job is unlikely to reach its target.
    Hopeless,
}

/// Why a curve does not yet allow a conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoConclusion {
    /// The metric has hardly changed since the first report.
    NotMoved,
    /// At its recent pace, the metric would reach the required value.
    GoesOn,
}

/// The judgement on a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct CurveVerdict {
    /// The rule applied.
    pub rule: StopRule,
    pub best: CurvePoint,
    pub prediction: Option<Prediction>,
    /// Probability that the metric reaches the target, or, under the rule `best` or without a target value,
    /// improves on the best value, by the last epoch; `None` if no prediction was used.
    pub probability: Option<f64>,
    /// Why a sufficiently low probability has no consequence yet.
    pub unsettled: Option<NoConclusion>,
    pub stop: bool,
    /// Why the job stops, or would stop if the user allowed it.
    pub reason: Option<StopReason>,
}

impl CurveVerdict {
    /// Returns why the job stops, with numbers, such as `nothing to gain (best 0.78, expected 0.79 ± 0.01)`.
    pub fn why(&self) -> Option<String> {
        let reason = self.reason?;
        let Some(prediction) = &self.prediction else {
            return Some(format!("{reason} (best {})", four_digits(self.best.value)));
        };
        let places = decimals(prediction.spread);
        let numbers =
            [self.best.value, prediction.mean, prediction.spread].map(|number| format!("{number:.places$}"));
        let [best, mean, spread] = numbers;
        Some(format!("{reason} (best {best}, expected {mean} ± {spread})"))
    }
}

/// Returns a number with four significant digits.
fn four_digits(value: f64) -> String {
    let places = decimals(value.abs() / 1000.0);
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Returns the number of decimals that gives a spread one significant digit.
fn decimals(spread: f64) -> usize {
    let place = -libm::floor(libm::log10(spread));
    to_usize(place.clamp(0.0, 9.0))
}

/// Fraction of the observed range that counts as an improvement.
const BETTER: f64 = 0.02;

/// Judges a curve by the applicable rule; `None` before the first report. Reports are in epoch order.
pub fn judge(reports: &[CurvePoint], goal: &Goal, stop: &Stop, busy: bool) -> Option<CurveVerdict> {
    let (first, last) = (reports.first()?, reports.last()?);
    let better = |new: &CurvePoint, old: &CurvePoint| match goal.mode {
        GoalMode::Max => new.value > old.value,
        GoalMode::Min => new.value < old.value,
    };
    let best = *reports.iter().fold(first, |best, report| if better(report, best) { report } else { best });
    let enough = reports.len() >= goal.min_reports;
    let prediction = enough.then(|| predict(reports, goal.epochs, goal.kind)).flatten();
    let rule = stop.rule(busy);
    let mut verdict = CurveVerdict {
        rule,
        best,
        prediction,
        probability: None,
        unsettled: None,
        stop: false,
        reason: None,
    };
    let target = goal.target.filter(|_| rule == StopRule::Target);
    let reached = target.is_some_and(|target| !better(&CurvePoint { value: target, ..best }, &best));
    let waited = last.epoch.saturating_sub(best.epoch);
    if let StopRule::Epochs | StopRule::Halving = rule {
        return Some(verdict);
    }
    if reached {
        verdict.reason = Some(StopReason::Reached);
    } else if stop.patience.is_some_and(|patience| waited >= patience) {
        verdict.reason = Some(StopReason::Patience);
    } else if let Some(prediction) = &verdict.prediction {
        let wanted = target.unwrap_or_else(|| beaten(best.value, reports, goal));
        let probability = match goal.mode {
            GoalMode::Max => prediction.at_least(wanted),
            GoalMode::Min => prediction.at_most(wanted),
        };
        let reason = if target.is_some() { StopReason::Hopeless } else { StopReason::NothingToGain };
        if probability < 1.0 - stop.confidence {
            verdict.unsettled = unsettled(reports, goal, wanted);
            verdict.reason = verdict.unsettled.is_none().then_some(reason);
        }
        verdict.probability = Some(probability);
    }
    let allowed =
        last.epoch >= stop.not_before && (verdict.reason != Some(StopReason::Hopeless) || stop.give_up);
    verdict.stop = verdict.reason.is_some() && allowed;
    Some(verdict)
}

/// Returns the verdict on a running job. Unlike in [`judge`], a conclusion from a prediction must hold for
/// several consecutive reports.
///
/// The prediction is evaluated after every epoch, and with many evaluations a false conclusion is more likely
/// than with one.
pub fn judge_running(reports: &[CurvePoint], goal: &Goal, stop: &Stop, busy: bool) -> Option<CurveVerdict> {
    let verdict = judge(reports, goal, stop, busy)?;
    let times = match verdict.reason {
        Some(StopReason::NothingToGain) => 3,
        Some(StopReason::Hopeless) => 5,
        Some(StopReason::Reached | StopReason::Patience) | None => 1,
    };
    let before = |back: usize| {
        let earlier = reports.get(..reports.len().saturating_sub(back))?;
        judge(earlier, goal, stop, busy)?.reason
    };
    if (1..times).all(|back| before(back) == verdict.reason) {
        return Some(verdict);
    }
    Some(CurveVerdict { stop: false, reason: None, ..verdict })
}

/// Returns why no conclusion is possible yet about a metric that should reach `wanted`; `None` if one is
/// possible.
fn unsettled(reports: &[CurvePoint], goal: &Goal, wanted: f64) -> Option<NoConclusion> {
    let movement = Movement::of(reports, goal.kind)?;
    let end = movement.continued_to(goal.epochs);
    let falls_short = match goal.mode {
        GoalMode::Max => end < wanted,
        GoalMode::Min => end > wanted,
    };
    if !movement.has_moved() {
        Some(NoConclusion::NotMoved)
    } else if falls_short {
        None
    } else {
        Some(NoConclusion::GoesOn)
    }
}

/// Returns the value that improves on the best one by the minimum difference.
fn beaten(best: f64, reports: &[CurvePoint], goal: &Goal) -> f64 {
    let range = Movement::of(reports, goal.kind).map_or(0.0, |movement| movement.range);
    let step = goal.tolerance.unwrap_or(BETTER * range);
    match goal.mode {
        GoalMode::Max => best + step,
        GoalMode::Min => best - step,
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reached => "reached",
            Self::Patience => "patience",
            Self::NothingToGain => "nothing to gain",
            Self::Hopeless => "hopeless",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(values: &[f64]) -> Vec<CurvePoint> {
        (1..).zip(values).map(|(epoch, &value)| CurvePoint { epoch, value }).collect()
    }

    fn goal(mode: GoalMode, epochs: u64, target: Option<f64>) -> Goal {
        Goal {
            mode,
            kind: MetricKind::Other,
            epochs,
            target,
            tolerance: None,
            min_reports: Goal::MIN_REPORTS,
        }
    }

    fn near(actual: Option<f64>, expected: f64) {
        assert!(
            actual.is_some_and(|actual| (actual - expected).abs() < 1e-8),
            "{actual:?} is not {expected}"
        );
    }

    fn check(
        verdict: &CurveVerdict,
        (mean, spread, probability): (f64, f64, f64),
        stop: bool,
        reason: Option<StopReason>,
    ) {
        near(verdict.prediction.as_ref().map(|prediction| prediction.mean), mean);
        near(verdict.prediction.as_ref().map(|prediction| prediction.spread), spread);
        if probability > 0.0 {
            near(verdict.probability, probability);
        }
        assert_eq!((verdict.stop, verdict.reason), (stop, reason));
    }

    const RISING: [f64; 10] = [0.42, 0.55, 0.62, 0.665, 0.70, 0.722, 0.74, 0.755, 0.765, 0.775];
    const LEVEL: [f64; 10] = [0.50, 0.60, 0.64, 0.66, 0.67, 0.675, 0.678, 0.680, 0.681, 0.682];
    const FALLEN: [f64; 18] = [
        1.0, 0.60, 0.40, 0.31, 0.26, 0.235, 0.222, 0.216, 0.213, 0.211, 0.2105, 0.2102, 0.2101, 0.2103,
        0.2100, 0.2102, 0.2101, 0.2100,
    ];

    #[test]
    fn numbers_have_four_digits_that_count() {
        let shown = [8.482_653_617_858_887, 0.000_123_456, 1234.56, 0.5, 0.0, -2.0].map(four_digits);
        assert_eq!(shown, ["8.483", "0.0001235", "1235", "0.5", "0", "-2"]);
    }

    #[test]
    fn one_that_may_reach_its_target_goes_on() {
        let stop = Stop { rule: StopRule::Target, ..Stop::default() };
        let verdict = judge(&reports(&RISING), &goal(GoalMode::Max, 40, Some(0.83)), &stop, false);
        check(
            &verdict.expect("a verdict"),
            (0.864_635_565_1, 0.043_609_050_53, 0.846_410_649_7),
            false,
            None,
        );
    }

    #[test]
    fn one_that_will_not_is_given_up_if_its_owner_allows_it() {
        let goal = goal(GoalMode::Max, 20, Some(0.90));
        for give_up in [true, false] {
            let stop = Stop { rule: StopRule::Target, give_up, ..Stop::default() };
            let verdict = judge(&reports(&LEVEL), &goal, &stop, false).expect("a verdict");
            check(&verdict, (0.690_425_491_7, 0.008_501_468_813, 0.0), give_up, Some(StopReason::Hopeless));
        }
    }

    #[test]
    fn one_with_nothing_to_gain_stops_when_others_wait() {
        let stop = Stop { when_busy: StopRule::Best, ..Stop::default() };
        let verdict = |stop: &Stop, busy| {
            judge(&reports(&FALLEN), &goal(GoalMode::Min, 24, None), stop, busy).expect("a verdict")
        };
        let judged = verdict(&stop, true);
        let expected = (0.209_583_903_8, 0.003_538_132_227, 0.004_376_930_504);
        check(&judged, expected, true, Some(StopReason::NothingToGain));
        assert_eq!((judged.rule, judged.best), (StopRule::Best, CurvePoint { epoch: 15, value: 0.21 }));
        assert_eq!(judged.why().as_deref(), Some("nothing to gain (best 0.210, expected 0.210 ± 0.004)"));
        let free = verdict(&stop, false);
        assert_eq!((free.rule, free.stop, free.probability), (StopRule::Epochs, false, None));
        let patient = Stop { patience: Some(3), ..stop.clone() };
        assert_eq!(verdict(&patient, true).reason, Some(StopReason::Patience));
        let late = Stop { not_before: 20, ..stop };
        assert!(!verdict(&late, true).stop);
    }

    #[test]
    fn a_running_job_stops_when_several_reports_say_so() {
        let stop = Stop { rule: StopRule::Best, ..Stop::default() };
        let goal = goal(GoalMode::Min, 24, None);
        let first = |judge: fn(&[CurvePoint], &Goal, &Stop, bool) -> Option<CurveVerdict>| {
            (1..=FALLEN.len()).find(|&count| {
                judge(&reports(&FALLEN[..count]), &goal, &stop, false).is_some_and(|verdict| verdict.stop)
            })
        };
        let (alone, running) = (first(judge).expect("stops"), first(judge_running).expect("stops"));
        assert!(running >= alone + 2, "{alone} {running}");
    }

    #[test]
    fn the_target_comes_first_and_without_a_value_it_is_the_best() {
        let stop = Stop { rule: StopRule::Target, patience: Some(1), ..Stop::default() };
        let judged = |target| judge(&reports(&FALLEN), &goal(GoalMode::Min, 24, target), &stop, false);
        let reached = judged(Some(0.21)).expect("a verdict");
        assert_eq!((reached.reason, reached.probability), (Some(StopReason::Reached), None));
        assert_eq!(judged(None).expect("a verdict").reason, Some(StopReason::Patience));
    }

    #[test]
    fn little_is_said_of_little() {
        let stop = Stop { rule: StopRule::Best, ..Stop::default() };
        let goal = goal(GoalMode::Max, 40, None);
        assert_eq!(judge(&[], &goal, &stop, false), None);
        let verdict = judge(&reports(&RISING[..5]), &goal, &stop, false).expect("a verdict");
        assert_eq!((verdict.prediction, verdict.probability, verdict.stop), (None, None, false));
    }

    #[test]
    fn one_that_has_not_moved_or_still_goes_on_is_never_stopped() {
        let stop = Stop { rule: StopRule::Best, ..Stop::default() };
        let verdict = |values: &[f64], epochs, kind| {
            let goal = Goal { kind, ..goal(GoalMode::Min, epochs, None) };
            judge(&reports(values), &goal, &stop, false).expect("a verdict")
        };
        // A plateau that rises slightly, alone and after a drop.
        let plateau: Vec<f64> = (0..20).map(|x| 2.3 + 0.01 * f64::from(x)).collect();
        let judged = verdict(&plateau[..16], 24, MetricKind::Loss);
        assert!(judged.probability.is_some_and(|probability| probability < 0.05), "{judged:?}");
        assert_eq!(
            (judged.stop, judged.reason, judged.unsettled),
            (false, None, Some(NoConclusion::NotMoved))
        );
        let fallen: Vec<f64> = [5.0, 3.0, 2.4].iter().chain(&plateau).copied().collect();
        let judged = verdict(&fallen, 24, MetricKind::Loss);
        assert_eq!((judged.reason, judged.unsettled), (Some(StopReason::NothingToGain), None));
        // Every shape levels off, but this curve falls by 0.01 per epoch.
        let steady: Vec<f64> =
            (0..30).map(|x: i32| 1.0 / f64::from(x + 1).powi(2) + 0.5 - 0.01 * f64::from(x)).collect();
        assert_eq!(verdict(&steady, 90, MetricKind::Loss).reason, None);
    }

    #[test]
    fn the_kind_changes_no_prediction_that_was_possible() {
        for (values, mode, kind, epochs) in [
            (&LEVEL[..], GoalMode::Max, MetricKind::Share, 20),
            (&FALLEN[..], GoalMode::Min, MetricKind::Loss, 24),
        ] {
            let mean = |kind| {
                let goal = Goal { kind, ..goal(mode, epochs, None) };
                let verdict = judge(&reports(values), &goal, &Stop::default(), false);
                verdict.expect("a verdict").prediction.expect("a prediction").mean
            };
            assert!((mean(kind) - mean(MetricKind::Other)).abs() < 1e-12);
        }
    }
}
