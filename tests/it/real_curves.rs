//! Predictions and early stops on learning curves of small models (`tests/curves/make_curves.py`), and on others that
//! were made after all parameters were chosen (`make_fresh.py`); and on curves with plateaus (`make_plateaus.py`).

use std::collections::BTreeSet;

use hsched_model::{GoalMode, Stop, StopRule};
use hsched_plan::curve::{CurvePoint, Goal, MetricKind, behind, judge_running, predict};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

#[derive(Clone, Deserialize)]
struct Curve {
    family: String,
    data: String,
    setting: String,
    metric: String,
    mode: String,
    epochs: u64,
    /// Epochs at which the learning rate falls.
    steps: Vec<u64>,
    epoch_s: f64,
    diverged: bool,
    values: Vec<f64>,
}

impl Curve {
    fn reports(&self) -> Vec<CurvePoint> {
        (1..).zip(&self.values).map(|(epoch, &value)| CurvePoint { epoch, value }).collect()
    }

    /// Returns whether the training reached its last epoch; some diverge beyond the range of numbers.
    fn is_whole(&self) -> bool {
        self.values.len() as u64 == self.epochs
    }

    fn mode(&self) -> GoalMode {
        if self.mode == "min" { GoalMode::Min } else { GoalMode::Max }
    }

    fn is_better(&self, new: f64, old: f64) -> bool {
        if self.mode() == GoalMode::Min { new < old } else { new > old }
    }

    fn kind(&self) -> MetricKind {
        MetricKind::of(&self.metric)
    }

    fn goal(&self, target: Option<f64>) -> Goal {
        let min_reports = Goal::MIN_REPORTS;
        Goal {
            mode: self.mode(),
            kind: self.kind(),
            epochs: self.epochs,
            target,
            tolerance: None,
            min_reports,
        }
    }

    /// Returns the number of epochs after which a rule stops the training, if it does. The user knows when
    /// the learning rate falls, and lets the training continue until it has fallen for the last time.
    fn stops(&self, rule: StopRule, target: Option<f64>) -> Option<usize> {
        let not_before = self.steps.last().copied().unwrap_or(0);
        let stop = Stop { rule, not_before, give_up: true, ..Stop::default() };
        let (reports, goal) = (self.reports(), self.goal(target));
        let stops = |count: &usize| {
            judge_running(&reports[..*count], &goal, &stop, false).is_some_and(|verdict| verdict.stop)
        };
        (1..reports.len()).find(stops)
    }
}

/// Returns the curves on which the band and the required numbers of consecutive reports were chosen.
fn curves() -> Vec<Curve> {
    read(include_str!("../curves/real.jsonl"))
}

/// Returns curves of other models on other data, on which no parameter was chosen.
fn fresh() -> Vec<Curve> {
    read(include_str!("../curves/fresh.jsonl"))
}

/// Returns curves with plateaus, mostly at constant rates: one set to choose parameters, and one to measure.
fn plateaus() -> [Vec<Curve>; 2] {
    let (chosen, measured) =
        read(include_str!("../curves/plateaus.jsonl")).into_iter().partition(|curve| curve.data == "choose");
    [chosen, measured]
}

fn read(text: &str) -> Vec<Curve> {
    text.lines().map(|line| serde_json::from_str(line).expect("a curve")).collect()
}

#[expect(clippy::cast_precision_loss, reason = "some hundreds")]
fn share(part: usize, all: usize) -> f64 {
    part as f64 / all as f64
}

#[test]
fn the_curves_are_of_many_kinds() {
    let curves = curves();
    let families: BTreeSet<&str> = curves.iter().map(|curve| curve.family.as_str()).collect();
    let data: BTreeSet<&str> = curves.iter().map(|curve| curve.data.as_str()).collect();
    let diverged = curves.iter().filter(|curve| curve.diverged).count();
    let stepped = curves.iter().filter(|curve| !curve.steps.is_empty()).count();
    assert!(curves.len() >= 200 && families.len() >= 8 && data.len() >= 4);
    assert!(diverged >= 10 && stepped >= 10, "{diverged} diverged, {stepped} with steps");
}

