//! Predictions and early stops on learning curves of small models, trained on data that scikit-learn ships
//! (`tests/curves/make_curves.py`).

use std::collections::BTreeSet;

use hsched::curve::{Goal, Report, judge_running, predict};
use hsched::model::{GoalMode, Stop, StopRule};
use serde::Deserialize;

#[derive(Deserialize)]
struct Curve {
    family: String,
    data: String,
    mode: String,
    epochs: u64,
    /// Epochs at which the learning rate falls.
    steps: Vec<u64>,
    epoch_s: f64,
    diverged: bool,
    values: Vec<f64>,
}

impl Curve {
    fn reports(&self) -> Vec<Report> {
        (1..).zip(&self.values).map(|(epoch, &value)| Report { epoch, value }).collect()
    }

    /// Returns whether the training came to its last epoch; some diverge until there are no numbers for it.
    fn is_whole(&self) -> bool {
        self.values.len() as u64 == self.epochs
    }

    fn mode(&self) -> GoalMode {
        if self.mode == "min" { GoalMode::Min } else { GoalMode::Max }
    }

    fn is_better(&self, new: f64, old: f64) -> bool {
        if self.mode() == GoalMode::Min { new < old } else { new > old }
    }

    fn goal(&self, target: Option<f64>) -> Goal {
        let min_reports = Goal::MIN_REPORTS;
        Goal { mode: self.mode(), epochs: self.epochs, target, tolerance: None, min_reports }
    }

    /// Returns after how many epochs it stops. Its owner knows when the learning rate falls, and lets it train until then.
    fn stops(&self, rule: StopRule, target: Option<f64>) -> Option<usize> {
        let not_before = self.steps.last().copied().unwrap_or(0);
        let stop = Stop { rule, not_before, give_up: true, ..Stop::default() };
        let (reports, goal) = (self.reports(), self.goal(target));
        let stops = |count: &usize| {
            judge_running(&reports[..*count], &goal, &stop, false).is_some_and(|own| own.stop)
        };
        (1..reports.len()).find(stops)
    }
}

fn curves() -> Vec<Curve> {
    let lines = include_str!("../curves/real.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).expect("a curve")).collect()
}

fn share(part: usize, all: usize) -> f64 {
    part as f64 / all as f64
}

#[test]
fn the_curves_are_of_many_kinds() {
    let curves = curves();
    let families: BTreeSet<&str> = curves.iter().map(|own| own.family.as_str()).collect();
    let data: BTreeSet<&str> = curves.iter().map(|own| own.data.as_str()).collect();
    let diverged = curves.iter().filter(|own| own.diverged).count();
    let stepped = curves.iter().filter(|own| !own.steps.is_empty()).count();
    assert!(curves.len() >= 200 && families.len() >= 8 && data.len() >= 4);
    assert!(diverged >= 10 && stepped >= 10, "{diverged} diverged, {stepped} with steps");
}

#[test]
fn nine_metrics_of_ten_are_within_the_band() {
    let curves = curves();
    let families: Vec<&String> =
        curves.iter().map(|own| &own.family).collect::<BTreeSet<_>>().into_iter().collect();
    // By half of the families, and by how much of the curve was seen.
    let mut held = [[(0, 0); 3]; 2];
    for curve in curves.iter().filter(|own| own.is_whole()) {
        let half = families.iter().position(|own| **own == curve.family).expect("its family") % 2;
        for quarter in 1..=3 {
            let seen = (curve.values.len() * quarter).div_ceil(4).max(Goal::MIN_REPORTS);
            if seen >= curve.values.len() {
                continue;
            }
            let own = predict(&curve.reports()[..seen], curve.epochs).expect("a prediction");
            let (low, high) = own.band();
            let last = curve.values[curve.values.len() - 1];
            let (inside, all) = &mut held[half][quarter - 1];
            *inside += usize::from((low..=high).contains(&last));
            *all += 1;
        }
    }
    let sum = |cells: &mut dyn Iterator<Item = &(usize, usize)>| {
        let (inside, all) = cells.fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
        share(inside, all)
    };
    let whole = sum(&mut held.iter().flatten());
    let halves = [0, 1].map(|half| sum(&mut held[half].iter()));
    let quarters = [0, 1, 2].map(|quarter| sum(&mut held.iter().map(|half| &half[quarter])));
    println!("held {whole:.3}, by halves of the families {halves:.3?}, by quarters seen {quarters:.3?}");
    for own in [whole].iter().chain(&halves) {
        assert!((0.85..=0.95).contains(own), "{own}");
    }
}

#[test]
fn few_stops_are_wrong_and_much_is_saved() {
    let curves = curves();
    let (mut stops, mut wrong, mut saved, mut time) = (0, 0, 0.0, 0.0);
    for curve in &curves {
        time += curve.epoch_s * curve.epochs as f64;
        let Some(count) = curve.stops(StopRule::Best, None) else { continue };
        stops += 1;
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
    assert!(stops >= 100 && part <= 0.05 && saved >= 0.2);
}

#[test]
fn few_targets_are_given_up_that_would_be_reached() {
    let (mut given_up, mut wrong, mut out_of_reach, mut found) = (0, 0, 0, 0);
    for curve in curves().iter().filter(|own| own.is_whole()) {
        let last = curve.values[curve.values.len() - 1];
        let (first, way) = (curve.values[0], last - curve.values[0]);
        // From what is reached soon to what never is.
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
            // Given up is what the last epoch would have had.
            wrong += usize::from(!curve.is_better(target, last));
            found += usize::from(!reached(&curve.values));
        }
    }
    let part = share(wrong, given_up);
    println!("{given_up} given up, {wrong} wrong ({part:.3}); {found} of {out_of_reach} out of reach found");
    assert!(given_up >= 50 && part <= 0.05, "{given_up} {part}");
}
