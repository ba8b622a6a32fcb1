//! Applies answers and news to one job: stages of its submissions, epochs, measured speeds.

use crate::teach::KnownSpeeds;
use crate::{
    AfterStop, Answer, BackendKind, End, EpochReport, JobState, News, PastAttempt, Phase, Rules, Stage,
    Stall, StallKind, StopProgress, Submission, SubmissionKey, SubmissionRecord, teach,
};
use hsched_model::number::to_f64;
use hsched_model::{NodeName, Seconds, Time, hostlist};
use hsched_plan::throughput::Sample;

impl JobState {
    /// Records the outcome of a request about one of the job's submissions.
    pub(super) fn answered(&mut self, at: Time, of: &SubmissionKey, answer: &Answer, rules: &Rules) {
        match answer {
            Answer::Submitted { job_id } => {
                let Some(attempt) = self.attempt_mut(of) else { return };
                attempt.job_id = Some(*job_id);
                attempt.missing = None;
                let next = attempt.follows.is_some();
                let what =
                    if next { rules.backend.continued(*job_id) } else { rules.backend.submitted(*job_id) };
                let said = format!("{what} on {}", attempt.gpus);
                self.advance(at, of, Stage::Pending, said);
            }
            Answer::Refused { message } => {
                let why = format!("{}: {message}", rules.backend.refused());
                self.never_ran(at, of, &why, |job| job.fail(at, None, &why, rules));
            }
            Answer::Unreachable { message } => {
                let why = format!("{}: {message}", rules.backend.failed());
                self.never_ran(at, of, &why, |job| job.put_off(at, &why, rules));
            }
            Answer::Deferred { message } => {
                let why = format!("{}: {message}", rules.backend.deferred());
                self.never_ran(at, of, &why, |job| match rules.backend {
                    // Slurm is asked rarely; local devices may be free again a moment later.
                    BackendKind::Queue => job.put_off(at, &why, rules),
                    BackendKind::Devices => job.wait(at, Some(at.after(Rules::IN_USE)), &why),
                });
            }
            Answer::Unclear { message } => {
                self.last = (at, format!("unclear whether Slurm received the request ({message})"));
            }
            Answer::Stopped => self.asked(at, of, StopProgress::Asked, "asked to save a checkpoint and exit"),
            Answer::Killed => self.asked(at, of, StopProgress::Killed, "is being cancelled"),
            Answer::NotStopped { message } => self.not_asked(at, of, message),
            Answer::Amended => {
                let Some(attempt) = self.attempt_mut(of) else { return };
                attempt.amend();
                let said = format!("its request is now {}", attempt.gpus);
                self.last = (at, said);
            }
            Answer::Shared | Answer::NotShared { .. } => {
                let Some(attempt) = self.attempt_mut(of) else { return };
                attempt.hear_of_file(*answer == Answer::Shared);
                if let Answer::NotShared { message } = answer {
                    self.last = (at, format!("its shares were not changed: {message}"));
                }
            }
            Answer::NotAmended { message } => {
                let Some(attempt) = self.attempt_mut(of) else { return };
                // A refused update is not requested again.
                match attempt.amendment.take() {
                    Some(amendment) if amendment.kind.is_none() => attempt.keeps_limit = true,
                    _ => attempt.tables.clear(),
                }
                self.last = (at, format!("its request was not changed: {message}"));
            }
        }
    }

