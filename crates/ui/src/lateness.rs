//! Warnings that a job will miss its deadline, with remedies.

use crate::quantity::duration;
use hsched_engine::{JobState, Phase};
use hsched_model::number::to_f64;
use hsched_model::{Speed, Time};

/// Returns a warning with remedies if a job will miss or has missed its deadline; `None` if it is on time, if
/// that is unknown, or if it has no deadline.
pub(super) fn late(tracked: &JobState, now: Time) -> Option<String> {
    let late = tracked.lateness(now)?;
    let deadline = tracked.deadline()?;
    if tracked.phase.is_over() {
        return Some(format!("ended {} after its deadline", duration(late)));
    }
    if deadline <= now {
        return Some(format!("its deadline was {} ago", duration(now.since(deadline))));
    }
    let help: Vec<String> =
        [stopping(tracked), faster(tracked, now, deadline)].into_iter().flatten().collect();
    let help = if help.is_empty() { String::new() } else { format!("; {}", help.join(", or ")) };
    Some(format!("will end {} after its deadline{help}", duration(late)))
}

/// Returns a remark if the curve would allow the job to stop.
fn stopping(tracked: &JobState) -> Option<String> {
    let early = tracked.early.as_ref().filter(|early| !early.allowed)?;
    Some(format!("it could stop now: {}", early.why))
}

/// Returns how much faster the GPUs of a running job would have to be, and which types of the job file are
/// fast enough.
fn faster(tracked: &JobState, now: Time, deadline: Time) -> Option<String> {
    let Phase::Submitted(_) = tracked.phase else { return None };
    let end = tracked.expected_end(now)?;
    let factor = end.since(now).0 / deadline.since(now).0;
    let attempt = tracked.phase.running()?;
    let batch = to_f64(tracked.job.global_batch);
    let rate = |speed: &Speed| speed.rate_at(batch);
    let current_rate = attempt
        .gpus
        .by_type()
        .keys()
        .filter_map(|gpu_type| tracked.job.throughput.get(gpu_type))
        .map(rate)
        .fold(f64::INFINITY, f64::min);
    let types: Vec<String> = tracked
        .job
        .throughput
        .iter()
        .filter(|(_, speed)| rate(speed) >= factor * current_rate)
        .map(|(gpu_type, speed)| format!("{gpu_type} ({:.1} times)", rate(speed) / current_rate))
        .collect();
    let known = if types.is_empty() { String::new() } else { format!(": {}", types.join(", ")) };
    Some(format!("GPUs {factor:.1} times as fast would be enough{known}"))
}
