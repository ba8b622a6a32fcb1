//! What an event makes of the state: the one place where jobs change their phase for what happened to them.

use crate::engine::state::Then;
use crate::engine::{
    Action, Attempt, Beginning, End, EpochReport, Event, News, Outcome, PastAttempt, Phase, Request, Rules,
    State, Tracked, teach,
};
use crate::model::{GpuType, JobId, NodeName, Time, hostlist};
use crate::throughput::{Cache, LearnRule, Sample};

/// Changes the state by an event; returns what was learnt from it.
///
/// News of a submission that is not its job's current one, and of a job that has ended, change nothing.
pub fn apply(state: &mut State, at: Time, event: &Event, rules: &Rules) -> Option<Action> {
    match event {
        Event::Added { job, restart } => {
            let beginning = Beginning::of(job, state, *restart);
            let fresh = Tracked::new((**job).clone(), at);
            // Another job by the same name may have the same speeds.
            state.decided = None;
            match state.find_mut(&job.name) {
                // What waits or has ended may be changed by its owner; what Slurm has may not.
                Some(tracked) if tracked.phase.attempt().is_none() => tracked.begin_again(fresh, &beginning),
                Some(_) => {}
                None => state.jobs.push(fresh),
            }
            None
        }
        Event::CancelAsked { job } => {
            let tracked = state.find_mut(job)?;
            tracked.cancel(at);
            None
        }
        Event::Attempt { job, run, news } => {
            let State { jobs, cache, contributor, nodes_down, decided, .. } = state;
            let tracked = jobs.iter_mut().find(|tracked| tracked.job.name == *job)?;
            if tracked.phase.attempt().is_none_or(|attempt| attempt.run != *run) {
                return None;
            }
            let on_lost_node =
                |attempt: &Attempt| attempt.gpus.0.keys().any(|node| nodes_down.contains(node));
            let excused = matches!(news, News::Ended { end: End::Failed { .. }, .. })
                && tracked.phase.attempt().is_some_and(on_lost_node);
            let news = match news {
                // Its ranks failed for it.
                News::Ended { at, .. } if excused => &News::Ended { end: End::NodeFailed, at: *at },
                other => other,
            };
            if matches!(news, News::NotStopped { .. }) {
                // What was decided did not come about.
                *decided = None;
            }
            let samples = tracked.hear(at, news, rules, cache);
            let rule = LearnRule { weight: rules.learning_rate, contributor };
            let lessons = samples.iter().map(|sample| cache.learn(sample, rule)).collect();
            (!samples.is_empty()).then(|| Action::Learn { job: job.clone(), samples, lessons })
        }
        Event::Stray { job, job_id } => {
            state.find_mut(job)?.stray = *job_id;
            None
        }
        Event::Found { job, run, job_id, submit_time } => {
            state.find_mut(job)?.found(at, run, *job_id, submit_time.as_ref());
            None
        }
        Event::NodeDown { node, .. } => {
            state.nodes_down.insert(node.clone());
            state.jobs.iter_mut().for_each(|tracked| tracked.excuse(at, node, rules));
            None
        }
        Event::NodeBack { node } => {
            state.nodes_down.remove(node);
            None
        }
    }
}

impl Tracked {
    /// Becomes the same job as its owner added it again, with its past; its epochs count where it goes on.
    fn begin_again(&mut self, fresh: Self, beginning: &Beginning) {
        let (stray, past) = (self.stray, std::mem::take(&mut self.past));
        let fresh = Self { stray, past, ..fresh };
        *self = match beginning {
            Beginning::Anew { .. } => fresh,
            Beginning::First | Beginning::After { .. } => Self {
                epochs_done: beginning.epochs_done(),
                epoch: self.epoch,
                epoch_at: self.epoch_at,
                ..fresh
            },
        };
    }

    /// Ends a job that Slurm does not have, or marks it to end when it has stopped.
    fn cancel(&mut self, at: Time) {
        match std::mem::replace(&mut self.phase, waiting(None, "")) {
            Phase::Waiting { .. } => self.finish(at, Outcome::Cancelled),
            ended @ Phase::Ended { .. } => self.phase = ended,
            Phase::Stopping { attempt, since, request, .. } => {
                self.phase = Phase::Stopping { attempt, since, then: Then::Cancel, request };
            }
            Phase::Meant(attempt) | Phase::Pending(attempt) | Phase::Running(attempt) => {
                let (then, request) = (Then::Cancel, Request::Meant);
                self.phase = Phase::Stopping { attempt, since: at, then, request };
                self.last = (at, "is being cancelled".into());
            }
        }
    }

