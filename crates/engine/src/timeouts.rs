//! Actions outside the policy: ending cancelled jobs and submissions that do not stop or cannot start, and
//! shortening limits of continuations.

use std::collections::BTreeMap;

use crate::{
    Action, AfterStop, JobState, Phase, Rules, Stage, State, StopProgress, Submission, SubmissionRecord,
    chain,
};
use hsched_model::{Availability, Cluster, GpuType, Seconds, Time};

/// Timeouts for jobs on an observed cluster.
pub(super) struct Timeouts<'a> {
    rules: &'a Rules,
    at: Time,
    /// The GPUs of nodes that are not down, by type; `None` if the cluster could not be read. Nodes that are
    /// drained, reserved or restarting count, because a pending submission may wait for them.
    left: Option<BTreeMap<&'a GpuType, u32>>,
}

impl<'a> Timeouts<'a> {
    pub(super) fn new(cluster: &'a Cluster, rules: &'a Rules, at: Time) -> Self {
        let left = cluster.nodes.iter().filter(|node| node.state.availability() != Availability::Down);
        let mut counts = BTreeMap::new();
        for stock in left.flat_map(|node| &node.gpus) {
            *counts.entry(&stock.gpu_type).or_default() += stock.total;
        }
        Self { rules, at, left: (!cluster.nodes.is_empty()).then_some(counts) }
    }

    /// Returns the actions that end submissions of a job (those that the user cancelled, that are not needed,
    /// that do not stop, or that cannot start), and updates of pending requests.
    pub(super) fn end(&self, tracked: &JobState) -> impl Iterator<Item = Action> {
        tracked.phase.submissions().iter().filter_map(move |submission| self.end_one(tracked, submission))
    }

    fn end_one(&self, tracked: &JobState, submission: &Submission) -> Option<Action> {
        let Submission { attempt, stage } = submission;
        let is_over = deadline(tracked, submission, self.rules).is_some_and(|deadline| self.at >= deadline);
        let why = match *stage {
            Stage::Stopping { request: StopProgress::Killed, .. } if is_over => {
                "Slurm has not ended it yet".to_owned()
            }
            Stage::Stopping { request: StopProgress::Killed, .. } => return None,
            Stage::Stopping { then: AfterStop::Cancel, .. } => "requested by the user".to_owned(),
            Stage::Stopping { then: AfterStop::Done(_), .. } => {
                "another submission completed the job".to_owned()
            }
            Stage::Stopping { request: StopProgress::Meant, since, then } => {
                return ask(tracked, attempt, since, then);
            }
            Stage::Stopping { then, .. } if is_over && let Some(epochs) = trains_on(tracked, then) => {
                format!("it has trained {epochs} more epochs since it was asked to stop")
            }
            Stage::Stopping { .. } if is_over => {
                format!("it did not exit within {} s of the stop signal", patience(tracked, self.rules).0)
            }
            Stage::Pending if attempt.race && has_started(tracked, attempt) => {
                "another request started first".to_owned()
            }
            Stage::Pending if attempt.amendment.is_some() => return amend_again(tracked, attempt),
            Stage::Pending if attempt.cannot_start() => {
                "Slurm cannot start its changed request (BadConstraints); hsched submits it again".to_owned()
            }
            Stage::Pending if let Some(to) = chain::shorter(tracked, attempt, self.rules) => {
                let (of, to) = (attempt.key(&tracked.job.name), Box::new(to));
                let why = "the rest of the job needs less time".to_owned();
                return Some(Action::Amend { of, job_id: attempt.job_id?, to, why });
            }
            Stage::Pending if is_over => {
                format!("fewer than {} are on nodes that are not down", self.unable(attempt)?)
            }
            _ => return None,
        };
        Some(Action::Cancel { of: attempt.key(&tracked.job.name), job_id: attempt.job_id?, why })
    }

