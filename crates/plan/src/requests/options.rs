//! The GPUs that a job could request: of one type, with the same number on each node.

use crate::{Decision, Placement, Plan, Problem, Sharing, Slot, verify};

/// Maximum number of requested GPUs if the job sets no maximum: a modest part of a large cluster.
pub const MOST_GPUS: u32 = 32;

/// More GPUs must reduce the time to less than this fraction.
const FASTER: f64 = 0.98;

/// Returns placements of a job on at most `most` GPUs of one type and at most `most_nodes` nodes, each faster
/// than all smaller ones. The GPUs are assumed to be free. A job on several nodes uses as many GPUs on each
/// as the largest node has of the type, or as many of them as form whole replicas.
pub fn options(
    problem: &Problem,
    job: usize,
    gpu_type: usize,
    (most, most_nodes): (u32, u32),
) -> Vec<Placement> {
    let model = &problem.jobs[job];
    let largest = problem.nodes.iter().map(|node| node.up[gpu_type]).max().unwrap_or(0);
    let (size, block) = (model.size(gpu_type), model.block(gpu_type));
    let largest = largest / block * block;
    let most = model.max_gpus.saturating_mul(size).min(most);
    let on_one = (1..=largest).filter(|count| count % block == 0).map(|count| (1, count));
    let on_several = (2..=most_nodes.min(MOST_GPUS)).map(|nodes| (nodes, largest));
    let mut list: Vec<Placement> = Vec::new();
    for (nodes, per_node) in on_one.chain(on_several) {
        let gpus = nodes.saturating_mul(per_node);
        if gpus < model.min_gpus.saturating_mul(size) || gpus > most || largest == 0 {
            continue;
        }
        let able = (0..problem.nodes.len()).filter(|&node| problem.nodes[node].up[gpu_type] >= per_node);
        let slots: Vec<Slot> =
            able.take(nodes as usize).map(|node| Slot { node, gpu_type, count: per_node }).collect();
        if slots.len() < nodes as usize {
            continue;
        }
        let Some(placement) = Placement::new(problem, job, &slots, Sharing::Balanced) else { continue };
        let is_faster = |known: &Placement| placement.epoch.total() < FASTER * known.epoch.total();
        if list.iter().all(is_faster) {
            list.push(placement);
        }
    }
    list
}

/// Returns whether a placement is legal in a problem in which its GPUs are unused.
pub(crate) fn is_legal(problem: &Problem, job: usize, placement: &Placement) -> bool {
    let changes = vec![(job, Decision::place(placement.clone()))];
    verify(problem, Plan { changes, ..Plan::default() }).is_ok()
}
