//! The worth of a step of each job.
//!
//! Without further arrivals, the minimum sum of completion times assigns each job a worth that is constant
//! until it ends: the lowest cost of a step, (1 + p·n) / s(n) over bundles n, at the prices p at its end.
//! Jobs are therefore sorted by their expected end, and prices are followed backwards from the last one
//! (heSRPT for one type and speeds k^q, SRPT for linear speeds).

use crate::horizon::path::PricePath;
use crate::horizon::task::{Instance, Task};

/// Tasks by expected end, and the worth of their steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Worths {
    /// Indices of tasks, from the last one to end to the first one.
    pub order: Vec<usize>,
    /// Remaining work of the task at each position of `order`, in seconds at present prices; descending.
    pub keys: Vec<f64>,
    /// 1 plus the total weight of the jobs that end later, by position of `order`; 1, 2, … if all weights are
    /// 1.
    pub left: Vec<f64>,
    /// The worth of a step of each task, in weighted seconds.
    pub of: Vec<f64>,
}

/// A job older than this multiple of its time alone on the cluster gains worth.
const PATIENCE: f64 = 10.0;

/// Minimum time alone that this comparison assumes, in seconds.
const SHORTEST: f64 = 600.0;

impl Worths {
    /// Returns the worth of each task at the present `prices` and along the path of future prices.
    pub(super) fn new(instance: &Instance<'_>, prices: &[f64], path: &PricePath) -> Self {
        let unit = unit_costs(instance, prices);
        let key = |(task, task_state): (usize, &Task)| {
            to_do(task_state, instance.class(task).fastest) * unit[task_state.class] / task_state.weight
        };
        let keys: Vec<f64> = instance.tasks.iter().enumerate().map(key).collect();
        let mut order: Vec<usize> = (0..keys.len()).collect();
        // Of equal tasks, the later arrival ends later.
        order.sort_by(|&a, &b| keys[b].total_cmp(&keys[a]).then(b.cmp(&a)));
        let mut worths = Self {
            left: Vec::with_capacity(order.len()),
            of: vec![0.0; order.len()],
            keys: Vec::with_capacity(order.len()),
            order,
        };
        let mut there = vec![0.0; prices.len()];
        let mut sum = 1.0;
        for &task in &worths.order {
            worths.keys.push(keys[task]);
            worths.left.push(sum);
            path.at(sum, &mut there);
            worths.of[task] = instance.class(task).bundles.unit_cost(instance.tasks[task].weight, &there);
            sum += instance.tasks[task].weight;
        }
        worths
    }

    /// Returns each task's class and worth, from the last task to end to the first.
    pub(super) fn demand(&self, instance: &Instance<'_>) -> Vec<(usize, f64)> {
        self.order.iter().map(|&task| (instance.tasks[task].class, self.of[task])).collect()
    }

    /// Returns the worth of a step of each task, increased for very old jobs.
    pub(super) fn with_age(&self, instance: &Instance<'_>) -> Vec<f64> {
        let aged = |(task, worth): (&Task, &f64)| {
            let alone = task.whole / instance.classes[task.class].fastest;
            let age = task.age / (PATIENCE * alone.max(SHORTEST));
            if age > 1.0 { worth * (age * age) } else { *worth }
        };
        instance.tasks.iter().zip(&self.of).map(aged).collect()
    }
}

/// Returns the lowest cost of a step at these prices, for classes with tasks.
fn unit_costs(instance: &Instance<'_>, prices: &[f64]) -> Vec<f64> {
    let mut costs = vec![0.0; instance.classes.len()];
    for task in instance.tasks {
        if costs[task.class] == 0.0 {
            costs[task.class] = instance.classes[task.class].bundles.unit_cost(1.0, prices);
        }
    }
    costs
}

/// Returns the remaining steps of a task, adjusted for restarts: a running task counts less than its
/// remaining work, because stopping it would cause a restart later; a stopped task counts more, because it
/// must restart first.
pub(super) fn to_do(task: &Task, fastest: f64) -> f64 {
    match &task.placement {
        Some(place) => (task.left - task.restart * place.speed).max(0.02 * task.left),
        None => task.left + task.restart_now() * fastest,
    }
}
