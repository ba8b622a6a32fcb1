//! The registry: policies by name, from the entries of this crate and of others.

use thiserror::Error;

use crate::exhaustive::EXHAUSTIVE;
use crate::has::HAS;
use crate::horizon::HORIZON;
use crate::jps::JPS;
use crate::optimal::OPTIMAL;
use crate::optimus::{LOAD_BALANCED, OPTIMUS};
use crate::replace_all::ReplaceAll;
use crate::single_gpus::SingleGpus;
use crate::whole_epochs::WholeEpochs;
use crate::{
    ExecutionMode, Flag, Knowledge, Objective, Parameters, Placer, Policy, Replan, SharedPolicy, SolePolicy,
    fixed,
};

/// A policy that users choose by its name.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub name: &'static str,
    pub make: Make,
    /// The objectives that the policy supports; empty if it has its own.
    pub objectives: &'static [Objective],
    /// The policy's own flags, in the order of help texts.
    pub flags: &'static [&'static Flag],
    /// The knowledge that the policy uses; empty if it uses only the requested GPU counts.
    pub knows: &'static [Knowledge],
    /// Whether the policy supports replicas of several GPUs; otherwise it refuses problems with such jobs.
    pub knows_replicas: bool,
}

/// The kind of a policy, and its constructor.
#[derive(Clone, Copy, Debug)]
pub enum Make {
    /// The policy places all jobs at one point in time.
    Placer(fn(&Parameters) -> Result<Box<dyn Placer>, String>),
    /// The policy decides over time.
    Policy {
        make: fn(&Parameters) -> Result<Box<dyn Policy>, String>,
        /// Whether the policy is suitable for a cluster with other users.
        watched: bool,
    },
}

/// The policies of this crate, the default first.
pub const POLICIES: &[Entry] = &[
    OPTIMAL,
    JPS,
    HAS,
    OPTIMUS,
    LOAD_BALANCED,
    EXHAUSTIVE,
    HORIZON,
    fixed::FIFO,
    fixed::FIFO_HET,
    fixed::FIFO_BY_NAME,
    fixed::YARN_CS,
    fixed::SRTF,
    fixed::SRSF,
    fixed::LAS,
];

/// The policies that a program knows.
#[derive(Clone, Debug)]
pub struct Registry {
    entries: Vec<&'static Entry>,
}

/// Why a policy is not available.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RegistryError {
    #[error("there is no such policy: {0}")]
    Unknown(String),
    /// The policy decides over time although a placer is required, or is only for devices without other
    /// users.
    #[error("policy {0} is not for this")]
    Elsewhere(String),
    #[error("policy {policy}: {why}")]
    Parameter { policy: &'static str, why: String },
}

impl Registry {
    /// Returns the registry of these policies.
    pub fn new(entries: impl IntoIterator<Item = &'static Entry>) -> Self {
        Self { entries: entries.into_iter().collect() }
    }