    /// Takes back what a failure cost the job whose node turns out to have been down: the ranks fail before Slurm
    /// notices.
    fn excuse(&mut self, at: Time, node: &NodeName, rules: &Rules) {
        let left = self.epochs_left();
        let Some(past) = self.past.last_mut() else { return };
        let failed = matches!(past.end, End::Failed { .. }) && past.attempt.gpus.0.contains_key(node);
        if !failed || at.since(past.ended) >= Rules::NOTICED || self.phase.attempt().is_some() {
            return;
        }
        match &self.phase {
            Phase::Ended { outcome: Outcome::Failed { .. }, .. } | Phase::Waiting { .. } => {}
            _ => return,
        }
        if left > 0 {
            past.end = End::NodeFailed;
            self.failures = self.failures.saturating_sub(1);
            let said = format!("its node {node} is down");
            self.wait(at, Some(at.after(rules.delay(1))), &said);
        }
    }

    /// Takes up an attempt again that was given up as lost, and that Slurm has after all.
    fn found(&mut self, at: Time, run: &str, job_id: JobId, submit_time: Option<&String>) {
        let Some(place) = self.past.iter().position(|past| past.attempt.run == run) else { return };
        if self.phase.attempt().is_some() || self.phase.is_over() {
            return;
        }
        let mut attempt = self.past.remove(place).attempt;
        attempt.identify(job_id, submit_time);
        self.last = (at, format!("found pending as job {job_id}"));
        self.phase = Phase::Pending(attempt);
        self.stray = None;
    }

    /// Takes in news of the current attempt; returns what they teach about speeds.
    fn hear(&mut self, at: Time, news: &News, rules: &Rules, cache: &Cache) -> Vec<Sample> {
        match news {
            News::Epoch(report) => return self.count(report, cache),
            News::Ended { end, at: ended } => {
                let samples = teach::by_the_whole(self, end, *ended, cache);
                self.end(*ended, at, end, rules);
                return samples;
            }
            News::Submitted { job_id } => {
                if let Some(attempt) = self.phase.attempt_mut() {
                    attempt.job_id = Some(*job_id);
                    attempt.missing = None;
                    let said = format!("submitted as job {job_id} on {}", attempt.gpus);
                    self.advance(at, Phase::Pending, said);
                }
            }
            News::Queued { job_id, submit_time } => {
                if let Some(attempt) = self.phase.attempt_mut() {
                    let new = attempt.job_id != Some(*job_id) || attempt.missing.is_some();
                    attempt.identify(*job_id, submit_time.as_ref());
                    // One that ran is back in the queue where Slurm starts it again.
                    attempt.started = None;
                    if new || matches!(self.phase, Phase::Meant(_) | Phase::Running(_)) {
                        self.advance(at, Phase::Pending, format!("pending as job {job_id}"));
                    }
                }
            }
            News::Started { job_id, submit_time, at: since, gpus } => {
                if let Some(attempt) = self.phase.attempt_mut() {
                    attempt.identify(*job_id, submit_time.as_ref());
                    attempt.started = Some(*since);
                    attempt.reason = None;
                    if let Some(gpus) = gpus {
                        attempt.gpus = gpus.clone();
                    }
                    let nodes = hostlist::compress(attempt.gpus.0.keys().map(NodeName::as_str));
                    let said = format!("running as job {job_id} on {} ({nodes})", attempt.gpus);
                    self.advance(*since, Phase::Running, said);
                }
            }
            News::Waits(reason) => {
                if let Some(attempt) = self.phase.attempt_mut() {
                    attempt.reason = Some(reason.text.clone());
                }
            }
            News::Odd { what } => {
                if let Some(attempt) = self.phase.attempt_mut() {
                    attempt.odd = Some(what.clone());
                }
            }
            News::Refused { message } => {
                self.fail(at, None, &format!("refused by Slurm: {message}"), rules);
            }
            News::Unreachable { message } => {
                self.put_off(at, &format!("could not be submitted: {message}"), rules);
            }
            News::NeverSubmitted => {
                // Should it appear after all, it is known.
                if let Some(attempt) = self.phase.attempt().cloned() {
                    self.past.push(PastAttempt { attempt, ended: at, end: End::Vanished, epochs: 0 });
                }
                self.put_off(at, "Slurm never received it; submitting again", rules);
            }
            News::Deferred { message } => {
                self.put_off(at, &format!("Slurm does not accept it now: {message}"), rules);
            }
            News::Unclear { message } => {
                self.last = (at, format!("unclear whether Slurm received the request ({message})"));
            }
            News::Missing => {
                if let Some(attempt) = self.phase.attempt_mut() {
                    attempt.missing = Some(at);
                }
            }
            News::Stopped => self.asked(at, Request::Asked, "asked to save a checkpoint and exit"),
            News::Killed => self.asked(at, Request::Killed, "being cancelled by Slurm"),
            News::NotStopped { message } => self.not_asked(at, message),
        }
        Vec::new()
    }

