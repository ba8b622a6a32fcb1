//! The registry of the lab: schedulers of papers by name, with those of the planner.

use crate::replay::TaskPolicy;
use crate::{allox, gavel, hadar, hare, hlas, mlfs};
use hsched_plan::{Entry, Flag, Parameters, Policy, Registry, RegistryError};

/// A scheduler of a paper.
#[derive(Clone, Copy, Debug)]
pub struct LabPolicy {
    /// As a policy for jobs that hold all their GPUs together.
    pub entry: Entry,
    /// As the paper has it, where that shares out single tasks.
    pub tasks: Option<TaskMaker>,
}

/// How a policy that shares out single tasks is made.
#[derive(Clone, Copy, Debug)]
pub struct TaskMaker {
    /// Flags beside those of the entry.
    pub flags: &'static [&'static Flag],
    pub make: fn(&Parameters) -> Result<Box<dyn TaskPolicy>, String>,
}

/// All of them.
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
    /// Returns one that knows no single tasks.
    pub const fn of_gangs(entry: Entry) -> Self {
        Self { entry, tasks: None }
    }
}

/// Returns the policies of the planner and those of the papers.
pub fn registry() -> Registry {
    Registry::new(hsched_plan::POLICIES.iter().chain(POLICIES.iter().map(|lab_policy| &lab_policy.entry)))
}

/// Returns the policy of that name for a cluster that strangers use, too.
///
/// # Errors
/// If there is none for that, or a parameter of its own is wrong.
pub fn find(name: &str, parameters: &Parameters) -> Result<Box<dyn Policy>, RegistryError> {
    registry().find(name, parameters)
}

/// Returns the policy of that name as `simulate` and `run` use it.
///
/// # Errors
/// If there is none, or a parameter of its own is wrong.
pub fn find_over_time(name: &str, parameters: &Parameters) -> Result<Box<dyn Policy>, RegistryError> {
    registry().find_over_time(name, parameters)
}
