//! What is to be done, for whoever can.

use crate::engine::{Gpus, named_ranks};
use crate::model::{Cluster, Job, JobId, JobName, Offer};
use crate::policy::{CheckedPlan, Problem};
use crate::throughput::{Lesson, Sample};

/// Something to do, with the reason for people.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Give these jobs to Slurm.
    Submit(Box<Batch>),
    /// Ask a running job to save and end.
    Stop { job: JobName, run: String, job_id: JobId, why: String },
    /// Have Slurm end a job.
    Cancel { job: JobName, run: String, job_id: JobId, why: String },
    /// Leave a job where it is, for now.
    Wait { job: JobName, why: String },
    /// Ranks have shown how fast their GPUs are; the state's cache knows already. A lesson for each sample.
    Learn { job: JobName, samples: Vec<Sample>, lessons: Vec<Lesson> },
}

/// Jobs that are submitted together, by one plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Unique id of the run.
    pub run: String,
    /// The jobs of the plan as they are still to be trained.
    pub jobs: Vec<Job>,
    /// The places in `jobs` of those that are submitted; the plan gives each of them GPUs.
    pub submitted: Vec<usize>,
    /// The epochs of each that are done, by job.
    pub epochs_done: Vec<u64>,
    pub problem: Problem,
    pub plan: CheckedPlan,
    pub offer: Offer,
    /// The nodes that the jobs may use.
    pub cluster: Cluster,
    /// The policy's name, for the plan's file.
    pub policy: String,
}

impl Batch {
    /// Returns the GPUs that the plan gives a job.
    #[must_use]
    pub fn gpus(&self, job: usize) -> Option<Gpus> {
        let placement = self.plan.verdicts().get(job)?.placement()?;
        Some(Gpus::of(&named_ranks(&self.problem, placement)))
    }
}
