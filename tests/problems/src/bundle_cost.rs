//! A job's completion time on GPUs counted by type, computed only from the planner's formulas, by bisection.

#![expect(clippy::cast_precision_loss, reason = "the numbers are small")]

use hsched_plan::{JobModel, Problem, TypeModel, WorkerNode};

/// Returns the completion time of a job on `bundle` (GPUs by type) in a ring of `link` Gbit/s; `None` if the
/// bundle is illegal.
pub fn time(job: &JobModel, bundle: &[u32], link: f64) -> Option<f64> {
    let ranks: u32 = bundle.iter().sum();
    if ranks < job.min_gpus || ranks > job.max_gpus {
        return None;
    }
    let used = bundle.iter().zip(&job.types).filter(|(count, _)| **count > 0);
    let used: Vec<(f64, TypeModel)> =
        used.map(|(&count, model)| model.map(|model| (f64::from(count), model))).collect::<Option<_>>()?;
    if ranks > 1 && used.iter().any(|(_, model)| model.single_rank) {
        return None;
    }
    let batch = job.global_batch as f64;
    let handed_out = |tau: f64| used.iter().map(|(count, model)| count * share(job, model, tau)).sum::<f64>();
    let (mut low, mut high) = (0.0, 1e7);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if handed_out(middle) < batch { low = middle } else { high = middle }
    }
    let quantum = job.batch_quantum as f64;
    let too_little = |(_, model): &(f64, TypeModel)| share(job, model, high) < quantum * (1.0 - 1e-7);
    if handed_out(high) < batch * (1.0 - 1e-9) || used.iter().any(too_little) {
        return None;
    }
    if !job.accumulate {
        // Whole quanta must also fit.
        let room = |model: &TypeModel| {
            model.max_batch.map_or(job.global_batch, |most| most / job.batch_quantum * job.batch_quantum)
        };
        let all: f64 = used.iter().map(|(count, model)| count * room(model) as f64).sum();
        if all < batch || used.iter().any(|(_, model)| room(model) == 0) {
            return None;
        }
    }
    let k = f64::from(ranks);
    let comm = if ranks == 1 {
        0.0
    } else {
        (1.0 - job.overlap) * job.syncs_per_epoch * 2.0 * (k - 1.0) / k * job.model_bytes * 8.0 / (link * 1e9)
    };
    Some(job.epochs as f64 * (job.samples_per_epoch as f64 / batch * high + comm))
}

/// Returns the samples that a GPU trains in a step of `tau` seconds.
pub fn share(job: &JobModel, model: &TypeModel, tau: f64) -> f64 {
    let (alpha, beta) = (model.speed.alpha(), model.speed.beta());
    let at_once = (tau - alpha) / beta;
    match model.max_batch.map(|most| most as f64) {
        Some(most) if at_once > most && job.accumulate => tau / (alpha / most + beta),
        Some(most) => at_once.clamp(0.0, most),
        None => at_once.max(0.0),
    }
}

/// Returns all non-empty bundles of the offered GPUs.
pub fn bundles(offered: &[u32]) -> Vec<Vec<u32>> {
    let mut all = vec![Vec::new()];
    for &count in offered {
        all = (0..=count)
            .flat_map(|number| {
                all.iter().map(move |bundle: &Vec<u32>| [bundle.as_slice(), &[number]].concat())
            })
            .collect();
    }
    all.retain(|bundle| bundle.iter().any(|&count| count > 0));
    all
}

/// Returns the rate of the fastest ring that a bundle could have, in Gbit/s: that of the network, or of the
/// links of a node that could hold it.
pub fn fastest_link(problem: &Problem, bundle: &[u32]) -> f64 {
    let holds = |node: &&WorkerNode| node.gpus.iter().zip(bundle).all(|(has, needs)| has >= needs);
    let inside = problem.nodes.iter().filter(holds).map(|node| node.intra_node.gigabits_per_second());
    inside.fold(problem.network.gigabits_per_second(), f64::max)
}
