//! The log of a session: events line by line and, if requested, a table of the jobs on a terminal.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::json;

use crate::app::context::{Context, Format};
use crate::app::last_error::last_error;
use crate::app::line_ends::windows_line_ends;
use crate::app::notify::Notifier;
use crate::app::state;
use crate::app::unread_events;
use hsched_engine::live::absolute;
use hsched_engine::store::StateDir;
use hsched_engine::{BackendKind, End, Event, JobState, News, State, SubmissionKey, Update};
use hsched_model::{JobName, NodeName};
use hsched_ui::{Board, Story, StoryLine, StoryTopic, date, merged_story, slow_note};

/// Reports events to users or programs.
pub(crate) struct Log<'a> {
    context: &'a Context,
    format: Format,
    backend: BackendKind,
    story: RefCell<Story>,
    /// The submissions that have failed since the last lines.
    failed: RefCell<Vec<SubmissionKey>>,
    /// The notes already shown.
    noted: RefCell<BTreeSet<String>>,
    /// The slow nodes that were reported; `None` before the first state.
    named_slow: RefCell<Option<BTreeSet<NodeName>>>,
    /// Whether notes are repeated after a turn without them.
    repeats: bool,
    board: Board,
    /// `None` in a dry run.
    notifier: Option<Notifier>,
}

impl<'a> Log<'a> {
    /// Returns the log of queued jobs: it has no table, and prints a note again if it returns after a turn in
    /// which it was absent.
    pub(crate) fn of_queue(context: &'a Context, format: Format, dry_run: bool) -> Self {
        Self::new(context, format, BackendKind::Queue, true, dry_run)
    }

    /// Returns the log of jobs on devices: it has a table on a terminal, and shows each note once.
    pub(crate) fn of_devices(context: &'a Context, format: Format, dry_run: bool) -> Self {
        Self::new(context, format, BackendKind::Devices, false, dry_run)
    }

    fn new(context: &'a Context, format: Format, backend: BackendKind, repeats: bool, dry_run: bool) -> Self {
        let has_board = backend == BackendKind::Devices && format == Format::Table;
        Self {
            context,
            format,
            backend,
            // Jobs on devices are added with the first turn, so a dry run leaves no trace of them.
            story: RefCell::new(match backend {
                BackendKind::Devices if dry_run => Story::preview(),
                _ => Story::of(backend),
            }),
            failed: RefCell::default(),
            noted: RefCell::default(),
            named_slow: RefCell::default(),
            repeats,
            board: Board::new(context.terminal, has_board),
            notifier: (!dry_run).then(|| Notifier::new(context)),
        }
    }

    /// Records events for the next lines.
    pub(crate) fn hear_all(&self, events: &[Event]) {
        for event in events {
            self.hear(Update::Event(event));
        }
    }

    /// Records an update of a turn for the next lines.
    pub(crate) fn hear(&self, told: Update<'_>) {
        if let Update::Event(Event::News { of, news: News::Ended { end: End::Failed { .. }, .. } }) = told {
            self.failed.borrow_mut().push(of.clone());
        }
        self.story.borrow_mut().hear(told);
    }

    /// Records a world's messages about jobs for the next lines.
    pub(crate) fn hear_said(&self, said: Vec<(JobName, String)>) {
        let mut story = self.story.borrow_mut();
        for (job, text) in said {
            story.switch(job, text);
        }
    }

    /// Adds the events that commands have seen since the last `watch` or `run` to the next lines. The present
    /// slow nodes count as reported, by that `watch` or `run`.
    pub(crate) fn recall(&self, directory: &StateDir, state: &State) {
        self.named_slow.borrow_mut().get_or_insert_with(|| self.slow_nodes(state));
        unread_events::recall(self.context, directory, &mut self.story.borrow_mut());
    }

    /// Prints a message about the command itself, with the time.
    pub(crate) fn say(&self, what: &str) {
        let now = date(state::now(self.context));
        self.board.aside(|| self.context.terminal.say(&format!("{now} {what}")));
    }

    /// Removes the table from the terminal.
    pub(crate) fn end(&self) {
        self.board.end();
    }

