//! The data behind decisions, as plain numbers: tasks, their placements, and the offered GPUs.

use std::sync::Arc;

use crate::classes::Class;

/// A job that may receive GPUs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Task {
    /// Index of the job's class.
    pub class: usize,
    /// Weight of a second of the job's time, about 1 on average.
    pub weight: f64,
    /// Estimated remaining steps.
    pub left: f64,
    /// Estimated total steps.
    pub whole: f64,
    /// Seconds since the job arrived.
    pub age: f64,
    /// Seconds without progress after a move or a resume; the first start costs nothing.
    pub restart: f64,
    pub started: bool,
    pub placement: Option<TaskPlacement>,
}

/// The placement of a running task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TaskPlacement {
    /// GPUs by type.
    pub counts: Arc<[u32]>,
    /// Steps per second, with the actual packing.
    pub speed: f64,
    /// Whether the job may be stopped or moved.
    pub movable: bool,
    /// The bundle of the job's class with these counts, by index.
    pub bundle: Option<usize>,
}

/// An instance of the allocation problem: tasks and GPUs at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instance<'a> {
    pub classes: &'a [Class],
    /// Tasks by arrival.
    pub tasks: &'a [Task],
    /// GPUs by type that the tasks may use together.
    pub offered: &'a [u32],
    /// Whether a running task may be stopped in favour of others.
    pub preempts: bool,
}

/// The decision for a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TaskChoice {
    #[default]
    Wait,
    /// The task keeps its GPUs.
    Stay,
    /// The task gets a bundle of its class, by index.
    Take(usize),
}

impl Task {
    /// Returns the present speed, in steps per second.
    pub(super) fn speed(&self) -> f64 {
        self.placement.as_ref().map_or(0.0, |place| place.speed)
    }

    pub(super) fn is_running(&self) -> bool {
        self.placement.is_some()
    }

    /// Returns the present cost of a restart, in seconds.
    pub(super) fn restart_now(&self) -> f64 {
        if self.started { self.restart } else { 0.0 }
    }
}

impl<'a> Instance<'a> {
    pub(super) fn class(&self, task: usize) -> &'a Class {
        &self.classes[self.tasks[task].class]
    }

    /// Returns the GPUs of a choice by type; empty for a choice without GPUs.
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

    /// Returns the number of offered GPUs.
    pub(super) fn gpus(&self) -> f64 {
        self.offered.iter().map(|&count| f64::from(count)).sum()
    }
}
