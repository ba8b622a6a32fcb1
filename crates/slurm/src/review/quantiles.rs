//! Quantiles of resource use.

use hsched_model::number::{to_f64, to_usize};

/// Returns the smallest of the sorted values such that at least this fraction of the values are not larger;
/// `None` for an empty list.
pub(super) fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let rank = to_usize((part.clamp(0.0, 1.0) * to_f64(sorted.len())).ceil());
    sorted.get(rank.max(1) - 1).copied()
}

/// Returns the values in ascending order.
pub(super) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}
