//! One submission of a job: what was meant, and what Slurm made of it.

use crate::engine::{Gpus, Trials, named_ranks};
use crate::model::{JobId, PlacedRank, Seconds, Time};
use crate::policy::{Placement, Problem};

/// A submission; its run's id and the job's name tell it from every other one.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Unique id of the run, which Slurm carries in the job's comment.
    pub run: String,
    /// The ranks as planned, rank 0 first.
    pub ranks: Vec<PlacedRank>,
    /// Predicted time of an epoch.
    pub epoch: Seconds,
    /// What of that is communication.
    pub communication: Seconds,
    /// Epochs that were done before it.
    pub epochs_before: u64,
    /// When it was decided on.
    pub meant: Time,
    /// Slurm's number; with the time of submission and the run it identifies the job.
    pub job_id: Option<JobId>,
    /// In Slurm's spelling.
    pub submit_time: Option<String>,
    pub started: Option<Time>,
    /// The GPUs that it got; before its start those that it was planned on.
    pub gpus: Gpus,
    /// Since when Slurm has not known of it although it should.
    pub missing: Option<Time>,
    /// Why it waits in the queue, in Slurm's words.
    pub reason: Option<String>,
    /// What is odd about rank 0's reports.
    pub odd: Option<String>,
    /// The GPU types that the job's file does not list.
    pub trials: Trials,
    /// That a time limit cuts what is left of the job into pieces, for people.
    pub pieces: Option<String>,
}

impl Attempt {
    /// Returns an attempt on the GPUs of a placement that is about to be submitted.
    #[must_use]
    pub fn planned(
        run: &str,
        (problem, job, placement): (&Problem, usize, &Placement),
        epochs_before: u64,
        meant: Time,
    ) -> Self {
        let (ranks, epoch) = (named_ranks(problem, placement), Seconds(placement.epoch.total()));
        let communication = Seconds(placement.epoch.comm);
        let trials = Trials::of(problem, job, placement);
        Self { communication, trials, ..Self::new(run, ranks, epoch, epochs_before, meant) }
    }

    /// Returns an attempt that is about to be submitted, without communication.
    #[must_use]
    pub fn new(run: &str, ranks: Vec<PlacedRank>, epoch: Seconds, epochs_before: u64, meant: Time) -> Self {
        let gpus = Gpus::of(&ranks);
        Self {
            run: run.to_owned(),
            ranks,
            epoch,
            communication: Seconds(0.0),
            epochs_before,
            meant,
            job_id: None,
            submit_time: None,
            started: None,
            gpus,
            missing: None,
            reason: None,
            odd: None,
            trials: Trials::default(),
            pieces: None,
        }
    }
}
