//! An oracle by dynamic programming over GPU counts by type: the best plan if all GPUs of a type were in one
//! pool.

use hsched_plan::{Objective, Problem};

use crate::oracle;
use hsched_problems::bundle_cost::{bundles, fastest_link, time};

/// Returns the objective of the best plan that gives every job a GPU, by the number of idle GPUs.
///
/// Each bundle has the fastest ring possible with all nodes for itself, so no plan is better; if [`is_exact`]
/// holds, one is as good.
pub fn by_idle(problem: &Problem) -> Vec<Option<f64>> {
    let offered = problem.offered();
    let bundles = bundles(&offered);
    let weight =
        |job: usize| if problem.objective == Objective::Weighted { problem.jobs[job].weight } else { 1.0 };
    let merge = |a: f64, b: f64| if problem.objective == Objective::Makespan { a.max(b) } else { a + b };
    // The best sum (or latest end) of the first jobs, by their use of each type.
    let mut states = vec![f64::INFINITY; place(&offered, &offered) + 1];
    states[0] = 0.0;
    for (index, job) in problem.jobs.iter().enumerate() {
        let mut next = vec![f64::INFINITY; states.len()];
        for bundle in &bundles {
            let Some(time) = time(job, bundle, fastest_link(problem, bundle)) else { continue };
            for used in std::iter::once(vec![0; offered.len()]).chain(bundles.iter().cloned()) {
                let before = states[place(&used, &offered)];
                let sum: Vec<u32> = used.iter().zip(bundle).map(|(a, b)| a + b).collect();
                if before < f64::INFINITY && sum.iter().zip(&offered).all(|(needs, has)| needs <= has) {
                    let cell = &mut next[place(&sum, &offered)];
                    *cell = cell.min(merge(before, weight(index) * oracle::cost(problem, index, time)));
                }
            }
        }
        states = next;
    }
    // A mean is the sum divided by the sum of the weights; the makespan is not divided.
    let total: f64 = (0..problem.jobs.len()).map(weight).sum();
    let scale = if problem.objective == Objective::Makespan { 1.0 } else { total };
    let gpus: u32 = offered.iter().sum();
    let mut best = vec![None; gpus as usize + 1];
    for used in bundles {
        let value = states[place(&used, &offered)] / scale;
        let cell = &mut best[(gpus - used.iter().sum::<u32>()) as usize];
        if value < f64::INFINITY {
            *cell = Some(cell.map_or(value, |old: f64| old.min(value)));
        }
    }
    best
}

/// Returns the objective of the best plan, with any number of idle GPUs.
pub fn best(problem: &Problem) -> Option<f64> {
    by_idle(problem).into_iter().flatten().min_by(f64::total_cmp)
}

/// Returns whether the pool's optimum is attainable: no gradients are exchanged, or each type is on a single
/// separate node with links no slower than the network.
pub fn is_exact(problem: &Problem) -> bool {
    let silent = problem.jobs.iter().all(|job| job.model_bytes == 0.0);
    let types = 0..problem.gpu_types.len();
    let one_node =
        types.map(|ty| problem.nodes.iter().filter(|node| node.gpus[ty] > 0).count()).all(|nodes| nodes <= 1);
    let one_type = problem.nodes.iter().all(|node| node.gpus.iter().filter(|count| **count > 0).count() <= 1);
    let fast = problem.nodes.iter().all(|node| node.intra_node >= problem.network);
    silent || (one_node && one_type && fast)
}

/// Returns the index of a state: its counts as digits.
fn place(counts: &[u32], offered: &[u32]) -> usize {
    counts.iter().zip(offered).fold(0, |place, (&count, &most)| place * (most as usize + 1) + count as usize)
}
