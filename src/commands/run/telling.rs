//! The output of `hsched run`: a log, a table on a terminal, and a summary at the end.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::json;

use crate::app::context::{Context, Format};
use crate::app::metrics::metrics;
use crate::app::notify::Notifier;
use crate::app::state;
use crate::app::unison;
use crate::app::untold;
use crate::commands::cli::print;
use crate::error::Failure;
use crate::exit::Exit;
use crate::ui::{Board, Story, date, merged_story, status_table};
use hsched_engine::store::StateDir;
use hsched_engine::{Event, Outcome, Phase, Realm, State, Tracked, Update};
use hsched_model::{JobName, Time};

/// Tells people, or programs, what happens.
pub(super) struct Telling<'a> {
    context: &'a Context,
    format: Format,
    story: RefCell<Story>,
    /// The notes that were told.
    noted: RefCell<BTreeSet<String>>,
    board: Board,
    notifier: Notifier,
}

impl<'a> Telling<'a> {
    pub(super) fn new(context: &'a Context, format: Format) -> Self {
        let board = Board::new(context.terminal, format == Format::Table);
        let (story, noted) = (RefCell::new(Story::of(Realm::Devices)), RefCell::default());
        Self { context, format, story, noted, board, notifier: Notifier::new(context) }
    }

    /// Says where the jobs stand at the end; returns the exit code for the jobs that ended since it had `begun`.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub(super) fn finish(&self, state: &State, begun: Time) -> Result<Exit, Failure> {
        self.board.end();
        if self.format == Format::Table {
            let text = if state.jobs.is_empty() {
                "no jobs: pass a job file, or add jobs with hsched add JOBS\n".to_owned()
            } else {
                let metrics = metrics(&state::root(self.context)?, state);
                status_table(state, &metrics, state::now(self.context), self.context.terminal)
            };
            print(self.context, &text)?;
        }
        let ended = state.jobs.iter().filter(|tracked| !tracked.phase.ended_before(begun));
        for note in ended.filter_map(|tracked| unison::remark(self.context, tracked)) {
            self.context.note(&note);
        }
        let failed = |tracked: &Tracked| {
            let is_failure =
                matches!(&tracked.phase, Phase::Ended { outcome, .. } if *outcome != Outcome::Completed);
            is_failure && !tracked.phase.ended_before(begun)
        };
        Ok(if state.jobs.iter().any(failed) { Exit::Failed } else { Exit::Done })
    }

    /// Says where the jobs stand where nothing runs and nothing ever will on these devices; returns the exit code.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub(super) fn give_up(&self, state: &State) -> Result<Exit, Failure> {
        self.finish(state, Time(0.0))?;
        let open: Vec<&str> = state
            .jobs
            .iter()
            .filter(|tracked| !tracked.phase.is_over())
            .map(|tracked| tracked.job.name.as_str())
            .collect();
        self.say(&format!(
            "no job is running, and these jobs cannot start on these devices: \
            {}",
            open.join(", ")
        ));
        Ok(Exit::Unplaced)
    }

    /// Takes in what has happened, for the next lines.
    pub(super) fn hear_all(&self, events: &[Event]) {
        for event in events {
            self.hear(Update::Event(event));
        }
    }

    /// Takes the table off the terminal.
    pub(super) fn end(&self) {
        self.board.end();
    }

    /// Takes in what a turn tells, for the next lines.
    pub(super) fn hear(&self, told: Update<'_>) {
        self.story.borrow_mut().hear(told);
    }

    /// Takes in how jobs give up their devices and get them back, for the next lines.
    pub(super) fn hear_switches(&self, said: Vec<(JobName, String)>) {
        let mut story = self.story.borrow_mut();
        for (job, text) in said {
            story.switch(job, text);
        }
    }

    /// Says something about the session itself, with the time.
    pub(super) fn say(&self, what: &str) {
        let now = date(state::now(self.context));
        self.board.aside(|| self.context.terminal.say(&format!("{now} {what}")));
    }

    /// Tells what commands have noticed since the last `hsched run`.
    pub(super) fn recall(&self, directory: &StateDir, state: &State) {
        untold::recall(self.context, directory, &mut self.story.borrow_mut());
        self.print(&[], state);
        untold::forget(self.context, directory);
    }

    /// Writes the lines of the log, notes that are news, and the table on a terminal.
    pub(super) fn print(&self, notes: &[String], state: &State) {
        for note in notes {
            if self.noted.borrow_mut().insert(note.clone()) {
                self.board.aside(|| self.context.note(note));
            }
        }
        let (now, colour) = (state::now(self.context), self.context.terminal.colour());
        let lines = self.story.borrow_mut().lines(state);
        self.notifier.tell(&lines);
        for trouble in self.notifier.troubles() {
            self.board.aside(|| self.context.warn(&trouble));
        }
        let is_table = self.format == Format::Table;
        for line in if is_table { merged_story(&lines) } else { lines } {
            let at = line.at.unwrap_or(now);
            let date = date(at);
            let (plain, time) = (line.plain(), date.rsplit(' ').next().unwrap_or_default());
            if self.board.tell(&format!("{time} {plain}")) {
                continue;
            }
            let plain = format!("{date} {plain}");
            let text = if is_table {
                line.paint(plain, colour)
            } else {
                let job = line.job.as_ref().map(JobName::as_str);
                json!({ "at": at.0, "job": job, "topic": line.topic.word(), "text": line.text }).to_string()
            };
            // A reader that went away does not keep the jobs from going on.
            let _ = print(self.context, &format!("{text}\n"));
        }
        self.board.show(state, now);
    }
}
