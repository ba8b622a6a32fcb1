//! Epochs that ranks have reported, of all jobs at once.

use std::path::Path;

use crate::engine::{EpochReport, State};
use crate::live::LiveError;
use crate::model::{JobName, Time};
use crate::store::{report_folder, reports};

/// Returns the epochs that the ranks of current submissions have reported and the state does not count yet; by job
/// and run. `root` is the state directory.
///
/// # Errors
/// When a report is there and cannot be read.
pub fn reported(
    root: &Path,
    state: &State,
    at: Time,
) -> Result<Vec<(JobName, String, EpochReport)>, LiveError> {
    let mut epochs = Vec::new();
    for tracked in &state.jobs {
        let Some(attempt) = tracked.phase.attempt() else { continue };
        let folder = report_folder(root, &attempt.run, tracked.job.name.as_str());
        let new = reports::epochs(&folder, attempt.ranks.len(), tracked.epochs_done, at)
            .map_err(|source| LiveError::Reports { folder, source })?;
        epochs.extend(new.into_iter().map(|epoch| (tracked.job.name.clone(), attempt.run.clone(), epoch)));
    }
    Ok(epochs)
}
