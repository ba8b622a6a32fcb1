//! The end of a submission: whether its job is done, is retried or has failed.

use crate::{
    AfterStop, End, JobState, Outcome, PastAttempt, Phase, Rules, Stage, Submission, SubmissionKey,
    SubmissionRecord,
};
use hsched_model::{GpuType, StuckRule, Time};

impl JobState {
    /// Decides the consequence of a submission's end for the job.
    pub(super) fn end(&mut self, ended: Time, now: Time, of: &SubmissionKey, end: &End, rules: &Rules) {
        let Some(Submission { attempt, stage }) = self.submission(of).cloned() else { return };
        let (end, has_begun) = if let End::Untaken(end) = end { (&**end, false) } else { (end, true) };
        if *end == End::Completed && self.job.is_command() {
            self.epochs_done = self.job.epochs;
        }
        // A next piece removed from the queue before its predecessor ended has not started.
        let is_next = self.is_next(&attempt);
        let has_waited = attempt.follows.is_some()
            && attempt.started.is_none()
            && (is_next || matches!(stage, Stage::Stopping { .. }));
        let has_next = self
            .phase
            .submissions()
            .iter()
            .any(|submission| submission.attempt.follows.as_ref().is_some_and(|piece| piece.of == *of));
        let last = self.take_out(ended, of, &end.to_string()).is_some();
        if *end == End::Yielded || has_waited {
            // This submission did nothing; another one of its race or chain decides what follows.
            if last {
                self.after_race(ended, now, attempt.race_run(), stage, rules);
            }
            return;
        }
        let (epochs, race) = (self.epochs_done.saturating_sub(attempt.epochs_before), attempt.race);
        // The division of the batch is needed only if a vanished submission is found again; the GPUs are
        // kept.
        let lost = *end == End::Vanished;
        let attempt = SubmissionRecord { ranks: if lost { attempt.ranks } else { Vec::new() }, ..attempt };
        self.past.push(PastAttempt { attempt, ended, end: end.clone(), epochs });
        if let End::Unfit { node: Some(node), .. } = end {
            self.unfit.insert(node.clone(), ended);
        }
        match (last, end) {
            (true, _) => self.after(ended, now, stage, end, rules),
            (false, End::Completed) => self.end_copies(ended),
            (false, _) if has_next => return self.hand_over(ended, stage, end, epochs),
            (false, End::Failed { .. } | End::OutOfMemory) if has_begun => {
                let given_up = self.avoid();
                self.last.1.push_str(&given_up);
            }
            (false, _) => {}
        }
        if race && has_begun && !last && !is_next && *end != End::Cancelled && *end != End::Completed {
            // This submission had claimed the job, so the other submissions would exit as soon as they start.
            let others = self.phase.submissions_mut().iter_mut();
            let others = others.filter(|submission| !matches!(submission.stage, Stage::Stopping { .. }));
            others.for_each(|submission| submission.end(ended, AfterStop::GoOn));
        }
    }

    /// Decides what follows a race after the last of the losing submissions has ended.
    fn after_race(&mut self, ended: Time, now: Time, race: &str, stage: Stage, rules: &Rules) {
        let winner = self.past.last().filter(|past| past.attempt.race_run() == race);
        let Some(end) = winner.map(|past| past.end.clone()) else {
            return self.wait(ended, None, "another submission took the job, but it has disappeared");
        };
        // The submission was withdrawn because it was not needed, which says nothing about the job.
        let stage = match stage {
            Stage::Stopping { then: AfterStop::GoOn, .. } => Stage::Running,
            other => other,
        };
        self.after(ended, now, stage, &end, rules);
    }

    /// Ends the job's other submissions, because the job is done.
    fn end_copies(&mut self, ended: Time) {
        for submission in self.phase.submissions_mut() {
            submission.end(ended, AfterStop::Done(ended));
        }
        self.last = (ended, "one submission completed; the others are being cancelled".to_owned());
    }

