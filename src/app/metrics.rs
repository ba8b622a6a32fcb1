//! What trainings say of themselves: the metric of each job that tells variants apart.

use std::path::Path;

use crate::ui::Metrics;
use hsched_engine::store::{report_folder, reports};
use hsched_engine::{JobState, State, SubmissionRecord};

/// Returns a metric of each job that has reported some: its target's, else its loss, else one that is named after a
/// loss, else the first by name.
pub(crate) fn metrics(root: &Path, state: &State) -> Metrics {
    let own = |tracked: &JobState| {
        let current = tracked.phase.submissions().iter().map(|submission| &submission.attempt);
        let past = tracked.past.iter().rev().map(|past| &past.attempt);
        let of = |attempt: &SubmissionRecord| {
            let key = attempt.key(&tracked.job.name);
            reports::metrics(&report_folder(root, &key.run, &key.name()))
        };
        let metrics = current.chain(past).map(of).find(|metrics| !metrics.is_empty())?;
        let wanted = tracked.job.target.as_ref().map(|target| target.metric.as_str());
        let named = wanted.into_iter().chain(["loss"]).find_map(|name| metrics.get_key_value(name));
        let loss = || metrics.iter().find(|(name, _)| name.contains("loss"));
        let (name, value) = named.or_else(loss).or_else(|| metrics.first_key_value())?;
        Some((tracked.job.name.clone(), (name.clone(), *value)))
    };
    state.jobs.iter().filter(|tracked| tracked.epochs_done > 0).filter_map(own).collect()
}
