//! Assumptions of `hsched run`: equal speeds until the first epoch is measured, and the cost of a restart.

use std::sync::Arc;

use crate::settings::{Origin, Settings};
use hsched_engine::State;
use hsched_model::number::to_f64;
use hsched_model::{Estimates, GpuType, Job, Seconds, Speed};
use hsched_plan::throughput::{Cache, SourcedSpeed, SpeedCell, SpeedOrigin, ThroughputMatrix, UnusableType};

/// Assumed length of an epoch on one device, in seconds.
const EPOCH_S: f64 = 60.0;

/// Default cost of a restart: without a queue, the median time of a switch by restart was below ten seconds
/// in measurements (docs/run.md).
const RESTART: Seconds = Seconds(10.0);

/// Returns the cost of a restart until one is measured: the setting `restart_cost` if it is set, else the
/// default.
pub(super) fn restart_cost(settings: &Settings) -> Seconds {
    match settings.origin("restart_cost", "") {
        Origin::Default => RESTART,
        _ => settings.restart_cost,
    }
}

/// Gives each unfinished job without a known speed on any of these types the same speed on all of them:
/// that of [`EPOCH_S`] per epoch, or, once a speed was measured on one of the types, that speed. As in all
/// plans, a job file may use another name for a type of the same model. Returns notes on the jobs that are
/// new to it.
pub(super) fn fill(state: &mut State, types: &[GpuType]) -> Vec<String> {
    let State { jobs, cache, .. } = state;
    let mut notes = Vec::new();
    for tracked in jobs.iter_mut().filter(|tracked| !tracked.phase.is_over()) {
        let is_new = !tracked.assumed;
        let usable = usable(&tracked.job, types, cache);
        if is_new && usable.iter().any(|(_, known)| known.is_some()) || usable.is_empty() {
            continue;
        }
        tracked.assumed = true;
        let job = Arc::make_mut(&mut tracked.job);
        let assumed = Speed::rate(to_f64(job.samples_per_epoch) / EPOCH_S);
        let measured = usable.iter().find_map(|(_, known)| match known.as_ref()?.source {
            SpeedOrigin::Measured(measured) => Some(measured.speed),
            _ => None,
        });
        tracked.unmeasured = measured.is_none();
        for (gpu_type, _) in &usable {
            if let Some(speed) = measured.or(assumed) {
                job.throughput.insert((*gpu_type).clone(), speed);
            }
        }
        if is_new && usable.len() > 1 && !job.is_command() {
            let names: Vec<&str> = usable.iter().map(|(gpu_type, _)| gpu_type.as_str()).collect();
            notes.push(format!(
                "{}: its speed on {} is unknown; hsched assumes equal speeds until the first epochs have \
                 measured them",
                job.name,
                names.join(" or ")
            ));
        }
    }
    notes
}

/// Returns the types that a job may use, with its known speed on each.
fn usable<'a>(job: &Job, types: &'a [GpuType], cache: &Cache) -> Vec<(&'a GpuType, Option<SourcedSpeed>)> {
    let matrix = ThroughputMatrix::new(&[job], types, cache, Estimates::Off);
    let usable = |(gpu_type, cell): (&'a GpuType, &SpeedCell)| match cell {
        SpeedCell::Known(known) => Some((gpu_type, Some(known.clone()))),
        SpeedCell::Unusable(UnusableType::NoThroughput) => Some((gpu_type, None)),
        SpeedCell::Unusable(_) => None,
    };
    types.iter().zip(matrix.row(0)).filter_map(usable).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests use files")]

    use std::fs;

    use super::*;
    use crate::settings::{CommandLineSetting, Sources};

    #[test]
    fn an_explicit_restart_cost_holds_even_if_it_is_the_default_of_the_queue() {
        let cost = |sources: &Sources| {
            let settings = Settings::load(sources).unwrap_or_else(|problems| panic!("{problems}"));
            restart_cost(&settings).0
        };
        let (key, value) = ("restart_cost", "60s");
        let folder = tempfile::tempdir().expect("a directory");
        let site_file = folder.path().join("config.toml");
        fs::write(&site_file, format!("{key} = {value:?}\n")).expect("a file");
        let in_file = Sources { site_file: Some(site_file), ..Sources::default() };
        let environment = [("HSCHED_RESTART_COST".to_owned(), value.into())].into();
        let in_variable = Sources { environment, ..Sources::default() };
        let flags = vec![CommandLineSetting::set(&format!("{key}={value}")).expect("a flag")];
        let in_flag = Sources { flags, ..Sources::default() };
        assert_eq!([&in_file, &in_variable, &in_flag].map(cost), [60.0; 3]);
        assert_eq!(cost(&Sources::default()), 10.0);
    }
}
