//! The state of all jobs: the specification of each job, its phase and its history.

mod phase;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::phase::{Outcome, Phase};
use crate::{EarlyEnd, End, NodeTimes, ScriptJob, Stage, Submission, SubmissionKey, SubmissionRecord};
use hsched_model::number::to_f64;
use hsched_model::serde_defaults::is_zero;
use hsched_model::{GpuType, Job, JobId, JobName, NodeName, Seconds, Time};
use hsched_plan::Memory;
use hsched_plan::curve::CurvePoint;
use hsched_plan::throughput::Cache;

/// Everything that the engine keeps between two steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Nodes with GPUs that accepted no new work at the last observation.
    pub nodes_down: BTreeSet<NodeName>,
    /// Those of them that were reserved or under maintenance: jobs that run there go on.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub nodes_reserved: BTreeSet<NodeName>,
    /// Fingerprint of the last decision's input; an equal input needs no new decision.
    pub decided: Option<u64>,
    /// The time at which the policy wants to be called again even if the input is unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake: Option<Time>,
    /// The policy's memory of its last decisions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// The policy that planned last, as named on the command line; `None` if none was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned_by: Option<String>,
    /// Step times of ranks on each node.
    #[serde(default, skip_serializing_if = "NodeTimes::is_empty")]
    pub node_times: NodeTimes,
    /// Jobs in the order in which they were first added.
    pub jobs: Vec<JobState>,
    /// Scripts submitted unchanged, in order of submission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<ScriptJob>,
    /// Known speeds; stored in a separate file.
    #[serde(skip)]
    pub cache: Cache,
    /// Id under which this state directory contributes to shared speeds.
    #[serde(skip)]
    pub contributor: String,
}

/// A job with its history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobState {
    /// Shared, because states are copied at each decision, and jobs do not change.
    #[serde(rename = "spec")]
    pub job: Arc<Job>,
    pub phase: Phase,
    pub epochs_done: u64,
    /// Number of ends that counted against the job's retries.
    pub failures: u32,
    /// Number of consecutive submissions that ended without finishing an epoch.
    pub fruitless: u32,
    /// Number of consecutive stops and time limits that cut the job without a new epoch.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cuts: u32,
    /// Length of the last whole epoch, as reported or else as observed.
    #[serde(rename = "epoch_s")]
    pub epoch: Option<Seconds>,
    /// Mean time of the job's starts until the first step, from reports.
    #[serde(default, rename = "startup_s", skip_serializing_if = "Option::is_none")]
    pub startup: Option<Seconds>,
    /// The job's longest pause that looked like a stall but proved harmless.
    #[serde(default, rename = "pause_s", skip_serializing_if = "Option::is_none")]
    pub pause: Option<Seconds>,
    /// Time at which the job's last finished epoch was seen.
    pub epoch_at: Option<Time>,
    pub added: Time,
    /// The last event, as a message for the user.
    pub last: (Time, String),
    /// An earlier submission that is still in Slurm; until it ends, no other may be submitted.
    pub stray: Option<JobId>,
    /// GPU types that the job's file does not list and on which its first run failed; they are not tried
    /// again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub avoids: BTreeSet<GpuType>,
    /// Nodes on which the job's check before the first step failed, with the time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unfit: BTreeMap<NodeName, Time>,
    /// The job that this one waits for: its predecessor, or a run of its sweep if the sweep's limit is
    /// reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaits: Option<JobName>,
    pub past: Vec<PastAttempt>,
    /// The metric of the job's target, for the epochs that reported it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<CurvePoint>,
    /// An early stop that the job's metrics allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early: Option<EarlyEnd>,
    /// The job's position in its sweep, from 0, if the sweep has a halving rule; it stays the same when
    /// earlier jobs are forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u64>,
    /// Whether the user was warned that the job will miss its deadline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_late: bool,
    /// Whether the speeds in the job's spec are assumptions for an unknown model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
    /// Whether no measurement supports the assumed speeds yet; predictions from them are meaningless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unmeasured: bool,
}

/// A submission that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastAttempt {
    pub attempt: SubmissionRecord,
    pub ended: Time,
    pub end: End,
    /// Number of epochs that the submission finished.
    pub epochs: u64,
}

impl State {
    /// Returns the job with this name.
    pub fn find(&self, name: &JobName) -> Option<&JobState> {
        self.jobs.iter().find(|tracked| tracked.job.name == *name)
    }

    /// Returns the job with this name, mutably.
    pub fn find_mut(&mut self, name: &JobName) -> Option<&mut JobState> {
        self.jobs.iter_mut().find(|tracked| tracked.job.name == *name)
    }

    /// Returns the script with this name.
    pub fn script(&self, name: &JobName) -> Option<&ScriptJob> {
        self.scripts.iter().find(|script| script.name == *name)
    }

