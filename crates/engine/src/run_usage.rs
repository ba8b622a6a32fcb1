//! How the GPUs of a job were used: time held and lost, energy, and cost in reference units.

use std::collections::BTreeMap;

use crate::{RunResult, RunSubmission};
use hsched_model::catalogue::{nominal_watts, reference_units};
use hsched_model::{GpuType, Time};

/// Seconds per hour.
const HOUR: f64 = 3600.0;

/// The GPU time of one or several jobs, and its cost. Unknown values are `None`, never 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuUsage {
    /// GPU hours held, by type.
    pub held: BTreeMap<GpuType, f64>,
    /// GPU hours with known utilisation from samples.
    pub sampled: f64,
    /// Idle part of the sampled hours; `None` without samples.
    pub idle: Option<f64>,
    /// GPU hours of submissions that were followed by another one, minus the time of the epochs that they
    /// finished.
    pub lost: Option<f64>,
    pub energy: Option<Energy>,
    /// RGU hours; `None` if no GPU was held or a type has no reference units.
    pub reference_hours: Option<f64>,
    /// The amount that the partitions billed; `None` unless it is known for all held GPUs.
    pub billed_hours: Option<f64>,
}

/// Energy of the GPUs alone, without the rest of their nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Energy {
    /// Kilowatt-hours from sampled power, averaged over each submission.
    pub measured: f64,
    /// Kilowatt-hours from nominal power, for submissions without sampled power.
    pub nominal: f64,
    /// GPU hours of types with unknown power, which the energy excludes.
    pub missing: f64,
}

/// The source of an energy value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnergySource {
    /// Mean sampled power times time held.
    Samples,
    /// Nominal power times time held: an estimate, usually too high.
    Nominal,
    /// For some submissions from samples, for others from nominal power.
    Mixed,
}

impl EnergySource {
    /// Returns the name of the source in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Nominal => "nominal",
            Self::Mixed => "mixed",
        }
    }
}

impl Energy {
    /// Returns the total of the known parts.
    pub fn kilowatt_hours(&self) -> f64 {
        self.measured + self.nominal
    }

    /// Returns the source of the value.
    pub fn source(&self) -> EnergySource {
        match (self.measured > 0.0, self.nominal > 0.0) {
            (true, false) => EnergySource::Samples,
            (true, true) => EnergySource::Mixed,
            (false, _) => EnergySource::Nominal,
        }
    }

    /// Adds GPU hours of a type without measured power.
    fn add_nominal(&mut self, gpu_type: &GpuType, hours: f64) {
        match nominal_watts(gpu_type) {
            Some(watts) => self.nominal += watts * hours / 1000.0,
            None => self.missing += hours,
        }
    }

    /// Returns the energy, or `None` if no part of it is known.
    fn known(self) -> Option<Self> {
        (self.kilowatt_hours() > 0.0).then_some(self)
    }
}

impl GpuUsage {
    /// Returns the usage of a job until `now`.
    pub fn of(run: &RunResult, now: Time) -> Self {
        let held: BTreeMap<_, _> =
            run.gpu_s.iter().map(|(gpu_type, seconds)| (gpu_type.clone(), seconds / HOUR)).collect();
        let sampled =
            run.submissions.iter().map(|submission| submission.sampled.sampled.0).sum::<f64>() / HOUR;
        let idle = run.submissions.iter().map(|submission| submission.sampled.idle.0).sum::<f64>() / HOUR;
        Self {
            sampled,
            idle: (sampled > 0.0).then_some(idle),
            lost: lost(run, now),
            energy: energy(run, &held, now),
            billed_hours: billed(run, now),
            reference_hours: reference_hours(&held),
            held,
        }
    }

    /// Returns the usage of several jobs together. Idle time and energy cover the jobs for which they are
    /// known. Any other value is unknown if it is unknown for one of the jobs that have held GPUs.
    pub fn sum(usages: &[&Self]) -> Self {
        let (mut held, mut energy) = (BTreeMap::new(), Energy::default());
        for usage in usages {
            for (gpu_type, hours) in &usage.held {
                *held.entry(gpu_type.clone()).or_default() += hours;
            }
            let known = usage.energy.unwrap_or(Energy { missing: usage.hours(), ..Energy::default() });
            energy.measured += known.measured;
            energy.nominal += known.nominal;
            energy.missing += known.missing;
        }
        let holders = || usages.iter().filter(|usage| usage.hours() > 0.0);
        // An empty sum of floats is -0.
        let total = |of: fn(&Self) -> Option<f64>| {
            holders().map(|usage| of(usage)).sum::<Option<f64>>().map(|sum| sum + 0.0)
        };
        let idle: Vec<f64> = usages.iter().filter_map(|usage| usage.idle).collect();
        Self {
            sampled: usages.iter().map(|usage| usage.sampled).sum::<f64>() + 0.0,
            idle: (!idle.is_empty()).then(|| idle.iter().sum()),
            lost: total(|usage| usage.lost),
            energy: energy.known(),
            billed_hours: total(|usage| usage.billed_hours).filter(|_| holders().next().is_some()),
            reference_hours: reference_hours(&held),
            held,
        }
    }

    /// Returns the GPU hours of all types.
    pub fn hours(&self) -> f64 {
        // An empty sum of floats is -0.
        self.held.values().sum::<f64>() + 0.0
    }
}

/// Returns the RGU hours of the held GPU hours.
fn reference_hours(held: &BTreeMap<GpuType, f64>) -> Option<f64> {
    let units = |(gpu_type, hours): (&GpuType, &f64)| Some(reference_units(gpu_type)? * hours);
    if held.is_empty() { None } else { held.iter().map(units).sum() }
}

