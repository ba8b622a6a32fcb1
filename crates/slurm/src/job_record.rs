//! The record of a Slurm job that has left the queue, from `sacct` or `scontrol`.

use crate::{ExitStatus, JobId, SlurmState};
use hsched_engine::live::Tag;

/// A job, or one component of a heterogeneous job, as Slurm remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    pub id: JobId,
    /// The id of the first component and this component's place, for heterogeneous jobs.
    pub het: Option<(JobId, u32)>,
    /// The id of its array, for a task of one.
    pub array: Option<JobId>,
    pub name: String,
    pub state: SlurmState,
    /// How the job ended, in Slurm's words; only `scontrol` knows.
    pub reason: Option<String>,
    /// In the spelling of [`QueuedJob`](crate::QueuedJob); with the id it identifies a job.
    ///
    /// A job that Slurm requeues is submitted anew: each attempt has its own.
    pub submit_time: Option<String>,
    pub start_time: Option<String>,
    /// When the job ended, or has to.
    pub end_time: Option<String>,
    /// How the batch script ended; only of jobs that have ended.
    pub exit: Option<ExitStatus>,
    /// The worst end of a step of the batch script; only `sacct` knows.
    pub step_exit: Option<ExitStatus>,
    /// Whether the job or one of its steps needed more memory than it had.
    pub out_of_memory: bool,
    /// The nodes as a hostlist; empty before the start.
    pub nodes: String,
    /// Accounting has it only where the site stores comments.
    pub comment: Option<String>,
    /// Whether the record is whole and final. The accounting gets to know a job piece by piece: for some
    /// seconds after its start and its end others are wrong, and have to be read again.
    pub settled: bool,
}

impl JobRecord {
    /// Returns the run that the job is, when hsched submitted it and the record has its comment.
    pub fn tag(&self) -> Option<Tag> {
        Tag::from_comment(self.comment.as_deref()?)
    }

    /// Returns the last attempt of a job among the records.
    pub fn latest(records: &[Self], id: JobId) -> Option<&Self> {
        // Dates in this spelling are in the order of their letters; of equal ones the last printed counts.
        let matching = records.iter().filter(|record| record.id == id);
        matching.max_by(|one, other| one.submit_time.cmp(&other.submit_time))
    }
}
