//! A lower bound on the objective, and the prices that prove it.

use std::collections::BTreeMap;

/// What no plan for some jobs undercuts, and the prices that prove it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The objective's least value, in seconds.
    pub lower: f64,
    /// What the prices alone prove, at most `lower`.
    pub root: f64,
    /// Price of a GPU by type, in weighted seconds of completion time.
    pub prices: Vec<f64>,
    /// Price of a replica by type and size, where replicas have several GPUs: more than its GPUs' where they must be on one node.
    pub replica_prices: Vec<BTreeMap<u32, f64>>,
    /// Weight of each job in the sum that the prices bound; their sum divides it.
    pub weights: Vec<f64>,
}
