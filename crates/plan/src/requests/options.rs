//! The requests that a job could wait for: GPUs of one type, the same number on each node.

use crate::{Decision, Placement, Plan, Problem, Sharing, Slot, verify};

/// Requests of one job that are looked at.
const MOST: usize = 24;

/// The most GPUs that a job waits for whose file does not say how many it may have: a polite part of a large cluster.
pub const MOST_GPUS: u32 = 32;

/// A request for more GPUs must be faster by this part of the time.
const FASTER: f64 = 0.98;

/// Returns the placements on GPUs of one type that a job of an extract could wait for, each faster than all smaller ones of its type.
///
/// A job of several nodes takes all GPUs of the type of each.
#[must_use]
pub fn options(problem: &Problem, job: usize) -> Vec<Placement> {
    let mut list: Vec<Placement> = Vec::new();
    for gpu_type in (0..problem.gpu_types.len()).filter(|&own| problem.jobs[job].types[own].is_some()) {
        list.extend(of_type(problem, job, gpu_type));
    }
    if list.len() > MOST {
        let is_odd = |own: &Placement| !own.ranks.len().is_power_of_two();
        list.sort_by(|a, b| is_odd(a).cmp(&is_odd(b)).then(a.epoch.total().total_cmp(&b.epoch.total())));
        list.truncate(MOST);
    }
    list
}

fn of_type(problem: &Problem, job: usize, gpu_type: usize) -> Vec<Placement> {
    let model = &problem.jobs[job];
    let largest = problem.nodes.iter().map(|node| node.gpus[gpu_type]).max().unwrap_or(0);
    let most = model.max_gpus.min(problem.ceiling[gpu_type]);
    let on_one = (1..=largest).map(|count| (1, count));
    let on_several = (2..=most.checked_div(largest).unwrap_or(0)).map(|nodes| (nodes, largest));
    let mut list: Vec<Placement> = Vec::new();
    for (nodes, per_node) in on_one.chain(on_several) {
        let count = nodes * per_node;
        if count < model.min_gpus || count > most {
            continue;
        }
        let able = (0..problem.nodes.len()).filter(|&node| problem.nodes[node].gpus[gpu_type] >= per_node);
        let slots: Vec<Slot> =
            able.take(nodes as usize).map(|node| Slot { node, gpu_type, count: per_node }).collect();
        if slots.len() < nodes as usize {
            break;
        }
        let faster =
            |own: &Placement| list.iter().all(|known| own.epoch.total() < FASTER * known.epoch.total());
        let placement = Placement::new(problem, job, &slots, Sharing::Balanced).filter(faster);
        list.extend(placement.filter(|own| is_legal(problem, job, own)));
    }
    list
}

fn is_legal(problem: &Problem, job: usize, placement: &Placement) -> bool {
    let changes = vec![(job, Decision::place(placement.clone()))];
    verify(problem, Plan { changes, ..Plan::default() }).is_ok()
}
