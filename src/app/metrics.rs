//! Metrics reported by jobs: for each job, the metric to show.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hsched_engine::store::{metric_ranges, report_folder, reports};
use hsched_engine::{JobState, State, SubmissionRecord};
use hsched_ui::{JobMetric, Metrics, shown_metric};

/// Returns the metric of each job that has reported any.
pub(crate) fn metrics(root: &Path, state: &State) -> Metrics {
    let begun = state.jobs.iter().filter(|tracked| tracked.epochs_done > 0);
    begun.filter_map(|tracked| Some((tracked.job.name.clone(), metric_of(root, tracked)?))).collect()
}

/// Returns the metric to show for a job, among all metrics of its reports.
pub(crate) fn metric_of(root: &Path, tracked: &JobState) -> Option<JobMetric> {
    let ranges = metric_ranges(root, tracked);
    let target = tracked.job.target.as_ref().map(|target| target.metric.as_str());
    let names: Vec<&str> = ranges.keys().map(String::as_str).collect();
    let name = shown_metric(&names, target)?;
    Some(JobMetric { name: name.to_owned(), range: ranges[name] })
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
