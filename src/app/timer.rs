//! The time limit of searches.

use std::cell::Cell;
use std::time::Duration;

use hsched_engine::clock::Clock;

/// The time limits of a turn's searches: each has its budget, and all together a multiple of it.
pub(crate) struct Timer<'a> {
    clock: &'a dyn Clock,
    budget: Duration,
    /// The start of the first search, and of the current one.
    begun: Cell<Option<(Duration, Duration)>>,
}

/// Total time of a turn's searches, in budgets.
const SEARCHES: u32 = 5;

impl<'a> Timer<'a> {
    pub(crate) fn new(clock: &'a dyn Clock, budget: Duration) -> Self {
        Self { clock, budget, begun: Cell::new(None) }
    }

    pub(crate) fn begin(&self) {
        let now = self.clock.elapsed();
        self.begun.set(Some((self.begun.get().map_or(now, |(first, _)| first), now)));
    }

    pub(crate) fn is_over(&self) -> bool {
        let now = self.clock.elapsed();
        self.begun.get().is_some_and(|(first, last)| {
            now.saturating_sub(last) >= self.budget
                || now.saturating_sub(first) >= self.budget.saturating_mul(SEARCHES)
        })
    }
}
