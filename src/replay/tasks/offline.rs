//! `hare`, which knows all jobs from the start: one schedule for the whole trace.

use crate::policy::{Assign, Order, Tasks, order, schedule};
use crate::replay::figures::TaskFacts;
use crate::replay::tasks::Course;

/// Returns the course of all jobs.
pub(super) fn play(tasks: &Tasks, assign: Assign) -> Course {
    let Order { prices, middles, rounds, lower_bound } = order(tasks);
    let runs = schedule(tasks, &rounds, assign);
    let facts = TaskFacts {
        assign: Some(assign.name()),
        lower_bound: Some(lower_bound),
        prices,
        middles,
        ..TaskFacts::default()
    };
    Course { runs, queued: Vec::new(), facts, decisions: 1 }
}
