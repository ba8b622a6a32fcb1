//! The epoch at which an added job begins: the first, or the one after its finished epochs.

use crate::{End, JobState, Outcome, Phase, State};
use hsched_model::Job;

/// The epoch at which a job begins, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResumePoint {
    /// At the job's first epoch, because none was ever finished.
    First,
    /// After `done` finished epochs of `epochs` in total; its program saved them unless it `repeats` some.
    After { done: u64, epochs: u64, repeats: bool },
    /// At its first epoch again, for this reason.
    Anew { why: String },
}

impl ResumePoint {
    /// Returns where `job` begins if it is added now; `restart` is the user's request to begin at the first
    /// epoch.
    ///
    /// A pending, failed or cancelled job resumes unless its epochs belong to other work. A completed job
    /// begins again.
    pub fn of(job: &Job, state: &State, restart: bool) -> Self {
        let Some(before) = state.find(&job.name) else { return Self::First };
        let done = before.epochs_done;
        let why = match &before.phase {
            Phase::Ended { outcome: Outcome::Completed, .. } => Some("it has already completed".to_owned()),
            _ if done == 0 => return Self::First,
            _ if restart => Some("--restart".to_owned()),
            _ => other_work(&before.job, job, done),
        };
        // A job that failed after its last epoch repeats that epoch, so that the steps after it run.
        let done = done.min(job.epochs - 1);
        match why {
            Some(why) => Self::Anew { why },
            None if done == 0 => Self::First,
            None => Self::After { done, epochs: job.epochs, repeats: before.repeats_epochs() },
        }
    }

    /// Returns where the job begins, as the end of a sentence about it; empty in the ordinary case.
    pub fn clause(&self) -> String {
        match self {
            Self::First => String::new(),
            Self::After { done, epochs, repeats: false } => {
                format!("; resumes after epoch {done} of {epochs}")
            }
            Self::After { repeats: true, .. } => format!("; {}", JobState::REPEATS),
            Self::Anew { why } => format!("; starts over: {why}"),
        }
    }

    /// Returns whether `job`, which begins here, is the same training as the earlier job of its name.
    pub(super) fn continues(&self, before: &Job, job: &Job) -> bool {
        let is_same = other_work(before, job, self.epochs_done()).is_none() && before.launch == job.launch;
        is_same && !matches!(self, Self::Anew { .. })
    }

    /// Returns the number of epochs that the job skips.
    pub fn epochs_done(&self) -> u64 {
        if let Self::After { done, .. } = self { *done } else { 0 }
    }
}

impl JobState {
    /// Describes a job that cannot resume after its last epoch.
    pub const REPEATS: &str = "repeats epochs, because its program wrote no checkpoint";

    /// Condition under which a job resumes, if nothing shows that its program saves.
    pub const IF_SAVED: &str = ", if its program saves";

    /// Returns the condition under which an interrupted job resumes, as the end of a clause; empty if the
    /// job's last submission was not interrupted or its program is known to save.
    pub fn if_saved(&self) -> &'static str {
        let is_interrupted = self.past.last().is_some_and(|past| past.end == End::Interrupted);
        if is_interrupted && !self.resumes() { Self::IF_SAVED } else { "" }
    }

    /// Returns whether the job's program wrote no checkpoint after its last epoch, so that it trains epochs
    /// again.
    pub fn repeats_epochs(&self) -> bool {
        let last = self.past.iter().rev().find(|past| past.epochs > 0);
        self.epochs_done > 0 && last.is_some_and(|last| last.end.is_unsaved())
    }
}

/// Returns why the epochs of the earlier job do not count for this one, if they do not.
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
