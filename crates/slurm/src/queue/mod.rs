//! Parsers for Slurm's queue: a [`Snapshot`](hsched_queue::Snapshot) with the jobs of all users, nodes,
//! partitions and past jobs.
//!
//! Each query has one command line and one pure parser. The callers decide how often a server may be asked.

mod accounts;
pub(crate) mod array;
pub mod history;
pub mod jobs;
pub mod limits;
mod nodes;
mod partitions;
mod reservations;
mod scheduling;
mod site_limits;
mod waiting;
mod whole;

pub use self::accounts::{default_account_command, shares_command};
pub use self::jobs::QueueLook;
pub use self::reservations::reservations_command;
pub use self::scheduling::by_qos;
pub use self::site_limits::{SiteTexts, add_site, enforced};
pub(crate) use self::waiting::competes;
pub use self::whole::{Texts, snapshot};
