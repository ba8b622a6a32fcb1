//! The metric by which runs are shown and compared.

use std::collections::BTreeMap;

use crate::status::number;
use crate::terminal::harmless;
use hsched_engine::MetricRange;
use hsched_model::{GoalMode, JobName};
use hsched_plan::curve::MetricKind;

/// The shown metric of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobMetric {
    pub name: String,
    /// The range of the metric's values so far.
    pub range: MetricRange,
}

/// The metrics of jobs that have reported any.
pub type Metrics = BTreeMap<JobName, JobMetric>;

impl JobMetric {
    /// Returns the metric's newest value.
    pub fn last(&self) -> f64 {
        self.range.last
    }

    /// Returns the best value.
    pub(super) fn best(&self, mode: GoalMode) -> f64 {
        self.range.best(mode).0
    }
}

/// Returns which of a job's metrics to show: that of its target, else its loss, else the first.
pub fn shown_metric<'a>(names: &[&'a str], target: Option<&str>) -> Option<&'a str> {
    let named = |wanted: &str| names.iter().find(|name| **name == wanted);
    let usual = target.into_iter().chain(["val_loss", "loss"]).find_map(named);
    usual.or_else(|| names.iter().find(|name| name.contains("loss"))).or(names.first()).copied()
}

/// Returns the direction in which a metric improves: from the target of one of the jobs, else from its name;
/// `None` if the name gives none.
pub fn direction<'a>(
    metric: &str,
    targets: impl IntoIterator<Item = (&'a str, GoalMode)>,
) -> Option<GoalMode> {
    let said = targets.into_iter().find(|(name, _)| *name == metric).map(|(_, mode)| mode);
    said.or_else(|| MetricKind::of(metric).direction())
}

/// Returns a metric with a value.
pub(super) fn metric(name: &str, value: f64) -> String {
    format!("{} {}", harmless(name), number(value))
}
