//! `hare` with knowledge of all jobs from the start: one schedule for the whole trace.

use crate::hare::{Assign, RoundOrder, order, schedule};
use crate::replay::{TaskFacts, TaskHistory, TaskPolicy};
use hsched_plan::Rounds;
use hsched_plan::kit::Tasks;

/// `hare` as in the paper.
#[derive(Clone, Copy, Debug)]
pub(super) struct TasksOfHare {
    pub assign: Assign,
}

impl TaskPolicy for TasksOfHare {
    fn name(&self) -> &'static str {
        "hare"
    }

    fn play(&self, tasks: &Tasks, _: &[&Rounds]) -> TaskHistory {
        let RoundOrder { prices, middles, rounds, lower_bound } = order(tasks);
        let runs = schedule(tasks, &rounds, self.assign);
        let facts = TaskFacts {
            assign: Some(self.assign.name()),
            lower_bound: Some(lower_bound),
            prices,
            middles,
            ..TaskFacts::default()
        };
        TaskHistory { runs, queued: Vec::new(), facts, decisions: 1 }
    }
}
