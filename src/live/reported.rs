//! Epochs that ranks have reported, of all jobs at once.

use std::path::Path;

use crate::engine::{EpochReport, State};
use crate::model::{JobName, Time};
use crate::store::{report_folder, reports};

/// What was reported.
#[derive(Debug, Default)]
pub struct Reported {
    /// By job and run.
    pub epochs: Vec<(JobName, String, EpochReport)>,
    /// What is odd about rank 0's reports, by job and run.
    pub odd: Vec<(JobName, String, String)>,
    /// Notes on files that could not be read.
    pub notes: Vec<String>,
}

/// Returns the epochs that the ranks of current submissions have reported and the state does not count yet. `root` is
/// the state directory. A report that cannot be read now is for the next look.
#[must_use]
pub fn reported(root: &Path, state: &State, at: Time) -> Reported {
    let mut all = Reported::default();
    for tracked in &state.jobs {
        let Some(attempt) = tracked.phase.attempt() else { continue };
        let folder = report_folder(root, &attempt.run, tracked.job.name.as_str());
        let (job, run) = (&tracked.job.name, &attempt.run);
        let read = reports::epochs(&folder, attempt.ranks.len(), tracked.epochs_done, at)
            .and_then(|epochs| Ok((epochs, reports::odd(&folder, tracked.job.epochs)?)));
        match read {
            Ok((epochs, odd)) => {
                all.epochs.extend(epochs.into_iter().map(|epoch| (job.clone(), run.clone(), epoch)));
                all.odd.extend(odd.map(|what| (job.clone(), run.clone(), what)));
            }
            Err(error) => all.notes.push(format!("cannot read the reports in {}: {error}", folder.display())),
        }
    }
    all
}
