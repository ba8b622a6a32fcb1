//! Parameters of policies, as given on the command line.

use std::collections::BTreeMap;

use crate::{Flag, Repacking, Replanning};
use hsched_model::Seconds;

/// The adjustable parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters {
    /// Settings of policies that decide for a cluster with other users.
    pub replanning: Replanning,
    /// Whether policies over time may move running jobs to other nodes.
    pub repacking: Repacking,
    /// How the decisions of policies over time take effect.
    pub carrying: ExecutionMode,
    /// Round length for round-based policies; `None` for their default.
    pub round: Option<Seconds>,
    /// Values of the policies' own flags.
    pub values: FlagValues,
}

/// Values of flags by name; a switch has the empty text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlagValues(BTreeMap<&'static str, String>);

/// How the decisions of a policy over time take effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecutionMode {
    /// Immediately, as in a replay.
    #[default]
    AtOnce,
    /// After the jobs that make room have saved, on GPUs without other users, as in `run`.
    Alone,
    /// Through the queue of a cluster whose other users may take released GPUs, as in `watch`.
    Shared,
}

impl Parameters {
    /// Returns the parameters with a value for the flag of that name.
    pub fn with(mut self, flag: &'static str, value: impl Into<String>) -> Self {
        self.values.0.insert(flag, value.into());
        self
    }

    /// Returns whether the flag was given.
    pub fn is_given(&self, flag: &Flag) -> bool {
        self.values.0.contains_key(flag.name)
    }

    /// Returns a flag's value: the given one, or else its default.
    pub fn text(&self, flag: &Flag) -> Option<&str> {
        self.values.0.get(flag.name).map(String::as_str).or(flag.usual)
    }

    /// Returns a flag's value, parsed by `read`.
    ///
    /// # Errors
    /// If the flag has no value or `read` rejects it.
    pub fn value<T>(&self, flag: &Flag, read: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
        let text = self.text(flag).ok_or_else(|| format!("--{} is missing", flag.name))?;
        read(text).map_err(|why| format!("--{} {text}: {why}", flag.name))
    }
}