    /// Returns the script with this name, mutably.
    pub fn script_mut(&mut self, name: &JobName) -> Option<&mut ScriptJob> {
        self.scripts.iter_mut().find(|script| script.name == *name)
    }

    /// Returns the longest grace for saving among the jobs that have not ended; `default` applies to jobs
    /// that set none.
    pub fn longest_grace(&self, default: Seconds) -> Seconds {
        let open = self.jobs.iter().filter(|tracked| !tracked.phase.is_over());
        Seconds(open.map(|open| open.job.launch.checkpoint.grace.unwrap_or(default).0).fold(0.0, f64::max))
    }

    /// Returns whether every job has ended, those of scripts included.
    pub fn is_over(&self) -> bool {
        self.jobs.iter().all(|tracked| tracked.phase.is_over()) && self.scripts.iter().all(ScriptJob::is_over)
    }
}

impl JobState {
    /// How long before its limit a job is asked to stop if neither its submission nor its file has a grace.
    pub(super) const USUAL_GRACE: Seconds = Seconds(120.0);
    /// Reason of a pending job before the first decision about it.
    pub(super) const NOT_PLANNED: &str = "not planned yet";

    /// Returns a pending job that was just added.
    pub fn new(job: Job, at: Time) -> Self {
        Self {
            job: Arc::new(job),
            phase: Phase::Waiting { not_before: None, reason: Self::NOT_PLANNED.into() },
            epochs_done: 0,
            failures: 0,
            fruitless: 0,
            cuts: 0,
            epoch: None,
            startup: None,
            pause: None,
            epoch_at: None,
            added: at,
            last: (at, "added".into()),
            stray: None,
            avoids: BTreeSet::new(),
            unfit: BTreeMap::new(),
            awaits: None,
            past: Vec::new(),
            assumed: false,
            unmeasured: false,
            curve: Vec::new(),
            early: None,
            place: None,
            is_late: false,
        }
    }

    /// Marks the job as about to be submitted, beside its other submissions.
    pub fn intend(&mut self, attempt: SubmissionRecord) {
        self.last = (attempt.meant, format!("about to be submitted on {}", attempt.gpus));
        let submission = Submission { attempt, stage: Stage::Meant };
        match &mut self.phase {
            Phase::Submitted(submissions) => submissions.push(submission),
            phase => *phase = Phase::Submitted(vec![submission]),
        }
    }

    /// Returns the submission with this key, unless it has ended.
    pub fn submission(&self, key: &SubmissionKey) -> Option<&Submission> {
        self.phase.submissions().iter().find(|submission| submission.is(key))
    }

    /// Returns the submission with this key, mutably.
    pub(super) fn submission_mut(&mut self, key: &SubmissionKey) -> Option<&mut Submission> {
        self.phase.submissions_mut().iter_mut().find(|submission| submission.is(key))
    }

    /// Returns the submissions that have ended since the job was added, in order. For a job that was added
    /// again, `past` also contains those of the earlier job.
    pub fn past_since_added(&self) -> impl DoubleEndedIterator<Item = &PastAttempt> {
        self.past.iter().filter(|past| past.attempt.meant >= self.added)
    }

    /// Returns the epochs still to train.
    pub fn epochs_left(&self) -> u64 {
        self.job.epochs.saturating_sub(self.epochs_done)
    }

    /// Returns the job with its remaining epochs, at least one.
    pub fn rest(&self) -> Job {
        Job { epochs: self.epochs_left().max(1), ..Job::clone(&self.job) }
    }

    /// Returns a message on the number of retries that remain after the next one.
    pub fn retries_left(&self) -> String {
        match (self.job.retries.saturating_sub(self.failures), self.job.retries) {
            (0, _) => "last retry".to_owned(),
            (left, all) => format!("{left} of {all} retries left"),
        }
    }

    /// Returns a message on how a submission ended.
    pub fn ending(&self, past: &PastAttempt) -> String {
        let grace = self.job.launch.checkpoint.grace.unwrap_or(Self::USUAL_GRACE);
        let is_cut = matches!(past.end, End::Cut | End::Unhandled);
        let at_limit = is_cut && past.attempt.is_near_limit(past.ended, grace);
        let at = if at_limit { " at its time limit" } else { "" };
        let why = if past.end == End::Unhandled { ": its command does not handle SIGUSR1" } else { "" };
        format!("{}{at}{why}", past.end)
    }

