//! A live table of running jobs on a terminal: one row for each job, and below it the latest events.

use std::cell::RefCell;
use std::collections::VecDeque;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use terminal_size::terminal_size;

use crate::status::{JobSummary, epochs};
use crate::terminal::harmless;
use crate::text::{cut, shortened};
use crate::{Align, Table, Terminal};
use hsched_engine::{JobState, State};
use hsched_model::Time;
use hsched_model::number::to_f64;

/// A table that is redrawn; absent without a terminal.
#[derive(Debug)]
pub struct Board {
    bar: Option<ProgressBar>,
    terminal: Terminal,
    /// The latest events.
    lines: RefCell<VecDeque<String>>,
}

/// Maximum number of events on the terminal.
const LINES: usize = 8;

/// Maximum number of jobs with a row.
const ROWS: usize = 25;

/// Minimum number of displayed events.
const LEAST_LINES: usize = 2;

/// Maximum lengths of bars and names. The first pair with which each job fits on one row is used; bars shrink
/// first.
const FORMS: [(u64, usize); 7] =
    [(20, usize::MAX), (10, usize::MAX), (5, usize::MAX), (0, usize::MAX), (0, 20), (0, 14), (0, 8)];

/// Characters that a terminal echoes if Ctrl-C is pressed twice: ^C^C.
const ECHO: usize = 4;

/// Height of a terminal if it is unknown.
const USUAL_HEIGHT: usize = 24;

/// Number of lines other than jobs and events: headings, the count of jobs, two empty lines, the prompt.
const OTHER_LINES: usize = 5;

impl Board {
    /// Returns a table that is drawn only if it is `wanted` and stdout is a terminal that understands control
    /// sequences.
    pub fn new(terminal: Terminal, wanted: bool) -> Self {
        let is_shown = wanted && terminal.is_watched();
        let bar = is_shown.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
            match ProgressStyle::with_template("{msg}") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Self { bar, terminal, lines: RefCell::default() }
    }

    /// Adds a line about an event; returns whether it will be shown.
    pub fn tell(&self, line: &str) -> bool {
        let mut lines = self.lines.borrow_mut();
        lines.push_back(harmless(line));
        if lines.len() > LINES {
            lines.pop_front();
        }
        self.bar.is_some()
    }

    /// Draws the current state of the jobs.
    pub fn show(&self, state: &State, now: Time) {
        let Some(bar) = &self.bar else { return };
        let (width, height) = terminal_size()
            .map_or((self.terminal.width(), USUAL_HEIGHT), |(width, height)| {
                (usize::from(width.0), usize::from(height.0))
            });
        let room = height.saturating_sub(OTHER_LINES).max(LEAST_LINES + 1);
        let table = board_table(state, now, width, room - LEAST_LINES);
        let lines = self.lines.borrow();
        let fit = room.saturating_sub(table.lines().count().saturating_sub(2)).max(LEAST_LINES);
        let lines = lines.iter().skip(lines.len().saturating_sub(fit));
        // Lines are shorter than the width: a line that fills the width, alone or with echoed characters
        // after it, would wrap, and the table could not be erased.
        let most = width.saturating_sub(1 + ECHO).max(1);
        let lines: Vec<String> = lines.map(|line| cut(line, most)).collect();
        let text = format!("{table}\n{}", lines.join("\n"));
        bar.set_message(self.terminal.shown(&text).into_owned());
        bar.tick();
    }

