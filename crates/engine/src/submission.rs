//! Submissions of a job: the stored record, its stage, and what follows a stop.

use serde::{Deserialize, Serialize};

use crate::{Amendment, GpuRequest, Gpus, NewShares, Stall, Trials, named_ranks};
use hsched_model::serde_defaults::is_false;
use hsched_model::{JobId, JobName, PlacedRank, QueueChoice, Seconds, Time, Walltime};
use hsched_plan::{Placement, Problem};

/// The unique key of a submission.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SubmissionKey {
    pub job: JobName,
    /// Unique id of the run.
    pub run: String,
    /// The copy's number among the copies of the job, from 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub copy: u32,
}

/// A submission that another one continues: a piece of a training cut by time limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    pub of: SubmissionKey,
    pub job_id: JobId,
}

/// A submission that has not ended, as far as is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    pub attempt: SubmissionRecord,
    pub stage: Stage,
}

/// The stage of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// About to be submitted, or submitted without a confirmed answer.
    Meant,
    /// In Slurm's queue.
    Pending,
    Running,
    /// About to be ended, or asked to end.
    Stopping {
        since: Time,
        then: AfterStop,
        request: StopProgress,
    },
}

/// The progress of a request to end a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopProgress {
    /// The request is about to be made, or may not have been received.
    Meant,
    /// The job was asked to save and end.
    Asked,
    /// Slurm received the request to end the job.
    Killed,
}

/// What follows the stop of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterStop {
    /// The job continues later, for example on other GPUs.
    GoOn,
    /// The user cancelled the job.
    Cancel,
    /// The policy or the job's stop rule decided that the job completes early.
    Finish,
    /// The job completes, because another submission completed it at this time.
    Done(Time),
    /// The job's rule for stalls applies.
    Stalled,
}

/// A submission and its known facts; its run's id, the job's name and the copy identify it.
#[expect(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubmissionRecord {
    /// Unique id of the run, stored in the comment of the Slurm job.
    pub run: String,
    /// The copy's number among the copies of the job, from 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub copy: u32,
    /// Whether the submission races with the job's other submissions of its run; only one of them trains.
    #[serde(default, skip_serializing_if = "is_false")]
    pub race: bool,
    /// The run whose race the submission has joined, if that is another run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joins: Option<String>,
    /// The piece that the submission continues; the submission trains after that piece has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Piece>,
    /// Whether the submission's next piece was queued, or could not be.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_next: bool,
    /// Whether the submission's time limit is final, because Slurm refused a shorter one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keeps_limit: bool,
    /// The GPUs that the submission's request can be changed to, because its script has tables for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<GpuRequest>,
    /// The pending update of the submission's request, which Slurm may not have received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amendment: Option<Box<Amendment>>,
    /// The ranks as planned, rank 0 first.
    pub ranks: Vec<PlacedRank>,
    /// Predicted time of an epoch.
    #[serde(rename = "epoch_s")]
    pub epoch: Seconds,
    /// Communication part of that time.
    #[serde(rename = "communication_s", default)]
    pub communication: Seconds,
    /// Number of epochs that the job had finished before the submission.
    pub epochs_before: u64,
    /// Time at which the submission was decided.
    pub meant: Time,
    /// Slurm's job id; together with the submit time and the run it identifies the job.
    pub job_id: Option<JobId>,
    /// The submit time, as Slurm prints it.
    pub submit_time: Option<String>,
    pub started: Option<Time>,
    /// The allocated GPUs; before the start, the planned ones.
    pub gpus: Gpus,
    /// The time since which Slurm has not listed the submission although it should.
    pub missing: Option<Time>,
    /// Why the submission is pending, in Slurm's words.
    pub reason: Option<String>,
    /// Unexpected content of rank 0's reports.
    pub odd: Option<String>,
    /// The stall, if the submission is stuck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
    /// GPU types in use that the job's file does not list.
    #[serde(default, skip_serializing_if = "Trials::is_empty")]
    pub trials: Trials,
    /// The submission's queue choice, if it was chosen among several requests of its job.
    #[serde(rename = "terms", default, skip_serializing_if = "Option::is_none")]
    pub queue_choice: Option<QueueChoice>,
    /// A message that the submission's time limit ends it before the remaining work is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pieces: Option<String>,
    /// Whether the submission's script distinguishes a stop from a normal end; scripts of version 0.1.0
    /// exited 0 in both cases.
    #[serde(default)]
    pub tells_stops: bool,
    /// Whether the submission's ranks report which shares they use; they can then adopt others while running.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tells_shares: bool,
    /// The last new shares decided while the submission ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_shares: Option<Box<NewShares>>,
    /// Whether the predicted epoch time was based on assumed speeds that no measurement supported.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unmeasured: bool,
    /// The submission's time limit, if known.
    #[serde(default, rename = "limit_s", skip_serializing_if = "Option::is_none")]
    pub limit: Option<Seconds>,
    /// How long before that limit the script asks the job to stop. Submissions of earlier versions lack it.
    #[serde(default, rename = "grace_s", skip_serializing_if = "Option::is_none")]
    pub grace: Option<Seconds>,
}

impl SubmissionKey {
    /// Returns the key of a job's only submission in a run.
    pub fn new(job: JobName, run: &str) -> Self {
        Self { job, run: run.to_owned(), copy: 0 }
    }

    /// Returns the name of the submission's script, its reports and its Slurm job: that of the job for copy
    /// 0, else `JOB.cN`.
    pub fn name(&self) -> String {
        if self.copy == 0 { self.job.to_string() } else { format!("{}.c{}", self.job, self.copy) }
    }
}

