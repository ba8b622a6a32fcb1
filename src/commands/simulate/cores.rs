//! Independent tasks on all cores.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Runs tasks on all cores and returns their results in the order of the tasks.
pub(super) fn on_all_cores<T: Sync, R: Send>(tasks: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Mutex<BTreeMap<usize, R>> = Mutex::default();
    let take = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = tasks.get(place) else { break };
            let result = work(task);
            results.lock().unwrap_or_else(PoisonError::into_inner).insert(place, result);
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(tasks.len());
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(take);
        }
        take();
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}
