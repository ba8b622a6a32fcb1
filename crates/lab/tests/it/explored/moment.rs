//! A moment: the state on disk and Slurm. Defines forbidden moments, successors, and equivalence.

use std::fmt::Write as _;

use hsched_engine::{
    AfterStop, End, JobState, Outcome, PastAttempt, Phase, Rules, Stage, State, StopProgress, Submission,
    SubmissionRecord,
};
use hsched_model::{Job, JobName, NodeName, Seconds, Time};
use hsched_plan::Policy;

use super::Plant;
use super::slurm::{Entry, Slurm};
use super::turn::{Start, turns};

/// The situation between two events.
#[derive(Clone, Debug)]
pub struct Moment {
    pub state: State,
    pub slurm: Slurm,
    pub at: Time,
    /// Number of remaining faults.
    pub faults: u8,
}

/// A successor.
pub struct Next {
    pub what: String,
    pub is_fault: bool,
    pub moment: Moment,
}

/// The constants of an exploration.
pub struct ExplorerRules {
    pub rules: Rules,
    pub plant: Plant,
    /// Number of copies of a job in a plan.
    pub copies: usize,
    /// Maximum number of ticks that a request is on its way: it arrives by then or never.
    ///
    /// The engine relies on this limit: it repeats a request after `Rules::UNCLEAR`, which is one tick, plus
    /// the first delay; for a copy beside others, after `Rules::UNCLEAR` only.
    pub latest: u8,
}

/// The step of the clock, in seconds. Everything for which the engine waits is due after one tick or more, so
/// moments before and after it is due are both covered.
const TICK: f64 = 60.0;

impl Moment {
    /// Returns all successors. A turn without changes is no successor.
    pub fn next(&self, rules: &ExplorerRules, policy: &mut dyn Policy) -> Vec<Next> {
        let start = Start { state: &self.state, slurm: &self.slurm, at: self.at, faults: self.faults };
        let turn = turns(&start, &rules.rules, policy, rules.plant).into_iter().map(|went| {
            let faults = self.faults - went.faults;
            let moment = Self { state: went.state, slurm: went.slurm, at: self.at, faults };
            Next { what: went.what, is_fault: went.faults > 0, moment }
        });
        let happens = self.slurm.happenings(self.faults > 0).into_iter().map(|happening| {
            let faults = self.faults - u8::from(happening.is_fault);
            let moment = Self { slurm: happening.then, faults, state: self.state.clone(), ..*self };
            Next { what: happening.what, is_fault: happening.is_fault, moment }
        });
        let tick = self.slurm.after_a_tick(rules.latest).map(|slurm| {
            let moment = Self { slurm, at: self.at.after(Seconds(TICK)), state: self.state.clone(), ..*self };
            Next { what: "a minute passes".to_owned(), is_fault: false, moment }
        });
        let mut all: Vec<Next> = turn.chain(happens).chain(tick).collect();
        for next in &mut all {
            next.moment.tidy();
        }
        all
    }

    /// Removes data without influence on the future: unused records of Slurm, and ended attempts except the
    /// last one and those that Slurm may still have. It also removes observed lengths of epochs, which only
    /// determine how long to wait for a silent job and would multiply the states.
    fn tidy(&mut self) {
        self.slurm.tidy(&self.state);
        for job in &mut self.state.jobs {
            job.epoch = None;
        }
        for place in 0..self.state.jobs.len() {
            let mut past = std::mem::take(&mut self.state.jobs[place].past);
            let (job, last) = (&self.state.jobs[place].job, past.len());
            let mut number = 0;
            past.retain(|past| {
                number += 1;
                number == last || self.has(job, &past.attempt)
            });
            for past in past.iter_mut().filter(|past| !self.has(job, &past.attempt)) {
                // The name of the run may be used again.
                past.attempt.run.clear();
            }
            self.state.jobs[place].past = past;
        }
    }

    /// Returns whether all jobs have ended and none of their submissions may still run.
    pub fn is_over(&self) -> bool {
        self.state.is_over() && !self.slurm.entries.iter().any(Entry::may_run)
    }

