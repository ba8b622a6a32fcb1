//! The range of a metric's values over the epochs of a job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use hsched_model::GoalMode;

/// The range of values of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricRange {
    pub least: f64,
    /// The first epoch with the lowest value.
    pub least_epoch: u64,
    pub most: f64,
    /// The first epoch with the highest value.
    pub most_epoch: u64,
    pub last: f64,
    pub last_epoch: u64,
}

impl MetricRange {
    /// Returns the range of a single value.
    pub fn of(epoch: u64, value: f64) -> Self {
        Self {
            least: value,
            least_epoch: epoch,
            most: value,
            most_epoch: epoch,
            last: value,
            last_epoch: epoch,
        }
    }

    /// Returns the lowest, the highest and the last value with their epochs, in the order of the epochs.
    pub(super) fn points(&self) -> [(u64, f64); 3] {
        let Self { least, least_epoch, most, most_epoch, last, last_epoch } = *self;
        let mut points = [(least_epoch, least), (most_epoch, most), (last_epoch, last)];
        points.sort_by_key(|(epoch, _)| *epoch);
        points
    }

    /// Returns the best value and its epoch.
    pub fn best(&self, mode: GoalMode) -> (f64, u64) {
        match mode {
            GoalMode::Min => (self.least, self.least_epoch),
            GoalMode::Max => (self.most, self.most_epoch),
        }
    }
}

/// Returns the range of each metric; `curve` has the metrics after each epoch. Values that are not finite are
/// ignored.
pub(super) fn ranges(curve: &BTreeMap<u64, Vec<(String, f64)>>) -> BTreeMap<String, MetricRange> {
    let mut ranges: BTreeMap<String, MetricRange> = BTreeMap::new();
    let values = curve.iter().flat_map(|(epoch, metrics)| metrics.iter().map(|metric| (*epoch, metric)));
    for (epoch, (name, value)) in values.filter(|(_, (_, value))| value.is_finite()) {
        add_value(&mut ranges, epoch, name, *value);
    }
    ranges
}

/// Adds the value of a metric after an epoch. Values are to be added in the order of their epochs.
pub(super) fn add_value(ranges: &mut BTreeMap<String, MetricRange>, epoch: u64, name: &str, value: f64) {
    let Some(range) = ranges.get_mut(name) else {
        ranges.insert(name.to_owned(), MetricRange::of(epoch, value));
        return;
    };
    if value < range.least {
        (range.least, range.least_epoch) = (value, epoch);
    }
    if value > range.most {
        (range.most, range.most_epoch) = (value, epoch);
    }
    (range.last, range.last_epoch) = (value, epoch);
}