    /// Prints new notes, the recorded lines, and the table on a terminal.
    pub(crate) fn print(&self, notes: &[String], state: &State) {
        self.print_notes(notes);
        self.print_lines(state, self.notifier.as_ref());
    }

    /// Prints the recorded lines of jobs that are not the user's, such as short runs that measure speeds,
    /// without a notification.
    pub(crate) fn print_only(&self, state: &State) {
        self.print_lines(state, None);
    }

    fn print_lines(&self, state: &State, notifier: Option<&Notifier>) {
        self.name_slow_nodes(state);
        let (now, colour) = (state::now(self.context), self.context.terminal.colour());
        let mut lines = self.story.borrow_mut().lines(state);
        self.add_errors(&mut lines, state);
        if let Some(notifier) = notifier {
            notifier.tell(&lines);
            for trouble in notifier.troubles() {
                self.board.aside(|| self.context.warn(&trouble));
            }
        }
        let is_table = self.format == Format::Table;
        if is_table && self.backend == BackendKind::Devices {
            // Devices have no queue: the line of the submission has said that the job starts.
            lines.retain(|line| line.topic != StoryTopic::Start);
        }
        for line in if is_table { merged_story(&lines) } else { lines } {
            let at = line.at.unwrap_or(now);
            let date = date(at);
            let (plain, time) = (line.plain(), date.rsplit(' ').next().unwrap_or_default());
            if self.board.tell(&format!("{time} {plain}")) {
                continue;
            }
            let text = if is_table {
                line.paint(format!("{date} {plain}"), colour)
            } else {
                let job = line.job.as_ref().map(JobName::as_str);
                json!({ "at": at.0, "job": job, "topic": line.topic.word(), "text": line.text }).to_string()
            };
            // A closed reader must not stop the jobs.
            let _ = self.context.terminal.print(&format!("{text}\n"));
        }
        self.board.show(state, now);
    }

    /// Adds why they failed to the lines of failed runs: the last error of the output, or a fault of the
    /// script.
    fn add_errors(&self, lines: &mut [StoryLine], state: &State) {
        let failed = self.failed.take();
        let is_end = |line: &&mut StoryLine| matches!(line.topic, StoryTopic::End | StoryTopic::GivenUp);
        for line in lines.iter_mut().filter(is_end) {
            let of = failed.iter().rev().find(|of| line.job.as_ref() == Some(&of.job));
            let why = of.and_then(|of| self.why_failed(state.find(&of.job)?, of));
            if let Some(why) = why {
                line.text = format!("{}; {why}", line.text);
            }
        }
    }

    /// Returns why a submission failed, from its script or its output.
    fn why_failed(&self, tracked: &JobState, of: &SubmissionKey) -> Option<String> {
        let end =
            tracked.past.iter().rev().find(|past| past.attempt.key(&of.job) == *of).map(|past| &past.end);
        let launch = &tracked.job.launch;
        let workdir = absolute(&self.context.directory, launch.workdir.as_deref().unwrap_or("."));
        let line_ends = match end {
            Some(End::Failed { exit: 126 | 127, .. }) => windows_line_ends(&launch.command, &workdir),
            _ => None,
        };
        line_ends.or_else(|| Some(format!("last error: {}", last_error(self.context, tracked, of)?)))
    }

    /// Reports each slow node once, and again if it was not slow in between.
    fn name_slow_nodes(&self, state: &State) {
        let slow_nodes = state.node_times.slow(state::now(self.context));
        let names = slow_nodes.iter().map(|slow| slow.node.clone()).collect();
        let named = self.named_slow.replace(Some(names)).unwrap_or_default();
        for slow in slow_nodes {
            if !named.contains(&slow.node) {
                self.board.aside(|| self.context.note(&slow_note(&slow)));
            }
        }
    }

    fn slow_nodes(&self, state: &State) -> BTreeSet<NodeName> {
        state.node_times.slow(state::now(self.context)).into_iter().map(|slow| slow.node).collect()
    }

    fn print_notes(&self, notes: &[String]) {
        let before = if self.repeats { self.noted.take() } else { BTreeSet::new() };
        for note in notes {
            if self.noted.borrow_mut().insert(note.clone()) && !before.contains(note) {
                self.board.aside(|| self.context.note(note));
            }
        }
    }
}
