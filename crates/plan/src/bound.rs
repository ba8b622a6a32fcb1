//! A lower bound on the objective, and the prices that prove it.

use std::collections::BTreeMap;

/// A lower bound for all plans of some jobs, with the prices that prove it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Lower bound of the objective, in seconds.
    pub lower: f64,
    /// The part proven by the prices alone, at most `lower`.
    pub root: f64,
    /// Price of a GPU by type, in weighted seconds of completion time.
    pub prices: Vec<f64>,
    /// Price of a replica by type and size, for replicas of several GPUs: more than the price of its GPUs if
    /// they must be on one node.
    pub replica_prices: Vec<BTreeMap<u32, f64>>,
    /// Weight of each job in the sum that the prices bound; the bound is divided by their total.
    pub weights: Vec<f64>,
}