    /// Writes other output to the terminal, above the table.
    pub fn aside(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Removes the table from the terminal.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Returns a limited number of rows for jobs that have not ended, and the number of ended jobs.
fn board_table(state: &State, now: Time, width: usize, rows: usize) -> String {
    // Running jobs come first; the others keep their order.
    let mut open: Vec<&JobState> = state.jobs.iter().filter(|tracked| !tracked.phase.is_over()).collect();
    open.sort_by_key(|tracked| tracked.phase.running().is_none());
    let shown = &open[..open.len().min(ROWS).min(rows)];
    let fits = |text: &String| text.lines().count() == shown.len() + 1;
    let table = |(bar, name)| job_rows(shown, now, bar, name).render(width.max(2) - 1, false);
    let tables = || FORMS.into_iter().map(table);
    let table = tables().find(fits).or_else(|| tables().next_back()).unwrap_or_default();
    let rest = open.len() - shown.len();
    let over = state.jobs.len() - open.len();
    let rest = if rest > 0 { format!("and {rest} more; ") } else { String::new() };
    format!("{table}{rest}{over} of {} jobs have ended\n", state.jobs.len())
}

/// Returns a row for each job, with bars and names of limited lengths.
fn job_rows(jobs: &[&JobState], now: Time, length: u64, name: usize) -> Table {
    let mut table = Table::new(&[
        ("JOB", Align::Left),
        ("STATE", Align::Left),
        ("GPUS", Align::Left),
        ("EPOCHS", Align::Left),
        ("SAMPLES/S", Align::Right),
        ("ENDS", Align::Left),
    ]);
    for tracked in jobs {
        let summary = JobSummary::new(tracked);
        let (done, all) = (tracked.epochs_done, tracked.job.epochs);
        let speed = summary
            .observed()
            .filter(|epoch| epoch.0 > 0.0)
            .map(|epoch| to_f64(tracked.job.samples_per_epoch) / epoch.0);
        let bar = if length > 0 && !tracked.job.is_command() {
            format!("{} ", bar(done, all, length))
        } else {
            String::new()
        };
        table.row([
            shortened(tracked.job.name.as_str(), name),
            tracked.phase.word().to_owned(),
            summary.attempt.map_or_else(|| "-".to_owned(), |attempt| attempt.gpus.to_string()),
            format!("{bar}{}", epochs(tracked)),
            speed.map_or_else(|| "-".to_owned(), |speed| format!("{speed:.0}")),
            summary.ends(now).unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table
}

/// Returns a bar of this length for the completed fraction.
fn bar(done: u64, all: u64, length: u64) -> String {
    let full = (done.min(all) * length).checked_div(all).unwrap_or(length);
    let characters = |count: u64, one: &str| one.repeat(usize::try_from(count).unwrap_or(0));
    format!("{}{}", characters(full, "█"), characters(length - full, "░"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use hsched_model::{Job, JobName};

    #[test]
    fn a_row_has_a_bar_and_those_that_ended_are_counted() {
        let job = |name: &str| Job::only_planned(JobName::new(name).expect("a name"), 100, 10, 10);
        let mut state = State::default();
        for (name, done) in [("a", 0), ("b", 5), ("c", 10)] {
            state.jobs.push(JobState { epochs_done: done, ..JobState::new(job(name), Time(0.0)) });
        }
        let text = board_table(&state, Time(1.0), 100, 10);
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[1].contains("░░░░░░░░░░░░░░░░░░░░ 0/10"), "{text}");
        assert!(rows[2].contains("██████████░░░░░░░░░░ 5/10"), "{text}");
        assert!(rows[3].contains("████████████████████ 10/10"), "{text}");
        assert_eq!(rows[4], "0 of 3 jobs have ended");
        // The bar shrinks first, and no row is left out.
        let text = board_table(&state, Time(1.0), 60, 10);
        assert!(text.contains("█████░░░░░ 5/10") && !text.contains("░░░░░░░░░░░"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() < 60), "{text}");
        assert_eq!(board_table(&state, Time(1.0), 45, 10).lines().count(), 4 + 1);
        // Then names lose their middle, because variants differ at the end.
        for (place, tracked) in state.jobs.iter_mut().enumerate() {
            Arc::make_mut(&mut tracked.job).name =
                JobName::new(&format!("resnet50-cifar-lr0.001-wd0.0005-seed{place}")).expect("a name");
        }
        for width in [60, 50] {
            let text = board_table(&state, Time(1.0), width, 10);
            assert_eq!(text.lines().count(), 4 + 1, "{text}");
            assert!(text.lines().all(|line| line.chars().count() < width), "{text}");
            assert!((0..3).all(|place| text.contains(&format!("seed{place} "))), "{text}");
        }
        assert!(board_table(&state, Time(1.0), 100, 2).ends_with("and 1 more; 0 of 3 jobs have ended\n"));
    }
}