    /// Returns the shortest time limit for the next submission: twice the longest limit that cut the job
    /// since its last new epoch. While the length of an epoch is unknown, earlier limits that cut the job
    /// before a new epoch also count twice, and limits within which the job made progress count once.
    pub fn least_limit(&self) -> Option<Seconds> {
        let mut is_fruitless = true;
        let least = self.past_since_added().rev().filter_map(|past| {
            is_fruitless &= past.epochs == 0;
            let limit = past.attempt.limit.filter(|_| past.is_at_limit())?.0;
            match past.epochs {
                0 if is_fruitless || self.epoch.is_none() => Some(2.0 * limit),
                0 => None,
                _ => self.epoch.is_none().then_some(limit),
            }
        });
        least.max_by(f64::total_cmp).map(Seconds)
    }

    /// Returns the end of a sentence about a completed job: that it stopped early, that it ignored a stop, or
    /// which epochs it did not report. Empty if it reported all epochs as planned.
    pub fn shortfall(&self) -> String {
        if let Some(stopped) = self.stopped_early() {
            return format!(", {stopped}");
        }
        if let Some(ignored) = self.ignored_stop() {
            return format!(", {ignored}");
        }
        match (self.epochs_done, self.job.epochs) {
            // The other copies trained those epochs.
            _ if self.job.training().is_some() => String::new(),
            (done, all) if done >= all => String::new(),
            (0, _) => {
                let has_ranks = self.past.last().is_some_and(|past| past.attempt.gpus.total() > 1);
                let hint =
                    if has_ranks { "; if its command is not distributed, set max_gpus: 1" } else { "" };
                format!(", but its ranks reported no epoch{hint}")
            }
            (done, all) => {
                let hint = if done + 1 == all { ": epochs count from 1" } else { "" };
                format!(", but its ranks reported only {done} of {all} epochs{hint}")
            }
        }
    }

    /// Returns whether a run can be continued after its time limit: the user states that it saves, or one
    /// submission was seen to continue after the epochs of another.
    pub fn resumes(&self) -> bool {
        let went_on = |attempt: &SubmissionRecord, epochs: u64| attempt.epochs_before > 0 && epochs > 0;
        let now = |submission: &Submission| {
            went_on(&submission.attempt, self.epochs_done.saturating_sub(submission.attempt.epochs_before))
        };
        self.job.resumes()
            || self.past.iter().any(|past| went_on(&past.attempt, past.epochs))
            || self.phase.running().is_some() && self.phase.submissions().iter().any(now)
    }

    /// Returns whether a submission may have saved part of an epoch, so that the next one to report that
    /// epoch begins within it.
    pub(super) fn may_have_saved(&self) -> bool {
        self.past.iter().any(|past| past.end != End::Completed)
    }

    /// Returns when the job is expected to end, from observed epochs or else from the prediction; `None`
    /// while it is unknown.
    pub fn expected_end(&self, now: Time) -> Option<Time> {
        let is_guess = |attempt: &&SubmissionRecord| self.job.is_command() && attempt.unmeasured;
        let attempt = self.phase.running().filter(|attempt| !is_guess(attempt))?;
        let epoch = self.epoch.filter(|_| self.epochs_done > attempt.epochs_before).unwrap_or(attempt.epoch);
        let (done, all) = (
            to_f64(self.epochs_done.saturating_sub(attempt.epochs_before)),
            to_f64(self.job.epochs.saturating_sub(attempt.epochs_before)),
        );
        let begun = attempt.started.unwrap_or(now).0.max(now.0 - (done + 1.0) * epoch.0);
        Some(Time((begun + all * epoch.0).max(now.0)))
    }

    /// Returns how long a running job has reported no epoch, if that is too long: more than a minute, and
    /// more than three epoch lengths or, without a report since its start, the time of all remaining epochs
    /// (at least three).
    pub fn overdue(&self, now: Time) -> Option<Seconds> {
        let attempt = self.phase.running().filter(|_| !self.job.is_command())?;
        let reports = self.epochs_done > attempt.epochs_before;
        let epoch = self.epoch.filter(|_| reports).unwrap_or(attempt.epoch);
        let last =
            self.epoch_at.into_iter().chain(attempt.started).map(|time| time.0).max_by(f64::total_cmp)?;
        let silence = now.since(Time(last));
        let epochs = if reports { 3.0 } else { to_f64(self.epochs_left().max(3)) };
        (silence.0 > (epochs * epoch.0).max(60.0)).then_some(silence)
    }
}

impl PastAttempt {
    /// Returns whether the time limit cut the submission, rather than another request to stop, according to
    /// Slurm or to the time of its end. Slurm sends the stop signal one grace before the limit, or up to a
    /// minute earlier; the grace is at most half of the limit.
    pub(crate) fn is_at_limit(&self) -> bool {
        let half = self.attempt.limit.map(|limit| Seconds(limit.0 / 2.0));
        let is_near = || half.is_some_and(|half| self.attempt.is_near_limit(self.ended, half));
        self.end == End::TimedOut || self.end.is_cut() && is_near()
    }
}
