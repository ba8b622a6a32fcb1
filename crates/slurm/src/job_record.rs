//! The record of a Slurm job, which may have left the queue, from `sacct` or `scontrol`.

use crate::{ExitStatus, JobId, SlurmState};
use hsched_engine::live::Tag;

/// A job, or one component of a heterogeneous job, as Slurm remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    pub id: JobId,
    /// The id of the first component and this component's index, for heterogeneous jobs.
    pub het: Option<(JobId, u32)>,
    /// The id of the job's array, if it is a task of one.
    pub array: Option<JobId>,
    pub name: String,
    pub state: SlurmState,
    /// Why the job is pending or has ended, in Slurm's words; only `scontrol` reports it.
    pub reason: Option<String>,
    /// Submit time in the notation of [`QueuedJob`](crate::QueuedJob); together with the id it identifies a
    /// job.
    ///
    /// A requeued job is resubmitted, so each attempt has another time.
    pub submit_time: Option<String>,
    pub start_time: Option<String>,
    /// Time at which the job ended, or must end.
    pub end_time: Option<String>,
    /// The end of the batch script; only for jobs that have ended.
    pub exit: Option<ExitStatus>,
    /// The worst end of a step of the batch script; only `sacct` reports it.
    pub step_exit: Option<ExitStatus>,
    /// Whether the job or one of its steps ran out of memory.
    pub out_of_memory: bool,
    /// The nodes as a hostlist; empty before the start.
    pub nodes: String,
    /// The comment; accounting has it only if the site stores comments.
    pub comment: Option<String>,
    /// Whether the record is complete and final. Accounting receives a job's data in parts: for some seconds
    /// after its start and its end, values may be wrong and must be read again.
    pub settled: bool,
}

impl JobRecord {
    /// Returns the run of a job that hsched submitted, if the record has its comment.
    pub fn tag(&self) -> Option<Tag> {
        Tag::from_comment(self.comment.as_deref()?)
    }

    /// Returns the last attempt of a job among the records.
    pub fn latest(records: &[Self], id: JobId) -> Option<&Self> {
        // Dates in this format sort as text; of equal ones the last printed counts.
        let matching = records.iter().filter(|record| record.id == id);
        matching.max_by(|one, other| one.submit_time.cmp(&other.submit_time))
    }
}
