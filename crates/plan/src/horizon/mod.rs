//! The policy `horizon`: minimises the mean completion time of jobs that arrive and end over time.

mod allocate;
mod market;
mod memory;
mod menu;
mod outlook;
mod path;
mod policy;
mod quick;
mod rehearsal;
mod roster;
mod task;
mod worth;

pub(super) use self::policy::HORIZON;
pub use self::policy::{Horizon, HorizonParameters};
pub(super) use self::rehearsal::{TraceArrival, rehearse};
