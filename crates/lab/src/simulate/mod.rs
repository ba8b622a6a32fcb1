//! A cluster in virtual time: an [`engine::SimulatedWorld`](hsched_engine::World) without Slurm, for the demo and for tests.
//!
//! Reads no clock and no file: time passes when [`SimulatedWorld::pass`] says so, from one event to the next. Equal sites,
//! incidents and requests give equal stories.

mod fit;
mod incident;
mod interface;
mod play;
mod site;
mod submission;
mod training;
mod world;

pub use self::incident::{Incident, IncidentTime};
pub use self::play::{Play, PlayOptions};
pub use self::site::{Delays, Saving, SimulatedSite};
pub use self::world::SimulatedWorld;
