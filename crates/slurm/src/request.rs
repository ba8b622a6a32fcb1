//! Failed requests that change something, and whether Slurm may have received them.

use thiserror::Error;

use crate::CommandError;

/// Why a request to submit, change or end a job failed or may have failed.
///
/// The variants have the names of [`hsched_engine::Answer`].
#[derive(Debug, Error)]
pub enum RequestError {
    /// Slurm refused the request and, according to its message, will not accept it later.
    #[error("Slurm refused the request: {message}")]
    Refused { message: String },
    /// Slurm would accept the request at another time: a limit on jobs or on requests.
    #[error("Slurm does not accept the request now: {message}")]
    Deferred { message: String },
    /// The request did not reach Slurm.
    #[error("the request did not reach Slurm")]
    Unreachable {
        #[source]
        source: CommandError,
    },
    /// Slurm may have received the request. Repeating a request to end or change a job does no harm; before a
    /// job is submitted again, the queue must be searched for its comment.
    #[error("the request may or may not have reached Slurm: {message}")]
    Unclear { message: String },
}

/// Messages after which the controller may have carried out the request without answering, in lower case.
const MAY_BE_HEARD: [&str; 5] = [
    "socket timed out",
    "zero bytes were transmitted or received",
    "transport endpoint is not connected",
    "receive failure",
    "shutdown failure",
];

/// Messages of a controller that would accept the same request at another time, in lower case.
const LATER: [&str; 4] =
    ["maxsubmit", "rate limit exceeded", "temporarily unable", "resource temporarily unavailable"];

/// Parts of messages about requests that Slurm might accept as a smaller job array, in lower case.
const TOO_LARGE: [&str; 2] = ["maxsubmit", "job array specification"];

/// Part of Slurm's message about all limits of QOS and associations, in lower case.
const POLICY: &str = "job submit limit";

/// Prefixes of the messages of Slurm's programs.
const INTRODUCTIONS: [&str; 3] = ["error: ", "Batch job submission failed: ", "allocation failure: "];

impl RequestError {
    /// Returns whether Slurm may accept a job array with fewer tasks.
    pub fn is_about_size(&self) -> bool {
        match self {
            Self::Refused { message } | Self::Deferred { message } => {
                has_any(message, &TOO_LARGE) || is_about_submit_limit(message)
            }
            Self::Unreachable { .. } | Self::Unclear { .. } => false,
        }
    }

    /// Classifies a failure of `program`.
    pub(super) fn of(program: &str, error: CommandError) -> Self {
        match error {
            CommandError::Unreachable { ref stderr, .. } => {
                if has_any(stderr, &MAY_BE_HEARD) {
                    Self::Unclear { message: said(program, stderr) }
                } else {
                    Self::Unreachable { source: error }
                }
            }
            CommandError::NotFound { .. }
            | CommandError::Unconfigured { .. }
            | CommandError::Start { .. } => Self::Unreachable { source: error },
            CommandError::Failed { ref status, ref stderr, .. } if status.starts_with("exit status") => {
                let message = said(program, stderr);
                if has_any(&message, &MAY_BE_HEARD) {
                    Self::Unclear { message }
                } else if has_any(&message, &LATER) || is_about_submit_limit(&message) {
                    Self::Deferred { message }
                } else if message.is_empty() {
                    Self::Refused { message: format!("{program} gave no reason ({status})") }
                } else {
                    Self::Refused { message }
                }
            }
            CommandError::Failed { .. }
            | CommandError::TimedOut { .. }
            | CommandError::TooMuchOutput { .. } => Self::Unclear { message: error.to_string() },
        }
    }
}

/// Returns whether a text contains one of the phrases, which are in lower case.
fn has_any(text: &str, phrases: &[&str]) -> bool {
    let text = text.to_lowercase();
    phrases.iter().any(|phrase| text.contains(phrase))
}

/// Returns whether a message of [`said`] is about a limit on the number of submitted jobs.
///
/// Slurm has one message for all limits. The line before it is the reason, one word such as
/// `AssocMaxSubmitJobLimit` or `QOSMaxWallDurationPerJobLimit`. Without a reason, a submit limit is assumed.
fn is_about_submit_limit(message: &str) -> bool {
    let lines: Vec<&str> = message.split("; ").collect();
    let Some(place) = lines.iter().position(|line| has_any(line, &[POLICY])) else { return false };
    let reason = place.checked_sub(1).map(|before| lines[before]).filter(|line| !line.contains(' '));
    reason.is_none_or(|reason| reason.contains("Submit"))
}

/// Returns a program's message in one line, without its usual prefixes.
pub(super) fn said(program: &str, stderr: &str) -> String {
    let bare = |line: &str| {
        let line = line.trim();
        let line = line.strip_prefix(program).and_then(|line| line.strip_prefix(": ")).unwrap_or(line);
        INTRODUCTIONS.iter().fold(line, |line, words| line.strip_prefix(words).unwrap_or(line)).to_owned()
    };
    stderr.lines().map(bare).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}
