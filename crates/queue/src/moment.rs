//! Times with a total order.

use std::cmp::Ordering;

/// A time in Unix seconds, ordered with `total_cmp`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moment(pub f64);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}
