//! An oracle that shares no code with the policies: every GPU on its own, given to every job in turn or to none.

#![expect(clippy::cast_precision_loss, reason = "the numbers are small")]

use hsched::policy::{JobModel, Objective, Problem};

/// The best plan that gives every job a GPU and leaves exactly `idle` GPUs without work: its objective value.
///
/// `None` when there is no legal one.
pub fn best(problem: &Problem, idle: usize) -> Option<f64> {
    let workers: Vec<(usize, usize)> = problem
        .nodes
        .iter()
        .enumerate()
        .flat_map(|(node, own)| own.gpus.iter().enumerate().map(move |(ty, &count)| (node, ty, count)))
        .flat_map(|(node, ty, count)| (0..count).map(move |_| (node, ty)))
        .collect();
    let mut owners = vec![0; workers.len()];
    let mut best: Option<f64> = None;
    loop {
        let without_work = owners.iter().filter(|&&owner| owner == problem.jobs.len()).count();
        if without_work == idle
            && let Some(value) = value(problem, &workers, &owners)
        {
            best = Some(best.map_or(value, |old| old.min(value)));
        }
        let Some(place) = owners.iter().position(|&owner| owner < problem.jobs.len()) else { return best };
        owners[place] += 1;
        owners[..place].fill(0);
    }
}

fn value(problem: &Problem, workers: &[(usize, usize)], owners: &[usize]) -> Option<f64> {
    let mut times = Vec::new();
    for (index, job) in problem.jobs.iter().enumerate() {
        let own = workers.iter().zip(owners).filter(|(_, owner)| **owner == index);
        times.push(time(problem, job, &own.map(|(worker, _)| *worker).collect::<Vec<_>>())?);
    }
    let count = times.len() as f64;
    Some(match problem.objective {
        Objective::MeanJct => times.iter().sum::<f64>() / count,
        Objective::Weighted => {
            let weights: f64 = problem.jobs.iter().map(|job| job.weight).sum();
            times.iter().zip(&problem.jobs).map(|(t, job)| t * job.weight).sum::<f64>() / weights
        }
        Objective::Makespan => times.iter().copied().fold(0.0, f64::max),
    })
}

/// The completion time of a job on these GPUs, by the formulas of the planner, section 1, with bisection.
pub fn time(problem: &Problem, job: &JobModel, workers: &[(usize, usize)]) -> Option<f64> {
    let ranks = workers.len();
    if ranks < job.min_gpus as usize || ranks > job.max_gpus as usize {
        return None;
    }
    let models: Vec<_> = workers.iter().map(|&(_, ty)| job.types[ty]).collect::<Option<_>>()?;
    if ranks > 1 && models.iter().any(|model| model.single_rank) {
        return None;
    }
    let batch = job.global_batch as f64;
    // b = t⁻¹(τ) by bisection too, so that not even the inverse is shared.
    let share = |model: &hsched::policy::TypeModel, tau: f64| {
        let cap = match model.max_batch {
            Some(memory) if !job.accumulate => memory as f64,
            _ => f64::INFINITY,
        };
        let step = |b: f64| {
            let passes = model.max_batch.map_or(1.0, |memory| (b / memory as f64).max(1.0));
            model.speed.alpha() * passes + model.speed.beta() * b
        };
        let (mut low, mut high) = (0.0, batch * 2.0);
        for _ in 0..100 {
            let middle = f64::midpoint(low, high);
            if step(middle) <= tau { low = middle } else { high = middle }
        }
        low.min(cap)
    };
    let (mut low, mut high) = (0.0, 1e7);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if models.iter().map(|model| share(model, middle)).sum::<f64>() < batch {
            low = middle;
        } else {
            high = middle;
        }
    }
    let full = models.iter().map(|model| share(model, high)).sum::<f64>() >= batch * (1.0 - 1e-9);
    let quantum = job.batch_quantum as f64;
    if !full || models.iter().any(|model| share(model, high) < quantum * (1.0 - 1e-7)) {
        return None;
    }
    if !job.accumulate {
        // Whole quanta must fit too.
        let room = |m: &hsched::policy::TypeModel| {
            m.max_batch.map_or(job.global_batch, |most| most / job.batch_quantum * job.batch_quantum)
        };
        if models.iter().map(room).sum::<u64>() < job.global_batch || models.iter().any(|m| room(m) == 0) {
            return None;
        }
    }
    let mut link = f64::INFINITY;
    for (place, a) in workers.iter().enumerate() {
        for b in &workers[place + 1..] {
            let rate = if a.0 == b.0 { problem.nodes[a.0].intra_node } else { problem.network };
            link = link.min(rate.gigabits_per_second());
        }
    }
    let k = ranks as f64;
    let comm = if ranks == 1 {
        0.0
    } else {
        (1.0 - job.overlap) * job.syncs_per_epoch * 2.0 * (k - 1.0) / k * job.model_bytes * 8.0 / (link * 1e9)
    };
    Some(job.epochs as f64 * (job.samples_per_epoch as f64 / batch * high + comm))
}
