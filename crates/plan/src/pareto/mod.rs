//! Plans that trade off mean completion time, fairness and cost: no plan is better than another in all three.
//!
//! `search` varies the jobs' weights from plan to plan and restricts each job to GPUs on which it costs
//! little (`thrift`); `proof` gives a lower bound on the mean completion time of plans with at least the same
//! fairness. The policy that places the jobs is passed in.

mod proof;
mod search;
mod thrift;

pub use self::search::{ParetoPlan, pareto};
