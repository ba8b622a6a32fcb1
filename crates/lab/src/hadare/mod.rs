//! `hadare`: jobs forked into copies for one round, on several nodes at once without being together.

mod copies;
mod fork;

pub use self::copies::replay_copies;
pub use self::fork::{ForkObjective, HadareParameters};
