//! The output of `hsched run`: a log, a table on a terminal, and a final summary.

use crate::app::context::{Context, Format};
use crate::app::metrics::metrics;
use crate::app::session::Log;
use crate::app::state;
use crate::app::unison;
use crate::app::unread_events;
use crate::commands::cli::print;
use hsched_engine::store::StateDir;
use hsched_engine::{JobState, Outcome, Phase, State};
use hsched_model::Time;
use hsched_ui::{Exit, Failure, status_table};

/// The log and the final summary of `hsched run`.
pub(super) struct RunReporter<'a> {
    context: &'a Context,
    format: Format,
    /// The start of this `hsched run`.
    begun: Time,
    pub(super) log: Log<'a>,
}

impl<'a> RunReporter<'a> {
    pub(super) fn new(context: &'a Context, format: Format, dry_run: bool) -> Self {
        let (begun, log) = (state::now(context), Log::of_devices(context, format, dry_run));
        Self { context, format, begun, log }
    }

    /// Prints the final state of the jobs; returns the exit code for the jobs that ended under this
    /// `hsched run`.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub(super) fn finish(&self, state: &State) -> Result<Exit, Failure> {
        self.finish_since(state, self.begun)
    }

    /// Like [`Self::finish`], for the jobs that ended after `begun`.
    fn finish_since(&self, state: &State, begun: Time) -> Result<Exit, Failure> {
        self.log.end();
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
        let failed = |tracked: &JobState| {
            let is_failure =
                matches!(&tracked.phase, Phase::Ended { outcome, .. } if *outcome != Outcome::Completed);
            is_failure && !tracked.phase.ended_before(begun)
        };
        Ok(if state.jobs.iter().any(failed) { Exit::Failed } else { Exit::Done })
    }

    /// Prints the state of the jobs if nothing runs and nothing can start on these devices; returns the exit
    /// code.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub(super) fn give_up(&self, state: &State) -> Result<Exit, Failure> {
        self.finish_since(state, Time(0.0))?;
        let open: Vec<&str> = state
            .jobs
            .iter()
            .filter(|tracked| !tracked.phase.is_over())
            .map(|tracked| tracked.job.name.as_str())
            .collect();
        self.log.say(&format!(
            "no job is running, and these jobs cannot start on these devices: \
            {}",
            open.join(", ")
        ));
        Ok(Exit::Unplaced)
    }

    /// Reports the events that commands have noticed since the last `hsched run`.
    pub(super) fn recall(&self, directory: &StateDir, state: &State) {
        self.log.recall(directory, state);
        self.log.print(&[], state);
        unread_events::forget(self.context, directory);
    }
}
