//! From what Slurm prints to the submissions that it knows, and how those ended that it has let go.

use crate::engine::{Attempt, End, Gpus, Sighting, Standing, Tracked};
use crate::model::{Cluster, JobId, Time};
use crate::slurm::{ExitStatus, JobRecord, JobState, QueuedJob, Tag, holdings, time};

/// Returns the submission of a tracked job as the queue shows it; `None` where it does not.
///
/// Components of a heterogeneous job carry the same tag and are one submission. A job whose comment is gone is
/// known by its number and the time of its submission.
pub(super) fn sighting(tracked: &Tracked, queue: &[QueuedJob], cluster: &Cluster) -> Option<Sighting> {
    let attempt = tracked.phase.attempt()?;
    let tag = Tag { run: attempt.run.clone(), job: tracked.job.name.to_string() };
    let is_own = |queued: &&QueuedJob| match queued.tag() {
        Some(own) => own == tag,
        None => queued.comment.is_none() && is_same(attempt, queued.id, queued.submit_time.as_deref()),
    };
    let own: Vec<&QueuedJob> = queue.iter().filter(is_own).collect();
    let first = own.iter().min_by_key(|queued| queued.id)?;
    let standing = match own.iter().find(|queued| !queued.state.is_final()) {
        Some(active) => standing(active, &own, cluster),
        None => Standing::Ended {
            end: end(&first.state, first.exit),
            at: first.end_time.as_deref().and_then(time::unix).map(Time),
        },
    };
    let (job, run) = (tracked.job.name.clone(), attempt.run.clone());
    Some(Sighting { job, run, job_id: first.id, submit_time: first.submit_time.clone(), standing })
}

fn standing(active: &QueuedJob, own: &[&QueuedJob], cluster: &Cluster) -> Standing {
    if !own.iter().any(|queued| queued.state.holds_nodes()) {
        return Standing::Pending;
    }
    let since = active.start_time.as_deref().and_then(time::unix).map(Time);
    let (held, unclear) = holdings(own.iter().copied(), cluster);
    let mut gpus = Gpus::default();
    for (node, held) in &held {
        for (gpu_type, count) in &held.gpus {
            gpus.add(node, gpu_type, *count);
        }
    }
    let gpus = (unclear.is_empty() && gpus.total() > 0).then_some(gpus);
    Standing::Running { since, gpus }
}

/// Returns how a submission ended that the queue does not show any more, by what Slurm remembers of it.
pub(super) fn recorded(tracked: &Tracked, records: &[JobRecord]) -> Option<Sighting> {
    let attempt = tracked.phase.attempt()?;
    let record = JobRecord::latest(records, attempt.job_id?)?;
    let same = is_same(attempt, record.id, record.submit_time.as_deref());
    if !same || !record.settled {
        return None;
    }
    let end = if record.out_of_memory { End::OutOfMemory } else { end(&record.state, record.exit) };
    let at = record.end_time.as_deref().and_then(time::unix).map(Time);
    let (job, run) = (tracked.job.name.clone(), attempt.run.clone());
    let submit_time = record.submit_time.clone();
    Some(Sighting { job, run, job_id: record.id, submit_time, standing: Standing::Ended { end, at } })
}

/// Returns how a submission ended by the word that its script left.
pub(super) fn left_word(tracked: &Tracked, job_id: JobId, status: u8) -> Option<Sighting> {
    let attempt = tracked.phase.attempt()?;
    let end = by_status(ExitStatus { code: status, signal: 0 });
    Some(Sighting {
        job: tracked.job.name.clone(),
        run: attempt.run.clone(),
        job_id,
        submit_time: attempt.submit_time.clone(),
        standing: Standing::Ended { end, at: None },
    })
}

/// Returns whether a job of Slurm is an attempt: numbers are given out again when a controller loses its state.
fn is_same(attempt: &Attempt, id: JobId, submit_time: Option<&str>) -> bool {
    let unknown = attempt.submit_time.is_none() || submit_time.is_none();
    attempt.job_id == Some(id) && (unknown || attempt.submit_time.as_deref() == submit_time)
}

fn end(state: &JobState, exit: Option<ExitStatus>) -> End {
    match state {
        JobState::Completed => End::Completed,
        JobState::Failed => exit.map_or(End::Failed { exit: 1, signal: 0 }, by_status),
        JobState::Timeout => End::TimedOut,
        JobState::OutOfMemory => End::OutOfMemory,
        JobState::NodeFail => End::NodeFailed,
        JobState::BootFail => End::BootFailed,
        JobState::Preempted => End::Preempted,
        JobState::Deadline => End::Deadline,
        JobState::Cancelled => End::Cancelled,
        other => End::Other(other.to_string()),
    }
}

fn by_status(exit: ExitStatus) -> End {
    match exit {
        exit if exit.is_out_of_memory() => End::OutOfMemory,
        ExitStatus { code: 0, signal: 0 } => End::Completed,
        ExitStatus { code: 85, .. } => End::Saved,
        ExitStatus { code, signal } => End::Failed { exit: code, signal },
    }
}