    /// Decides what follows the end of the only submission.
    fn after(&mut self, ended: Time, now: Time, stage: Stage, end: &End, rules: &Rules) {
        let then = if let Stage::Stopping { then, .. } = stage { Some(then) } else { None };
        let epochs = self.past.last().map_or(0, |past| past.epochs);
        // Exit status 0 is the program's statement that all epochs are done.
        let done = if let Some(AfterStop::Done(at)) = then { Some(at) } else { None };
        if let Some(at) = done.or((*end == End::Completed).then_some(ended)) {
            self.finish(at, Outcome::Completed);
            self.last.1.push_str(&self.shortfall());
            return;
        }
        if self.epochs_left() == 0 {
            return match end {
                End::Failed { .. } | End::OutOfMemory => {
                    self.finish(
                        ended,
                        Outcome::Failed { reason: format!("all epochs were done, but then it {end}") },
                    );
                }
                _ => self.finish(ended, Outcome::Completed),
            };
        }
        match (then, end) {
            (Some(AfterStop::Cancel), _) | (None, End::Cancelled) => self.finish(ended, Outcome::Cancelled),
            (Some(AfterStop::Finish), _) => {
                self.finish_early(ended, &format!("{} of {} epochs", self.epochs_done, self.job.epochs));
            }
            (Some(AfterStop::Stalled), _) => self.after_stall(ended, now, epochs, rules),
            (Some(AfterStop::GoOn | AfterStop::Done(_)), _) => self.wait(ended, None, "stopped to move"),
            (None, End::Interrupted | End::InterruptedUnsaved) => {
                self.wait(ended, None, &format!("{end}{}", self.resumption()));
            }
            (None, end) if end.is_cut() => self.cut(ended, now, end, epochs, rules),
            (None, end) if end.is_from_outside() => self.put_off(now, &end.to_string(), rules),
            (None, End::Failed { exit: 126 | 127, signal: 0 }) if self.epochs_done == 0 => {
                let reason = format!(
                    "{end}: its command or a command of its setup was not found or is not \
                        executable"
                );
                self.finish(ended, Outcome::Failed { reason });
            }
            (None, end) => {
                let why = self.past.last().map_or_else(String::new, |past| self.ending(past));
                let given_up = if matches!(end, End::Failed { .. } | End::OutOfMemory) {
                    self.avoid()
                } else {
                    String::new()
                };
                self.fail(now, Some(epochs), &format!("{why}{given_up}"), rules);
            }
        }
    }

    /// Ends a job that was stopped because it was stuck, or restarts it, which uses a retry.
    fn after_stall(&mut self, ended: Time, now: Time, epochs: u64, rules: &Rules) {
        let last = self.past.last().map(|past| &past.attempt);
        let stall = last.and_then(|attempt| Some(attempt.stall.as_ref()?.text(attempt.gpus.total())));
        let why = stall.unwrap_or_else(|| "no progress".to_owned());
        match self.job.stuck {
            StuckRule::Restart => self.fail(now, Some(epochs), &format!("stopped: {why}"), rules),
            StuckRule::Warn | StuckRule::Stop => {
                self.finish(ended, Outcome::Failed { reason: format!("stopped: {why}") });
            }
        }
    }

    /// Makes the job wait to resume after a stop or a time limit. The first few such ends in a row without a
    /// new epoch use no retry; each further end uses one.
    fn cut(&mut self, ended: Time, now: Time, end: &End, epochs: u64, rules: &Rules) {
        let from = self.resumption();
        let why = self.past.last().map_or_else(|| end.to_string(), |past| self.ending(past));
        if epochs > 0 {
            return self.wait(ended, None, &format!("{why}{from}"));
        }
        self.cuts += 1;
        if self.cuts > Rules::MOST_CUTS {
            let reason = format!("stopped {} times without finishing an epoch", self.cuts);
            return self.use_retry(now, Some(epochs), &why, reason, rules);
        }
        self.fruitless += 1;
        self.wait(ended, Some(now.after(rules.delay(self.fruitless))), &format!("{why}{from}"));
    }

    /// Returns where the job resumes, as the end of a sentence; empty if no epoch is done.
    fn resumption(&self) -> String {
        match self.epochs_done {
            0 => String::new(),
            _ if self.repeats_epochs() => format!("; {}", Self::REPEATS),
            done => format!("; resumes after epoch {done}{}", self.if_saved()),
        }
    }