    /// Applies news of one of the job's submissions; returns the speeds learnt from it.
    pub(super) fn hear(
        &mut self,
        at: Time,
        of: &SubmissionKey,
        news: &News,
        rules: &Rules,
        measured: KnownSpeeds<'_>,
    ) -> Vec<Sample> {
        match news {
            News::Epoch(report) => return self.count(of, report, rules, measured),
            News::Ended { end, at: ended } => {
                let end = self.believed(*ended, of, end, rules);
                let samples = teach::by_the_whole(self, of, &end, *ended, measured.cache);
                self.end(*ended, at, of, &end, rules);
                return samples;
            }
            News::Queued { job_id, submit_time } => {
                let Some(Submission { attempt, stage }) = self.submission_mut(of) else { return Vec::new() };
                let new = attempt.job_id != Some(*job_id) || attempt.missing.is_some();
                attempt.identify(*job_id, submit_time.as_ref());
                // If the submission had started, Slurm has requeued it.
                attempt.started = None;
                if new || matches!(stage, Stage::Meant | Stage::Running) {
                    self.advance(at, of, Stage::Pending, format!("pending as job {job_id}"));
                }
            }
            News::Started { job_id, submit_time, at: since, gpus } => {
                let Some(attempt) = self.attempt_mut(of) else { return Vec::new() };
                attempt.identify(*job_id, submit_time.as_ref());
                attempt.started = Some(*since);
                attempt.reason = None;
                attempt.starts_on(gpus.as_ref());
                let nodes = hostlist::compress(attempt.gpus.0.keys().map(NodeName::as_str));
                let said = format!("{} on {} ({nodes})", rules.backend.running(*job_id), attempt.gpus);
                self.advance(*since, of, Stage::Running, said);
            }
            News::Waits(reason) => {
                if let Some(attempt) = self.attempt_mut(of) {
                    attempt.reason = Some(reason.text.clone());
                }
            }
            News::Odd { what } => {
                if let Some(attempt) = self.attempt_mut(of) {
                    attempt.odd = Some(what.clone());
                }
            }
            News::Stalled(stall) => self.hear_of_stall(at, of, stall.as_ref()),
            News::NeverSubmitted => {
                let why = "Slurm never received it; submitting again";
                // If the submission appears in the queue after all, it is recognised.
                if let Some(attempt) = self.submission(of).map(|submission| submission.attempt.clone()) {
                    self.past.push(PastAttempt { attempt, ended: at, end: End::Vanished, epochs: 0 });
                }
                self.never_ran(at, of, why, |job| job.put_off(at, why, rules));
            }
            // Only jobs of scripts have facts.
            News::Facts(_) => {}
            News::Missing => {
                if let Some(attempt) = self.attempt_mut(of) {
                    attempt.missing = Some(at);
                }
            }
        }
        Vec::new()
    }

    /// Returns the actual end of a submission. Before the last epoch, exit status 0 proves nothing for a
    /// submission that was asked to stop through Slurm, nor for a script of 0.1.0 that ended near its time
    /// limit. Under `hsched run`, the request reaches the script first, which then returns 0 only if the
    /// commands had returned 0 before. A copy of a training is believed, because the other copies may have
    /// done the rest.
    fn believed(&self, ended: Time, of: &SubmissionKey, end: &End, rules: &Rules) -> End {
        let is_short = self.epochs_left() > 0 && self.job.training().is_none();
        let Some(Submission { attempt, stage }) =
            self.submission(of).filter(|_| is_short && *end == End::Completed)
        else {
            return end.clone();
        };
        let is_asked = rules.backend == BackendKind::Queue
            && matches!(stage, Stage::Stopping { request: StopProgress::Asked | StopProgress::Killed, .. });
        let grace = self.job.launch.checkpoint.grace.unwrap_or(rules.defaults.grace);
        let is_doubtful = !attempt.tells_stops && attempt.is_near_limit(ended, grace);
        if is_asked || is_doubtful { End::Cut } else { end.clone() }
    }

    /// Records that a submission is stuck or makes progress again. In the second case the pause was harmless,
    /// and pauses of that length are ignored later, unless ranks were stopped or a node sent no samples.
    fn hear_of_stall(&mut self, at: Time, of: &SubmissionKey, stall: Option<&Stall>) {
        let Some(attempt) = self.attempt_mut(of) else { return };
        let before = std::mem::replace(&mut attempt.stall, stall.cloned());
        let is_harmless = |stall: &Stall| stall.kind != StallKind::Stopped && stall.kind != StallKind::Silent;
        if let Some(before) = before.filter(|before| is_harmless(before) && attempt.stall.is_none()) {
            let pause = at.since(before.since).0.max(self.pause.map_or(0.0, |pause| pause.0));
            self.pause = Some(Seconds(pause));
        }
    }

    fn attempt_mut(&mut self, of: &SubmissionKey) -> Option<&mut SubmissionRecord> {
        self.submission_mut(of).map(|submission| &mut submission.attempt)
    }

    /// Removes a submission from the job; returns it if it was the only one, so that the job needs another
    /// phase.
    pub(super) fn take_out(&mut self, at: Time, of: &SubmissionKey, why: &str) -> Option<Submission> {
        let Phase::Submitted(submissions) = &mut self.phase else { return None };
        let place = submissions.iter().position(|submission| submission.is(of))?;
        let submission = submissions.remove(place);
        if submissions.is_empty() {
            return Some(submission);
        }
        self.last = (at, format!("one of its submissions {why}"));
        None
    }

