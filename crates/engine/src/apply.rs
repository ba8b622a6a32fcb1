//! Applies an event to the state: the only place that changes a job's phase in response to an event.

use crate::teach::KnownSpeeds;
use crate::{
    Action, AfterStop, End, Event, JobState, News, Outcome, PastAttempt, Phase, ResumePoint, Rules,
    ScriptJob, Stage, State, StopProgress, Submission, SubmissionKey,
};
use hsched_model::{Availability, JobId, NodeName, Time};
use hsched_plan::throughput::LearnRule;

/// Applies an event to the state; returns the action that stores newly measured speeds, if there are any.
///
/// News of a submission that the job does not have, or no longer has, changes nothing.
pub fn apply(state: &mut State, at: Time, event: &Event, rules: &Rules) -> Option<Action> {
    match event {
        Event::Added { job, restart } => {
            let beginning = ResumePoint::of(job, state, *restart);
            let fresh = JobState::new((**job).clone(), at);
            // The fingerprint of the input may be the same for another job of the same name.
            state.decided = None;
            state.scripts.retain(|script| script.name != job.name || !script.is_over());
            match state.find_mut(&job.name) {
                // The user may replace a pending or ended job, but not one that Slurm has.
                Some(tracked) if !tracked.phase.is_submitted() => tracked.begin_again(fresh, &beginning),
                Some(_) => {}
                None => state.jobs.push(fresh),
            }
            None
        }
        Event::CancelAsked { job } => {
            if let Some(script) = state.script_mut(job) {
                script.cancel(at);
                return None;
            }
            let tracked = state.find_mut(job)?;
            tracked.cancel(at);
            None
        }
        Event::Answer { of, answer } => {
            if let Some(script) = script_of(state, of) {
                script.answered(at, answer);
                return None;
            }
            let tracked = state.find_mut(&of.job)?;
            tracked.submission(of)?;
            tracked.answered(at, of, answer, rules);
            None
        }
        Event::News { of, news } => {
            if let Some(script) = script_of(state, of) {
                script.hear(at, news);
                return None;
            }
            let State { jobs, cache, contributor, nodes_down, nodes_reserved, node_times, .. } = state;
            let tracked = jobs.iter_mut().find(|tracked| tracked.job.name == of.job)?;
            let attempt = &tracked.submission(of)?.attempt;
            if let News::Epoch(report) = news
                && tracked.is_new_epoch(report)
            {
                node_times.observe(tracked, attempt, report);
            }
            let is_lost = |node: &NodeName| nodes_down.contains(node) && !nodes_reserved.contains(node);
            let on_lost_node = attempt.gpus.0.keys().any(is_lost);
            let news = match news {
                // The job failed because its node was down.
                News::Ended { end: End::Failed { .. }, at } if on_lost_node => {
                    &News::Ended { end: End::NodeFailed, at: *at }
                }
                other => other,
            };
            let samples = tracked.hear(at, of, news, rules, KnownSpeeds { cache, node_times });
            let rule = LearnRule { weight: rules.learning_rate, contributor };
            let over = tracked.training_that_is_over().map(ToOwned::to_owned);
            if let Some(training) = over {
                let same = jobs.iter_mut().filter(|other| other.job.training() == Some(training.as_str()));
                same.for_each(|other| other.trained_elsewhere(at));
            }
            let lessons = samples.iter().map(|sample| cache.learn(sample, rule)).collect();
            (!samples.is_empty()).then(|| Action::Learn { job: of.job.clone(), samples, lessons })
        }
        Event::Stray { job, job_id } => {
            state.find_mut(job)?.stray = *job_id;
            None
        }
        Event::Found { of, job_id, submit_time } => {
            state.find_mut(&of.job)?.found(at, of, *job_id, submit_time.as_ref());
            None
        }
        Event::NodeDown { node, state: availability, .. } => {
            state.nodes_down.insert(node.clone());
            if *availability == Availability::Reserved {
                state.nodes_reserved.insert(node.clone());
            } else {
                state.nodes_reserved.remove(node);
                state.jobs.iter_mut().for_each(|tracked| tracked.excuse(at, node, rules));
            }
            None
        }
        Event::NodeBack { node } | Event::NodeGone { node } => {
            state.nodes_down.remove(node);
            state.nodes_reserved.remove(node);
            None
        }
    }
}

/// Returns the script with this submission.
fn script_of<'s>(state: &'s mut State, of: &SubmissionKey) -> Option<&'s mut ScriptJob> {
    state.scripts.iter_mut().find(|script| script.key() == *of)
}

