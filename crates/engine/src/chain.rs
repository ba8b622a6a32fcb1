//! Chains of submissions: the continuation of a job that its time limit ends is queued while the job still runs, and takes over.

use crate::plan_executor::PlanExecutor;
use crate::{
    AfterStop, Amendment, End, JobState, PastAttempt, Piece, PlannedSubmission, Rules, Stage, State,
    Submission, SubmissionRecord,
};
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Time, Walltime};
use hsched_plan::{Decision, Placement, Sharing};

/// A next piece asks for less where that is at most this part of its limit.
const SHORTER: f64 = 0.75;

/// Returns the submission whose next piece is to be queued now: it runs, alone, and ends before the job is done.
pub(super) fn due<'t>(tracked: &'t JobState, at: Time, rules: &Rules) -> Option<&'t Submission> {
    let [submission] = tracked.phase.submissions() else { return None };
    let Submission { attempt, stage: Stage::Running } = submission else { return None };
    // Nobody knows what the others ask of the queue. A piece that Slurm refused, or somebody cancelled, is not queued again.
    if attempt.queue_choice.is_none() || attempt.job_id.is_none() || attempt.has_next {
        return None;
    }
    // What is lost at the limit cannot be gone on with.
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
    // It may well wait as long as this one has.
    let lead = (Walltime::AHEAD * limit.0).max(started.since(attempt.meant).0);
    (at.0 >= started.0 + limit.0 - lead).then_some(submission)
}

/// Returns the change of a next piece that waits to the limit that what is left of the job needs by now: short jobs start sooner.
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
    /// Returns the jobs whose next piece is to be queued, on as many GPUs of the same type as they have.
    pub(super) fn next_pieces(&self, state: &mut State) -> Vec<(usize, Decision)> {
        let mut next = Vec::new();
        for job in 0..self.view.names.len() {
            let Some(submission) = due(self.view.tracked(state, job), self.at, self.rules) else { continue };
            let slots = self.view.problem.slots(submission.attempt.gpus.iter());
            let placement = Placement::new(&self.view.problem, job, &slots, Sharing::Balanced);
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

    /// Returns a submission as the one that goes on where the running one of its job ends.
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
    /// Returns whether a submission waits for another one of the job, after which it goes on.
    pub fn is_next(&self, attempt: &SubmissionRecord) -> bool {
        attempt.follows.as_ref().is_some_and(|piece| self.submission(&piece.of).is_some())
    }

    /// Returns whether the next piece goes on after one that was cut or interrupted. One that runs does: it has had the other stop. One that
    /// still waits is too short if its limit cut the other before an epoch was done. So many in a row that do no epoch are a fault of the job.
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

    /// Decides what the end of a piece means for the next one, which Slurm has already: it goes on, or ends with this one.
    pub(super) fn hand_over(&mut self, ended: Time, stage: Stage, end: &End, epochs: u64) {
        let then = match stage {
            Stage::Stopping { then, .. } => Some(then),
            _ if self.epochs_left() == 0 => Some(AfterStop::Done(ended)),
            _ if end.is_from_outside() || self.has_heir(end, epochs) => None,
            _ if *end == End::Cancelled => Some(AfterStop::Cancel),
            // What it means for the job is decided when the next piece is gone.
            _ => Some(AfterStop::GoOn),
        };
        let (done, moves) =
            (self.epochs_done, matches!(stage, Stage::Stopping { then: AfterStop::GoOn, .. }));
        for submission in self.phase.submissions_mut() {
            submission.attempt.epochs_before = done;
            if moves {
                // Where the job goes on is decided anew, whatever becomes of this.
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
