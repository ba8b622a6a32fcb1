//! Speeds that nobody knows: assumed to be equal until the first epoch has measured one.

use crate::engine::{State, Tracked};
use crate::model::{GpuType, Job, Speed};
use crate::throughput::{Cache, SpeedKey};

/// The length of an epoch on one device that is assumed, in seconds.
const EPOCH_S: f64 = 60.0;

/// Gives jobs that have no speed on any of these types one that is the same on all of them; once a speed was measured
/// on some, that one. Returns notes.
pub(super) fn fill(state: &mut State, types: &[GpuType]) -> Vec<String> {
    let State { jobs, cache, .. } = state;
    let mut notes = Vec::new();
    for tracked in jobs.iter_mut().filter(|tracked| !tracked.phase.is_over()) {
        let is_new = !tracked.assumed;
        let usable = usable(tracked, types);
        if is_new && usable.iter().any(|own| is_known(tracked, own, cache)) || usable.is_empty() {
            continue;
        }
        tracked.assumed = true;
        let job = &mut tracked.job;
        #[expect(clippy::cast_precision_loss, reason = "samples are far below 2^52")]
        let assumed = Speed::rate(job.samples_per_epoch as f64 / EPOCH_S);
        let measured = usable.iter().find_map(|own| measured(job, own, cache));
        for own in &usable {
            if let Some(speed) = measured.or(assumed) {
                job.throughput.insert((*own).clone(), speed);
            }
        }
        if is_new && usable.len() > 1 {
            let names: Vec<&str> = usable.iter().map(|own| own.as_str()).collect();
            notes.push(format!(
                "{}: no speed is known on {}: taken to be equal until its first epochs have measured them",
                job.name,
                names.join(" or ")
            ));
        }
    }
    notes
}

/// Returns the types that a job may use.
fn usable<'a>(tracked: &Tracked, types: &'a [GpuType]) -> Vec<&'a GpuType> {
    let allowed = tracked.job.gpu_types.as_ref();
    types.iter().filter(|own| allowed.is_none_or(|allowed| allowed.contains(*own))).collect()
}

fn is_known(tracked: &Tracked, gpu_type: &GpuType, cache: &Cache) -> bool {
    let job = &tracked.job;
    job.throughput.contains_key(gpu_type) || measured(job, gpu_type, cache).is_some()
}

fn measured(job: &Job, gpu_type: &GpuType, cache: &Cache) -> Option<Speed> {
    let key = SpeedKey { model: job.model.clone(), gpu_type: gpu_type.clone(), precision: job.precision };
    cache.estimate(&key).map(|measured| measured.speed)
}
