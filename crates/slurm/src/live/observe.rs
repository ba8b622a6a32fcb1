//! Finds hsched's submissions in Slurm's output, and the ends of submissions that have left the queue.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::script_jobs::base_id;
use crate::permission;
use crate::record::one_line;
use crate::{ExitStatus, JobRecord, QueuedJob, SlurmState, holdings, time};
use hsched_engine::live::Tag;
use hsched_engine::{
    End, Gpus, JobState, QueueReason, QueueState, ScriptJob, Sighting, State, SubmissionKey, SubmissionRecord,
};
use hsched_model::{Cluster, JobId, JobName, Time};

/// Longest time, in seconds, by which the controller's clock may be behind: Slurm accepts no requests if the
/// clocks differ by more.
const CLOCKS: f64 = 300.0;

/// The user's queue, by hsched's submissions.
pub(super) struct UserQueue<'a> {
    by_tag: BTreeMap<Tag, Vec<&'a QueuedJob>>,
    /// Jobs without a comment, which a site may remove.
    bare: Vec<&'a QueuedJob>,
}

impl<'a> UserQueue<'a> {
    pub(super) fn new(jobs: &'a [QueuedJob]) -> Self {
        let mut queue = Self { by_tag: BTreeMap::new(), bare: Vec::new() };
        for job in jobs {
            match job.tag() {
                Some(tag) => queue.by_tag.entry(tag).or_default().push(job),
                None if job.comment.is_none() => queue.bare.push(job),
                None => {}
            }
        }
        queue
    }

    /// Returns a tracked job's submission as shown in the queue; `None` if the queue does not show it.
    ///
    /// Components of a heterogeneous job carry the same tag and form one submission. A job without its
    /// comment is recognised by its name, id and submit time.
    pub(super) fn sighting(
        &self,
        job: &JobName,
        attempt: &SubmissionRecord,
        cluster: &Cluster,
    ) -> Option<Sighting> {
        let key = attempt.key(job);
        let is_own = |queued: &&&QueuedJob| {
            let (id, submit_time) = (queued.id, queued.submit_time.as_deref());
            is_same(&key, attempt, &queued.name, id, submit_time)
        };
        let bare = || self.bare.iter().filter(is_own).copied().collect();
        let components = self.by_tag.get(&Tag::of(&key)).cloned().unwrap_or_else(bare);
        seen(key, Some(attempt.gpus.total()), &components, cluster)
    }

    /// Returns the job of a script, task by task and component by component.
    ///
    /// Without its comment, the job is recognised by its name, id and submit time.
    pub(super) fn of_script(&self, script: &ScriptJob) -> Vec<&'a QueuedJob> {
        let submission = &script.submission;
        let is_own = |queued: &&&QueuedJob| {
            let submit_time = queued.submit_time.as_deref();
            submission.job_id == Some(base_id(queued))
                && queued.name == one_line(&script.slurm_name)
                && is_in_time(submission.submit_time.as_deref(), submit_time, submission.meant)
        };
        let bare = || self.bare.iter().filter(is_own).copied().collect();
        let Some(mut jobs) = self.by_tag.get(&Tag::of(&script.key())).cloned() else { return bare() };
        // In a heterogeneous job, only the first component has the comment.
        let leader = jobs.iter().find_map(|queued| queued.het).map(|(leader, _)| leader);
        let is_component = |queued: &&&QueuedJob| leader.is_some_and(|leader| base_id(queued) == leader);
        jobs.extend(self.bare.iter().filter(is_component));
        jobs
    }

    /// Returns active submissions in the queue that name a tracked job but are not among its current ones.
    pub(super) fn strays(&self, state: &State, cluster: &Cluster) -> Vec<Sighting> {
        let jobs: BTreeMap<&str, &JobState> =
            state.jobs.iter().map(|tracked| (tracked.job.name.as_str(), tracked)).collect();
        let stray = |(tag, components): (&Tag, &Vec<&QueuedJob>)| {
            let tracked = *jobs.get(tag.job.as_str())?;
            let (job, run) = (tracked.job.name.clone(), tag.run.clone());
            let key = SubmissionKey { job, run, copy: tag.copy };
            let active = components.iter().any(|queued| !queued.state.is_final());
            (active && tracked.submission(&key).is_none())
                .then(|| seen(key, None, components, cluster))
                .flatten()
        };
        self.by_tag.iter().filter_map(stray).collect()
    }
}

