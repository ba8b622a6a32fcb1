//! Advice on a plan: jobs that would end sooner on fewer of their GPUs.

use crate::{CheckedPlan, Placement, Problem, Sharing, Slot, Verdict, cost};

/// A job that would end sooner on a part of its GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct FewerGpus {
    /// Index of the job.
    pub job: usize,
    /// The GPUs on which the job would end sooner.
    pub slots: Vec<Slot>,
    /// Epoch time on these GPUs, in seconds.
    pub epoch: f64,
}

/// Only gains above this fraction of the epoch time are reported.
const WORTH_SAYING: f64 = 0.05;

/// Returns, for each placed job, the single node or GPU type among its GPUs on which an epoch would be more
/// than 5 % shorter than on all of them, if there is one.
pub fn advice(problem: &Problem, plan: &CheckedPlan) -> Vec<FewerGpus> {
    let placements = plan.verdicts().iter().map(Verdict::placement).enumerate();
    placements.filter_map(|(job, placement)| fewer(problem, job, placement?)).collect()
}

fn fewer(problem: &Problem, job: usize, placement: &Placement) -> Option<FewerGpus> {
    let model = &problem.jobs[job];
    let part = |keep: &dyn Fn(&Slot) -> bool| -> Vec<Slot> {
        placement.slots.iter().filter(|slot| keep(slot)).copied().collect()
    };
    let by_node = placement.slots.iter().map(|place| part(&|slot| slot.node == place.node));
    let by_type = placement.slots.iter().map(|place| part(&|slot| slot.gpu_type == place.gpu_type));
    let priced = by_node.chain(by_type).filter_map(|slots| {
        let ranks: u32 = model.replicas_by_type(&slots)?.iter().sum();
        let epoch = cost::epoch_time(problem, model, &slots, Sharing::Balanced)?.total();
        (ranks >= model.min_gpus).then_some(FewerGpus { job, slots, epoch })
    });
    let best = priced.min_by(|a, b| a.epoch.total_cmp(&b.epoch))?;
    (best.epoch < placement.epoch.total() * (1.0 - WORTH_SAYING)).then_some(best)
}
