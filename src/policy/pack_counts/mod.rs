//! Counts of GPUs by type into slots on nodes, for policies that decide on counts and leave nodes to this.
//!
//! A [`Layout`] follows who holds what. Jobs whose GPUs do not change keep their nodes, larger ones choose before smaller
//! ones, and then jobs that are spread over nodes come together where that pays.

mod layout;
mod pool;
mod repack;

pub(super) use self::layout::{Layout, Packing, is_decided_on};
