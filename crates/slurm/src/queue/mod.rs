//! What Slurm tells of its queue, as a [`Snapshot`](hsched_queue::Snapshot): jobs of everybody, nodes, partitions, the past.
//!
//! One command line and one pure parser for each question. Who may be asked how often is not decided here.

mod array;
pub mod history;
pub mod jobs;
pub mod limits;
mod nodes;
mod partitions;
mod reservations;
mod scheduling;
mod site_limits;
mod standing;
mod waiting;
mod whole;

pub use self::jobs::Look;
pub use self::reservations::reservations_command;
pub use self::site_limits::{SiteTexts, add_site};
pub use self::standing::standings_command;
pub use self::whole::{Texts, snapshot};
