//! The epoch at which an added job begins: after the epochs that it has done, or the first.

use crate::{Outcome, Phase, State};
use hsched_model::Job;

/// Where a job begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResumePoint {
    /// At its first epoch: none was ever done.
    First,
    /// After the epochs that are done, of all that it has.
    After { done: u64, epochs: u64 },
    /// At its first epoch again, and why.
    Anew { why: String },
}

impl ResumePoint {
    /// Returns where `job` begins when it is added now; `restart` is its owner's request to begin at the first epoch.
    ///
    /// What waits, failed or was cancelled goes on, unless its epochs are those of other work. What completed begins
    /// anew.
    pub fn of(job: &Job, state: &State, restart: bool) -> Self {
        let Some(before) = state.find(&job.name) else { return Self::First };
        let done = before.epochs_done;
        let why = match &before.phase {
            Phase::Ended { outcome: Outcome::Completed, .. } => Some("it has already completed".to_owned()),
            _ if done == 0 => return Self::First,
            _ if restart => Some("--restart".to_owned()),
            _ => other_work(&before.job, job, done),
        };
        // One that failed after its last epoch does that one again, for all that comes after it.
        let done = done.min(job.epochs - 1);
        match why {
            Some(why) => Self::Anew { why },
            None if done == 0 => Self::First,
            None => Self::After { done, epochs: job.epochs },
        }
    }

    /// Returns where it begins as the end of a sentence about the job; nothing where that goes without saying.
    pub fn clause(&self) -> String {
        match self {
            Self::First => String::new(),
            Self::After { done, epochs } => format!("; resumes after epoch {done} of {epochs}"),
            Self::Anew { why } => format!("; starts over: {why}"),
        }
    }

    /// Returns the epochs that it need not do.
    pub fn epochs_done(&self) -> u64 {
        if let Self::After { done, .. } = self { *done } else { 0 }
    }
}

/// Returns why epochs of the job before are none of this one, if so.
fn other_work(before: &Job, job: &Job, done: u64) -> Option<String> {
    if before.model != job.model {
        return Some(format!("model changed from {} to {}", before.model, job.model));
    }
    let sizes = [
        ("samples_per_epoch", before.samples_per_epoch, job.samples_per_epoch),
        ("global_batch", before.global_batch, job.global_batch),
    ];
    if let Some((key, was, is)) = sizes.into_iter().find(|(_, was, is)| was != is) {
        return Some(format!("{key} changed from {was} to {is}"));
    }
    (job.epochs < done).then(|| format!("{done} epochs are done, but epochs is now {}", job.epochs))
}
