//! A pool whose allocations are the tasks of a Slurm job array: how the number of running tasks is kept at the
//! number that the pool needs.
//!
//! An array has more tasks than may run at a time (`%N`). When a task ends, Slurm starts the next one, so the
//! pool continues after a time limit without a submission.

use std::cmp::Reverse;

use hsched_model::JobId;

/// A job array of the pool in Slurm's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedArray {
    pub id: JobId,
    /// The tasks that wait.
    pub pending: u32,
    /// All other tasks in the queue.
    pub running: u32,
    /// How many of its tasks may run at a time; `None` if Slurm does not show it.
    pub at_once: Option<u32>,
}

/// A request to Slurm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayChange {
    /// Lets this number of its tasks run at a time.
    Throttle { array: JobId, at_once: u32 },
    /// Cancels the tasks that wait.
    Cancel { array: JobId },
    /// Submits another array, of which this number of tasks may run at a time.
    Submit { at_once: u32 },
}

/// Returns the requests after which Slurm starts tasks until `needed` of them run; running tasks are not
/// stopped. Only one array may have waiting tasks, the one with the most, because Slurm limits the running
/// tasks of each array on its own.
pub fn array_changes(arrays: &[QueuedArray], needed: u32) -> Vec<ArrayChange> {
    let running: u32 = arrays.iter().map(|array| array.running).sum();
    let waiting = || arrays.iter().filter(|array| array.pending > 0);
    let Some(open) = waiting().max_by_key(|array| (array.pending, Reverse(array.id))) else {
        let missing = needed.saturating_sub(running);
        return (missing > 0).then_some(ArrayChange::Submit { at_once: missing }).into_iter().collect();
    };
    let others = waiting().filter(|array| array.id != open.id);
    let mut changes: Vec<ArrayChange> = others.map(|array| ArrayChange::Cancel { array: array.id }).collect();
    match needed.saturating_sub(running - open.running) {
        // Slurm takes 0 for no limit.
        0 => changes.push(ArrayChange::Cancel { array: open.id }),
        at_once if open.at_once == Some(at_once) => {}
        at_once => changes.push(ArrayChange::Throttle { array: open.id, at_once }),
    }
    changes
}

/// Returns whether Slurm will start another task.
pub fn another_waits(arrays: &[QueuedArray]) -> bool {
    arrays.iter().any(|array| array.pending > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(id: u32, pending: u32, running: u32, at_once: Option<u32>) -> QueuedArray {
        QueuedArray { id: JobId(id), pending, running, at_once }
    }

    #[test]
    fn the_limit_of_the_array_follows_what_the_pool_needs() {
        let check = |arrays: &[QueuedArray], needed: u32, expected: &[ArrayChange]| {
            assert_eq!(array_changes(arrays, needed), expected, "{arrays:?} {needed}");
        };
        let throttle = |id: u32, at_once: u32| ArrayChange::Throttle { array: JobId(id), at_once };
        let cancel = |id: u32| ArrayChange::Cancel { array: JobId(id) };
        check(&[array(1, 9, 3, Some(3))], 3, &[]);
        check(&[array(1, 9, 3, Some(3))], 1, &[throttle(1, 1)]);
        check(&[array(1, 9, 1, Some(1))], 3, &[throttle(1, 3)]);
        check(&[array(1, 1, 2, None)], 3, &[throttle(1, 3)]);
        // All tasks have started: another array makes up for what is missing.
        check(&[array(1, 0, 2, None)], 3, &[ArrayChange::Submit { at_once: 1 }]);
        check(&[array(1, 0, 2, None)], 2, &[]);
        check(&[], 2, &[ArrayChange::Submit { at_once: 2 }]);
        // Tasks of an earlier array still run.
        check(&[array(1, 0, 2, None), array(7, 8, 1, Some(3))], 3, &[throttle(7, 1)]);
        check(&[array(1, 0, 2, None), array(7, 8, 0, Some(1))], 2, &[cancel(7)]);
        // An array too many, after Slurm did not answer.
        check(&[array(1, 2, 2, Some(3)), array(7, 2, 0, Some(3))], 3, &[cancel(7)]);
        check(&[array(1, 2, 2, Some(3)), array(7, 2, 1, Some(3))], 3, &[cancel(7), throttle(1, 2)]);
        // A task of an earlier array has been requeued.
        check(&[array(1, 1, 0, None), array(7, 6, 2, Some(3))], 3, &[cancel(1)]);
    }
}