impl Submission {
    /// Returns whether the submission has this key.
    pub fn is(&self, key: &SubmissionKey) -> bool {
        self.attempt.run == key.run && self.attempt.copy == key.copy
    }

    /// Returns whether the submission has its GPUs and is not being ended.
    pub fn is_running(&self) -> bool {
        self.stage == Stage::Running
    }
}

impl Stage {
    /// Returns the stage as one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Meant => "submitting",
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Stopping { .. } => "stopping",
        }
    }

    /// Returns a number that orders the stages; of several submissions, the one with the highest number
    /// represents the job.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::Meant => 0,
            Self::Pending => 1,
            Self::Stopping { .. } => 2,
            Self::Running => 3,
        }
    }
}

impl SubmissionRecord {
    /// Returns the submission's unique key; `job` is its job's name.
    pub fn key(&self, job: &JobName) -> SubmissionKey {
        SubmissionKey { job: job.clone(), run: self.run.clone(), copy: self.copy }
    }

    /// Returns the run whose race the submission has joined, or the submission's own run.
    pub fn race_run(&self) -> &str {
        self.joins.as_deref().unwrap_or(&self.run)
    }

    /// Returns whether the submission races with `other`; the first to start trains.
    pub(crate) fn races_with(&self, other: &Self) -> bool {
        let after = |record: &Self| record.follows.as_ref().map(|piece| piece.job_id);
        self.race_run() == other.race_run() && after(self) == after(other)
    }

    /// Returns whether Slurm reports that the submission's request, which can be changed in place, can never
    /// start; false for a request that cannot be changed.
    pub(crate) fn cannot_start(&self) -> bool {
        !self.tables.is_empty() && self.reason.as_deref() == Some("BadConstraints")
    }

    /// Returns whether the submission ended so late that Slurm may have asked it to stop. Slurm does so at the
    /// submission's grace (at most half of the time limit) before the limit, or up to a minute earlier.
    /// `usual` is the grace if the record has none.
    pub fn is_near_limit(&self, ended: Time, usual: Seconds) -> bool {
        let grace = self.grace.unwrap_or(usual);
        let ran = self.started.map(|started| ended.since(started).0);
        self.limit.zip(ran).is_some_and(|(limit, ran)| ran >= limit.0 - grace.0.min(limit.0 / 2.0) - 60.0)
    }

    /// Returns the submission with its requested time limit; `resumes`, whether its job can resume,
    /// determines the meaning of a limit that is too short. `grace` is how long before the limit
    /// the script asks the job to stop.
    pub fn within(self, walltime: Walltime, resumes: bool, grace: Seconds) -> Self {
        Self { pieces: walltime.cut(resumes), limit: Some(walltime.limit()), grace: Some(grace), ..self }
    }

    /// Applies the pending update to the submission's request.
    pub(super) fn amend(&mut self) {
        let Some(mut amendment) = self.amendment.take() else { return };
        if let Some(kind) = amendment.kind.take() {
            let before = GpuRequest::of(&self.ranks).filter(|kind| !self.tables.contains(kind));
            self.tables.extend(before);
            match amendment.queue_choice.take() {
                // The table for the new GPUs stays, because the same GPUs may be requested in another
                // partition later.
                Some(queue_choice) => self.queue_choice = Some(queue_choice),
                None => self.tables.retain(|known| *known != kind),
            }
        }
        (self.gpus, self.limit) = (Gpus::of(&amendment.ranks), Some(amendment.limit()));
        (self.ranks, self.epoch, self.communication) =
            (amendment.ranks, amendment.epoch, amendment.communication);
        self.pieces = amendment.pieces;
    }

    /// Records the GPUs on which the submission has started; they show whether an unconfirmed update took
    /// effect.
    pub(super) fn starts_on(&mut self, gpus: Option<&Gpus>) {
        if self.amendment.as_ref().is_some_and(|amendment| {
            gpus.is_some_and(|gpus| gpus.by_type() == Gpus::of(&amendment.ranks).by_type())
        }) {
            self.amend();
        }
        self.amendment = None;
        if let Some(gpus) = gpus {
            self.gpus = gpus.clone();
        }
    }

    /// Records the submission's Slurm job id.
    pub(super) fn identify(&mut self, job_id: JobId, submit_time: Option<&String>) {
        self.job_id = Some(job_id);
        self.submit_time = submit_time.cloned().or(self.submit_time.take());
        self.missing = None;
    }

    /// Returns the record of a submission that is about to be made, on the GPUs of a placement.
    pub fn planned(
        run: &str,
        problem: &Problem,
        job: usize,
        placement: &Placement,
        epochs_before: u64,
        meant: Time,
    ) -> Self {
        let (ranks, epoch) = (named_ranks(problem, placement), Seconds(placement.epoch.total()));
        let communication = Seconds(placement.epoch.comm);
        let trials = Trials::of(problem, job, placement);
        Self { communication, trials, ..Self::new(run, ranks, epoch, epochs_before, meant) }
    }

    /// Returns the record of a submission that is about to be made, without communication.
    pub fn new(run: &str, ranks: Vec<PlacedRank>, epoch: Seconds, epochs_before: u64, meant: Time) -> Self {
        let gpus = Gpus::of(&ranks);
        Self {
            run: run.to_owned(),
            copy: 0,
            race: false,
            joins: None,
            follows: None,
            has_next: false,
            keeps_limit: false,
            tables: Vec::new(),
            amendment: None,
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
            stall: None,
            trials: Trials::default(),
            queue_choice: None,
            pieces: None,
            tells_stops: true,
            tells_shares: false,
            new_shares: None,
            unmeasured: false,
            limit: None,
            grace: None,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first(copy: &u32) -> bool {
    *copy == 0
}
