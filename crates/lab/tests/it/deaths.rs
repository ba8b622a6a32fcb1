//! A process that dies at a write, and the state that is then on disk.

use std::cell::Cell;
use std::convert::Infallible;

use hsched_engine::{Action, Event, Keeper, State, apply};
use hsched_model::Time;

use hsched_fixtures::engine_states::rules;

/// The process has died.
#[derive(Debug)]
pub struct Died;

impl From<Infallible> for Died {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// The state on disk of a process that dies at a write.
pub struct Disk<'a> {
    pub state: State,
    /// The process dies at this write, counted from now; 0 if it survives.
    pub left: &'a Cell<u32>,
    /// Whether the process dies before that write rather than after it.
    pub before: bool,
}

impl Disk<'_> {
    fn write(&mut self, change: impl FnOnce(&mut State)) -> Result<(), Died> {
        let dies = self.left.get() == 1;
        self.left.set(self.left.get().saturating_sub(1));
        if !(dies && self.before) {
            change(&mut self.state);
        }
        if dies { Err(Died) } else { Ok(()) }
    }
}

impl Keeper for Disk<'_> {
    type Error = Died;

    fn keep(&mut self, _: Time, state: &State, _: &[Event], _: &[Action]) -> Result<(), Died> {
        self.write(|disk_state| disk_state.clone_from(state))
    }

    fn add(&mut self, at: Time, event: &Event) -> Result<(), Died> {
        self.write(|state| drop(apply(state, at, event, &rules())))
    }
}
