//! Jobs of batch scripts that hsched did not write: their submissions, states and ends.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{AfterStop, Answer, End, News, Outcome, Stage, StopProgress, SubmissionKey};
use hsched_model::{JobId, JobName, Seconds, Time};

/// A batch script that was submitted unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScriptJob {
    /// The script's name for users and in Slurm's comment; unique among jobs and scripts.
    pub name: JobName,
    /// The job's name in Slurm.
    pub slurm_name: String,
    /// The user's file, absolute; the run's folder has its submitted text.
    pub script: String,
    /// The directory in which the script was submitted, absolute.
    pub submitted_in: String,
    /// The directory in which the script runs, absolute.
    pub workdir: String,
    /// Options on the command line of sbatch.
    pub options: Vec<String>,
    /// Comment that the user set in the script or on the command line; hsched embeds it in its own comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The script's output file, then its error file: Slurm file name patterns, relative to `workdir`.
    pub outputs: Vec<String>,
    /// Number of tasks of the script's array; `None` for other jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
    /// The parts of the script's request that `watch --queue` may change while it is pending.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub may: BTreeSet<RequestPart>,
    pub added: Time,
    /// The last event, as a message for the user.
    pub last: (Time, String),
    /// The last submission.
    pub submission: ScriptSubmission,
    /// How the last submission ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<ScriptEnd>,
    /// Options for the next submission; it is made after the pending one is cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Vec<String>>,
}

/// A part of a request that the user allows hsched to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestPart {
    /// The GPU type.
    Type,
    Partition,
    Account,
    /// A shorter time limit.
    Limit,
}

/// A submission of a script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScriptSubmission {
    /// Unique id, stored in the comment of the Slurm job.
    pub run: String,
    /// Time at which the submission was decided.
    pub meant: Time,
    pub stage: Stage,
    pub job_id: Option<JobId>,
    /// The submit time, as Slurm prints it.
    pub submit_time: Option<String>,
    pub started: Option<Time>,
    /// The time since which Slurm has not listed the submission although it should.
    pub missing: Option<Time>,
    /// Why the job is pending, in Slurm's words.
    pub reason: Option<String>,
    #[serde(default)]
    pub facts: ScriptFacts,
    /// The planned change of the submission's request, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// Time at which a change was last considered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examined: Option<Time>,
}

/// Slurm's information about the job of a script, besides its state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScriptFacts {
    pub partition: Option<String>,
    /// The time limit; `None` without one, and until Slurm reports it.
    #[serde(default, rename = "limit_s", skip_serializing_if = "Option::is_none")]
    pub limit: Option<Seconds>,
    /// When Slurm expects a pending job to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<Time>,
    /// The nodes as a hostlist; empty before the start.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nodes: String,
    /// Number of array tasks that hold nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_tasks: Option<u64>,
}

/// How a script's job ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScriptEnd {
    pub at: Time,
    pub outcome: Outcome,
    /// The end according to Slurm; `None` if Slurm never had the job.
    pub end: Option<End>,
}

/// Start estimates that differ by fewer seconds than this count as equal.
const SAME_START: f64 = 60.0;

impl ScriptSubmission {
    /// Returns a submission that is about to be made.
    pub fn new(run: &str, meant: Time) -> Self {
        Self {
            run: run.to_owned(),
            meant,
            stage: Stage::Meant,
            job_id: None,
            submit_time: None,
            started: None,
            missing: None,
            reason: None,
            facts: ScriptFacts::default(),
            change: None,
            examined: None,
        }
    }
}

impl ScriptFacts {
    /// Returns whether another observation contains no news for the user.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let is_same_start = match (self.expected_start, other.expected_start) {
            (Some(time), Some(other)) => (time.0 - other.0).abs() < SAME_START,
            (time, other) => time == other,
        };
        let without = |facts: &Self| Self { expected_start: None, ..facts.clone() };
        is_same_start && without(self) == without(other)
    }
}

