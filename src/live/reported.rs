//! Epochs that ranks have reported, of all jobs at once.

use std::path::Path;

use crate::engine::{EpochReport, State, Submission, SubmissionKey};
use crate::model::Time;
use crate::store::{report_folder, reports};

/// What was reported.
#[derive(Debug, Default)]
pub struct Reported {
    pub epochs: Vec<(SubmissionKey, EpochReport)>,
    /// What is odd about rank 0's reports.
    pub odd: Vec<(SubmissionKey, String)>,
    /// Notes on files that could not be read.
    pub notes: Vec<String>,
}

/// Returns the epochs that the ranks of current submissions have reported and the state does not count yet, at the time
/// when rank 0's file was written last. `root` is the state directory. A report that cannot be read now is for the next look.
#[must_use]
pub fn reported(root: &Path, state: &State, at: Time) -> Reported {
    let mut all = Reported::default();
    for tracked in &state.jobs {
        for Submission { attempt, .. } in tracked.phase.submissions() {
            let key = attempt.key(&tracked.job.name);
            let folder = report_folder(root, &key.run, &key.name());
            let metric = tracked.job.target.as_ref().map(|target| target.metric.as_str());
            // Of a clock that cannot be right nothing is known.
            let since = attempt.started.unwrap_or(attempt.meant);
            let written = reports::written(&folder).filter(|own| (since.0..=at.0).contains(&own.0));
            let written = written.unwrap_or(at);
            let read = reports::epochs(&folder, attempt.ranks.len(), tracked.epochs_done, written)
                .and_then(|epochs| Ok((epochs, reports::odd(&folder, tracked.job.epochs, metric)?)));
            match read {
                Ok((epochs, odd)) => {
                    all.epochs.extend(epochs.into_iter().map(|epoch| (key.clone(), epoch)));
                    all.odd.extend(odd.map(|what| (key, what)));
                }
                Err(error) => {
                    all.notes.push(format!("cannot read the reports in {}: {error}", folder.display()));
                }
            }
        }
    }
    all
}
