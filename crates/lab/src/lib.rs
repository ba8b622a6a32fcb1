//! The lab: schedulers from papers, and the simulators that compare them with the planner's policies.

pub mod generate;
pub mod learning;
pub mod replay;
pub mod simulate;
pub mod trace;

mod allox;
mod gavel;
mod hadar;
pub mod hadare;
pub mod hare;
mod hlas;
pub mod mlfs;
mod registry;

pub use self::registry::{LabPolicy, POLICIES, TaskMaker, find, find_over_time, registry};
