//! The turns of a session, and a preview of the next one.

use std::time::Duration;

use crate::app::context::Context;
use crate::app::session::{Backend, Log, Session};
use crate::app::state::{self, live_failure};
use crate::app::timer::Timer;
use hsched_engine::live::LiveError;
use hsched_engine::{Planner, Turn, Update};
use hsched_plan::{Budget, Objective, Policy};
use hsched_ui::Failure;

/// Planning parameters of a command's turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanOptions {
    pub objective: Objective,
    pub seed: u64,
    /// Time limit of one search.
    pub budget: Duration,
}

impl PlanOptions {
    /// Lets `act` plan with a policy, using the id of a new run.
    ///
    /// # Errors
    /// If the system has no random numbers for the id.
    pub(crate) fn with_planner<T>(
        self,
        context: &Context,
        policy: &mut dyn Policy,
        act: impl FnOnce(&mut Planner<'_>) -> T,
    ) -> Result<T, Failure> {
        let timer = Timer::new(&context.clock, self.budget);
        let (begin, stop) = (|| timer.begin(), || timer.is_over());
        let run = state::new_run(context)?;
        Ok(act(&mut Planner {
            policy,
            objective: self.objective,
            seed: self.seed,
            run: &run,
            budget: Budget { begin: &begin, stop: &stop },
            forecasts: Vec::new(),
            start_estimates: None,
        }))
    }
}

impl<W: Backend + ?Sized> Session<'_, W> {
    /// Takes a turn and logs it, even if it was interrupted; `notes` precede those of the turn.
    ///
    /// # Errors
    /// If the world cannot be observed or the state cannot be stored.
    pub(crate) fn turn(
        &mut self,
        planner: &mut Planner<'_>,
        log: &Log<'_>,
        mut notes: Vec<String>,
    ) -> Result<Turn, Failure> {
        let Self { state, ledger, world, rules, .. } = self;
        let mut hear = |told: Update<'_>| log.hear(told);
        let turn =
            hsched_engine::turn::<_, _, LiveError>(&mut **world, ledger, state, rules, planner, &mut hear);
        // Completed actions are reported even if a later one failed.
        notes.extend(turn.iter().flat_map(Turn::notes).cloned());
        log.hear_said(self.world.said());
        log.print(&notes, &self.state);
        let turn = turn.map_err(|error| live_failure(&error))?;
        self.directory.looked(turn.seen.at);
        Ok(turn)
    }

    /// Logs the actions of a turn without taking them; `notes` precede those of the turn.
    ///
    /// # Errors
    /// If the world cannot be observed.
    pub(crate) fn preview(
        &mut self,
        planner: &mut Planner<'_>,
        log: &Log<'_>,
        mut notes: Vec<String>,
    ) -> Result<(), Failure> {
        let turn = hsched_engine::look(&mut *self.world, &self.state, &self.rules, planner);
        let turn = turn.map_err(|error| live_failure(&error))?;
        log.hear_all(&turn.events);
        let actions = turn.step.iter().flat_map(|step| &step.actions);
        actions.for_each(|action| log.hear(Update::Action(action)));
        notes.extend(turn.notes().cloned());
        log.print(&notes, turn.step.as_ref().map_or(&self.state, |step| &step.state));
        Ok(())
    }
}
