//! Submissions of a job: the attempt as stored, its stage, and what comes after a stop.

use serde::{Deserialize, Serialize};

use crate::{Amendment, GpuRequest, Gpus, NewShares, Stall, Trials, named_ranks};
use hsched_model::serde_defaults::is_false;
use hsched_model::{JobId, JobName, PlacedRank, QueueChoice, Seconds, Time, Walltime};
use hsched_plan::{Placement, Problem};

/// What tells a submission from every other one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SubmissionKey {
    pub job: JobName,
    /// Unique id of the run.
    pub run: String,
    /// Its number among the copies of the job; 0 where there is one.
    #[serde(default, skip_serializing_if = "is_first")]
    pub copy: u32,
}

/// A submission that another one goes on after: a piece of a training that time limits cut.
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

/// How far a submission has come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// About to be submitted, or submitted with no clear answer.
    Meant,
    /// In Slurm's queue.
    Pending,
    Running,
    /// Asked to save and end.
    Stopping {
        since: Time,
        then: AfterStop,
        request: StopProgress,
    },
}

/// How far a request to end a submission has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopProgress {
    /// It is about to be made, or nobody knows whether it was heard.
    Meant,
    /// The job was asked to save and end.
    Asked,
    /// Slurm was told to end it.
    Killed,
}

/// What comes after a submission was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterStop {
    /// The job goes on elsewhere.
    GoOn,
    /// It is over, for its owner said so.
    Cancel,
    /// It is done, for the policy said so before all its epochs were.
    Finish,
    /// It is done, for another copy completed it then.
    Done(Time),
    /// What its rule for stalls says.
    Stalled,
}

/// What was submitted and what is known of it; its run's id, the job's name and the copy tell it from every other one.
#[expect(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubmissionRecord {
    /// Unique id of the run, which Slurm carries in the job's comment.
    pub run: String,
    /// Its number among the copies of the job; 0 where there is one.
    #[serde(default, skip_serializing_if = "is_first")]
    pub copy: u32,
    /// Whether it races with the job's other submissions of its run: of these one alone trains.
    #[serde(default, skip_serializing_if = "is_false")]
    pub race: bool,
    /// The run whose race it has joined, where that is not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joins: Option<String>,
    /// The piece after which it goes on; it trains when that one has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Piece>,
    /// Whether the piece after it was queued, or could not be.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_next: bool,
    /// Whether its time limit stays as it is: a shorter one was refused.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keeps_limit: bool,
    /// What its request can be changed to: its script has tables for these, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<GpuRequest>,
    /// What its request is being changed to: nobody knows yet whether Slurm has heard it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amendment: Option<Box<Amendment>>,
    /// The ranks as planned, rank 0 first.
    pub ranks: Vec<PlacedRank>,
    /// Predicted time of an epoch.
    #[serde(rename = "epoch_s")]
    pub epoch: Seconds,
    /// What of that is communication.
    #[serde(rename = "communication_s", default)]
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
    /// How it is stuck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
    /// The GPU types that the job's file does not list.
    #[serde(default, skip_serializing_if = "Trials::is_empty")]
    pub trials: Trials,
    /// What it asks of the queue, where it was chosen among several requests of its job.
    #[serde(rename = "terms", default, skip_serializing_if = "Option::is_none")]
    pub queue_choice: Option<QueueChoice>,
    /// That a time limit ends it before what is left of the job is done, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pieces: Option<String>,
    /// Whether its script tells a stop from an end: those of 0.1.0 exited 0 in both cases.
    #[serde(default)]
    pub tells_stops: bool,
    /// Whether its ranks say in their reports which shares they use: they can take others while they run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tells_shares: bool,
    /// The last shares that were decided on while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_shares: Option<Box<NewShares>>,
    /// Whether no measurement was behind the predicted epoch.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unmeasured: bool,
    /// Its time limit, where that is known.
    #[serde(default, rename = "limit_s", skip_serializing_if = "Option::is_none")]
    pub limit: Option<Seconds>,
}