    /// Returns all policies.
    pub fn entries(&self) -> impl Iterator<Item = &'static Entry> {
        self.entries.iter().copied()
    }

    /// Returns the policy of that name.
    pub fn entry(&self, name: &str) -> Option<&'static Entry> {
        self.entries().find(|entry| entry.name == name)
    }

    /// Returns the policy with that name for a cluster with other users.
    ///
    /// # Errors
    /// If there is no such policy for that purpose, or one of its own parameters is invalid.
    pub fn find(&self, name: &str, parameters: &Parameters) -> Result<Box<dyn Policy>, RegistryError> {
        let entry = self.known(name)?;
        match entry.make {
            Make::Placer(make) => {
                let placer = placer_of(entry, make, parameters)?;
                Ok(Box::new(Replan::new(placer, parameters.replanning)))
            }
            Make::Policy { make, watched: true } => {
                let parameters = Parameters { carrying: ExecutionMode::Shared, ..parameters.clone() };
                let policy = policy_of(entry, make, &parameters)?;
                Ok(Box::new(SharedPolicy::new(policy, &parameters.replanning)))
            }
            Make::Policy { watched: false, .. } => Err(RegistryError::Elsewhere(name.to_owned())),
        }
    }

    /// Returns the policy with that name for `simulate` and `run`: one that decides over time, or a placer
    /// that places all jobs again whenever one arrives or ends. With [`ExecutionMode::Shared`], a placer
    /// places pending jobs as in [`Self::find`].
    ///
    /// # Errors
    /// If there is no such policy, or one of its own parameters is invalid.
    pub fn find_over_time(
        &self,
        name: &str,
        parameters: &Parameters,
    ) -> Result<Box<dyn Policy>, RegistryError> {
        let entry = self.known(name)?;
        let policy = match (entry.make, parameters.carrying) {
            (Make::Placer(make), ExecutionMode::Shared) => {
                let replan = Replan::new(placer_of(entry, make, parameters)?, parameters.replanning);
                return Ok(Box::new(WholeEpochs(Box::new(replan))));
            }
            (Make::Placer(make), _) => {
                Box::new(ReplaceAll::new(placer_of(entry, make, parameters)?, parameters.repacking))
                    as Box<dyn Policy>
            }
            (Make::Policy { make, .. }, _) => policy_of(entry, make, parameters)?,
        };
        Ok(match parameters.carrying {
            ExecutionMode::AtOnce => policy,
            ExecutionMode::Alone => Box::new(SolePolicy::new(policy)),
            ExecutionMode::Shared => Box::new(SharedPolicy::new(policy, &parameters.replanning)),
        })
    }

    /// Returns the placer of that name.
    ///
    /// # Errors
    /// If there is no such placer, or one of its own parameters is invalid.
    pub fn placer(&self, name: &str, parameters: &Parameters) -> Result<Box<dyn Placer>, RegistryError> {
        let entry = self.known(name)?;
        match entry.make {
            Make::Placer(make) => placer_of(entry, make, parameters),
            Make::Policy { .. } => Err(RegistryError::Elsewhere(name.to_owned())),
        }
    }

    /// Returns the names of all placers, the default first.
    pub fn names(&self) -> Vec<&'static str> {
        let placers = self.entries().filter(|entry| entry.is_placer());
        placers.map(|entry| entry.name).collect()
    }

    /// Returns the names of all policies that [`Self::find`] knows: placers, and some policies over time.
    pub fn names_watched(&self) -> Vec<&'static str> {
        let watched = self.entries().filter(|entry| entry.is_watched());
        watched.map(|entry| entry.name).collect()
    }

    /// Returns the names of all policies that [`Self::find_over_time`] makes without a flag, policies over
    /// time first.
    pub fn names_over_time(&self) -> Vec<&'static str> {
        let over_time = self.entries().filter(|entry| !entry.is_placer() && entry.is_ready());
        over_time.map(|entry| entry.name).chain(self.names()).collect()
    }

    /// Returns the names of all policies that need a file.
    pub fn names_with_files(&self) -> Vec<&'static str> {
        let rest = self.entries().filter(|entry| !entry.is_ready());
        rest.map(|entry| entry.name).collect()
    }

    fn known(&self, name: &str) -> Result<&'static Entry, RegistryError> {
        self.entry(name).ok_or_else(|| RegistryError::Unknown(name.to_owned()))
    }
}

impl Entry {
    /// Returns whether the policy places all jobs at one point in time.
    pub fn is_placer(&self) -> bool {
        matches!(self.make, Make::Placer(_))
    }

    /// Returns whether the policy is suitable for a cluster with other users.
    pub fn is_watched(&self) -> bool {
        !matches!(self.make, Make::Policy { watched: false, .. })
    }

    /// Returns whether the policy can be created without a flag.
    pub fn is_ready(&self) -> bool {
        !self.flags.iter().any(|flag| flag.is_needed())
    }
}

/// Returns a placer that receives jobs with replicas of several GPUs only if it supports them.
fn placer_of(
    entry: &Entry,
    make: fn(&Parameters) -> Result<Box<dyn Placer>, String>,
    parameters: &Parameters,
) -> Result<Box<dyn Placer>, RegistryError> {
    let placer = made(entry, make, parameters)?;
    Ok(if entry.knows_replicas { placer } else { Box::new(SingleGpus(placer)) })
}

/// Returns a policy over time that receives jobs with replicas of several GPUs only if it supports them.
fn policy_of(
    entry: &Entry,
    make: fn(&Parameters) -> Result<Box<dyn Policy>, String>,
    parameters: &Parameters,
) -> Result<Box<dyn Policy>, RegistryError> {
    let policy = made(entry, make, parameters)?;
    Ok(if entry.knows_replicas { policy } else { Box::new(SingleGpus(policy)) })
}

fn made<T: ?Sized>(
    entry: &Entry,
    make: fn(&Parameters) -> Result<Box<T>, String>,
    parameters: &Parameters,
) -> Result<Box<T>, RegistryError> {
    make(parameters).map_err(|why| RegistryError::Parameter { policy: entry.name, why })
}
