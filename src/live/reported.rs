//! Epochs that ranks have reported, of all jobs at once.

use std::path::Path;

use crate::engine::{EpochReport, State};
use crate::model::{JobName, Time};
use crate::store::{report_folder, reports};

/// What was reported, by job and run, and notes on reports that could not be read.
pub type Reported = (Vec<(JobName, String, EpochReport)>, Vec<String>);

/// Returns the epochs that the ranks of current submissions have reported and the state does not count yet. `root` is
/// the state directory. A report that cannot be read now is for the next look.
#[must_use]
pub fn reported(root: &Path, state: &State, at: Time) -> Reported {
    let (mut epochs, mut notes) = (Vec::new(), Vec::new());
    for tracked in &state.jobs {
        let Some(attempt) = tracked.phase.attempt() else { continue };
        let folder = report_folder(root, &attempt.run, tracked.job.name.as_str());
        match reports::epochs(&folder, attempt.ranks.len(), tracked.epochs_done, at) {
            Ok(new) => {
                let own = |epoch| (tracked.job.name.clone(), attempt.run.clone(), epoch);
                epochs.extend(new.into_iter().map(own));
            }
            Err(error) => notes.push(format!("cannot read the reports in {}: {error}", folder.display())),
        }
    }
    (epochs, notes)
}