impl JobState {
    /// Replaces the job with the one that the user added again, and keeps its past; epochs count if the new
    /// job resumes after them. A waiting job whose file was only given again is still the same job.
    fn begin_again(&mut self, fresh: Self, beginning: &ResumePoint) {
        // In the same sweep it keeps its position, and with it its bracket.
        let place = self.place.filter(|_| self.halved() == fresh.halved());
        let is_same =
            matches!(self.phase, Phase::Waiting { .. }) && beginning.continues(&self.job, &fresh.job);
        let added = if is_same { self.added } else { fresh.added };
        let (stray, past) = (self.stray, std::mem::take(&mut self.past));
        let fresh = Self { added, stray, past, place, ..fresh };
        *self = match beginning {
            ResumePoint::Anew { .. } => fresh,
            ResumePoint::First | ResumePoint::After { .. } => Self {
                epochs_done: beginning.epochs_done(),
                epoch: self.epoch,
                startup: self.startup,
                pause: self.pause,
                epoch_at: self.epoch_at,
                curve: std::mem::take(&mut self.curve),
                ..fresh
            },
        };
    }

    /// Ends a pending job, or marks all submissions of a submitted job to be ended.
    fn cancel(&mut self, at: Time) {
        let submissions = match &mut self.phase {
            Phase::Waiting { .. } => return self.finish(at, Outcome::Cancelled),
            Phase::Ended { .. } => return,
            Phase::Submitted(submissions) => submissions,
        };
        let is_new = submissions.iter().any(|submission| !matches!(submission.stage, Stage::Stopping { .. }));
        for submission in submissions {
            submission.end(at, AfterStop::Cancel);
        }
        if is_new {
            self.last = (at, "is being cancelled".into());
        }
    }

    /// Returns the training of this copy if the copy has completed with all its epochs.
    fn training_that_is_over(&self) -> Option<&str> {
        let is_over = matches!(self.phase, Phase::Ended { outcome: Outcome::Completed, .. });
        self.job.training().filter(|_| is_over && self.epochs_left() == 0)
    }

    /// Ends a pending copy, because the other copies have done all the work. A submitted copy detects this
    /// itself.
    fn trained_elsewhere(&mut self, at: Time) {
        if matches!(self.phase, Phase::Waiting { .. }) {
            self.finish(at, Outcome::Completed);
            "the other copies completed the training".clone_into(&mut self.last.1);
        }
    }

    /// Refunds the retries that failures cost the job if its node turns out to have been down: the ranks fail
    /// before Slurm notices, and so does the next submission on that node. The job waits for a restart if
    /// such a failure was its last end, or if it had failed for lack of retries.
    fn excuse(&mut self, at: Time, node: &NodeName, rules: &Rules) {
        // Failures before the user added the job again no longer count.
        let added = self.added;
        let is_excused = |past: &PastAttempt| {
            let failed = matches!(past.end, End::Failed { .. }) && past.attempt.gpus.0.contains_key(node);
            failed && past.ended >= added && at.since(past.ended) < Rules::NOTICED
        };
        if self.epochs_left() == 0 {
            return;
        }
        let (is_last, had_retries) = (self.past.last().is_some_and(is_excused), self.has_retries());
        for past in self.past.iter_mut().filter(|past| is_excused(past)) {
            past.end = End::NodeFailed;
            self.failures = self.failures.saturating_sub(1);
        }
        let failed = matches!(self.phase, Phase::Ended { outcome: Outcome::Failed { .. }, .. });
        let why = if is_last && (failed || matches!(self.phase, Phase::Waiting { .. })) {
            format!("its node {node} is down")
        } else if failed && !had_retries && self.has_retries() {
            format!("node {node} is down, so the failure there does not count; {}", self.retries_left())
        } else {
            return;
        };
        self.wait(at, Some(at.after(rules.delay(1))), &why);
    }

    fn has_retries(&self) -> bool {
        self.failures <= self.job.retries
    }

    /// Returns whether a submission presumed lost is tracked again if Slurm has it after all: to continue it,
    /// or to end it if the job has completed or was cancelled.
    pub(super) fn takes_up_lost(&self) -> bool {
        self.stage_of_found(self.added).is_some()
    }

    /// Returns the stage of a submission that was presumed lost and is found now.
    fn stage_of_found(&self, now: Time) -> Option<Stage> {
        let then = match &self.phase {
            Phase::Waiting { .. } => return Some(Stage::Pending),
            Phase::Ended { at, outcome: Outcome::Completed } => AfterStop::Done(*at),
            Phase::Ended { outcome: Outcome::Cancelled, .. } => AfterStop::Cancel,
            Phase::Ended { .. } | Phase::Submitted(_) => return None,
        };
        Some(Stage::Stopping { since: now, then, request: StopProgress::Meant })
    }

    /// Tracks a submission again that was presumed lost but that Slurm has.
    fn found(&mut self, at: Time, of: &SubmissionKey, job_id: JobId, submit_time: Option<&String>) {
        let is_same = |past: &PastAttempt| past.attempt.run == of.run && past.attempt.copy == of.copy;
        let Some(place) = self.past.iter().position(is_same) else { return };
        let Some(stage) = self.stage_of_found(at) else { return };
        let mut attempt = self.past.remove(place).attempt;
        attempt.identify(job_id, submit_time);
        let said = if stage == Stage::Pending {
            format!("found pending as job {job_id}")
        } else {
            format!("found as job {job_id} after the job had ended")
        };
        self.last = (at, said);
        self.phase = Phase::Submitted(vec![Submission { attempt, stage }]);
        self.stray = None;
    }
}
