//! A cluster in virtual time and without Slurm, for the demo and for tests: it implements the engine's
//! [`World`](hsched_engine::World).
//!
//! It reads no clock and no files: [`SimulatedWorld::pass`] advances the time from event to event. Equal
//! sites, incidents and requests give equal results.

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
pub use self::site::{Delays, SaveReaction, SimulatedSite};
pub use self::world::SimulatedWorld;
