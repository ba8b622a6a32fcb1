//! `hsched logs --follow`: prints the output as it grows, across submissions of the job.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::app::context::Context;
use crate::app::output::{FileGrowth, FilePart};
use crate::app::printed::{SubmissionOutput, latest, submissions};
use crate::app::{deferred_commands, state};
use crate::commands::logs::{Args, LogOutput, unreadable};
use hsched_engine::clock::Clock as _;
use hsched_engine::store::{last_look, report_folder, reports, state_stamp};
use hsched_engine::{JobState, Phase, Rules, State, SubmissionKey};
use hsched_model::{ErrorId, Seconds};
use hsched_ui::{Exit, Failure};

/// Time between checks: a network file system does not notify this machine of another node's writes, and the
/// state sends no notifications.
const PAUSE: Duration = Duration::from_secs(1);

/// After this time without an observation of the jobs, no process manages them, so nothing follows an ended
/// submission.
const UNWATCHED: Seconds = Seconds(120.0);

/// The result of [`state_stamp`].
type StateStamp = Option<(u64, SystemTime)>;

/// Follows a job.
pub(super) struct Follower<'a> {
    args: &'a Args,
    context: &'a Context,
    rules: Rules,
    root: PathBuf,
    output: LogOutput<'a>,
    growth: FileGrowth,
    /// The submission whose output is being printed.
    shown: Option<(SubmissionKey, Vec<FilePart>)>,
    /// The job's phase at the last message about its wait, as a word.
    said: &'static str,
}

impl<'a> Follower<'a> {
    /// # Errors
    /// If no state directory is known.
    pub(super) fn new(args: &'a Args, context: &'a Context, rules: Rules) -> Result<Self, Failure> {
        let root = state::root(context)?;
        let output = LogOutput { context, several: false, shown: None };
        Ok(Self { args, context, rules, root, output, growth: FileGrowth::new(), shown: None, said: "" })
    }

    /// Prints until the job has ended, its output has ended and no other submission will follow, or the
    /// reader has closed.
    ///
    /// # Errors
    /// If the state or the output cannot be read, or stdout cannot be written.
    pub(super) fn go_on(&mut self) -> Result<Exit, Failure> {
        let (mut stamp, mut state) = self.look()?;
        loop {
            let Ok(tracked) = self.args.find(&state) else { return Ok(Exit::Done) };
            self.take_up(tracked)?;
            let is_over = tracked.phase.is_over() || self.is_left_alone()?;
            // The output is read after the state, so all output before the end is present.
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
            if state_stamp(&self.root) != stamp {
                (stamp, state) = self.look()?;
            }
        }
    }

    /// Returns the state and the stamp that it had before: a change in the meantime is seen at the next check.
    fn look(&self) -> Result<(StateStamp, State), Failure> {
        let stamp = state_stamp(&self.root);
        Ok((stamp, deferred_commands::expected(self.context, &self.rules)?))
    }

    /// Switches to the job's latest submission after it has begun.
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

    fn turn_to(&mut self, next: &SubmissionOutput) -> Result<(), Failure> {
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
                    // In a shared file, output that was already printed is skipped.
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

    /// Prints a message that the job waits, once.
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

    /// Returns whether the submission has ended, according to the last line of its script, and no other will
    /// follow: the job has completed, or no process manages the jobs.
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

    /// Prints new output; returns whether the reader is still open.
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
