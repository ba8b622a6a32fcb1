//! Parameters of policies, as given on a command line.

use std::collections::BTreeMap;

use crate::{Flag, Repacking, Replanning};
use hsched_model::Seconds;

/// What users may tune.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters {
    /// Of every policy where it decides for a cluster that strangers use, too.
    pub replanning: Replanning,
    /// Of the policies over time, as far as they move running jobs.
    pub repacking: Repacking,
    /// Of the policies over time.
    pub carrying: ExecutionMode,
    /// Length of a round, for policies that decide in rounds; `None` for their own.
    pub round: Option<Seconds>,
    /// Values of the policies' own flags.
    pub values: FlagValues,
}

/// Values of flags by name; of a switch, the empty text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlagValues(BTreeMap<&'static str, String>);

/// How what a policy over time decides becomes true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecutionMode {
    /// At once, as in a replay.
    #[default]
    AtOnce,
    /// When those who make room have saved, on GPUs that nobody else takes meanwhile, as in `run`.
    Alone,
    /// Through the queue of a cluster where strangers may take what is given back, as in `watch`.
    Shared,
}

impl Parameters {
    /// Returns them with a value of the flag of that name.
    pub fn with(mut self, flag: &'static str, value: impl Into<String>) -> Self {
        self.values.0.insert(flag, value.into());
        self
    }

    /// Returns whether somebody gave the flag.
    pub fn is_given(&self, flag: &Flag) -> bool {
        self.values.0.contains_key(flag.name)
    }

    /// Returns a flag's value: the given one, or else its usual one.
    pub fn text(&self, flag: &Flag) -> Option<&str> {
        self.values.0.get(flag.name).map(String::as_str).or(flag.usual)
    }

    /// Returns a flag's value as `read` understands it.
    ///
    /// # Errors
    /// If the flag has no value, or `read` does not understand it.
    pub fn value<T>(&self, flag: &Flag, read: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
        let text = self.text(flag).ok_or_else(|| format!("--{} is missing", flag.name))?;
        read(text).map_err(|why| format!("--{} {text}: {why}", flag.name))
    }
}