/// Returns the combined sighting of a submission's components; `planned` is the number of its GPUs, if known.
fn seen(
    of: SubmissionKey,
    planned: Option<u32>,
    components: &[&QueuedJob],
    cluster: &Cluster,
) -> Option<Sighting> {
    let first = components.iter().min_by_key(|queued| queued.id)?;
    let state = match components.iter().find(|queued| !queued.state.is_final()) {
        Some(active) => queue_state(active, components, cluster, planned),
        None => QueueState::Ended {
            end: end(&first.state, first.exit),
            at: first.end_time.as_deref().and_then(time::unix).map(Time),
            since: begun(&first.nodes, first.start_time.as_deref()),
        },
    };
    let reason = reason(components).filter(|_| state == QueueState::Pending);
    Some(Sighting { of, job_id: first.id, submit_time: first.submit_time.clone(), state, reason })
}

/// Returns why a submission is pending; if a component is stuck, its reason is used.
pub(super) fn reason(components: &[&QueuedJob]) -> Option<QueueReason> {
    let waiting = components.iter().filter(|queued| !queued.state.is_final() && queued.reason.is_some());
    let speaker = waiting.max_by_key(|queued| (queued.is_stuck(), Reverse(queued.id)))?;
    let reason = speaker.reason.as_deref()?;
    let advice = permission::advice(reason).map_or_else(String::new, |advice| format!(" ({advice})"));
    Some(QueueReason { text: format!("{reason}{advice}"), is_stuck: speaker.is_stuck() })
}

/// Returns the state of a submission with an active component; `planned` is the number of its GPUs, if known.
fn queue_state(
    active: &QueuedJob,
    components: &[&QueuedJob],
    cluster: &Cluster,
    planned: Option<u32>,
) -> QueueState {
    if !components.iter().any(|queued| queued.holds_nodes()) {
        return QueueState::Pending;
    }
    let since = active.start_time.as_deref().and_then(time::unix).map(Time);
    let (held, unclear) = holdings(components.iter().copied(), cluster);
    let mut gpus = Gpus::default();
    for (node, held) in &held {
        for (gpu_type, count) in &held.gpus {
            gpus.add(node, gpu_type, *count);
        }
    }
    // With fewer GPUs, a component has ended before the others and no longer shows its GPUs.
    let is_whole = planned.is_none_or(|count| count == gpus.total());
    let gpus = (unclear.is_empty() && gpus.total() > 0 && is_whole).then_some(gpus);
    QueueState::Running { since, gpus }
}

/// Returns when an ended job started. A job without nodes never started, although Slurm shows a start.
fn begun(nodes: &str, start: Option<&str>) -> Option<Time> {
    start.filter(|_| !nodes.is_empty()).and_then(time::unix).map(Time)
}

/// Returns how a submission that has left the queue ended, from Slurm's records of it; `None` if they have no
/// final one.
pub(super) fn recorded(job: &JobName, attempt: &SubmissionRecord, records: &[JobRecord]) -> Option<Sighting> {
    let of = attempt.key(job);
    let record = JobRecord::latest(records, attempt.job_id?)?;
    let same = is_same(&of, attempt, &record.name, record.id, record.submit_time.as_deref());
    let other = record.tag().is_some_and(|tag| tag != Tag::of(&of));
    if !same || other || !record.settled {
        return None;
    }
    let end = if record.out_of_memory { End::OutOfMemory } else { end(&record.state, record.exit) };
    let at = record.end_time.as_deref().and_then(time::unix).map(Time);
    let submit_time = record.submit_time.clone();
    let since = begun(&record.nodes, record.start_time.as_deref());
    let queue_state = QueueState::Ended { end, at, since };
    Some(Sighting { of, job_id: record.id, submit_time, state: queue_state, reason: None })
}

