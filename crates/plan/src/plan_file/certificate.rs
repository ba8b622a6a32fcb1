//! The certificate of a plan file, which proves its lower bound.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Bound, CheckedPlan, Dues, Problem};
use hsched_model::JobName;

/// The prices that prove a bound. The bound can be recomputed from them: it is the sum, over the placed jobs,
/// of the cheapest bundle's weighted completion time and price, minus the price of all offered GPUs, divided
/// by the sum of the weights. If replicas have prices, the highest price of the GPUs and replicas that the
/// nodes can hold is subtracted instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// With the objective `deadlines`: the additional cost of a bundle with which its job is late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_cost_s: Option<f64>,
    /// Prices of a GPU, by the label of its type.
    pub prices: BTreeMap<String, f64>,
    /// Prices of a whole replica, by the label of its type and the number of its GPUs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replica_prices: BTreeMap<String, BTreeMap<u32, f64>>,
    pub root_bound: f64,
    /// Weights of the placed jobs.
    pub weights: BTreeMap<JobName, f64>,
}

impl Certificate {
    /// Returns the certificate of a bound for the jobs that a plan places.
    pub(super) fn new(problem: &Problem, plan: &CheckedPlan, bound: &Bound) -> Self {
        let replica_prices = problem.labels.iter().cloned().zip(bound.replica_prices.iter().cloned());
        let weights = plan.placed().into_iter().zip(&bound.weights);
        Self {
            late_cost_s: Dues::of(problem).late(),
            prices: problem.labels.iter().cloned().zip(bound.prices.iter().copied()).collect(),
            replica_prices: replica_prices.filter(|(_, prices)| !prices.is_empty()).collect(),
            root_bound: bound.root,
            weights: weights.map(|(job, weight)| (problem.jobs[job].name.clone(), *weight)).collect(),
        }
    }
}
