//! `hsched logs --follow`: the output as it grows, from one submission of the job to the next.

use std::path::PathBuf;
use std::time::Duration;

use crate::app::context::Context;
use crate::app::output::{FilePart, Growth};
use crate::app::printed::{Printed, latest, submissions};
use crate::app::{deferred_commands, state};
use crate::commands::logs::{Args, Output, unreadable};
use crate::error::Failure;
use crate::exit::Exit;
use hsched_engine::clock::Clock as _;
use hsched_engine::store::{last_look, report_folder, reports, state_stamp};
use hsched_engine::{JobState, Phase, Rules, State, SubmissionKey};
use hsched_model::{ErrorId, Seconds};

/// Time between two looks. A network file system does not tell this machine of what another node writes, and the state
/// does not tell of anything.
const PAUSE: Duration = Duration::from_secs(1);

/// After this time without a look at the jobs nobody watches them: nothing comes after a submission that has ended.
const UNWATCHED: Seconds = Seconds(120.0);

/// Follows a job.
pub(super) struct Follower<'a> {
    args: &'a Args,
    context: &'a Context,
    rules: Rules,
    root: PathBuf,
    output: Output<'a>,
    growth: Growth,
    /// The submission whose output is printed.
    shown: Option<(SubmissionKey, Vec<FilePart>)>,
    /// What was said last of a job that waits.
    said: &'static str,
}

impl<'a> Follower<'a> {
    /// # Errors
    /// When there is no state directory.
    pub(super) fn new(args: &'a Args, context: &'a Context, rules: Rules) -> Result<Self, Failure> {
        let root = state::root(context)?;
        let output = Output { context, several: false, shown: None };
        Ok(Self { args, context, rules, root, output, growth: Growth::new(), shown: None, said: "" })
    }

    /// Prints until the job has ended or the reader is gone.
    ///
    /// # Errors
    /// When the state or the output cannot be read, or stdout cannot be written.
    pub(super) fn go_on(&mut self, mut state: State) -> Result<Exit, Failure> {
        let mut stamp = state_stamp(&self.root);
        loop {
            let Ok(tracked) = self.args.find(&state) else { return Ok(Exit::Done) };
            self.take_up(tracked)?;
            let is_over = tracked.phase.is_over() || self.is_left_alone()?;
            // After the look: what comes before the end is there by then.
            if !self.print()? {
                return Ok(Exit::Done);
            }
            if is_over {
                if self.shown.is_none() {
                    self.context.note(&format!("{} never started: {}", self.args.job, tracked.phase.word()));
                }
                return Ok(Exit::Done);
            }
            let next_look = self.context.clock.elapsed() + PAUSE;
            while let Some(left) = next_look.checked_sub(self.context.clock.elapsed()) {
                if self.context.terminal.loses_reader_before(left, self.growth.news()) {
                    return Ok(Exit::Done);
                }
                self.growth.forget();
                if !self.print()? {
                    return Ok(Exit::Done);
                }
            }
            let now = state_stamp(&self.root);
            if now != stamp {
                (stamp, state) = (now, deferred_commands::expected(self.context, &self.rules)?);
            }
        }
    }

    /// Turns to the job's latest submission once it has begun.
    fn take_up(&mut self, tracked: &JobState) -> Result<(), Failure> {
        let all = submissions(self.context, tracked)?;
        let Some(next) = latest(tracked, &all).filter(|next| next.has_begun) else {
            self.say_waiting(tracked);
            return Ok(());
        };
        if self.shown.as_ref().is_some_and(|(key, _)| *key == next.key) {
            if let Phase::Waiting { .. } = tracked.phase {
                self.say_waiting(tracked);
            }
            return Ok(());
        }
        self.turn_to(next)
    }

    fn turn_to(&mut self, next: &Printed) -> Result<(), Failure> {
        next.note(self.context);
        self.said = "";
        self.output.several = next.parts.len() > 1;
        let mut parts = next.parts.clone();
        match self.shown.take() {
            None => {
                for part in &mut parts {
                    if let Some(lines) = self.args.tail {
                        part.skip_to_last(lines).map_err(|error| unreadable(part, &error))?;
                    }
                }
            }
            Some((_, mut before)) => {
                for part in &mut before {
                    let here = parts.iter_mut().find(|candidate| candidate.path == part.path);
                    // Where the file is the same, what was printed of it is not printed again.
                    part.end = here.as_ref().map(|part| part.position);
                    self.output.pass_on(part)?;
                    if let Some(shown_part) = here {
                        shown_part.position = shown_part.position.max(part.position);
                    }
                }
                let path = parts.first().map(|part| part.path.display().to_string()).unwrap_or_default();
                self.context.note(&format!("{} continues in {path} ({})", next.key.job, next.words()));
            }
        }
        self.shown = Some((next.key.clone(), parts));
        Ok(())
    }

    /// Says once that the job waits.
    fn say_waiting(&mut self, tracked: &JobState) {
        let word = tracked.phase.word();
        let (job, is_new) = (&tracked.job.name, self.said != word);
        if is_new && !tracked.phase.is_over() {
            let what =
                if self.shown.is_some() { "is between two submissions" } else { "has not started yet" };
            self.context.note(&format!("{job} {what}: {word}; waiting for it to start"));
        }
        self.said = word;
    }

    /// Returns whether the submission has ended, by its script's word, and nothing comes after it: it has completed, or
    /// nobody watches the jobs.
    fn is_left_alone(&self) -> Result<bool, Failure> {
        let Some((key, _)) = &self.shown else { return Ok(false) };
        let folder = report_folder(&self.root, &key.run, &key.name());
        let word = reports::word(&folder, None).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot read a file in {}: {error}", folder.display()))
                .id(ErrorId::FileUnreadable)
        })?;
        let Some(reports::LastWord { status, .. }) = word else { return Ok(false) };
        let now = state::now(self.context);
        let is_watched = last_look(&self.root).is_some_and(|at| now.since(at).0 < UNWATCHED.0);
        if status != 0 && !is_watched {
            let job = &key.job;
            self.context.note(&format!(
                "{job} ended with status {status}, and hsched watch has not run for at least 2 min: run hsched watch to continue"
            ));
        }
        Ok(status == 0 || !is_watched)
    }

    /// Prints what is new; returns whether anybody reads it.
    fn print(&mut self) -> Result<bool, Failure> {
        let Some((_, parts)) = &mut self.shown else { return Ok(true) };
        for part in parts {
            self.growth.watch(&part.path);
            if !self.output.pass_on(part)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
