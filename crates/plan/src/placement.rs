//! Placements: the GPUs of jobs, their ranks and predicted times, and the figures of a whole plan.

use crate::bound::Bound;
use crate::cost::{self, EpochTime};
use crate::{CheckedPlan, Dues, JobModel, Problem, fairness, share};
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Sharing, SpeedBasis};

/// The decision for one job. An expected refusal is a value with a reason, not an error.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Place(Placement),
    /// Not now: the job can be placed after GPUs become free.
    Defer {
        reason: String,
    },
    /// Never on this cluster in its present state.
    Reject {
        reason: String,
    },
}

/// The GPUs of one job, its ranks and its predicted times.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// GPUs in the order of their first ranks, one entry per node and type.
    pub slots: Vec<Slot>,
    /// Ranks 0 … N−1; rank 0 has the largest batch. Ranks of a node are consecutive, or ranks of a replica if
    /// its GPUs may be on several nodes.
    pub ranks: Vec<Rank>,
    /// How the batch is divided among the ranks.
    pub sharing: Sharing,
    /// Predicted time of an epoch, from real-valued shares.
    pub epoch: EpochTime,
}

/// Some GPUs of one type on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    pub node: usize,
    pub gpu_type: usize,
    pub count: u32,
}

/// One process of the job on one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    pub node: usize,
    pub gpu_type: usize,
    /// Index among the job's ranks on the node.
    pub local_rank: u32,
    /// Samples per global batch; of its replica, if the job defines replicas.
    pub batch: u64,
    /// Samples per epoch; of its replica, if the job defines replicas.
    pub samples: u64,
}

/// The figures of a whole plan, over the placed jobs; times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanFigures {
    pub objective_value: f64,
    pub mean_jct: f64,
    pub makespan: f64,
    /// Jain's index of eq. 33.
    pub fairness: f64,
}

/// The proven distance of a plan from the optimum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// Lower bound of the objective, in seconds.
    pub lower_bound: f64,
    /// Relative distance of the plan from the bound: objective over bound, minus one; 0 if the bound reaches the
    /// objective.
    pub gap: f64,
}

/// Gap below which a plan counts as optimal.
const CLOSED: f64 = 1e-9;

impl Quality {
    /// Returns the quality of a plan with this bound; `None` if the bound proves nothing, which can happen if
    /// a search of very many jobs was stopped early.
    pub fn new(bound: &Bound, outcome: &PlanFigures) -> Option<Self> {
        let value = outcome.objective_value;
        // Both are rounded, so a bound slightly above the plan counts as met.
        if bound.lower >= value {
            return Some(Self { lower_bound: value, gap: 0.0 });
        }
        (bound.lower > 0.0).then(|| Self { lower_bound: bound.lower, gap: value / bound.lower - 1.0 })
    }

    /// Returns whether the gap is closed.
    pub fn is_optimal(self) -> bool {
        self.gap <= CLOSED
    }
}

impl Placement {
    /// Returns the placement of job number `job` on `slots`: the ranks with their shares, and the times. A
    /// job that prescribes equal shares gets them, whatever `sharing` is.
    ///
    /// `None` if that is illegal: an unusable type, a share that is too small, or too little memory for the
    /// batch.
    pub fn new(problem: &Problem, job: usize, slots: &[Slot], sharing: Sharing) -> Option<Self> {
        let model = &problem.jobs[job];
        let sharing = if model.sharing == Sharing::Equal { Sharing::Equal } else { sharing };
        let epoch = cost::epoch_time(problem, model, slots, sharing)?;
        let ranks = share::ranks(model, slots, sharing)?;
        let mut in_rank_order = slots.to_vec();
        let first_rank = |slot: &Slot| {
            ranks.iter().position(|rank| (rank.node, rank.gpu_type) == (slot.node, slot.gpu_type))
        };
        in_rank_order.sort_by_key(first_rank);
        Some(Self { slots: in_rank_order, ranks, sharing, epoch })
    }

    /// Returns the source of the least certain speed among the placement's GPUs.
    pub fn basis(&self, model: &JobModel) -> SpeedBasis {
        self.slots.iter().map(|slot| model.basis(slot.gpu_type)).min().unwrap_or_default()
    }

    /// Returns the time of an epoch with the integer shares of the ranks.
    pub fn epoch_as_shared(&self, problem: &Problem, job: &JobModel) -> EpochTime {
        let ranks: Vec<(usize, u64)> = self.ranks.iter().map(|rank| (rank.gpu_type, rank.batch)).collect();
        cost::epoch_as_shared(problem, job, &ranks, &self.slots).unwrap_or(self.epoch)
    }

    /// Returns the job's predicted completion time: T (l^p + l^c), eq. 7.
    pub fn jct(&self, epochs: u64) -> Seconds {
        Seconds(to_f64(epochs) * self.epoch.total())
    }
}

impl Verdict {
    /// Returns the placement of a job that got GPUs.
    pub fn placement(&self) -> Option<&Placement> {
        match self {
            Self::Place(placement) => Some(placement),
            Self::Defer { .. } | Self::Reject { .. } => None,
        }
    }

    /// Returns why the job got no GPUs.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Place(_) => None,
            Self::Defer { reason } | Self::Reject { reason } => Some(reason),
        }
    }
}

impl PlanFigures {
    /// Returns the figures of a plan, or `None` if it places no job.
    pub fn of(problem: &Problem, plan: &CheckedPlan) -> Option<Self> {
        let placed: Vec<(usize, f64)> = plan
            .verdicts()
            .iter()
            .enumerate()
            .filter_map(|(job, verdict)| {
                verdict.placement().map(|p| (job, p.jct(problem.jobs[job].epochs).0))
            })
            .collect();
        if placed.is_empty() {
            return None;
        }
        let weighted = || placed.iter().map(|&(job, jct)| (problem.jobs[job].weight, jct));
        let dues = Dues::of(problem);
        let costs = placed.iter().map(|&(job, jct)| (problem.jobs[job].weight, dues.cost(job, jct)));
        let (jobs, times): (Vec<usize>, Vec<f64>) = placed.iter().copied().unzip();
        Some(Self {
            objective_value: problem.objective.value(costs),
            mean_jct: crate::Objective::MeanJct.value(weighted()),
            makespan: crate::Objective::Makespan.value(weighted()),
            fairness: fairness(problem, &jobs, &times),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_that_proves_nothing_proves_no_optimum() {
        let quality = |lower: f64| {
            let bound = Bound {
                lower,
                root: lower,
                prices: Vec::new(),
                replica_prices: Vec::new(),
                weights: Vec::new(),
            };
            let figures =
                PlanFigures { objective_value: 10.0, mean_jct: 10.0, makespan: 10.0, fairness: 1.0 };
            Quality::new(&bound, &figures)
        };
        for lower in [0.0, -5.0, f64::NEG_INFINITY, f64::NAN] {
            assert_eq!(quality(lower), None, "{lower}");
        }
        assert_eq!(quality(8.0), Some(Quality { lower_bound: 8.0, gap: 0.25 }));
        assert!(quality(10.0 + 1e-12).is_some_and(Quality::is_optimal));
    }
}
