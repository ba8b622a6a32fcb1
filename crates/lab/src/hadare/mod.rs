//! `hadare`: forks jobs into copies for one round, so that a job can use several nodes without connecting
//! them.

mod copies;
mod fork;

pub use self::copies::replay_copies;
pub use self::fork::{ForkObjective, HadareParameters};
