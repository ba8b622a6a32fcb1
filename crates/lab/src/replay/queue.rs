//! Future events by time: ends, epochs and failures of running jobs, and failures and returns of nodes.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use hsched_model::Time;

/// A future event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DueEvent {
    /// The job with this number completes, unless its generation has changed since.
    End {
        job: usize,
        generation: u32,
    },
    /// The job fails.
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
    /// A job whose rule lets it stop early completes another epoch.
    Epoch {
        job: usize,
        generation: u32,
    },
}

/// A time with an order.
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

/// All future events, the earliest first.
#[derive(Default)]
pub(super) struct EventQueue(BinaryHeap<Reverse<(At, DueEvent)>>);

impl EventQueue {
    pub(super) fn push(&mut self, at: Time, due: DueEvent) {
        self.0.push(Reverse((At(at.0), due)));
    }

    /// Returns the earliest valid event and drops invalid ones before it.
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