    /// Removes a submission that Slurm does not have. If the job has no other one, it ends if it was being
    /// cancelled or is already done; if it was neither, `otherwise` decides what follows.
    pub(super) fn never_ran(
        &mut self,
        at: Time,
        of: &SubmissionKey,
        why: &str,
        otherwise: impl FnOnce(&mut Self),
    ) {
        let Some(Submission { stage, .. }) = self.take_out(at, of, why) else { return };
        match stage {
            Stage::Stopping { then: AfterStop::Cancel, .. } => self.finish(at, Outcome::Cancelled),
            Stage::Stopping { then: AfterStop::Done(at), .. } => self.finish(at, Outcome::Completed),
            _ => otherwise(self),
        }
    }

    /// Excludes the GPU types on trial in the submission that has just failed, if the job has finished no
    /// epoch on them; returns a message about it.
    fn avoid(&mut self) -> String {
        let Some((last, before)) = self.past.split_last().filter(|(last, _)| last.epochs == 0) else {
            return String::new();
        };
        let has_trained = |gpu_type: &GpuType| {
            let has_gpu_type = |past: &&PastAttempt| past.attempt.gpus.by_type().contains_key(gpu_type);
            before.iter().filter(has_gpu_type).any(|past| past.epochs > 0)
        };
        let new: Vec<GpuType> =
            last.attempt.trials.0.keys().filter(|gpu_type| !has_trained(gpu_type)).cloned().collect();
        if new.is_empty() {
            return String::new();
        }
        let names = new.iter().map(GpuType::as_str).collect::<Vec<_>>().join(" and ");
        self.avoids.extend(new);
        format!(
            " in its first run on {names}, which the job file does not list; hsched no longer uses \
            {names} for this job"
        )
    }

    /// Uses up a retry after a failure, which ends a row of cuts, or ends the job if none is left.
    pub(super) fn fail(&mut self, at: Time, epochs: Option<u64>, why: &str, rules: &Rules) {
        self.cuts = 0;
        let reason = match self.failures + 1 {
            1 => why.to_owned(),
            times => format!("{why} ({times} failures, no retries left)"),
        };
        self.use_retry(at, epochs, why, reason, rules);
    }

    /// Uses up a retry, or ends the job with this `reason` if none is left.
    fn use_retry(&mut self, at: Time, epochs: Option<u64>, why: &str, reason: String, rules: &Rules) {
        self.failures += 1;
        if self.failures > self.job.retries {
            return self.finish(at, Outcome::Failed { reason });
        }
        if epochs.is_none_or(|epochs| epochs == 0) {
            self.fruitless += 1;
        }
        let delay = rules.delay(self.fruitless.max(1));
        self.wait(at, Some(at.after(delay)), &format!("{why}; {}", self.retries_left()));
    }

    /// Delays the next submission without using a retry, because the job is not to blame. After many such
    /// delays in a row, it uses a retry.
    pub(super) fn put_off(&mut self, at: Time, why: &str, rules: &Rules) {
        self.fruitless += 1;
        if self.fruitless > Rules::MOST_FRUITLESS {
            // A fault that occurs this often from outside is attributed to the job.
            return self.fail(at, None, why, rules);
        }
        self.wait(at, Some(at.after(rules.delay(self.fruitless))), why);
    }

    pub(super) fn wait(&mut self, at: Time, not_before: Option<Time>, why: &str) {
        self.phase = Phase::Waiting { not_before, reason: why.to_owned() };
        self.last = (at, why.to_owned());
    }

    /// Ends a job as completed although not all of its epochs are done.
    pub(super) fn finish_early(&mut self, at: Time, why: &str) {
        self.finish(at, Outcome::Completed);
        self.last.1 = match self.stopped_early() {
            Some(stopped) => format!("completed, {stopped}"),
            None => format!("completed early: {why}"),
        };
    }

    pub(super) fn finish(&mut self, at: Time, outcome: Outcome) {
        self.last = (at, outcome.to_string());
        self.phase = Phase::Ended { at, outcome };
    }
}
