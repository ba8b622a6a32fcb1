//! Saved output of a cluster: what kind of text it is, and the cluster that it shows.
//!
//! A user without access plans for a cluster with what somebody else printed there, and a bug report
//! carries its cluster along. Everything here is a pure function of text. What cannot be read becomes a
//! note that names it; a text of another kind is refused by its name.

mod error;
mod gather;
mod headerless;
mod json;
mod json_nodes;
mod looks;
mod recognise;
mod refusal;
mod scontrol;
mod table;
mod table_columns;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub use self::error::{READABLE, SavedError};
pub use self::recognise::{Kind, Printed, recognise};
