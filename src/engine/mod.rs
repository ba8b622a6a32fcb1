//! What to do next: what was seen becomes events, and events become actions, by rules without a world.
//!
//! Reads no file and no clock, starts nothing. A [`World`] (Slurm, or the simulated cluster) tells what is to be
//! seen and carries actions out; a [`Keeper`] keeps the state. Neither of them decides anything.

mod action;
mod apply;
mod attempt;
mod beginning;
mod carry;
mod decide;
mod event;
mod fingerprint;
mod gpus;
mod notice;
mod observation;
mod patience;
mod planner;
mod rules;
mod state;
mod step;
mod teach;
mod trial;
mod turn;
mod view;

pub use self::action::{Action, Batch};
pub use self::apply::apply;
pub use self::attempt::Attempt;
pub use self::beginning::Beginning;
pub use self::event::{End, EpochReport, Event, News, RankReport, Timed};
pub use self::gpus::Gpus;
pub use self::notice::notice;
pub use self::observation::{Observation, QueueReason, Sighting, Standing};
pub use self::planner::{Planner, Question, named_ranks};
pub use self::rules::Rules;
pub use self::state::{Outcome, PastAttempt, Phase, Request, State, Then, Tracked};
pub use self::step::{Step, step};
pub use self::trial::{Trial, Trials};
pub use self::turn::{Keeper, Turn, Update, World, carry_out, look, turn};
