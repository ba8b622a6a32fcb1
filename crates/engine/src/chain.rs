//! Chains of submissions: before the time limit ends a running job, its continuation is queued.

use crate::plan_executor::PlanExecutor;
use crate::{
    AfterStop, Amendment, End, JobState, PastAttempt, Piece, PlannedSubmission, Rules, Stage, State,
    Submission, SubmissionRecord,
};
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Time, Walltime};
use hsched_plan::{Decision, Placement, Sharing};

/// The limit of a pending next piece is lowered if the new limit is at most this fraction of it.
const SHORTER: f64 = 0.75;

/// Returns the submission whose next piece must be queued now: the only one of the job, running, and ending
/// before the job is done.
pub(super) fn due<'t>(tracked: &'t JobState, at: Time, rules: &Rules) -> Option<&'t Submission> {
    let [submission] = tracked.phase.submissions() else { return None };
    let Submission { attempt, stage: Stage::Running } = submission else { return None };
    // Without a queue choice, the options of the submission are unknown. A piece that Slurm refused or a
    // person cancelled is not queued again.
    if attempt.queue_choice.is_none() || attempt.job_id.is_none() || attempt.has_next {
        return None;
    }
    // A job that loses its work at the limit cannot be continued.
    let saves = tracked.resumes();
    let (started, limit) = (attempt.started?, attempt.limit?);
    let grace = tracked.job.launch.checkpoint.grace.unwrap_or(rules.defaults.grace);
    let cut = started.0 + limit.0 - grace.0;
    if !saves
        || tracked.early.as_ref().is_some_and(|early| early.allowed)
        || tracked.expected_end(at)?.0 <= cut
    {
        return None;
    }
    // The next piece may wait as long as this one did.
    let lead = (Walltime::AHEAD * limit.0).max(started.since(attempt.meant).0);
    (at.0 >= started.0 + limit.0 - lead).then_some(submission)
}

/// Returns an update that lowers the limit of a pending next piece to the job's remaining work: short jobs
/// start sooner.
pub(super) fn shorter(tracked: &JobState, attempt: &SubmissionRecord, rules: &Rules) -> Option<Amendment> {
    let (queue_choice, limit) = (attempt.queue_choice.as_ref()?, attempt.limit?);
    if attempt.keeps_limit || !tracked.is_next(attempt) {
        return None;
    }
    let rest = tracked.rest();
    let epoch = tracked.epoch.map_or(attempt.epoch.0, |seen| seen.0.max(attempt.epoch.0));
    let walltime = queue_choice.walltime(&rest, Seconds(epoch * to_f64(rest.epochs)), &rules.defaults);
    (walltime.limit().0 <= SHORTER * limit.0).then(|| Amendment {
        kind: None,
        ranks: attempt.ranks.clone(),
        epoch: attempt.epoch,
        communication: attempt.communication,
        minutes: walltime.minutes,
        cpus: 0,
        memory: 0,
        queue_choice: None,
        pieces: walltime.cut(true),
    })
}

impl PlanExecutor<'_> {
    /// Returns a decision for each job whose next piece must be queued, with the same number and type of GPUs
    /// as the running piece, and marks the running piece.
    pub(super) fn next_pieces(&self, state: &mut State) -> Vec<(usize, Decision)> {
        let mut next = Vec::new();
        for job in 0..self.view.names.len() {
            let Some(submission) = due(self.view.tracked(state, job), self.at, self.rules) else { continue };
            let slots = self.view.problem.slots(submission.attempt.gpus.iter());
            let divided = |sharing| Placement::new(&self.view.problem, job, &slots, sharing);
            // The running piece may be of another policy, and its GPUs too small for equal shares.
            let placement = divided(self.sharing).or_else(|| divided(Sharing::Balanced));
            if let Some(submission) = self.view.tracked_mut(state, job).phase.submissions_mut().first_mut() {
                submission.attempt.has_next = true;
            }
            let why = "continuation".to_owned();
            next.extend(
                placement.map(|placement| (job, Decision::Adjust { placement, in_place: false, why })),
            );
        }
        next
    }

    /// Returns `intent` as the next piece, which resumes where the job's running submission ends.
    pub(super) fn next_piece(
        &self,
        intent: PlannedSubmission,
        tracked: &JobState,
        job: usize,
        placement: &Placement,
    ) -> PlannedSubmission {
        let running = tracked.phase.submissions().first().map(|submission| &submission.attempt);
        let piece = running
            .and_then(|record| Some(Piece { of: record.key(&tracked.job.name), job_id: record.job_id? }));
        PlannedSubmission {
            follows: piece,
            copy: 0,
            ..self.queued_submission(intent, tracked, job, placement)
        }
    }
}

impl JobState {
    /// Returns whether a submission is a next piece that waits for the end of another one of the job.
    pub fn is_next(&self, attempt: &SubmissionRecord) -> bool {
        attempt.follows.as_ref().is_some_and(|piece| self.submission(&piece.of).is_some())
    }

    /// Decides whether the next piece continues the job after the end of a piece; if so, counts an end
    /// without a new epoch. A running next piece continues the job, because it made the earlier piece stop. A
    /// pending next piece has too short a limit if the same limit cut the earlier piece before an epoch
    /// ended. Several pieces in a row without an epoch are a fault of the job.
    fn has_heir(&mut self, end: &End, epochs: u64) -> bool {
        if !matches!(end, End::TimedOut | End::Cut) || epochs > 0 {
            return end.is_cut();
        }
        let grace = self.job.launch.checkpoint.grace.unwrap_or(Self::USUAL_GRACE);
        let is_near_limit = |past: &PastAttempt| past.attempt.is_near_limit(past.ended, grace);
        let is_at_limit = *end == End::TimedOut || self.past.last().is_some_and(is_near_limit);
        let runs = self.phase.submissions().iter().any(Submission::is_running);
        let goes_on = (runs || !is_at_limit) && self.cuts < Rules::MOST_CUTS;
        self.cuts += u32::from(goes_on);
        goes_on
    }

    /// Decides whether the next piece, which Slurm already has, continues the job after the end of a piece or
    /// is cancelled.
    pub(super) fn hand_over(&mut self, ended: Time, stage: Stage, end: &End, epochs: u64) {
        let then = match stage {
            Stage::Stopping { then, .. } => Some(then),
            _ if self.epochs_left() == 0 => Some(AfterStop::Done(ended)),
            _ if end.is_from_outside() || self.has_heir(end, epochs) => None,
            _ if *end == End::Cancelled => Some(AfterStop::Cancel),
            // The consequence for the job is decided after the next piece has left the queue.
            _ => Some(AfterStop::GoOn),
        };
        let (done, moves) =
            (self.epochs_done, matches!(stage, Stage::Stopping { then: AfterStop::GoOn, .. }));
        for submission in self.phase.submissions_mut() {
            submission.attempt.epochs_before = done;
            if moves {
                // The job's next start is decided separately, regardless of the end of this piece.
                submission.attempt.follows = None;
            }
            if let Some(then) = then.filter(|_| !matches!(submission.stage, Stage::Stopping { .. })) {
                submission.end(ended, then);
            }
        }
        if then.is_none() {
            self.last = (ended, format!("{end}; the continuation resumes after epoch {done}"));
        }
    }
}
