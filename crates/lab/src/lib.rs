//! Schedulers of papers, for comparison.

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