/// Returns the fraction of last metrics within the band: over all curves that reach their last epoch, by half
/// of the families, and by the observed part of the curve.
fn held(curves: &[Curve]) -> (f64, [f64; 2], [f64; 3]) {
    let families: Vec<&String> =
        curves.iter().map(|curve| &curve.family).collect::<BTreeSet<_>>().into_iter().collect();
    // Results by half of the families, and by the observed part of the curve.
    let mut held = [[(0, 0); 3]; 2];
    for curve in curves.iter().filter(|curve| curve.is_whole()) {
        let half = families.iter().position(|family| **family == curve.family).expect("its family") % 2;
        for quarter in 1..=3 {
            let seen = (curve.values.len() * quarter).div_ceil(4).max(Goal::MIN_REPORTS);
            if seen >= curve.values.len() {
                continue;
            }
            let prediction =
                predict(&curve.reports()[..seen], curve.epochs, curve.kind()).expect("a prediction");
            assert!(
                prediction.mean >= 0.0 || curve.values[..seen].iter().any(|value| *value < 0.0),
                "{prediction:?}"
            );
            let (low, high) = prediction.band();
            let last = curve.values[curve.values.len() - 1];
            let (inside, all) = &mut held[half][quarter - 1];
            *inside += usize::from((low..=high).contains(&last));
            *all += 1;
        }
    }
    let sum = |cells: &mut dyn Iterator<Item = &(usize, usize)>| {
        let (inside, all) = cells.fold((0, 0), |sum, cell| (sum.0 + cell.0, sum.1 + cell.1));
        share(inside, all)
    };
    let whole = sum(&mut held.iter().flatten());
    let halves = [0, 1].map(|half| sum(&mut held[half].iter()));
    let quarters = [0, 1, 2].map(|quarter| sum(&mut held.iter().map(|half| &half[quarter])));
    println!("held {whole:.3}, by halves of the families {halves:.3?}, by quarters seen {quarters:.3?}");
    (whole, halves, quarters)
}

#[test]
fn nine_metrics_of_ten_are_within_the_band() {
    let (whole, halves, _) = held(&curves());
    for share in [whole].iter().chain(&halves) {
        assert!((0.85..=0.96).contains(share), "{share}");
    }
}

/// Returns the number of stops by the rule `best`, the number of wrong ones, and the fraction of the time
/// that is saved.
#[expect(clippy::cast_precision_loss, reason = "some hundreds")]
fn stopped(curves: &[Curve]) -> (usize, usize, f64) {
    let (mut stops, mut wrong, mut saved, mut time) = (0, 0, 0.0, 0.0);
    let (mut fewer, mut epochs) = (0, 0);
    for curve in curves {
        time += curve.epoch_s * curve.epochs as f64;
        epochs += curve.epochs;
        let Some(count) = curve.stops(StopRule::Best, None) else { continue };
        stops += 1;
        fewer += curve.epochs - count as u64;
        saved += curve.epoch_s * (curve.epochs - count as u64) as f64;
        let seen = &curve.values[..count];
        let (low, high) =
            (seen.iter().copied().fold(f64::MAX, f64::min), seen.iter().copied().fold(f64::MIN, f64::max));
        let (best, sign) = if curve.mode() == GoalMode::Min { (low, -1.0) } else { (high, 1.0) };
        let better = best + sign * 0.02 * (high - low);
        wrong +=
            usize::from(curve.is_whole() && curve.is_better(curve.values[curve.values.len() - 1], better));
    }
    let (part, saved) = (share(wrong, stops), saved / time);
    println!("{stops} of {} stop, {wrong} wrong ({part:.3}), {saved:.3} of the time saved", curves.len());
    println!("{fewer} of {epochs} epochs saved");
    (stops, wrong, saved)
}

#[test]
fn few_stops_are_wrong_and_much_is_saved() {
    let (stops, wrong, saved) = stopped(&curves());
    assert!(stops >= 100 && share(wrong, stops) <= 0.05 && saved >= 0.2);
}

/// Returns the number of abandoned targets, and the number of these that the last epoch would have reached.
fn given_up(curves: &[Curve]) -> (usize, usize) {
    let (mut given_up, mut wrong, mut out_of_reach, mut found) = (0, 0, 0, 0);
    for curve in curves.iter().filter(|curve| curve.is_whole()) {
        let last = curve.values[curve.values.len() - 1];
        let (first, way) = (curve.values[0], last - curve.values[0]);
        // The targets range from ones that are reached soon to unreachable ones.
        for part in [0.8, 0.95, 1.05, 1.2] {
            let target = first + way * part;
            let reached = |values: &[f64]| values.iter().any(|&value| !curve.is_better(target, value));
            if !curve.is_better(last, first) {
                continue;
            }
            out_of_reach += usize::from(!reached(&curve.values));
            let Some(count) = curve.stops(StopRule::Target, Some(target)) else { continue };
            if reached(&curve.values[..count]) {
                continue;
            }
            given_up += 1;
            // The rule abandoned a target that the last epoch would have reached.
            wrong += usize::from(!curve.is_better(target, last));
            found += usize::from(!reached(&curve.values));
        }
    }
    let part = share(wrong, given_up);
    println!("{given_up} given up, {wrong} wrong ({part:.3}); {found} of {out_of_reach} out of reach found");
    (given_up, wrong)
}

#[test]
fn few_targets_are_given_up_that_would_be_reached() {
    let (given_up, wrong) = given_up(&curves());
    assert!(given_up >= 50 && share(wrong, given_up) <= 0.05, "{given_up} {wrong}");
}

#[test]
fn what_was_chosen_on_some_curves_holds_on_others() {
    let curves = fresh();
    let families: BTreeSet<&str> = curves.iter().map(|curve| curve.family.as_str()).collect();
    assert!(curves.len() >= 60 && families.len() >= 12);
    let (whole, _, _) = held(&curves);
    let (stops, wrong, saved) = stopped(&curves);
    let (given_up, lost) = given_up(&curves);
    assert!((0.85..=0.95).contains(&whole), "{whole}");
    assert!(stops >= 30 && share(wrong, stops) <= 0.05 && saved > 0.0, "{wrong} of {stops}, {saved}");
    assert!(share(lost, given_up) <= 0.05, "{lost} of {given_up}");
}

