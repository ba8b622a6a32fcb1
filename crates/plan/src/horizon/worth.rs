//! What a step of each job is worth.
//!
//! With no more arrivals, the least sum of completion times has one worth per job, constant until it ends: the least cost of a
//! step, (1 + p·n) / s(n) over bundles n, at the prices p of the moment when it ends. So jobs are sorted by when they will
//! end, and prices are followed backwards from the last one (heSRPT for one type and speeds k^q, SRPT for linear ones).

use crate::horizon::path::Path;
use crate::horizon::task::{Instance, Task};

/// Tasks by when they will end, and what their steps are worth.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Worths {
    /// Tasks from the last one to end to the first.
    pub order: Vec<usize>,
    /// What is left of the task at each place of `order`, in seconds at today's prices; falling.
    pub keys: Vec<f64>,
    /// The weight of the jobs that end no sooner, by place of `order`; 1, 2, … where all weigh 1.
    pub left: Vec<f64>,
    /// What a step of each task is worth, in weighted seconds.
    pub of: Vec<f64>,
}

/// A job older than so many times what it would take alone is worth more.
const PATIENCE: f64 = 10.0;

/// Jobs shorter than this, in seconds, are as patient as those that take so long.
const SHORTEST: f64 = 600.0;

impl Worths {
    /// Returns the worth of each task of a instance at today's `prices` and by the path of prices to come.
    pub(super) fn new(instance: &Instance<'_>, prices: &[f64], path: &Path) -> Self {
        let unit = unit_costs(instance, prices);
        let key = |(task, task_state): (usize, &Task)| {
            to_do(task_state, instance.class(task).fastest) * unit[task_state.class] / task_state.weight
        };
        let keys: Vec<f64> = instance.tasks.iter().enumerate().map(key).collect();
        let mut order: Vec<usize> = (0..keys.len()).collect();
        // Of equal ones the later arrival ends later.
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

    /// Returns classes and worths from the last task to end to the first.
    pub(super) fn demand(&self, instance: &Instance<'_>) -> Vec<(usize, f64)> {
        self.order.iter().map(|&task| (instance.tasks[task].class, self.of[task])).collect()
    }

    /// Returns what a step of each task is worth, more of jobs that have been there for very long.
    pub(super) fn with_age(&self, instance: &Instance<'_>) -> Vec<f64> {
        let aged = |(task, worth): (&Task, &f64)| {
            let alone = task.whole / instance.classes[task.class].fastest;
            let age = task.age / (PATIENCE * alone.max(SHORTEST));
            if age > 1.0 { worth * (age * age) } else { *worth }
        };
        instance.tasks.iter().zip(&self.of).map(aged).collect()
    }
}

/// Returns the least cost of a step at these prices by class, for those that have tasks.
fn unit_costs(instance: &Instance<'_>, prices: &[f64]) -> Vec<f64> {
    let mut costs = vec![0.0; instance.classes.len()];
    for task in instance.tasks {
        if costs[task.class] == 0.0 {
            costs[task.class] = instance.classes[task.class].bundles.unit_cost(1.0, prices);
        }
    }
    costs
}

/// Returns the steps that are as long as what a task has still to do: a running one is worth more than its work alone, for
/// another one that it would yield to must restart it later; a stopped one must restart first.
pub(super) fn to_do(task: &Task, fastest: f64) -> f64 {
    match &task.placement {
        Some(place) => (task.left - task.restart * place.speed).max(0.02 * task.left),
        None => task.left + task.restart_now() * fastest,
    }
}