impl ScriptJob {
    /// Returns the unique key of the script's submission.
    pub fn key(&self) -> SubmissionKey {
        SubmissionKey::new(self.name.clone(), &self.submission.run)
    }

    /// Returns whether the script has ended for good.
    pub fn is_over(&self) -> bool {
        self.end.is_some() && self.next.is_none()
    }

    /// Returns whether the script's last submission was cancelled in favour of another one that has not been
    /// made yet.
    pub fn is_between(&self) -> bool {
        self.end.is_some() && self.next.is_some()
    }

    /// Returns whether the script was presumed lost, so that it continues if the queue shows it after all.
    pub fn is_lost(&self) -> bool {
        self.end.as_ref().is_some_and(|end| matches!(end.end, None | Some(End::Vanished)))
    }

    /// Returns the script's state in one word.
    pub fn word(&self) -> &'static str {
        match &self.end {
            Some(_) if self.next.is_some() => Stage::Meant.word(),
            Some(end) => end.outcome.word(),
            None => self.submission.stage.word(),
        }
    }

    /// Returns the Slurm job to cancel because the user requested it, if Slurm has it and has not been asked
    /// yet.
    pub fn due_cancel(&self) -> Option<JobId> {
        let is_meant = matches!(
            self.submission.stage,
            Stage::Stopping { then: AfterStop::Cancel, request: StopProgress::Meant, .. }
        );
        self.submission.job_id.filter(|_| is_meant && !self.is_over())
    }

    /// Marks the script's job for cancellation. If Slurm does not list the job yet, it is cancelled when it
    /// appears.
    pub(super) fn cancel(&mut self, at: Time) {
        self.next = None;
        let is_asked = matches!(self.submission.stage, Stage::Stopping { then: AfterStop::Cancel, .. });
        if self.is_over() || is_asked {
            return;
        }
        let (then, request) = (AfterStop::Cancel, StopProgress::Meant);
        self.submission.stage = Stage::Stopping { since: at, then, request };
        self.last = (at, "is being cancelled".to_owned());
    }

    /// Marks the script's pending submission for cancellation, and the script for resubmission with these
    /// options.
    pub fn submit_again(&mut self, at: Time, options: Vec<String>) {
        let (then, request) = (AfterStop::GoOn, StopProgress::Meant);
        self.submission.stage = Stage::Stopping { since: at, then, request };
        self.next = Some(options);
    }

    /// Replaces the submission with the next one, which is about to be made.
    pub fn begin_next(&mut self, run: &str, at: Time) {
        if let Some(options) = self.next.take() {
            self.options = options;
        }
        self.submission =
            ScriptSubmission { examined: self.submission.examined, ..ScriptSubmission::new(run, at) };
        self.end = None;
        self.last = (at, "about to be submitted again".to_owned());
    }

    /// Ends a script that cannot be resubmitted.
    pub fn give_up(&mut self, at: Time, why: &str) {
        self.next = None;
        self.last = (at, why.to_owned());
        self.end = Some(ScriptEnd { at, outcome: Outcome::Failed { reason: why.to_owned() }, end: None });
    }

    /// Applies the outcome of a request about the script's submission.
    pub(super) fn answered(&mut self, at: Time, answer: &Answer) {
        let submission = &mut self.submission;
        let said = match answer {
            Answer::Submitted { job_id } => {
                (submission.job_id, submission.missing) = (Some(*job_id), None);
                self.advance(Stage::Pending);
                format!("submitted as job {job_id}")
            }
            Answer::Refused { message } => {
                return self.never_ran(at, &format!("Slurm refused it: {message}"));
            }
            Answer::Deferred { message } => {
                return self.never_ran(at, &format!("Slurm takes no jobs now: {message}"));
            }
            Answer::Unreachable { message } => {
                return self.never_ran(at, &format!("it could not be submitted: {message}"));
            }
            Answer::Unclear { message } => {
                if submission.stage != Stage::Meant {
                    return;
                }
                format!("unclear whether Slurm received the request ({message})")
            }
            Answer::Stopped | Answer::Killed => {
                if let Stage::Stopping { request, .. } = &mut submission.stage {
                    *request = StopProgress::Killed;
                }
                "is being cancelled".to_owned()
            }
            Answer::NotStopped { message } => {
                if matches!(submission.stage, Stage::Stopping { then: AfterStop::GoOn, .. }) {
                    submission.stage = Stage::Pending;
                    self.next = None;
                }
                format!("could not be cancelled: {message}")
            }
            Answer::Amended => {
                let change = submission.change.take().unwrap_or_default();
                format!("its request was changed: {change}")
            }
            // Scripts have no shares.
            Answer::Shared | Answer::NotShared { .. } => return,
            Answer::NotAmended { message } => {
                submission.change = None;
                format!("its request was not changed: {message}")
            }
        };
        self.last = (at, said);
    }

    /// Applies news of the script's submission.
    pub(super) fn hear(&mut self, at: Time, news: &News) {
        let submission = &mut self.submission;
        match news {
            News::Missing => submission.missing = Some(at),
            News::NeverSubmitted => self.never_ran(at, "Slurm never received it; submit it again"),
            News::Queued { job_id, submit_time } => {
                let is_new = submission.job_id != Some(*job_id) || submission.stage != Stage::Pending;
                self.identify(*job_id, submit_time.as_ref());
                // If the job had started, Slurm has requeued it.
                self.submission.started = None;
                self.end = None;
                if is_new {
                    self.last = (at, format!("pending as job {job_id}"));
                }
                self.advance(Stage::Pending);
            }
            News::Started { job_id, submit_time, at: since, .. } => {
                self.identify(*job_id, submit_time.as_ref());
                let submission = &mut self.submission;
                (submission.started, submission.reason, submission.change) = (Some(*since), None, None);
                if matches!(submission.stage, Stage::Stopping { then: AfterStop::GoOn, .. }) {
                    // The job started before it could be cancelled for another request.
                    submission.stage = Stage::Running;
                }
                (self.end, self.next) = (None, None);
                self.last = (*since, format!("running as job {job_id}"));
                self.advance(Stage::Running);
            }
            News::Waits(reason) => submission.reason = Some(reason.text.clone()),
            News::Facts(facts) => submission.facts = facts.clone(),
            News::Ended { end, at } => self.finish(*at, end),
            News::Epoch(_) | News::Odd { .. } | News::Stalled(_) => {}
        }
    }

    fn identify(&mut self, job_id: JobId, submit_time: Option<&String>) {
        let submission = &mut self.submission;
        submission.job_id = Some(job_id);
        submission.submit_time = submit_time.cloned().or(submission.submit_time.take());
        submission.missing = None;
    }

    /// Moves the submission to its next stage; one that is being ended keeps its stage.
    fn advance(&mut self, next: Stage) {
        if !matches!(self.submission.stage, Stage::Stopping { .. }) {
            self.submission.stage = next;
        }
    }

    /// Ends a submission that Slurm does not have.
    fn never_ran(&mut self, at: Time, why: &str) {
        let is_cancelled = matches!(self.submission.stage, Stage::Stopping { .. });
        let outcome =
            if is_cancelled { Outcome::Cancelled } else { Outcome::Failed { reason: why.to_owned() } };
        self.last = (at, why.to_owned());
        self.end = Some(ScriptEnd { at, outcome, end: None });
    }

    /// Ends the script's job with Slurm's state: only exit status 0 counts as completed.
    fn finish(&mut self, at: Time, end: &End) {
        let outcome = match end {
            End::Completed => Outcome::Completed,
            End::Cancelled => Outcome::Cancelled,
            other => Outcome::Failed { reason: other.to_string() },
        };
        if *end != End::Cancelled || self.submission.started.is_some() {
            self.next = None;
        }
        self.last = (at, outcome.to_string());
        if self.next.is_some() {
            "cancelled, to be submitted again with a better request".clone_into(&mut self.last.1);
        }
        self.submission.reason = None;
        self.end = Some(ScriptEnd { at, outcome, end: Some(end.clone()) });
    }
}