    /// Returns what is forbidden in this moment, if anything.
    pub fn wrong(&self, rules: &ExplorerRules) -> Option<String> {
        if self.state.jobs.len() != self.slurm.epochs.len() {
            return Some("a job is not in the state any more".to_owned());
        }
        (0..self.state.jobs.len()).find_map(|job| self.wrong_about(job, rules))
    }

    fn wrong_about(&self, job: usize, rules: &ExplorerRules) -> Option<String> {
        let JobState { job: own_job, phase, failures, past, .. } = &self.state.jobs[job];
        let entries = || self.slurm.entries.iter().filter(|entry| entry.job == job);
        let alive = entries().filter(|entry| entry.is_alive()).count();
        let (whole, saved) = self.slurm.epochs[job];
        // A submission that was presumed lost may still run, because hsched finds it again.
        let is_lost = |entry: &Entry| {
            past.iter().any(|past_attempt| {
                past_attempt.end == End::Vanished && past_attempt.attempt.key(&own_job.name) == entry.of
            })
        };
        let what = match phase {
            _ if alive > rules.copies => format!("{alive} submissions are alive"),
            Phase::Ended { .. } if entries().any(|entry| entry.may_run() && !is_lost(entry)) => {
                "has ended, and a submission is left of which nobody knows".to_owned()
            }
            Phase::Ended { outcome: Outcome::Completed, .. } if saved < whole => {
                "is said to have completed, and has not".to_owned()
            }
            Phase::Ended { outcome: Outcome::Failed { .. }, .. }
                if *failures <= own_job.retries && saved < whole =>
            {
                "is given up before its retries are used up".to_owned()
            }
            Phase::Ended { outcome: Outcome::Cancelled, .. } => "nobody cancelled it".to_owned(),
            _ => return None,
        };
        Some(format!("{}: {what}", own_job.name))
    }

    /// Returns all data with influence on the future as text.
    ///
    /// Moments with equal texts are equivalent. The text omits messages for people, job ids and data that a
    /// policy without a clock does not see. Times are ages in ticks, up to the longest time that any rule
    /// waits. A new field of the state must be handled here, or this does not compile.
    pub fn words(&self) -> String {
        let mut text = self.slurm.words();
        let State {
            jobs,
            nodes_down,
            nodes_reserved,
            decided,
            wake,
            memory,
            planned_by: _,
            scripts: _,
            cache: _,
            contributor: _,
            node_times,
        } = &self.state;
        assert!(node_times.is_empty(), "reports without lengths");
        assert!(nodes_reserved.is_empty(), "no reservations");
        assert!(wake.is_none() && memory.is_none(), "the policy of these tests needs neither");
        let _ = write!(text, "|{}|{:x}|", self.faults, decided.unwrap_or_default());
        let down: Vec<&str> = nodes_down.iter().map(NodeName::as_str).collect();
        text.push_str(&down.concat());
        for tracked in jobs {
            self.write_job(tracked, &mut text);
        }
        text
    }

