//! `hadare`: jobs forked into copies for one round, on several nodes at once without being together.

mod copies;
mod fork;

pub use self::copies::replay_copies;
pub use self::fork::{
    CopyShare, Fork, ForkObjective, HadareParameters, fork, node_speed, node_speeds, shares,
};
