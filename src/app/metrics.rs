//! Metrics reported by jobs: for each job, the metric that distinguishes variants.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hsched_engine::store::{metric_range, report_folder, reports};
use hsched_engine::{JobState, State, SubmissionRecord};
use hsched_ui::{JobMetric, Metrics, shown_metric};

/// Returns the metric of each job that has reported any, with the values of those that can be compared.
pub(crate) fn metrics(root: &Path, state: &State) -> Metrics {
    let begun = || state.jobs.iter().filter(|tracked| tracked.epochs_done > 0);
    let found: Vec<(&JobState, (String, f64))> =
        begun().filter_map(|tracked| Some((tracked, metric_of(root, tracked)?))).collect();
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (tracked, (name, _)) in &found {
        *counts.entry((&tracked.job.model, name)).or_default() += 1;
    }
    // The values are in the whole report files, and only the best job of several needs them.
    let with_values = |(tracked, (name, last)): &(&JobState, (String, f64))| {
        let is_compared =
            counts.get(&(tracked.job.model.as_str(), name.as_str())).is_some_and(|jobs| *jobs > 1);
        let range = is_compared.then(|| metric_range(root, tracked, name)).flatten();
        (tracked.job.name.clone(), JobMetric { name: name.clone(), last: *last, range })
    };
    found.iter().map(with_values).collect()
}

/// Returns the metric that is shown of a job, with its last value.
pub(crate) fn metric_of(root: &Path, tracked: &JobState) -> Option<(String, f64)> {
    let current = tracked.phase.submissions().iter().map(|submission| &submission.attempt);
    let past = tracked.past.iter().rev().map(|past| &past.attempt);
    let of = |attempt: &SubmissionRecord| reports::metrics(&folder(root, tracked, attempt));
    let metrics = current.chain(past).map(of).find(|metrics| !metrics.is_empty())?;
    let target = tracked.job.target.as_ref().map(|target| target.metric.as_str());
    let names: Vec<&str> = metrics.keys().map(String::as_str).collect();
    let name = shown_metric(&names, target)?;
    Some((name.to_owned(), *metrics.get(name)?))
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
