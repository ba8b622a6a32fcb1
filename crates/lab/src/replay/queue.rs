//! Future events by time: ends and failures of running jobs, and of nodes.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use hsched_model::Time;

/// What is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DueEvent {
    /// The job at this number is done, unless it was moved since: its generation was this.
    End {
        job: usize,
        generation: u32,
    },
    /// It fails.
    Failure {
        job: usize,
        generation: u32,
    },
    NodeDown {
        node: usize,
    },
    NodeBack {
        node: usize,
    },
    /// A job whose rule lets it stop early has done another epoch.
    Epoch {
        job: usize,
        generation: u32,
    },
}

/// A moment that orders.
#[derive(Clone, Copy, Debug, PartialEq)]
struct At(f64);

impl Eq for At {}

impl PartialOrd for At {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for At {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// All that is to happen, the soonest first.
#[derive(Default)]
pub(super) struct EventQueue(BinaryHeap<Reverse<(At, DueEvent)>>);

impl EventQueue {
    pub(super) fn push(&mut self, at: Time, due: DueEvent) {
        self.0.push(Reverse((At(at.0), due)));
    }

    /// Returns the soonest that still holds, and drops those before it that do not.
    pub(super) fn next(&mut self, holds: impl Fn(DueEvent) -> bool) -> Option<(Time, DueEvent)> {
        while let Some(&Reverse((at, due))) = self.0.peek() {
            if holds(due) {
                return Some((Time(at.0), due));
            }
            self.0.pop();
        }
        None
    }

    pub(super) fn pop(&mut self) {
        self.0.pop();
    }
}
