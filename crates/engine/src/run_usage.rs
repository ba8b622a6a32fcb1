//! What the GPUs of a job were used for: time held and lost, energy, and cost in reference units.

use std::collections::BTreeMap;

use crate::{RunResult, RunSubmission};
use hsched_model::catalogue::{nominal_watts, reference_units};
use hsched_model::{GpuType, Time};

/// Seconds of an hour.
const HOUR: f64 = 3600.0;

/// The GPU time of one job or of several, and what came of it. What is not known is `None`, never 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuUsage {
    /// GPU hours held, by type.
    pub held: BTreeMap<GpuType, f64>,
    /// GPU hours without any work, as samples of the GPUs tell.
    pub idle: Option<f64>,
    /// GPU hours of submissions after which another one started, without the epochs that they finished.
    pub lost: Option<f64>,
    pub energy: Option<Energy>,
    /// RGU hours; `None` where a type has no reference units.
    pub reference_hours: Option<f64>,
}

/// Energy of GPUs alone, without their nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Energy {
    pub kilowatt_hours: f64,
    pub source: EnergySource,
    /// GPU hours of types whose power is unknown; they are not in it.
    pub missing: f64,
}

/// How an energy is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnergySource {
    /// Nominal power times time held: no measurement, and usually too high.
    Nominal,
}

impl EnergySource {
    /// Returns its name in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Nominal => "nominal",
        }
    }
}

impl GpuUsage {
    /// Returns the usage of a job until `now`.
    pub fn of(run: &RunResult, now: Time) -> Self {
        let held: BTreeMap<_, _> =
            run.gpu_s.iter().map(|(gpu_type, seconds)| (gpu_type.clone(), seconds / HOUR)).collect();
        Self { idle: None, lost: lost(run, now), ..Self::priced(held) }
    }

    /// Returns the usage of several jobs together. GPU time that is unknown for one of them is unknown for all that have held GPUs.
    pub fn sum(usages: &[&Self]) -> Self {
        let mut held = BTreeMap::new();
        for (gpu_type, hours) in usages.iter().flat_map(|usage| &usage.held) {
            *held.entry(gpu_type.clone()).or_default() += hours;
        }
        let has_held = |usage: &&&Self| usage.hours() > 0.0;
        let total =
            |of: fn(&Self) -> Option<f64>| usages.iter().filter(has_held).map(|usage| of(usage)).sum();
        Self { idle: total(|usage| usage.idle), lost: total(|usage| usage.lost), ..Self::priced(held) }
    }

    /// Returns the GPU hours of all types.
    pub fn hours(&self) -> f64 {
        self.held.values().sum()
    }

    /// Returns what follows from the time that GPUs were held.
    fn priced(held: BTreeMap<GpuType, f64>) -> Self {
        let units = |(gpu_type, hours): (&GpuType, &f64)| Some(reference_units(gpu_type)? * hours);
        let (mut energy, mut missing) = (None, 0.0);
        for (gpu_type, hours) in &held {
            match nominal_watts(gpu_type) {
                Some(watts) => *energy.get_or_insert(0.0) += watts * hours / 1000.0,
                None => missing += hours,
            }
        }
        let energy =
            energy.map(|kilowatt_hours| Energy { kilowatt_hours, source: EnergySource::Nominal, missing });
        let reference_hours = if held.is_empty() { None } else { held.iter().map(units).sum() };
        Self { held, idle: None, lost: None, energy, reference_hours }
    }
}

/// Returns the GPU hours that restarts cost: of each submission but the last one to start, the time that it held its GPUs without
/// the epochs that it finished. Starting up, the epoch that was cut, and saving are in it, as are epochs that were trained again.
fn lost(run: &RunResult, now: Time) -> Option<f64> {
    // What earlier versions kept does not say what was submitted.
    if run.submissions.is_empty() && run.gpu_hours() > 0.0 {
        return None;
    }
    let mut started: Vec<&RunSubmission> =
        run.submissions.iter().filter(|submission| submission.started.is_some()).collect();
    started.sort_by(|a, b| {
        let at = |submission: &RunSubmission| submission.started.map_or(0.0, |at| at.0);
        at(a).total_cmp(&at(b))
    });
    started.pop();
    let of_one = |submission: &RunSubmission| {
        let rest = (submission.held_s(now)? - submission.trained_s?).max(0.0);
        Some(rest * f64::from(submission.gpus.total()) / HOUR)
    };
    // A sum of nothing is -0.
    started.into_iter().map(of_one).sum::<Option<f64>>().map(|hours| hours + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that ran on two A100 from 0 to 600, was cut, and ran on one from 1000 on.
    const RUN: &str = r#"{"name": "a", "added": 0, "state": "running", "epochs_done": 5, "epochs": 9, "command": "x",
        "gpu_s": {"a100": 4800}, "submissions": [
        {"submitted": 0, "started": 0, "ended": 600, "end": "was preempted", "gpus": {"n": {"a100": 2}}, "epoch_s": 100,
         "epochs_before": 0, "epochs": 3, "trained_s": 420},
        {"submitted": 700, "started": 1000, "gpus": {"n": {"a100": 1}}, "epoch_s": 100, "epochs_before": 3, "epochs": 2}]}"#;

    fn usage(text: &str) -> GpuUsage {
        GpuUsage::of(&serde_json::from_str(text).expect("a result"), Time(4600.0))
    }

    #[test]
    fn what_restarts_cost_is_the_time_of_earlier_submissions_outside_of_epochs() {
        assert_eq!(usage(RUN).lost, Some(180.0 * 2.0 / 3600.0));
        assert_eq!(usage(&RUN.replace(r#", "trained_s": 420"#, "")).lost, None);
        // Epochs that took longer than the submission give nothing back.
        assert_eq!(usage(&RUN.replace("420", "900")).lost, Some(0.0));
        let single = RUN.replace(r#""started": 1000, "#, "");
        assert_eq!(usage(&single).lost, Some(0.0));
    }

    #[test]
    fn results_of_earlier_versions_do_not_say_what_was_lost() {
        let old = r#"{"name": "a", "added": 0, "state": "completed", "epochs_done": 5, "epochs": 5, "command": "x", "gpu_s": {"a100": 3600}}"#;
        let (old, new) = (usage(old), usage(RUN));
        assert_eq!((old.hours(), old.lost), (1.0, None));
        let all = GpuUsage::sum(&[&old, &new]);
        assert_eq!((all.hours(), all.lost, all.idle), (1.0 + 4800.0 / 3600.0, None, None));
        assert_eq!(GpuUsage::sum(&[&new, &GpuUsage::default()]).lost, new.lost);
    }

    #[test]
    fn energy_is_nominal_and_says_what_is_missing() {
        let text = RUN.replace(r#"{"a100": 4800}"#, r#"{"t4": 7200, "strange": 3600}"#);
        let energy = usage(&text).energy.expect("an energy");
        assert_eq!((energy.kilowatt_hours, energy.source.word(), energy.missing), (0.14, "nominal", 1.0));
        assert_eq!(usage(&text).reference_hours, None);
        assert_eq!(usage(&RUN.replace("4800", "3600")).reference_hours, Some(4.8));
    }
}
