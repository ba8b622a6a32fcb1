//! The registry of the lab: schedulers from papers by name, together with the planner's policies.

use crate::replay::TaskPolicy;
use crate::{allox, gavel, hadar, hare, hlas, mlfs};
use hsched_plan::{Entry, Flag, Parameters, Policy, Registry, RegistryError};

/// A scheduler from a paper.
#[derive(Clone, Copy, Debug)]
pub struct LabPolicy {
    /// The variant for jobs that hold all their GPUs at once.
    pub entry: Entry,
    /// The variant of the paper, if the paper schedules single tasks.
    pub tasks: Option<TaskMaker>,
}

/// The constructor of a policy that schedules single tasks.
#[derive(Clone, Copy, Debug)]
pub struct TaskMaker {
    /// Flags in addition to those of the entry.
    pub flags: &'static [&'static Flag],
    pub make: fn(&Parameters) -> Result<Box<dyn TaskPolicy>, String>,
}

/// All schedulers.
pub const POLICIES: &[LabPolicy] = &[
    hare::HARE,
    hlas::HLAS,
    hlas::HLAS_P,
    hadar::HADAR,
    mlfs::MLF_H,
    LabPolicy::of_gangs(gavel::MAX_MIN),
    LabPolicy::of_gangs(gavel::MTD),
    LabPolicy::of_gangs(gavel::FIFO),
    LabPolicy::of_gangs(allox::ALLOX),
    LabPolicy::of_gangs(allox::ALLOX_P),
    mlfs::MLF_RL,
];

impl LabPolicy {
    /// Returns a scheduler without a variant for single tasks.
    pub(crate) const fn of_gangs(entry: Entry) -> Self {
        Self { entry, tasks: None }
    }
}

/// Returns the policies of the planner and of the papers.
pub fn registry() -> Registry {
    Registry::new(hsched_plan::POLICIES.iter().chain(POLICIES.iter().map(|lab_policy| &lab_policy.entry)))
}

/// Returns the policy with that name for a cluster with other users.
///
/// # Errors
/// If there is no such policy, it is not for such clusters, or one of its parameters is invalid.
pub fn find(name: &str, parameters: &Parameters) -> Result<Box<dyn Policy>, RegistryError> {
    registry().find(name, parameters)
}

/// Returns the policy with that name as `simulate` and `run` use it.
///
/// # Errors
/// If there is none, or one of its parameters is invalid.
pub fn find_over_time(name: &str, parameters: &Parameters) -> Result<Box<dyn Policy>, RegistryError> {
    registry().find_over_time(name, parameters)
}