    /// Returns the first GPU type for which a submission needs more GPUs than there are on nodes that are not
    /// down, with the needed number.
    fn unable(&self, attempt: &SubmissionRecord) -> Option<String> {
        let left = self.left.as_ref()?;
        let is_short =
            |(gpu_type, count): &(GpuType, u32)| left.get(gpu_type).is_none_or(|left| left < count);
        let short = attempt.gpus.by_type().into_iter().find(is_short);
        short.map(|(gpu_type, count)| format!("{count} {gpu_type}"))
    }
}

/// Returns the first time after `after` at which an action is due without new events: a time named by the
/// policy, a retry, or the end of the wait for a stopping or pending submission.
pub fn due(state: &State, rules: &Rules, after: Time) -> Option<Time> {
    let retry = |tracked: &JobState| match &tracked.phase {
        Phase::Waiting { not_before, .. } => *not_before,
        _ => None,
    };
    let jobs = state.jobs.iter().flat_map(|tracked| {
        let submissions = tracked.phase.submissions().iter();
        let deadlines = submissions.filter_map(|submission| deadline(tracked, submission, rules));
        retry(tracked).into_iter().chain(deadlines)
    });
    jobs.chain(state.wake).filter(|due| *due > after).min_by(|a, b| a.0.total_cmp(&b.0))
}

/// Returns the time from which a submission may be ended because nothing has happened to it; `None` if no
/// waiting time applies.
fn deadline(tracked: &JobState, submission: &Submission, rules: &Rules) -> Option<Time> {
    match submission.stage {
        Stage::Stopping { request: StopProgress::Killed, since, .. } => {
            Some(since.after(Rules::KILL_PATIENCE))
        }
        Stage::Stopping { request: StopProgress::Asked, since, then } => {
            let is_training = trains_on(tracked, then).is_some();
            Some(since.after(if is_training { Rules::TIME_TO_EXIT } else { patience(tracked, rules) }))
        }
        Stage::Pending => Some(submission.attempt.meant.after(Rules::NODES_PATIENCE)),
        _ => None,
    }
}

/// Returns how many epochs a job has trained since its rule stopped it, if it ignores the signal. A job that
/// saves may check for the signal only occasionally.
fn trains_on(tracked: &JobState, then: AfterStop) -> Option<u64> {
    tracked.trained_on().filter(|_| then == AfterStop::Finish && !tracked.job.resumes())
}

/// Returns how long a job that was asked to stop may take.
fn patience(tracked: &JobState, rules: &Rules) -> Seconds {
    let grace = tracked.job.launch.checkpoint.grace.unwrap_or(rules.defaults.grace);
    Seconds(grace.0 + Rules::PATIENCE.0)
}

/// Returns whether another submission of the same race has started.
fn has_started(tracked: &JobState, attempt: &SubmissionRecord) -> bool {
    let others =
        tracked.phase.submissions().iter().filter(|submission| submission.attempt.races_with(attempt));
    { others }.any(Submission::is_running)
}

/// Repeats an unconfirmed update of a request; receiving it twice does no harm.
fn amend_again(tracked: &JobState, attempt: &SubmissionRecord) -> Option<Action> {
    let (of, job_id, to) = (attempt.key(&tracked.job.name), attempt.job_id?, attempt.amendment.clone()?);
    let why = "the first request may have been lost".to_owned();
    Some(Action::Amend { of, job_id, to, why })
}

/// Repeats an unconfirmed request to end a submission; receiving it twice does no harm. A submission marked
/// to end because another one ended was never asked before.
fn ask(tracked: &JobState, attempt: &SubmissionRecord, since: Time, then: AfterStop) -> Option<Action> {
    let (of, job_id) = (attempt.key(&tracked.job.name), attempt.job_id?);
    let ended = tracked.past.iter().rev().find(|past| then == AfterStop::GoOn && past.ended == since);
    let why = match ended {
        Some(past) => format!("the run before it {}", tracked.ending(past)),
        None => "the earlier request to end it may have been lost".to_owned(),
    };
    Some(if attempt.started.is_some() {
        Action::Stop { of, job_id, then, why }
    } else {
        Action::Cancel { of, job_id, why }
    })
}
