//! What the decisions look at, in plain numbers: tasks, where they are, and the GPUs on offer.

use std::sync::Arc;

use crate::classes::Class;

/// A job that may be given GPUs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Task {
    /// Number of its class.
    pub class: usize,
    /// What a second of its time counts, about 1.
    pub weight: f64,
    /// Steps left, by estimate.
    pub left: f64,
    /// Steps in all, by estimate.
    pub whole: f64,
    /// Seconds since it arrived.
    pub age: f64,
    /// Seconds without progress whenever it changes its GPUs or resumes; its first start is free.
    pub restart: f64,
    pub started: bool,
    pub placement: Option<TaskPlacement>,
}

/// Where a running task is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TaskPlacement {
    /// GPUs by type.
    pub counts: Arc<[u32]>,
    /// In steps per second, as packed.
    pub speed: f64,
    /// Whether it may be stopped or moved.
    pub movable: bool,
    /// The bundle of its class with these counts.
    pub bundle: Option<usize>,
}

/// An instance of the allocation problem: tasks and GPUs at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instance<'a> {
    pub classes: &'a [Class],
    /// By arrival.
    pub tasks: &'a [Task],
    /// GPUs by type that the tasks may have together.
    pub offered: &'a [u32],
    /// Whether a running task may be stopped to let others run first.
    pub preempts: bool,
}

/// What a task is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TaskChoice {
    #[default]
    Wait,
    /// The GPUs that it has.
    Stay,
    /// A bundle of its class.
    Take(usize),
}

impl Task {
    /// Returns its speed where it is, in steps per second.
    pub(super) fn speed(&self) -> f64 {
        self.placement.as_ref().map_or(0.0, |place| place.speed)
    }

    pub(super) fn is_running(&self) -> bool {
        self.placement.is_some()
    }

    /// Returns what a restart costs it now, in seconds.
    pub(super) fn restart_now(&self) -> f64 {
        if self.started { self.restart } else { 0.0 }
    }
}

impl<'a> Instance<'a> {
    pub(super) fn class(&self, task: usize) -> &'a Class {
        &self.classes[self.tasks[task].class]
    }

    /// Returns the GPUs of a choice by type.
    pub(super) fn counts(&self, task: usize, choice: TaskChoice) -> &'a [u32] {
        match choice {
            TaskChoice::Wait => &[],
            TaskChoice::Stay => self.tasks[task].placement.as_ref().map_or(&[], |place| &place.counts),
            TaskChoice::Take(bundle) => self.class(task).bundles.counts(bundle),
        }
    }

    /// Returns the speed of a choice in steps per second.
    pub(super) fn speed(&self, task: usize, choice: TaskChoice) -> f64 {
        match choice {
            TaskChoice::Wait => 0.0,
            TaskChoice::Stay => self.tasks[task].speed(),
            TaskChoice::Take(bundle) => self.class(task).bundles.speed(bundle),
        }
    }

    /// Returns the number of GPUs on offer.
    pub(super) fn gpus(&self) -> f64 {
        self.offered.iter().map(|&count| f64::from(count)).sum()
    }
}
