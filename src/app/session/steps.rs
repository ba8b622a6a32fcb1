//! The steps of a session after its opening: observe, store, act.

use crate::app::context::Context;
use crate::app::session::{Backend, Session};
use crate::app::state::{self, live_failure};
use crate::app::unread_events;
use hsched_engine::store::StateError;
use hsched_engine::{
    Action, BackendKind, Event, Keeper as _, State, TaggedJob, TurnExecutor, Update, apply, notice,
};
use hsched_model::Time;
use hsched_ui::Failure;

/// The result of observing the jobs.
#[derive(Debug)]
pub(crate) struct JobsLook {
    pub at: Time,
    /// Events since the last observation; applied to the state but not stored yet.
    pub events: Vec<Event>,
    /// The speeds learnt from these events.
    pub learnt: Vec<Action>,
    /// The jobs in the queue that hsched submitted.
    pub queue: Vec<TaggedJob>,
}

impl JobsLook {
    /// Returns an empty observation.
    pub(crate) fn nothing(context: &Context) -> Self {
        Self { at: state::now(context), events: Vec::new(), learnt: Vec::new(), queue: Vec::new() }
    }
}

impl<W: Backend + ?Sized> Session<'_, W> {
    /// Updates the state from the world and the ranks' reports.
    ///
    /// # Errors
    /// If Slurm does not answer (exit 69) or prints unreadable output, or reports cannot be read.
    pub(crate) fn look(&mut self) -> Result<JobsLook, Failure> {
        let mut state = std::mem::take(&mut self.state);
        let seen = self.look_into(&mut state);
        self.state = state;
        seen
    }

    /// Updates another state than the session's own, like [`Self::look`].
    ///
    /// # Errors
    /// The errors of [`Self::look`].
    pub(crate) fn look_into(&mut self, state: &mut State) -> Result<JobsLook, Failure> {
        let (seen, queue) = self.world.look(state).map_err(|error| live_failure(&error))?;
        let events = notice(state, &seen);
        let learnt = events.iter().filter_map(|event| apply(state, seen.at, event, &self.rules)).collect();
        // The notes on devices are shown by the turns of `hsched run`.
        if self.world.backend_kind() == BackendKind::Queue {
            seen.notes.iter().for_each(|note| self.context.note(note));
            if !self.dry_run {
                self.directory.looked(seen.at);
            }
        }
        Ok(JobsLook { at: seen.at, events, learnt, queue })
    }

    /// Stores events of deferred commands and an observation for the log of `watch` or `run`, except in a dry
    /// run.
    pub(crate) fn leave_untold(&self, seen: &JobsLook) {
        if !self.dry_run {
            let events = [&self.taken[..], &seen.events].concat();
            unread_events::leave(self.context, self.directory, &self.state, seen.at, &events);
        }
    }

    /// Stores the state with events and intents.
    ///
    /// # Errors
    /// If it cannot be written; no action may then be carried out.
    pub(crate) fn keep(&mut self, at: Time, events: &[Event], actions: &[Action]) -> Result<(), StateError> {
        self.ledger.keep(at, &self.state, events, actions)
    }

    /// Carries out a stored action, and stores each answer before the next request.
    ///
    /// # Errors
    /// If an answer cannot be stored; no further action may then be carried out.
    pub(crate) fn carry_out(
        &mut self,
        action: &Action,
        at: Time,
        tell: &mut dyn FnMut(Update<'_>),
    ) -> Result<(), StateError> {
        let Self { world, ledger, state, rules, .. } = self;
        TurnExecutor { world: &mut **world, keeper: ledger, state, rules, tell }.carry_out(action, at)
    }
}