#[test]
fn curves_with_plateaus_are_foretold_and_stopped_as_well() {
    for (curves, of) in plateaus().into_iter().zip(["chosen on", "measured"]) {
        println!("{of}:");
        let (whole, _, _) = held(&curves);
        let (stops, wrong, saved) = stopped(&curves);
        let (given_up, lost) = given_up(&curves);
        assert!(curves.len() >= 99 && (0.87..=0.95).contains(&whole), "{whole}");
        assert!(stops >= 25 && share(wrong, stops) <= 0.03 && saved > 0.1, "{wrong} of {stops}, {saved}");
        assert!(share(lost, given_up) <= 0.15, "{lost} of {given_up}");
    }
}

/// Prints the figures of docs/stopping.md for each schedule of the learning rate.
#[test]
#[ignore = "predicts all curves once more: tests/long runs it"]
fn curves_of_each_schedule_are_foretold() {
    let curves = plateaus().concat();
    for schedule in ["constant", "cosine", "linear", "warm-up"] {
        println!("{schedule}:");
        let is_of = |curve: &Curve| curve.setting.contains(&format!(", {schedule},"));
        let of_schedule: Vec<Curve> = curves.iter().filter(|curve| is_of(curve)).cloned().collect();
        let (whole, _, _) = held(&of_schedule);
        let (_, wrong, _) = stopped(&of_schedule);
        assert!(whole >= 0.8 && wrong <= 3, "{schedule}: {whole}, {wrong}");
    }
}

/// Returns the curves of an invented sweep: losses that fall as a power of the epoch, with noise.
fn sweep(seed: u64) -> Vec<Vec<CurvePoint>> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut from = |low: f64, high: f64| low + (high - low) * random.random::<f64>();
    let mut curve = |_| {
        let (end, fall, power, noise) = (from(0.1, 0.6), from(0.5, 2.0), from(0.3, 1.5), from(0.0, 0.01));
        (1_u32..=81)
            .map(|epoch| {
                let value = end + fall * f64::from(epoch).powf(-power) + from(-noise, noise);
                CurvePoint { epoch: epoch.into(), value }
            })
            .collect()
    };
    (0..27).map(&mut curve).collect()
}

fn lowest(curve: &[CurvePoint]) -> f64 {
    curve.iter().map(|report| report.value).fold(f64::INFINITY, f64::min)
}

/// Returns the number of epochs that each job of a sweep trains if all jobs train side by side, one epoch
/// at a time, until `stops` returns true for them.
fn trained(curves: &[Vec<CurvePoint>], stops: impl Fn(usize, &[&[CurvePoint]]) -> bool) -> Vec<usize> {
    let mut done = vec![0; curves.len()];
    let mut open: Vec<usize> = (0..curves.len()).collect();
    for epoch in 1..=81 {
        for &job in &open {
            done[job] = epoch;
        }
        let seen: Vec<&[CurvePoint]> =
            curves.iter().zip(&done).map(|(curve, done)| &curve[..*done]).collect();
        open.retain(|&job| !stops(job, &seen));
    }
    done
}

#[test]
fn halving_and_the_rule_best_on_the_same_sweeps() {
    // By rule: the fraction of all epochs that is trained, and by how much the best value found is worse than
    // the overall best.
    let (mut parts, mut losses) = ([0.0; 2], [0.0; 2]);
    for seed in 0..20 {
        let curves = sweep(seed);
        let best = curves.iter().map(|curve| lowest(curve)).fold(f64::INFINITY, f64::min);
        let halving = trained(&curves, |job, seen| {
            let others: Vec<&[CurvePoint]> = seen
                .iter()
                .enumerate()
                .filter(|(index, _)| *index != job)
                .map(|(_, points)| *points)
                .collect();
            behind(seen[job], &others, GoalMode::Min, (81, 0)).is_some()
        });
        let goal = Goal {
            mode: GoalMode::Min,
            kind: MetricKind::Loss,
            epochs: 81,
            target: None,
            tolerance: None,
            min_reports: Goal::MIN_REPORTS,
        };
        let rule = Stop { rule: StopRule::Best, ..Stop::default() };
        let alone = trained(&curves, |job, seen| {
            judge_running(seen[job], &goal, &rule, false).is_some_and(|verdict| verdict.stop)
        });
        for (number, done) in [halving, alone].iter().enumerate() {
            parts[number] += share(done.iter().sum(), 27 * 81) / 20.0;
            let found = curves.iter().zip(done).map(|(curve, done)| lowest(&curve[..*done]));
            losses[number] += (found.fold(f64::INFINITY, f64::min) - best) / 20.0;
        }
    }
    println!("trained {parts:.3?}, best found worse by {losses:.5?} (halving, best)");
    assert!(parts[0] < 0.2 * parts[1] && losses[0] < 0.05 && losses[1] < 0.02, "{parts:?} {losses:?}");
}
