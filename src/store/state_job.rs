//! A job of the state as JSON, and back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::{
    Attempt, End, Gpus, Outcome, PastAttempt, Phase, Request, Stage, Submission, Then, Tracked, Trial, Trials,
};
use crate::model::{GpuType, Job, JobId, JobName, NodeName, PlacedRank, Seconds, Time};
use crate::spec;

/// A job and its story.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StateJob {
    /// As a job file would say it.
    pub(super) spec: Value,
    #[serde(flatten)]
    phase: StatePhase,
    epochs_done: u64,
    failures: u32,
    fruitless: u32,
    epoch_s: Option<f64>,
    #[serde(default)]
    epoch_at: Option<f64>,
    added: f64,
    last: (f64, String),
    #[serde(default)]
    stray: Option<u32>,
    /// GPU types on which it is not tried again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    avoids: Vec<String>,
    past: Vec<StatePast>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
enum StatePhase {
    Waiting {
        not_before: Option<f64>,
        reason: String,
    },
    Submitted {
        submissions: Vec<StateSubmission>,
    },
    Completed {
        at: f64,
    },
    Failed {
        at: f64,
        reason: String,
    },
    Cancelled {
        at: f64,
    },
    /// A submission as previous versions wrote it: the only one of its job.
    #[serde(untagged, skip_serializing)]
    Only(Box<OnlySubmission>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StateSubmission {
    #[serde(flatten)]
    stage: StateStage,
    attempt: StateAttempt,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
enum StateStage {
    Meant,
    Pending,
    Running,
    Stopping { since: f64, then: StateThen, request: StateRequest },
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StateThen {
    GoOn,
    Cancel,
    Finish,
    Done(f64),
}

/// What previous versions wrote of a job that Slurm had or might have had.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct OnlySubmission {
    phase: OnlyPhase,
    attempt: StateAttempt,
    #[serde(default)]
    since: f64,
    #[serde(default)]
    cancel: bool,
    #[serde(default)]
    finish: bool,
    request: Option<StateRequest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OnlyPhase {
    Meant,
    Pending,
    Running,
    Stopping,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StateRequest {
    Meant,
    Asked,
    Killed,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StateAttempt {
    run: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    copy: u32,
    job_id: Option<u32>,
    submit_time: Option<String>,
    meant: f64,
    started: Option<f64>,
    missing: Option<f64>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    odd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pieces: Option<String>,
    epoch_s: f64,
    #[serde(default)]
    communication_s: f64,
    epochs_before: u64,
    /// The GPU types that the job's file does not list, and whether their speed was estimated.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    trials: BTreeMap<String, bool>,
    ranks: Vec<StateRank>,
    /// Node, then type.
    gpus: BTreeMap<String, BTreeMap<String, u32>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StateRank {
    node: String,
    #[serde(rename = "type")]
    gpu_type: String,
    local_rank: u32,
    batch: u64,
    samples: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StatePast {
    attempt: StateAttempt,
    ended: f64,
    end: StateEnd,
    epochs: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StateEnd {
    Completed,
    Saved,
    TimedOut,
    Failed { exit: u8, signal: u8 },
    OutOfMemory,
    NodeFailed,
    BootFailed,
    Preempted,
    Deadline,
    Cancelled,
    Vanished,
    Other(String),
}

impl StateJob {
    /// Returns the job's name.
    pub(super) fn name(&self) -> Option<&str> {
        self.spec.get("name").and_then(Value::as_str)
    }

    pub(super) fn new(tracked: &Tracked) -> Self {
        let past = |past: &PastAttempt| StatePast {
            attempt: StateAttempt::new(&past.attempt),
            ended: past.ended.0,
            end: StateEnd::new(&past.end),
            epochs: past.epochs,
        };
        Self {
            spec: spec::jobs::to_json(&tracked.job),
            phase: StatePhase::new(&tracked.phase),
            epochs_done: tracked.epochs_done,
            failures: tracked.failures,
            fruitless: tracked.fruitless,
            epoch_s: tracked.epoch.map(|epoch| epoch.0),
            epoch_at: tracked.epoch_at.map(|time| time.0),
            added: tracked.added.0,
            last: (tracked.last.0.0, tracked.last.1.clone()),
            stray: tracked.stray.map(|id| id.0),
            avoids: tracked.avoids.iter().map(ToString::to_string).collect(),
            past: tracked.past.iter().map(past).collect(),
        }
    }

    /// Returns the job of this specification with its story.
    ///
    /// # Errors
    /// What in it cannot be.
    pub(super) fn tracked(self, job: Job) -> Result<Tracked, String> {
        let name: &JobName = &job.name;
        let named = |what: String| format!("job {name}: {what}");
        let past = |past: StatePast| {
            let (ended, end, epochs) = (Time(past.ended), past.end.end(), past.epochs);
            Ok(PastAttempt { attempt: past.attempt.attempt()?, ended, end, epochs })
        };
        let past: Result<Vec<PastAttempt>, String> = self.past.into_iter().map(past).collect();
        Ok(Tracked {
            phase: self.phase.phase().map_err(named)?,
            epochs_done: self.epochs_done,
            failures: self.failures,
            fruitless: self.fruitless,
            epoch: self.epoch_s.map(Seconds),
            epoch_at: self.epoch_at.map(Time),
            added: Time(self.added),
            last: (Time(self.last.0), self.last.1),
            stray: self.stray.map(JobId),
            avoids: self.avoids.iter().map(|name| gpu_type(name)).collect::<Result<_, _>>().map_err(named)?,
            past: past.map_err(named)?,
            job,
        })
    }
}

impl StatePhase {
    fn new(phase: &Phase) -> Self {
        match phase {
            Phase::Waiting { not_before, reason } => {
                Self::Waiting { not_before: not_before.map(|time| time.0), reason: reason.clone() }
            }
            Phase::Submitted(own) => {
                Self::Submitted { submissions: own.iter().map(StateSubmission::new).collect() }
            }
            Phase::Ended { at, outcome } => match outcome {
                Outcome::Completed => Self::Completed { at: at.0 },
                Outcome::Failed { reason } => Self::Failed { at: at.0, reason: reason.clone() },
                Outcome::Cancelled => Self::Cancelled { at: at.0 },
            },
        }
    }

    fn phase(self) -> Result<Phase, String> {
        let ended = |at: f64, outcome| Phase::Ended { at: Time(at), outcome };
        Ok(match self {
            Self::Waiting { not_before, reason } => {
                Phase::Waiting { not_before: not_before.map(Time), reason }
            }
            Self::Submitted { submissions } if submissions.is_empty() => {
                return Err("it was submitted and has no submission".to_owned());
            }
            Self::Submitted { submissions } => {
                let own: Result<_, String> =
                    submissions.into_iter().map(StateSubmission::submission).collect();
                Phase::Submitted(own?)
            }
            Self::Only(own) => Phase::Submitted(vec![own.submission()?]),
            Self::Completed { at } => ended(at, Outcome::Completed),
            Self::Failed { at, reason } => ended(at, Outcome::Failed { reason }),
            Self::Cancelled { at } => ended(at, Outcome::Cancelled),
        })
    }
}

impl StateSubmission {
    fn new(own: &Submission) -> Self {
        let stage = match own.stage {
            Stage::Meant => StateStage::Meant,
            Stage::Pending => StateStage::Pending,
            Stage::Running => StateStage::Running,
            Stage::Stopping { since, then, request } => StateStage::Stopping {
                since: since.0,
                then: StateThen::new(then),
                request: StateRequest::new(request),
            },
        };
        Self { stage, attempt: StateAttempt::new(&own.attempt) }
    }

    fn submission(self) -> Result<Submission, String> {
        let stage = match self.stage {
            StateStage::Meant => Stage::Meant,
            StateStage::Pending => Stage::Pending,
            StateStage::Running => Stage::Running,
            StateStage::Stopping { since, then, request } => {
                Stage::Stopping { since: Time(since), then: then.then(), request: request.request() }
            }
        };
        Ok(Submission { attempt: self.attempt.attempt()?, stage })
    }
}

impl OnlySubmission {
    fn submission(self) -> Result<Submission, String> {
        let then = match (self.cancel, self.finish) {
            (true, _) => Then::Cancel,
            (false, true) => Then::Finish,
            (false, false) => Then::GoOn,
        };
        let stage = match self.phase {
            OnlyPhase::Meant => Stage::Meant,
            OnlyPhase::Pending => Stage::Pending,
            OnlyPhase::Running => Stage::Running,
            OnlyPhase::Stopping => {
                let request = self.request.ok_or("it is being stopped, and how is not said")?.request();
                Stage::Stopping { since: Time(self.since), then, request }
            }
        };
        Ok(Submission { attempt: self.attempt.attempt()?, stage })
    }
}

impl StateThen {
    fn new(then: Then) -> Self {
        match then {
            Then::GoOn => Self::GoOn,
            Then::Cancel => Self::Cancel,
            Then::Finish => Self::Finish,
            Then::Done(at) => Self::Done(at.0),
        }
    }

    fn then(self) -> Then {
        match self {
            Self::GoOn => Then::GoOn,
            Self::Cancel => Then::Cancel,
            Self::Finish => Then::Finish,
            Self::Done(at) => Then::Done(Time(at)),
        }
    }
}

impl StateAttempt {
    fn new(attempt: &Attempt) -> Self {
        let rank = |rank: &PlacedRank| StateRank {
            node: rank.node.to_string(),
            gpu_type: rank.gpu_type.to_string(),
            local_rank: rank.local_rank,
            batch: rank.batch,
            samples: rank.samples,
        };
        let trial = |(name, trial): (&GpuType, &Trial)| (name.to_string(), *trial == Trial::Estimated);
        let mut gpus: BTreeMap<String, BTreeMap<String, u32>> = BTreeMap::new();
        for (node, gpu_type, count) in attempt.gpus.iter() {
            gpus.entry(node.to_string()).or_default().insert(gpu_type.to_string(), count);
        }
        Self {
            run: attempt.run.clone(),
            copy: attempt.copy,
            job_id: attempt.job_id.map(|id| id.0),
            submit_time: attempt.submit_time.clone(),
            meant: attempt.meant.0,
            started: attempt.started.map(|time| time.0),
            missing: attempt.missing.map(|time| time.0),
            reason: attempt.reason.clone(),
            odd: attempt.odd.clone(),
            pieces: attempt.pieces.clone(),
            epoch_s: attempt.epoch.0,
            communication_s: attempt.communication.0,
            epochs_before: attempt.epochs_before,
            trials: attempt.trials.0.iter().map(trial).collect(),
            ranks: attempt.ranks.iter().map(rank).collect(),
            gpus,
        }
    }

    fn attempt(self) -> Result<Attempt, String> {
        let place = |node: &str, gpu_type: &str| {
            let name = NodeName::new(node).map_err(|error| error.to_string())?;
            Ok::<_, String>((name, self::gpu_type(gpu_type)?))
        };
        let rank = |rank: StateRank| {
            let (node, gpu_type) = place(&rank.node, &rank.gpu_type)?;
            let (local_rank, batch, samples) = (rank.local_rank, rank.batch, rank.samples);
            Ok(PlacedRank { node, gpu_type, local_rank, batch, samples })
        };
        let ranks = self.ranks.into_iter().map(rank).collect::<Result<Vec<_>, String>>()?;
        let mut gpus = Gpus::default();
        for (node, own) in &self.gpus {
            for (gpu_type, count) in own {
                let (node, gpu_type) = place(node, gpu_type)?;
                gpus.add(&node, &gpu_type, *count);
            }
        }
        let trial = |(name, estimated): (String, bool)| {
            Ok((gpu_type(&name)?, if estimated { Trial::Estimated } else { Trial::Unlisted }))
        };
        let trials = self.trials.into_iter().map(trial).collect::<Result<_, String>>()?;
        let attempt =
            Attempt::new(&self.run, ranks, Seconds(self.epoch_s), self.epochs_before, Time(self.meant));
        Ok(Attempt {
            copy: self.copy,
            job_id: self.job_id.map(JobId),
            submit_time: self.submit_time,
            started: self.started.map(Time),
            missing: self.missing.map(Time),
            reason: self.reason,
            odd: self.odd,
            pieces: self.pieces,
            gpus,
            trials: Trials(trials),
            communication: Seconds(self.communication_s),
            ..attempt
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(copy: &u32) -> bool {
    *copy == 0
}

fn gpu_type(name: &str) -> Result<GpuType, String> {
    GpuType::new(name).ok_or_else(|| format!("{name:?} is no GPU type"))
}

impl StateRequest {
    fn new(request: Request) -> Self {
        match request {
            Request::Meant => Self::Meant,
            Request::Asked => Self::Asked,
            Request::Killed => Self::Killed,
        }
    }

    fn request(self) -> Request {
        match self {
            Self::Meant => Request::Meant,
            Self::Asked => Request::Asked,
            Self::Killed => Request::Killed,
        }
    }
}

impl StateEnd {
    fn new(end: &End) -> Self {
        match end {
            End::Completed => Self::Completed,
            End::Saved => Self::Saved,
            End::TimedOut => Self::TimedOut,
            End::Failed { exit, signal } => Self::Failed { exit: *exit, signal: *signal },
            End::OutOfMemory => Self::OutOfMemory,
            End::NodeFailed => Self::NodeFailed,
            End::BootFailed => Self::BootFailed,
            End::Preempted => Self::Preempted,
            End::Deadline => Self::Deadline,
            End::Cancelled => Self::Cancelled,
            End::Vanished => Self::Vanished,
            End::Other(text) => Self::Other(text.clone()),
        }
    }

    fn end(self) -> End {
        match self {
            Self::Completed => End::Completed,
            Self::Saved => End::Saved,
            Self::TimedOut => End::TimedOut,
            Self::Failed { exit, signal } => End::Failed { exit, signal },
            Self::OutOfMemory => End::OutOfMemory,
            Self::NodeFailed => End::NodeFailed,
            Self::BootFailed => End::BootFailed,
            Self::Preempted => End::Preempted,
            Self::Deadline => End::Deadline,
            Self::Cancelled => End::Cancelled,
            Self::Vanished => End::Vanished,
            Self::Other(text) => End::Other(text),
        }
    }
}
