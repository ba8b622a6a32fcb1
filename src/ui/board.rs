//! Jobs at work on a terminal: a row for each that is drawn anew as it goes on, and below them what happened last.

use std::cell::RefCell;
use std::collections::VecDeque;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::engine::{State, Tracked};
use crate::model::Time;
use crate::ui::status::Standing;
use crate::ui::terminal::harmless;
use crate::ui::{Align, Table, Terminal};

/// A table that is drawn anew; nothing where nobody watches.
#[derive(Debug)]
pub struct Board {
    bar: Option<ProgressBar>,
    terminal: Terminal,
    /// What happened last.
    lines: RefCell<VecDeque<String>>,
}

/// How much of what happened stays on the terminal.
const LINES: usize = 8;

/// How many jobs have a row: more would not fit most terminals.
const ROWS: usize = 25;

/// Characters of a bar.
const BAR: u64 = 20;

impl Board {
    /// Returns a table for a terminal that is watched, where one is `wanted`.
    #[must_use]
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

    /// Takes in a line about what happened; returns whether it will be shown.
    pub fn tell(&self, line: &str) -> bool {
        let mut lines = self.lines.borrow_mut();
        lines.push_back(harmless(line));
        if lines.len() > LINES {
            lines.pop_front();
        }
        self.bar.is_some()
    }

    /// Draws the jobs as they stand.
    pub fn show(&self, state: &State, now: Time) {
        let Some(bar) = &self.bar else { return };
        let lines: Vec<String> = self.lines.borrow().iter().cloned().collect();
        let table = board_table(state, now, self.terminal.width());
        bar.set_message(format!("{table}\n{}", lines.join("\n")));
        bar.tick();
    }

    /// Writes something else to the terminal, above the table.
    pub fn aside(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Takes the table off the terminal.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Returns a row for each job that has not ended, and how many have.
fn board_table(state: &State, now: Time, width: usize) -> String {
    let mut table = Table::new(&[
        ("JOB", Align::Left),
        ("STATE", Align::Left),
        ("GPUS", Align::Left),
        ("EPOCHS", Align::Left),
        ("SAMPLES/S", Align::Right),
        ("ENDS", Align::Left),
    ]);
    // Those that run come first; the others in their order.
    let mut open: Vec<&Tracked> = state.jobs.iter().filter(|tracked| !tracked.phase.is_over()).collect();
    open.sort_by_key(|tracked| tracked.phase.running().is_none());
    for tracked in open.iter().take(ROWS) {
        let own = Standing::new(tracked);
        let (done, all) = (tracked.epochs_done, tracked.job.epochs);
        #[expect(clippy::cast_precision_loss, reason = "samples are far below 2^52")]
        let speed = own
            .observed()
            .filter(|epoch| epoch.0 > 0.0)
            .map(|epoch| tracked.job.samples_per_epoch as f64 / epoch.0);
        table.row([
            tracked.job.name.to_string(),
            tracked.phase.word().to_owned(),
            own.attempt.map_or_else(|| "-".to_owned(), |attempt| attempt.gpus.to_string()),
            format!("{} {done}/{all}", bar(done, all)),
            speed.map_or_else(|| "-".to_owned(), |speed| format!("{speed:.0}")),
            own.ends(now).unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    let rest = open.len().saturating_sub(ROWS);
    let over = state.jobs.len() - open.len();
    let rest = if rest > 0 { format!("and {rest} more; ") } else { String::new() };
    format!("{}{rest}{over} of {} jobs have ended\n", table.render(width, false), state.jobs.len())
}

/// Returns a bar for a part of a whole.
fn bar(done: u64, all: u64) -> String {
    let full = (done.min(all) * BAR).checked_div(all).unwrap_or(BAR);
    let characters = |count: u64, one: &str| one.repeat(usize::try_from(count).unwrap_or(0));
    format!("{}{}", characters(full, "█"), characters(BAR - full, "░"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Job, JobName};

    #[test]
    fn a_row_has_a_bar_and_those_that_ended_are_counted() {
        let job = |name: &str| Job::only_planned(JobName::new(name).expect("a name"), (100, 10), 10);
        let mut state = State::default();
        for (name, done) in [("a", 0), ("b", 5), ("c", 10)] {
            state.jobs.push(Tracked { epochs_done: done, ..Tracked::new(job(name), Time(0.0)) });
        }
        let text = board_table(&state, Time(1.0), 100);
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[1].contains("░░░░░░░░░░░░░░░░░░░░ 0/10"), "{text}");
        assert!(rows[2].contains("██████████░░░░░░░░░░ 5/10"), "{text}");
        assert!(rows[3].contains("████████████████████ 10/10"), "{text}");
        assert_eq!(rows[4], "0 of 3 jobs have ended");
    }
}
