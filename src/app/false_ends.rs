//! Corrects jobs wrongly recorded as completed: version 0.1.0 took exit status 0 as the end, even of a run
//! that was asked to stop.

use std::io;

use crate::app::context::Context;
use crate::app::output::FilePart;
use crate::app::printed::submissions;
use hsched_engine::{End, JobState, Outcome, PastAttempt, Phase, State};
use hsched_plan::throughput::SpeedKey;

/// The script's message when it is asked to stop.
const STOPPED: &[u8] = b"hsched: stop requested";

/// Number of bytes searched at the end of an output.
const TAIL: u64 = 1 << 20;

/// Finds jobs that 0.1.0 recorded as completed although they were stopped before their last epoch; reports
/// them, marks them as failed, and removes the speeds learnt from these runs. Returns whether any job
/// changed.
pub(crate) fn mend(context: &Context, state: &mut State) -> bool {
    let mut changed = false;
    let State { jobs, cache, contributor, .. } = state;
    for tracked in jobs {
        let Some(past) = tracked.past.last().filter(|past| !past.attempt.tells_stops) else { continue };
        let is_false = is_doubtful(tracked, past) && was_stopped(context, tracked, past);
        let past = past.clone();
        for past_attempt in &mut tracked.past {
            past_attempt.attempt.tells_stops = true;
        }
        changed = true;
        if !is_false {
            continue;
        }
        let dropped: Vec<String> = past
            .attempt
            .gpus
            .by_type()
            .into_keys()
            .filter(|gpu_type| {
                cache.forget_inferred(&SpeedKey::of(&tracked.job, gpu_type), contributor, past.ended.0)
            })
            .map(|gpu_type| gpu_type.to_string())
            .collect();
        context.warn(&warning(tracked, &dropped));
        record(tracked);
    }
    changed
}

/// Returns whether a job counts as completed without its last epoch, although no rule allows that and the
/// job is not a copy.
fn is_doubtful(tracked: &JobState, past: &PastAttempt) -> bool {
    let is_completed = matches!(&tracked.phase, Phase::Ended { outcome: Outcome::Completed, .. });
    let is_allowed = tracked.stopped_early().is_some() || tracked.job.training().is_some();
    is_completed && past.end == End::Completed && tracked.epochs_left() > 0 && !is_allowed
}

/// Returns whether the last run of a job was asked to stop, according to its output or, without an output, to
/// its time limit.
fn was_stopped(context: &Context, tracked: &JobState, past: &PastAttempt) -> bool {
    let printed = submissions(context, tracked).ok().and_then(|mut all| all.pop());
    let output = printed.and_then(|printed| printed.parts.into_iter().next());
    let said = output.and_then(|part| ends_stopped(part).ok().flatten());
    said.unwrap_or_else(|| {
        let grace = tracked.job.launch.checkpoint.grace.unwrap_or(context.settings.jobs.grace);
        past.attempt.is_near_limit(past.ended, grace)
    })
}

/// Returns whether the end of an output says that the run was asked to stop; `None` without a file.
fn ends_stopped(mut part: FilePart) -> io::Result<Option<bool>> {
    if !part.exists() {
        return Ok(None);
    }
    let text = part.tail(TAIL)?;
    Ok(Some(text.windows(STOPPED.len()).any(|candidate| candidate == STOPPED)))
}

fn warning(tracked: &JobState, dropped: &[String]) -> String {
    let JobState { job, epochs_done, .. } = tracked;
    let speeds = if dropped.is_empty() {
        String::new()
    } else {
        format!(
            "; hsched dropped the speed of model {} on {} that this run had measured",
            job.model,
            dropped.join(" and ")
        )
    };
    format!(
        "{}: hsched 0.1.0 recorded this job as completed, but its last run was stopped after \
         {epochs_done} of {} epochs; it now counts as failed, and hsched add starts it again{speeds}",
        job.name, job.epochs
    )
}

/// Records that the last run of a job was interrupted.
fn record(tracked: &mut JobState) {
    let Some(past) = tracked.past.last_mut() else { return };
    past.end = End::Cut;
    let reason = "was interrupted; hsched 0.1.0 recorded it as completed".to_owned();
    tracked.last = (past.ended, reason.clone());
    tracked.phase = Phase::Ended { at: past.ended, outcome: Outcome::Failed { reason } };
}