/// Returns how a submission of a race ended, which depends on the submission that has claimed the job; `None`
/// if that is not known yet.
pub(super) fn end_in_race(end: &End, job_id: JobId, taken: Option<JobId>) -> Option<End> {
    let is_failure = matches!(
        end,
        End::Failed { .. } | End::OutOfMemory | End::NodeFailed | End::BootFailed | End::Preempted
    );
    match (taken, end) {
        (Some(winner), _)
            if winner != job_id && (is_failure || matches!(end, End::Completed | End::Cancelled)) =>
        {
            Some(End::Yielded)
        }
        (None, End::Completed) => None,
        (None, _) if is_failure => Some(End::Untaken(Box::new(end.clone()))),
        _ => Some(end.clone()),
    }
}

/// Returns whether a Slurm job, given its name, id and submit time, belongs to a submission: a controller
/// that loses its state assigns ids again.
fn is_same(
    of: &SubmissionKey,
    attempt: &SubmissionRecord,
    name: &str,
    id: JobId,
    submit_time: Option<&str>,
) -> bool {
    attempt.job_id == Some(id)
        && name == of.name()
        && is_in_time(attempt.submit_time.as_deref(), submit_time, attempt.meant)
}

/// Returns whether a Slurm job with this submit time may be that of a submission: `recorded` is the
/// submission's submit time in the queue, and `meant` is when it was decided.
fn is_in_time(recorded: Option<&str>, submit_time: Option<&str>, meant: Time) -> bool {
    match (recorded, submit_time) {
        (Some(recorded), Some(submit_time)) => recorded == submit_time,
        (None, Some(submit_time)) => is_after(meant, submit_time),
        (_, None) => true,
    }
}

/// Returns whether the controller may have printed this submit time for a submission decided at `meant`.
pub(super) fn is_after(meant: Time, submit_time: &str) -> bool {
    time::latest_unix(submit_time).is_none_or(|at| at + CLOCKS >= meant.0)
}

pub(super) fn end(state: &SlurmState, exit: Option<ExitStatus>) -> End {
    match state {
        SlurmState::Completed => End::Completed,
        SlurmState::Failed => exit.map_or(End::Failed { exit: 1, signal: 0 }, by_status),
        SlurmState::Timeout => End::TimedOut,
        SlurmState::OutOfMemory => End::OutOfMemory,
        SlurmState::NodeFail => End::NodeFailed,
        SlurmState::BootFail => End::BootFailed,
        SlurmState::Preempted => End::Preempted,
        SlurmState::Deadline => End::Deadline,
        SlurmState::Cancelled => End::Cancelled,
        other => End::Other(other.to_string()),
    }
}

fn by_status(exit: ExitStatus) -> End {
    if exit.is_out_of_memory() { End::OutOfMemory } else { End::of_status(exit.code, exit.signal) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_taken_the_job_of_a_race_tells_what_an_end_means() {
        let failed = End::Failed { exit: 1, signal: 0 };
        let judged = |end: &End, taken: Option<u32>| end_in_race(end, JobId(7), taken.map(JobId));
        for end in [&End::Completed, &End::Cancelled, &failed, &End::NodeFailed] {
            assert_eq!(judged(end, Some(7)).as_ref(), Some(end));
            assert_eq!(judged(end, Some(8)), Some(End::Yielded));
        }
        // On a shared file system the claim may become visible later.
        assert_eq!(judged(&End::Completed, None), None);
        assert_eq!(judged(&End::Cancelled, None), Some(End::Cancelled));
        assert_eq!(judged(&failed, None), Some(End::Untaken(Box::new(failed.clone()))));
        assert_eq!(judged(&End::Cut, Some(8)), Some(End::Cut));
    }
}
