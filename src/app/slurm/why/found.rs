//! A Slurm job named by the user, found in the queue, in `scontrol` or in accounting.

use crate::app::array_tasks::stands_for;
use hsched_queue::QueueJob;
use hsched_slurm::JobRecord;
use hsched_slurm::job_details::JobDetails;

/// A Slurm job with all available data.
pub(crate) struct FoundJob {
    /// The id as shown by `squeue`.
    pub id: String,
    pub name: Option<String>,
    /// The job in the queue; `None` after its end, or if the look at the queue does not show it.
    pub job: Option<QueueJob>,
    /// The controller's data; `None` with a snapshot, in the list of the user's pending jobs, and for jobs
    /// that the controller has dropped.
    pub details: Option<JobDetails>,
    /// The accounting record, if the job was found only there.
    pub record: Option<JobRecord>,
}

/// Returns whether a word is the id of a job, task or component rather than a name.
pub(super) fn is_id(wanted: &str) -> bool {
    wanted.starts_with(|c: char| c.is_ascii_digit())
        && wanted.chars().all(|c| c.is_ascii_digit() || "_+[]-,%".contains(c))
}

/// Returns whether the job of an id has the number 0, which no job has.
pub(super) fn is_zero(id: &str) -> bool {
    id.trim_start_matches('0').chars().next().is_none_or(|c| !c.is_ascii_digit())
}

pub(super) fn of_record(record: JobRecord) -> FoundJob {
    let id =
        record.het.map_or_else(|| record.id.to_string(), |(leader, offset)| format!("{leader}+{offset}"));
    FoundJob { id, name: Some(record.name.clone()), job: None, details: None, record: Some(record) }
}

/// Returns whether a queued job is the one in the controller's data.
pub(super) fn is_same(job: &QueueJob, details: &JobDetails) -> bool {
    let plain = |id: &str| id.split('%').next().unwrap_or_default().trim_end_matches(']').to_owned();
    job.id == details.record.id.to_string()
        || job.id == details.shown_id
        || plain(&job.id) == plain(&details.shown_id)
        || job.running.is_none() && stands_for(&job.id, &details.shown_id)
        || job.running.is_none()
            && job.array.is_some()
            && details.shown_id.contains('[')
            && job.array.as_deref() == details.shown_id.split('_').next()
}

/// Returns whether a job printed by the controller is the requested one: for a task, Slurm prints all tasks
/// pending with it.
pub(super) fn is_meant(details: &JobDetails, wanted: &str) -> bool {
    let Some((_, task)) = wanted.split_once('_') else { return true };
    stands_for(&details.shown_id, wanted) || task.starts_with('[')
}

/// Returns the tasks of an array to explain: the pending ones, else those that have not ended, else only the
/// first that Slurm printed. If all components of a heterogeneous job have ended, all are kept.
pub(super) fn most_alive(mut list: Vec<JobDetails>) -> Vec<JobDetails> {
    if list.iter().any(|candidate| candidate.record.state.is_pending()) {
        list.retain(|details| details.record.state.is_pending());
    } else if list.iter().any(|candidate| !candidate.record.state.is_final()) {
        list.retain(|details| !details.record.state.is_final());
    } else if list.iter().all(|candidate| candidate.record.het.is_none()) {
        list.truncate(1);
    }
    list
}

/// Returns the jobs of a snapshot with an id.
pub(super) fn in_queue(jobs: &[QueueJob], wanted: &str) -> Vec<QueueJob> {
    let exact = |job: &&QueueJob| job.id == wanted;
    let of_array = |job: &&QueueJob| {
        job.array.as_deref() == Some(wanted)
            || job.id.split('+').next() == Some(wanted) && job.id.contains('+')
    };
    let with_task = |job: &&QueueJob| stands_for(&job.id, wanted);
    let found: Vec<QueueJob> = jobs.iter().filter(exact).cloned().collect();
    if found.is_empty() {
        jobs.iter().filter(|job| of_array(job) || with_task(job)).cloned().collect()
    } else {
        found
    }
}
