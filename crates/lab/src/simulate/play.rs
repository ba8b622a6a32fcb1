//! Runs the real engine on a simulated cluster, with users' commands at given times.

use std::cell::Cell;
use std::convert::Infallible;

use crate::simulate::SimulatedWorld;
use hsched_engine::{Event, KeepsNothing, Planner, Rules, State, Update, apply, turn};
use hsched_model::{Seconds, Time};
use hsched_plan::{Budget, Objective, Policy};

/// Parameters of the engine's decisions.
#[derive(Clone, Copy)]
pub struct PlayOptions<'a> {
    pub rules: &'a Rules,
    pub objective: Objective,
    /// Seed of the policy's random choices.
    pub seed: u64,
    /// Number of times that the searches of one turn may ask whether to stop, before the answer is yes. It
    /// replaces a time limit, because virtual time stands still during a search.
    pub patience: u64,
}

/// A simulated cluster, and the engine's state.
pub struct Play<'a> {
    pub world: SimulatedWorld,
    pub state: State,
    /// Commands of the users with their times, in descending order.
    orders: Vec<(Time, Event)>,
    options: PlayOptions<'a>,
    policy: Box<dyn Policy + 'a>,
    turns: u64,
}

impl<'a> Play<'a> {
    /// Returns a play that has not started.
    pub fn new(
        world: SimulatedWorld,
        mut orders: Vec<(Time, Event)>,
        policy: Box<dyn Policy + 'a>,
        options: PlayOptions<'a>,
    ) -> Self {
        orders.sort_by(|(a, _), (b, _)| a.0.total_cmp(&b.0));
        orders.reverse();
        let state = State { contributor: "simulation".to_owned(), ..State::default() };
        Self { world, state, orders, options, policy, turns: 0 }
    }

    /// Records the commands that are due, and takes one turn of the engine.
    pub fn turn(&mut self, tell: &mut dyn FnMut(Update<'_>)) {
        let now = self.world.now();
        while self.orders.last().is_some_and(|(at, _)| at.0 <= now.0) {
            if let Some((_, order)) = self.orders.pop() {
                tell(Update::Event(&order));
                apply(&mut self.state, now, &order, self.options.rules);
            }
        }
        self.turns += 1;
        let asked = Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            asked.get() > self.options.patience
        };
        let mut planner = Planner {
            policy: self.policy.as_mut(),
            objective: self.options.objective,
            seed: self.options.seed,
            run: &format!("run{}", self.turns),
            budget: Budget::until(&stop),
            forecasts: Vec::new(),
            start_estimates: None,
        };
        let Ok::<_, Infallible>(_) =
            turn(&mut self.world, &mut KeepsNothing, &mut self.state, self.options.rules, &mut planner, tell);
    }

    /// Takes turns until all jobs have ended and no command remains, or until `until`; returns whether all is
    /// over.
    pub fn run(&mut self, poll: Seconds, until: Time) -> bool {
        loop {
            self.turn(&mut |_| ());
            if self.is_over() || self.world.now().0 >= until.0 {
                return self.is_over();
            }
            self.world.pass(poll);
        }
    }

    /// Returns whether every job has ended and no command remains.
    pub fn is_over(&self) -> bool {
        self.orders.is_empty() && self.state.is_over()
    }
}