    /// Records that Slurm received a request to end a submission.
    fn asked(&mut self, at: Time, of: &SubmissionKey, heard: StopProgress, said: &str) {
        self.last = (at, said.to_owned());
        let Some(Submission { stage, .. }) = self.submission_mut(of) else { return };
        *stage = match *stage {
            // The time counts from the first such request.
            Stage::Stopping { since, then, request } => {
                let since = if request == heard { since } else { at };
                Stage::Stopping { since, then, request: heard }
            }
            _ => Stage::Stopping { since: at, then: AfterStop::GoOn, request: heard },
        };
    }

    /// Records that Slurm did not receive or rejected a request to stop a submission: a job that was to move
    /// stays where it is.
    fn not_asked(&mut self, at: Time, of: &SubmissionKey, message: &str) {
        self.last = (at, format!("could not be stopped: {message}"));
        let Some(Submission { attempt, stage }) = self.submission_mut(of) else { return };
        if let Stage::Stopping { then: AfterStop::GoOn, request: StopProgress::Meant, .. } = stage {
            *stage = if attempt.started.is_some() { Stage::Running } else { Stage::Pending };
        }
    }

    /// Moves a submission to its next stage; one that is being stopped keeps its stage.
    fn advance(&mut self, at: Time, of: &SubmissionKey, next: Stage, said: String) {
        self.last = (at, said);
        let Some(Submission { stage, .. }) = self.submission_mut(of) else { return };
        if !matches!(stage, Stage::Stopping { .. }) {
            *stage = next;
        }
    }

    /// Returns whether an epoch is done for the first time.
    pub(super) fn is_new_epoch(&self, report: &EpochReport) -> bool {
        report.epoch > self.epochs_done && report.epoch <= self.job.epochs
    }

    /// Counts an epoch that is finished for the first time.
    fn count(
        &mut self,
        of: &SubmissionKey,
        report: &EpochReport,
        rules: &Rules,
        measured: KnownSpeeds<'_>,
    ) -> Vec<Sample> {
        let Some(Submission { attempt, .. }) = self.submission(of) else { return Vec::new() };
        if !self.is_new_epoch(report) {
            return Vec::new();
        }
        let mut attempt = attempt.clone();
        attempt.hear_shares(report);
        if let Some(submission) = self.attempt_mut(of) {
            submission.clone_from(&attempt);
        }
        let attempt = &attempt;
        let before = attempt.epochs_before;
        let startup = startup(attempt, report);
        let seen = self.since_the_last(before, report);
        let samples = teach::by_epoch(self, attempt, report, seen, measured);
        self.epochs_done = report.epoch;
        (self.fruitless, self.cuts) = (0, 0);
        // The first epoch after a stop may have begun before it.
        let whole = report.epoch > before + 1 || !self.may_have_saved();
        let length = report.length.filter(|_| whole);
        self.epoch = length.or(seen).or(self.epoch);
        self.epoch_at = Some(report.at);
        self.remember(report.epoch, &report.metrics);
        if let Some(new) = startup {
            let known = self.startup.unwrap_or(new);
            self.startup = Some(Seconds(known.0 + rules.learning_rate * (new.0 - known.0)));
        }
        self.last = (report.at, format!("epoch {} of {} done", report.epoch, self.job.epochs));
        samples
    }

    /// Returns how long an epoch took if rank 0 does not report its length: the time since the previous epoch
    /// of the same submission. That time may include waits, so it counts as a speed only until a measured one
    /// exists.
    fn since_the_last(&self, before: u64, report: &EpochReport) -> Option<Seconds> {
        let last = self.epoch_at.filter(|_| report.length.is_none() && self.epochs_done > before)?;
        let epochs = to_f64(report.epoch.saturating_sub(self.epochs_done));
        let length = report.at.since(last).0 / epochs;
        (length > 0.0).then_some(Seconds(length))
    }
}

impl Submission {
    /// Marks a submission as about to end. An earlier request to stop stays recorded, and the newest `then`
    /// replaces earlier ones.
    pub(super) fn end(&mut self, at: Time, then: AfterStop) {
        self.stage = match self.stage {
            Stage::Stopping { since, request, .. } => Stage::Stopping { since, then, request },
            _ => Stage::Stopping { since: at, then, request: StopProgress::Meant },
        };
    }
}

/// Returns the startup cost measured by the first epoch: the time since the start that was not training.
fn startup(attempt: &SubmissionRecord, report: &EpochReport) -> Option<Seconds> {
    let (started, length) = (attempt.started?, report.length?);
    let is_first = report.epoch == attempt.epochs_before + 1;
    is_first.then(|| Seconds((report.at.since(started).0 - length.0).max(0.0)))
}
