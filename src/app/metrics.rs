//! Metrics reported by jobs: for each job, the metric that distinguishes variants.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::ui::Metrics;
use hsched_engine::store::{report_folder, reports};
use hsched_engine::{JobState, State, SubmissionRecord};

/// Returns a metric of each job that has reported any.
pub(crate) fn metrics(root: &Path, state: &State) -> Metrics {
    let named_metric = |tracked: &JobState| Some((tracked.job.name.clone(), metric_of(root, tracked)?));
    state.jobs.iter().filter(|tracked| tracked.epochs_done > 0).filter_map(named_metric).collect()
}

/// Returns a metric that a job has reported: its target's, else its loss, else one with "loss" in its name,
/// else the first by name.
pub(crate) fn metric_of(root: &Path, tracked: &JobState) -> Option<(String, f64)> {
    let current = tracked.phase.submissions().iter().map(|submission| &submission.attempt);
    let past = tracked.past.iter().rev().map(|past| &past.attempt);
    let of = |attempt: &SubmissionRecord| reports::metrics(&folder(root, tracked, attempt));
    let metrics = current.chain(past).map(of).find(|metrics| !metrics.is_empty())?;
    let wanted = tracked.job.target.as_ref().map(|target| target.metric.as_str());
    let named = wanted.into_iter().chain(["loss"]).find_map(|name| metrics.get_key_value(name));
    let loss = || metrics.iter().find(|(name, _)| name.contains("loss"));
    let (name, value) = named.or_else(loss).or_else(|| metrics.first_key_value())?;
    Some((name.clone(), *value))
}

/// Returns the values of a metric after each epoch that reported it, over all submissions of a job.
pub(crate) fn curve_of(root: &Path, tracked: &JobState, metric: &str) -> Vec<f64> {
    let past = tracked.past.iter().map(|past| &past.attempt);
    let current = tracked.phase.submissions().iter().map(|submission| &submission.attempt);
    let mut values: BTreeMap<u64, f64> = BTreeMap::new();
    for attempt in past.chain(current) {
        // Unreadable reports are left out of the chart.
        let epochs =
            reports::epochs(&folder(root, tracked, attempt), 1, 0, attempt.meant).unwrap_or_default();
        for report in epochs {
            let found = report.metrics.iter().find(|(name, _)| name == metric);
            values.extend(found.map(|(_, value)| (report.epoch, *value)));
        }
    }
    values.into_values().collect()
}

fn folder(root: &Path, tracked: &JobState, attempt: &SubmissionRecord) -> PathBuf {
    let key = attempt.key(&tracked.job.name);
    report_folder(root, &key.run, &key.name())
}
