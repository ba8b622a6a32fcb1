//! The policy with its objective and seed, and its questions to the world.

use crate::Run;
use hsched_model::{PlacedRank, Seconds};
use hsched_plan::{
    Budget, JobStartEstimates, Objective, Placement, Policy, Problem, Rank, Slot, WaitForecast,
};

/// Inputs for making plans.
pub struct Planner<'a> {
    pub policy: &'a mut dyn Policy,
    pub objective: Objective,
    pub seed: u64,
    /// Unique id of the run to be submitted.
    pub run: &'a str,
    pub budget: Budget<'a>,
    /// The world's answers about the queue in this turn.
    pub forecasts: Vec<WaitForecast>,
    /// The world's answers about requests in this turn; `None` if it was not asked.
    pub start_estimates: Option<Vec<JobStartEstimates>>,
}

/// A policy's question before it decides: how long a job would wait in the queue for some GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitQuestion {
    /// The job's number in the problem of this turn.
    pub job: usize,
    pub slots: Vec<Slot>,
    /// The run that would submit the job alone; `None` if it cannot be built, and then the world is not
    /// asked.
    pub submission: Option<Box<Run>>,
}

impl WaitQuestion {
    /// Returns the answer.
    pub fn answered(self, wait: Option<Seconds>) -> WaitForecast {
        WaitForecast { job: self.job, slots: self.slots, wait }
    }
}

/// Returns the ranks of a placement with the names of their nodes and GPU types.
pub fn named_ranks(problem: &Problem, placement: &Placement) -> Vec<PlacedRank> {
    let rank = |rank: &Rank| PlacedRank {
        node: problem.nodes[rank.node].name.clone(),
        gpu_type: problem.gpu_types[rank.gpu_type].clone(),
        local_rank: rank.local_rank,
        batch: rank.batch,
        samples: rank.samples,
    };
    placement.ranks.iter().map(rank).collect()
}
