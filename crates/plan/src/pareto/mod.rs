//! Plans between mean completion time, fairness and cost, none of which another one beats in all three.
//!
//! `search` weighs the jobs anew from plan to plan, and keeps each to GPUs on which it costs little (`thrift`); `proof` says
//! what mean completion time no plan that is as fair undercuts. The policy that places the jobs comes from outside.

mod proof;
mod search;
mod thrift;

pub use self::search::{ParetoPlan, pareto};
