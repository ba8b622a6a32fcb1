//! How a submission ended, from the last word that its script wrote or from its exit status.

use crate::store::reports::LastWord;
use crate::{End, QueueState, Sighting, SubmissionRecord};
use hsched_model::JobName;

/// Returns how a submission ended according to the last word of its script.
pub fn left_word(job: &JobName, attempt: &SubmissionRecord, word: LastWord) -> Sighting {
    let end = word_end(word).unwrap_or_else(|| End::of_status(word.status, 0));
    Sighting {
        of: attempt.key(job),
        job_id: word.job_id,
        submit_time: attempt.submit_time.clone(),
        state: QueueState::Ended { end, at: None, since: None },
        reason: None,
    }
}

/// Returns how a submission that stopped on request ended; `None` if its script does not state whether it
/// saved.
pub fn word_end(word: LastWord) -> Option<End> {
    word.saved.map(|saved| match (saved, word.unhandled) {
        (true, _) => End::Saved,
        (false, true) => End::Unhandled,
        (false, false) => End::Cut,
    })
}

impl End {
    /// Returns the end of a script with this exit status; `signal` is the signal that killed it, or 0.
    pub fn of_status(exit: u8, signal: u8) -> Self {
        match (exit, signal) {
            (0, 0) => Self::Completed,
            (85, _) => Self::Saved,
            (86, _) => Self::NodeFailed,
            (87, _) => Self::Unfit { node: None, why: "its output says why".to_owned() },
            _ => Self::Failed { exit, signal },
        }
    }
}
