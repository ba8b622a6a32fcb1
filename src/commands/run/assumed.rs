//! Assumptions of `hsched run`: equal speeds until the first epoch has measured one, and the cost of a restart.

use std::sync::Arc;

use crate::settings::{Origin, Settings};
use hsched_engine::{JobState, State};
use hsched_model::number::to_f64;
use hsched_model::{GpuType, Job, Seconds, Speed};
use hsched_plan::throughput::{Cache, SpeedKey};

/// The length of an epoch on one device that is assumed, in seconds.
const EPOCH_S: f64 = 60.0;

/// What a restart costs by default: without a queue, a switch was measured to take at most ten seconds (docs/run.md).
const RESTART: Seconds = Seconds(10.0);

/// Returns what a restart costs until one was measured: the setting `restart_cost`, whatever its value, if somebody set it.
pub(super) fn restart_cost(settings: &Settings) -> Seconds {
    match settings.origin("restart_cost", "") {
        Origin::Default => RESTART,
        _ => settings.restart_cost,
    }
}

/// Gives jobs that have no speed on any of these types one that is the same on all of them; once a speed was measured
/// on some, that one. Returns notes.
pub(super) fn fill(state: &mut State, types: &[GpuType]) -> Vec<String> {
    let State { jobs, cache, .. } = state;
    let mut notes = Vec::new();
    for tracked in jobs.iter_mut().filter(|tracked| !tracked.phase.is_over()) {
        let is_new = !tracked.assumed;
        let usable = usable(tracked, types);
        if is_new && usable.iter().any(|gpu_type| is_known(tracked, gpu_type, cache)) || usable.is_empty() {
            continue;
        }
        tracked.assumed = true;
        let job = Arc::make_mut(&mut tracked.job);
        let assumed = Speed::rate(to_f64(job.samples_per_epoch) / EPOCH_S);
        let measured = usable.iter().find_map(|gpu_type| measured(job, gpu_type, cache));
        tracked.unmeasured = measured.is_none();
        for gpu_type in &usable {
            if let Some(speed) = measured.or(assumed) {
                job.throughput.insert((*gpu_type).clone(), speed);
            }
        }
        if is_new && usable.len() > 1 {
            let names: Vec<&str> = usable.iter().map(|gpu_type| gpu_type.as_str()).collect();
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

/// Returns the types that a job may use.
fn usable<'a>(tracked: &JobState, types: &'a [GpuType]) -> Vec<&'a GpuType> {
    let allowed = tracked.job.gpu_types.as_ref();
    types.iter().filter(|gpu_type| allowed.is_none_or(|allowed| allowed.contains(*gpu_type))).collect()
}

fn is_known(tracked: &JobState, gpu_type: &GpuType, cache: &Cache) -> bool {
    let job = &tracked.job;
    job.throughput.contains_key(gpu_type) || measured(job, gpu_type, cache).is_some()
}

fn measured(job: &Job, gpu_type: &GpuType, cache: &Cache) -> Option<Speed> {
    let key = SpeedKey { model: job.model.clone(), gpu_type: gpu_type.clone(), precision: job.precision };
    cache.estimate(&key).map(|measured| measured.speed)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests use files")]

    use std::fs;

    use super::*;
    use crate::settings::{Flag, Sources};

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
        let flags = vec![Flag::set(&format!("{key}={value}")).expect("a flag")];
        let in_flag = Sources { flags, ..Sources::default() };
        assert_eq!([&in_file, &in_variable, &in_flag].map(cost), [60.0; 3]);
        assert_eq!(cost(&Sources::default()), 10.0);
    }
}
