//! Parsers for Slurm's queue: a [`Snapshot`](hsched_queue::Snapshot) with the jobs of all users, nodes, partitions and the past.
//!
//! One command line and one pure parser for each question. Who may be asked how often is not decided here.

mod array;
pub mod history;
pub mod jobs;
mod nodes;
mod partitions;
mod reservations;
mod scheduling;
mod standing;
mod waiting;
mod whole;

pub use self::jobs::Look;
pub use self::reservations::reservations_command;
pub use self::standing::standings_command;
pub use self::whole::{Texts, snapshot};
