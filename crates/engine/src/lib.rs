//! The engine: turns observations into events, and events and a policy's decisions into actions.
//!
//! Starts no program, and only [`store`] and [`clock`] read files and the time. A [`World`] (Slurm, local devices or a simulated cluster)
//! observes and carries actions out; a [`Keeper`] stores the state. Neither of them decides anything.

pub mod clock;
pub mod live;
pub mod render;
pub mod store;

mod action;
mod after;
mod amendment;
mod apply;
mod beginning;
mod carry;
mod chain;
mod decide;
mod early;
mod ending;
mod event;
mod fingerprint;
mod gpus;
mod hear;
mod in_line;
mod lateness;
mod mark;
mod notice;
mod observation;
mod patience;
mod planner;
mod realm;
mod requests;
mod rules;
mod run;
mod state;
mod step;
mod submission;
mod teach;
mod trial;
mod turn;
mod view;

pub use hsched_plan::Prospects;

pub use self::action::Action;
pub use self::amendment::{Amendment, Inquiry, Kind};
pub use self::apply::apply;
pub use self::beginning::Beginning;
pub use self::early::Early;
pub use self::event::{Answer, End, EpochReport, Event, News, RankReport, Timed};
pub use self::gpus::Gpus;
pub use self::in_line::spares;
pub use self::notice::notice;
pub use self::observation::{Observation, QueueReason, Sighting, Standing, TaggedJob};
pub use self::patience::due;
pub use self::planner::{Planner, Question, named_ranks};
pub use self::realm::Realm;
pub use self::requests::{Knows, Listed, Listing, SpeedsOf, requests};
pub use self::rules::Rules;
pub use self::run::{Intent, Run};
pub use self::state::{Outcome, PastAttempt, Phase, State, Tracked};
pub use self::step::{Step, step};
pub use self::submission::{Attempt, Piece, Request, Stage, Submission, SubmissionKey, Then};
pub use self::trial::{Trial, Trials};
pub use self::turn::{Keeper, KeepsNothing, Turn, Update, World, carry_out, look, perform, turn};