impl SubmissionKey {
    /// Returns the key of a job's only submission in a run.
    pub fn new(job: JobName, run: &str) -> Self {
        Self { job, run: run.to_owned(), copy: 0 }
    }

    /// Returns the name of its script, its reports and its Slurm job: the job's, and of a copy `JOB.cN`.
    pub fn name(&self) -> String {
        if self.copy == 0 { self.job.to_string() } else { format!("{}.c{}", self.job, self.copy) }
    }
}

impl Submission {
    /// Returns whether it is the one of this key, of the same job.
    pub fn is(&self, key: &SubmissionKey) -> bool {
        self.attempt.run == key.run && self.attempt.copy == key.copy
    }

    /// Returns whether it has its GPUs and is not being ended.
    pub fn is_running(&self) -> bool {
        self.stage == Stage::Running
    }
}

impl Stage {
    /// Returns the stage in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Meant => "submitting",
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Stopping { .. } => "stopping",
        }
    }

    /// Returns how far it has come, as a number that grows: of several copies the one that is farthest stands for all.
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
    /// Returns what tells it from every other submission; `job` is its job's name.
    pub fn key(&self, job: &JobName) -> SubmissionKey {
        SubmissionKey { job: job.clone(), run: self.run.clone(), copy: self.copy }
    }

    /// Returns the run whose race it is in.
    pub fn race_run(&self) -> &str {
        self.joins.as_deref().unwrap_or(&self.run)
    }

    /// Returns whether it races with another one: the first of them to start trains.
    pub fn races_with(&self, other: &Self) -> bool {
        let after = |record: &Self| record.follows.as_ref().map(|piece| piece.job_id);
        self.race_run() == other.race_run() && after(self) == after(other)
    }

    /// Returns whether Slurm says that a request which may have been changed in place can never start as it is.
    pub fn cannot_start(&self) -> bool {
        !self.tables.is_empty() && self.reason.as_deref() == Some("BadConstraints")
    }

    /// Returns whether it ended so late that Slurm may have asked it to stop ahead of its time limit, by `grace` and up to a minute.
    pub fn is_near_limit(&self, ended: Time, grace: Seconds) -> bool {
        let ran = self.started.map(|started| ended.since(started).0);
        self.limit.zip(ran).is_some_and(|(limit, ran)| ran >= limit.0 - grace.0.min(limit.0 / 2.0) - 60.0)
    }

    /// Returns it with the time limit that it asks for; whether its job `resumes` decides what a limit that is too short means.
    pub fn within(self, walltime: Walltime, resumes: bool) -> Self {
        Self { pieces: walltime.cut(resumes), limit: Some(walltime.limit()), ..self }
    }

    /// Records that its request was changed as was meant.
    pub(super) fn amend(&mut self) {
        let Some(mut amendment) = self.amendment.take() else { return };
        if let Some(kind) = amendment.kind.take() {
            let before = GpuRequest::of(&self.ranks).filter(|kind| !self.tables.contains(kind));
            self.tables.extend(before);
            match amendment.queue_choice.take() {
                // These GPUs may go elsewhere again.
                Some(queue_choice) => self.queue_choice = Some(queue_choice),
                None => self.tables.retain(|known| *known != kind),
            }
        }
        (self.gpus, self.limit) = (Gpus::of(&amendment.ranks), Some(amendment.limit()));
        (self.ranks, self.epoch, self.communication) =
            (amendment.ranks, amendment.epoch, amendment.communication);
        self.pieces = amendment.pieces;
    }

    /// Records on which GPUs it has started: they show whether a change arrived whose fate was unknown.
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

    /// Records by which number Slurm knows it.
    pub(super) fn identify(&mut self, job_id: JobId, submit_time: Option<&String>) {
        self.job_id = Some(job_id);
        self.submit_time = submit_time.cloned().or(self.submit_time.take());
        self.missing = None;
    }

    /// Returns an attempt on the GPUs of a placement that is about to be submitted.
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

    /// Returns an attempt that is about to be submitted, without communication.
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
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first(copy: &u32) -> bool {
    *copy == 0
}