/// Returns the total energy of the submissions, for each from its samples or else from nominal power.
fn energy(run: &RunResult, held: &BTreeMap<GpuType, f64>, now: Time) -> Option<Energy> {
    let mut energy = Energy::default();
    // Results of earlier versions do not list submissions.
    if run.submissions.is_empty() {
        for (gpu_type, hours) in held {
            energy.add_nominal(gpu_type, *hours);
        }
    }
    for submission in &run.submissions {
        let hours = submission.held_s(now).unwrap_or(0.0) / HOUR;
        if let Some(watts) = submission.sampled.mean_power() {
            energy.measured += watts * hours * submission.gpu_count() / 1000.0;
            continue;
        }
        for (gpu_type, count) in submission.gpu_counts() {
            energy.add_nominal(&gpu_type, hours * count);
        }
    }
    energy.known()
}

/// Returns the billed cost of all held GPUs.
fn billed(run: &RunResult, now: Time) -> Option<f64> {
    let started: Vec<&RunSubmission> =
        run.submissions.iter().filter(|submission| submission.started.is_some()).collect();
    let of_one =
        |submission: &&RunSubmission| Some(submission.billed_per_hour? * submission.held_s(now)? / HOUR);
    if started.is_empty() { None } else { started.iter().map(of_one).sum() }
}

/// Returns the GPU hours lost by restarts: for each submission but the last to start, the time that it held
/// its GPUs minus the epochs that it finished. This includes startup, the epoch that was cut, saving, and
/// epochs that were trained again.
fn lost(run: &RunResult, now: Time) -> Option<f64> {
    // Results of earlier versions do not list submissions.
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
        Some(rest * submission.gpu_count() / HOUR)
    };
    // An empty sum of floats is -0.
    started.into_iter().map(of_one).sum::<Option<f64>>().map(|hours| hours + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that ran on two A100 from 0 to 600, was cut, and ran on one A100 from 1000.
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
        // Epochs longer than the submission do not reduce the loss below zero.
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
        let text = r#"{"name": "a", "added": 0, "state": "completed", "epochs_done": 5, "epochs": 5, "command": "x",
            "gpu_s": {"t4": 7200, "strange": 3600}}"#;
        let energy = usage(text).energy.expect("an energy");
        assert_eq!((energy.kilowatt_hours(), energy.source().word(), energy.missing), (0.14, "nominal", 1.0));
        assert_eq!(usage(text).reference_hours, None);
        assert_eq!(usage(&RUN.replace("4800", "3600")).reference_hours, Some(4.8));
    }

    #[test]
    fn samples_tell_idle_time_and_power_and_what_has_none_is_nominal() {
        let sampled = r#""trained_s": 420, "sampled": {"sampled_s": 1080, "idle_s": 360, "metered_s": 1080, "energy_j": 216000}"#;
        let text = RUN.replace(r#""trained_s": 420"#, sampled);
        let gpu_usage = usage(&text);
        assert_eq!((gpu_usage.sampled, gpu_usage.idle), (0.3, Some(0.1)));
        // 200 W on two GPUs for 600 s, and the nominal 400 W on one for an hour.
        let energy = gpu_usage.energy.expect("an energy");
        assert!((energy.measured - 0.2 * 1200.0 / 3600.0).abs() < 1e-12, "{energy:?}");
        assert!((energy.nominal - 0.4).abs() < 1e-12 && energy.source() == EnergySource::Mixed, "{energy:?}");
        let all = GpuUsage::sum(&[&gpu_usage, &usage(RUN), &GpuUsage::default()]);
        assert_eq!(
            (all.sampled, all.idle, all.energy.map(|energy| energy.missing)),
            (0.3, Some(0.1), Some(0.0))
        );
        let first = GpuUsage::of(&serde_json::from_str(&text).expect("a result"), Time(1000.0)).energy;
        assert_eq!(first.map(|energy| energy.source()), Some(EnergySource::Samples));
    }

    #[test]
    fn runs_in_slots_of_a_gpu_share_its_power_and_what_restarts_cost() {
        let sampled = r#""trained_s": 420, "sampled": {"sampled_s": 0, "idle_s": 0, "metered_s": 0, "energy_j": 0, "slots": 4}"#;
        let shared = usage(&RUN.replace(r#""trained_s": 420"#, sampled));
        assert_eq!(shared.lost, Some(180.0 * 2.0 / 4.0 / 3600.0));
        let shared = shared.energy.expect("an energy");
        // 400 W: a quarter of two GPUs for 600 s, one for an hour.
        assert!((shared.nominal - 0.4 * (1200.0 / 4.0 + 3600.0) / 3600.0).abs() < 1e-12, "{shared:?}");
    }

    #[test]
    fn what_partitions_bill_is_known_if_it_is_of_all_submissions() {
        let billed = RUN.replace(r#""epoch_s": 100"#, r#""epoch_s": 100, "billed_per_hour": 6"#);
        assert_eq!(usage(&billed).billed_hours, Some(6.0 * (600.0 + 3600.0) / 3600.0));
        assert_eq!(usage(RUN).billed_hours, None);
        assert_eq!(GpuUsage::sum(&[&usage(&billed), &usage(RUN)]).billed_hours, None);
        assert_eq!(GpuUsage::sum(&[]).billed_hours, None);
        assert!(GpuUsage::default().hours().is_sign_positive());
    }
}