    /// Takes in that Slurm heard a request to end the job.
    fn asked(&mut self, at: Time, heard: Request, said: &str) {
        self.last = (at, said.to_owned());
        let nothing = waiting(None, "");
        self.phase = match std::mem::replace(&mut self.phase, nothing) {
            Phase::Meant(attempt) | Phase::Pending(attempt) | Phase::Running(attempt) => {
                Phase::Stopping { attempt, since: at, then: Then::GoOn, request: heard }
            }
            // The time since the first such request counts.
            Phase::Stopping { attempt, since, then, request } => {
                let since = if request == heard { since } else { at };
                Phase::Stopping { attempt, since, then, request: heard }
            }
            other => other,
        };
    }

    /// Takes in that Slurm did not hear a request, or said no: a job that was to go on elsewhere goes on where it is.
    fn not_asked(&mut self, at: Time, message: &str) {
        self.last = (at, format!("could not be stopped: {message}"));
        let nothing = waiting(None, "");
        self.phase = match std::mem::replace(&mut self.phase, nothing) {
            Phase::Stopping { attempt, then: Then::GoOn, request: Request::Meant, .. } => {
                if attempt.started.is_some() { Phase::Running(attempt) } else { Phase::Pending(attempt) }
            }
            other => other,
        };
    }

    /// Goes on to the next phase with the same attempt; one that is being stopped stays so.
    fn advance(&mut self, at: Time, next: impl FnOnce(Attempt) -> Phase, said: String) {
        self.last = (at, said);
        let nothing = waiting(None, "");
        self.phase = match std::mem::replace(&mut self.phase, nothing) {
            Phase::Meant(attempt) | Phase::Pending(attempt) | Phase::Running(attempt) => next(attempt),
            other => other,
        };
    }

    /// Counts an epoch that is done for the first time.
    fn count(&mut self, report: &EpochReport, cache: &Cache) -> Vec<Sample> {
        let Some(attempt) = self.phase.attempt() else { return Vec::new() };
        if report.epoch <= self.epochs_done || report.epoch > self.job.epochs {
            return Vec::new();
        }
        let samples = teach::by_epoch(self, attempt, report, cache);
        let before = attempt.epochs_before;
        self.epochs_done = report.epoch;
        self.fruitless = 0;
        // The first one after a stop may have begun before it.
        let whole = report.epoch > before + 1 || !self.may_have_saved();
        self.epoch = report.length.filter(|_| whole).or(self.epoch);
        self.epoch_at = Some(report.at);
        self.last = (report.at, format!("epoch {} of {} done", report.epoch, self.job.epochs));
        samples
    }

