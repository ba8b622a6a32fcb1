//! `hadar`: rounds in which jobs buy GPUs with the utility of finishing sooner; prices rise as GPUs are
//! taken.
//!
//! From "Resource Heterogeneity-Aware and Utilization-Enhanced Scheduling for Deep Learning Clusters", with
//! the corrections of docs/policies.md: of all subsets of the jobs, with one allocation per job, the policy
//! serves the one with the highest payoff.

mod cells;
mod entry;
mod facts;
mod find;
mod hopes;
mod job;
mod layers;
mod menu;
mod offers;
#[cfg(test)]
mod oracle_tests;
mod policy;
mod prices;
mod states;

pub(super) use self::entry::HADAR;
pub(super) use self::find::by_digits;
pub(super) use self::job::rate;
pub(crate) use self::job::{HadarParameters, Utility, Worth};
pub(crate) use self::policy::Hadar;