    fn write_job(&self, tracked: &JobState, text: &mut String) {
        let JobState {
            job,
            phase,
            epochs_done,
            failures,
            fruitless,
            cuts,
            epoch,
            startup,
            pause,
            epoch_at,
            added: _,
            last: _,
            stray,
            avoids,
            unfit,
            awaits,
            past,
            assumed: _,
            unmeasured: _,
            curve: _,
            early: _,
            place: _,
            is_late: _,
        } = tracked;
        assert!(
            epoch.is_none()
                && startup.is_none()
                && pause.is_none()
                && avoids.is_empty()
                && unfit.is_empty()
                && awaits.is_none(),
            "reports without lengths, no types on trial, no checks of nodes, none after others"
        );
        let stray = stray.map_or("", |_| "stray");
        let _ = write!(text, "|{} {epochs_done} {failures} {fruitless} {cuts} {stray}:", job.name);
        match phase {
            Phase::Waiting { not_before, reason: _ } => {
                let wait = not_before.map_or(0.0, |due| ((due.0 - self.at.0) / TICK).ceil().max(0.0));
                let _ = write!(text, "W{wait}");
            }
            Phase::Submitted(submissions) => {
                for submission in submissions {
                    self.write_submission(&job.name, submission, text);
                }
            }
            Phase::Ended { at: _, outcome } => {
                let _ = write!(text, "{}", outcome.word());
            }
        }
        let lost = past.iter().filter(|past| past.end == End::Vanished && self.has(job, &past.attempt));
        let lost: Vec<&SubmissionRecord> = lost.map(|past| &past.attempt).collect();
        // A report delays the time at which a submission counts as gone by a minute.
        let mut chain =
            lost.iter().copied().chain(phase.submissions().iter().map(|submission| &submission.attempt));
        if chain.any(|submission| submission.epochs_before < *epochs_done) {
            let _ = write!(text, "{:?}", epoch_at.map(|at| self.age(at, 1)));
        }
        // Such submissions may be found again.
        for submission in lost {
            self.write_attempt("V", (&job.name, submission), text);
        }
        // The node of the failed attempt may turn out to have been down.
        if let Some(PastAttempt { attempt, ended, end: End::Failed { .. }, epochs: _ }) = past.last() {
            let _ = write!(text, "F{}{:?}", self.age(*ended, 5), attempt.gpus.0.keys());
        }
    }

    /// Returns whether Slurm has an attempt of a job or may still get it.
    fn has(&self, job: &Job, attempt: &SubmissionRecord) -> bool {
        self.slurm.entries.iter().any(|entry| entry.of == attempt.key(&job.name))
    }

    fn write_submission(&self, job: &JobName, Submission { attempt, stage }: &Submission, text: &mut String) {
        let stage = match *stage {
            Stage::Stopping { since, then, request } => {
                // The engine makes its next request one tick after a request to exit, and two ticks after a
                // request to end; after five ticks, it stops waiting.
                let age = self.age(since, if request == StopProgress::Killed { 5 } else { 1 });
                let then = match then {
                    // The time is only for display.
                    AfterStop::Done(_) => "Done".to_owned(),
                    other => format!("{other:?}"),
                };
                format!("S{age}{then}{request:?}")
            }
            other => other.word().to_owned(),
        };
        self.write_attempt(&stage, (job, attempt), text);
    }

    fn write_attempt(&self, stage: &str, (job, attempt): (&JobName, &SubmissionRecord), text: &mut String) {
        let SubmissionRecord {
            run,
            copy,
            ranks: _,
            epoch: _,
            communication: _,
            epochs_before,
            meant,
            job_id,
            submit_time,
            started,
            gpus,
            missing,
            reason,
            odd,
            stall,
            trials: _,
            pieces: _,
            // No job of this test races.
            race: _,
            queue_choice: _,
            joins: _,
            follows: _,
            has_next: _,
            keeps_limit: _,
            limit: _,
            grace: _,
            tables: _,
            amendment: _,
            tells_stops: _,
            tells_shares: _,
            new_shares: _,
            unmeasured: _,
        } = attempt;
        assert!(
            submit_time.is_none() && reason.is_none() && odd.is_none() && stall.is_none(),
            "this Slurm says none of it"
        );
        // A submission that has not started waits a minute for its nodes.
        let meant = self.age(*meant, 1);
        // The job id itself is irrelevant, except whether it is the one that Slurm has assigned.
        let entry = self.slurm.entries.iter().find(|entry| entry.of == attempt.key(job));
        let known = job_id.map(|id| entry.is_some_and(|entry| entry.id == id));
        let started = u8::from(started.is_some());
        let missing = missing.map(|at| self.age(at, 1));
        let _ = write!(text, "{stage}{run}.{copy}@{:?}{epochs_before}", gpus.0.keys());
        let _ = write!(text, "{meant}{known:?}{started}{missing:?};");
    }

    /// Returns the age of a time in ticks, at most `most`.
    fn age(&self, at: Time, most: u8) -> u8 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
        let ticks = (self.at.since(at).0 / TICK).min(f64::from(most)) as u8;
        ticks
    }
}