    /// Decides what the end of an attempt means for the job.
    fn end(&mut self, ended: Time, now: Time, end: &End, rules: &Rules) {
        let nothing = waiting(None, "");
        let (attempt, then) = match std::mem::replace(&mut self.phase, nothing) {
            Phase::Stopping { attempt, then, .. } => (attempt, Some(then)),
            Phase::Meant(attempt) | Phase::Pending(attempt) | Phase::Running(attempt) => (attempt, None),
            other => {
                self.phase = other;
                return;
            }
        };
        let epochs = self.epochs_done.saturating_sub(attempt.epochs_before);
        // How the batch was divided has served its purpose; the GPUs are kept.
        let lost = *end == End::Vanished;
        let attempt = Attempt { ranks: if lost { attempt.ranks } else { Vec::new() }, ..attempt };
        self.past.push(PastAttempt { attempt, ended, end: end.clone(), epochs });
        // Exit status 0 is the word of the program that all is done.
        if *end == End::Completed {
            self.finish(ended, Outcome::Completed);
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
            (Some(Then::Cancel), _) | (None, End::Cancelled) => self.finish(ended, Outcome::Cancelled),
            (Some(Then::Finish), _) => {
                self.finish_early(ended, &format!("{} of {} epochs", self.epochs_done, self.job.epochs));
            }
            (Some(Then::GoOn), _) => self.wait(ended, None, "stopped to move"),
            (None, End::Saved | End::TimedOut) if epochs > 0 => {
                self.wait(ended, None, &format!("{end}; resumes after epoch {}", self.epochs_done));
            }
            (None, end) if end.is_from_outside() => self.put_off(now, &end.to_string(), rules),
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

    /// Leaves out the GPU types on trial of the attempt that has just failed, where the job has done no epoch on them;
    /// returns what to say of it.
    fn avoid(&mut self) -> String {
        let Some((last, before)) = self.past.split_last().filter(|(last, _)| last.epochs == 0) else {
            return String::new();
        };
        let has_trained = |gpu_type: &GpuType| {
            let own = |past: &&PastAttempt| past.attempt.gpus.by_type().contains_key(gpu_type);
            before.iter().filter(own).any(|past| past.epochs > 0)
        };
        let new: Vec<GpuType> =
            last.attempt.trials.0.keys().filter(|own| !has_trained(own)).cloned().collect();
        if new.is_empty() {
            return String::new();
        }
        let names = new.iter().map(GpuType::as_str).collect::<Vec<_>>().join(" and ");
        self.avoids.extend(new);
        format!(" in its first run on {names}, which its job file does not list: will not try there again")
    }

    /// Uses up a retry, or ends the job where none is left.
    fn fail(&mut self, at: Time, epochs: Option<u64>, why: &str, rules: &Rules) {
        self.failures += 1;
        if self.failures > self.job.retries {
            let reason = match self.failures {
                1 => why.to_owned(),
                times if self.has_stopped(times) => {
                    format!("stopped {times} times without finishing an epoch")
                }
                times => format!("{why} ({times} failures, no retries left)"),
            };
            return self.finish(at, Outcome::Failed { reason });
        }
        if epochs.is_none_or(|epochs| epochs == 0) {
            self.fruitless += 1;
        }
        let delay = rules.delay(self.fruitless.max(1));
        self.wait(at, Some(at.after(delay)), &format!("{why}; {}", self.retries_left()));
    }

    /// Waits for a better moment without using up a retry: the job is not to blame.
    fn put_off(&mut self, at: Time, why: &str, rules: &Rules) {
        self.fruitless += 1;
        if self.fruitless > Rules::MOST_FRUITLESS {
            // Whatever it is that comes from outside so often, it comes with this job.
            return self.fail(at, None, why, rules);
        }
        self.wait(at, Some(at.after(rules.delay(self.fruitless))), why);
    }

    fn wait(&mut self, at: Time, not_before: Option<Time>, why: &str) {
        if matches!(self.phase, Phase::Stopping { then: Then::Cancel, .. }) {
            return self.finish(at, Outcome::Cancelled);
        }
        self.phase = waiting(not_before, why);
        self.last = (at, why.to_owned());
    }

    /// Ends a job that waits, though not all its epochs are done.
    pub(super) fn finish_early(&mut self, at: Time, why: &str) {
        self.finish(at, Outcome::Completed);
        self.last.1 = format!("done early: {why}");
    }

    fn finish(&mut self, at: Time, outcome: Outcome) {
        self.last = (at, outcome.to_string());
        self.phase = Phase::Ended { at, outcome };
    }
}

impl Attempt {
    fn identify(&mut self, job_id: JobId, submit_time: Option<&String>) {
        self.job_id = Some(job_id);
        self.submit_time = submit_time.cloned().or(self.submit_time.take());
        self.missing = None;
    }
}

fn waiting(not_before: Option<Time>, reason: &str) -> Phase {
    Phase::Waiting { not_before, reason: reason.to_owned() }
}
