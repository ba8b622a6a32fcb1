//! Packs GPU counts by type into nodes: jobs that save most by staying inside one node choose first.

use std::cmp::Reverse;

use crate::{JobModel, Problem, Slot, cost};

/// Assigns each job's bundle (GPUs by type) to nodes; the bundles together must fit the offered GPUs.
///
/// Jobs are sorted by descending saving from staying inside one node, then in job order. A job uses the node
/// with the fewest GPUs left over or, if no node can hold it, the nodes with the most free GPUs of its types.
pub(super) fn pack(problem: &Problem, jobs: &[usize], bundles: &[Vec<u32>]) -> Vec<Vec<Slot>> {
    let mut free: Vec<Vec<u32>> = problem.nodes.iter().map(|node| node.gpus.clone()).collect();
    let saving: Vec<f64> =
        jobs.iter().zip(bundles).map(|(&job, bundle)| saving(problem, &problem.jobs[job], bundle)).collect();
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by(|&a, &b| saving[b].total_cmp(&saving[a]).then(a.cmp(&b)));
    let mut placed = vec![Vec::new(); jobs.len()];
    for index in order {
        placed[index] = place(problem, &mut free, &bundles[index]);
    }
    placed
}

/// Returns the internal rate of the fastest node that could hold the bundle, in bytes per second.
fn inside_one_node(problem: &Problem, bundle: &[u32]) -> Option<f64> {
    let able = problem.nodes.iter().filter(|node| holds(&node.gpus, bundle));
    able.map(|node| node.intra_node.bytes_per_second()).max_by(f64::total_cmp)
}

fn saving(problem: &Problem, job: &JobModel, bundle: &[u32]) -> f64 {
    let ranks = bundle.iter().sum();
    let Some(inside) = inside_one_node(problem, bundle) else { return 0.0 };
    let across = cost::comm_time(job, ranks, problem.network.bytes_per_second());
    job.weight * job.completion_time(across - cost::comm_time(job, ranks, inside))
}

/// Takes a bundle from the free GPUs: from the node with the fewest left over or, if no node can hold it,
/// from those with the most free GPUs of its types; takes fewer GPUs if too few are free.
pub(super) fn place(problem: &Problem, free: &mut [Vec<u32>], bundle: &[u32]) -> Vec<Slot> {
    let mut need = bundle.to_vec();
    let mut slots = Vec::new();
    while need.iter().any(|&count| count > 0) {
        let given = |node: &Vec<u32>| -> u32 { node.iter().zip(&need).map(|(&f, &n)| f.min(n)).sum() };
        let left = |node: &Vec<u32>| node.iter().sum::<u32>() - given(node);
        let rate = |node: usize| problem.nodes[node].intra_node.bytes_per_second();
        let best = (0..free.len()).filter(|&node| given(&free[node]) > 0).min_by(|&a, &b| {
            let key = |node: usize| (Reverse(given(&free[node])), left(&free[node]));
            key(a).cmp(&key(b)).then(rate(b).total_cmp(&rate(a))).then(a.cmp(&b))
        });
        let Some(node) = best else { break };
        for (gpu_type, (free, need)) in free[node].iter_mut().zip(&mut need).enumerate() {
            let count = (*free).min(*need);
            if count > 0 {
                slots.push(Slot { node, gpu_type, count });
                *free -= count;
                *need -= count;
            }
        }
    }
    slots
}

pub(super) fn holds(node: &[u32], bundle: &[u32]) -> bool {
    node.iter().zip(bundle).all(|(have, need)| have >= need)
}
