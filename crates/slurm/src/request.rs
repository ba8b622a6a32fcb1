//! Failed requests that change something: whether Slurm may have received them.

use crate::CommandError;

/// Why a request was not answered with yes.
pub(super) enum Denial {
    /// Slurm answered no.
    Refused(String),
    /// The request did not reach Slurm.
    Unreachable(CommandError),
    /// The request may have been heard.
    Unknown(String),
}

/// Phrases after which the controller may have done it although no answer came, in lower case.
const MAY_BE_HEARD: [&str; 5] = [
    "socket timed out",
    "zero bytes were transmitted or received",
    "transport endpoint is not connected",
    "receive failure",
    "shutdown failure",
];

/// Phrases of a controller that would take the same request at another time, in lower case.
const LATER: [&str; 5] = [
    "job submit limit",
    "maxsubmit",
    "rate limit exceeded",
    "temporarily unable",
    "resource temporarily unavailable",
];

/// Returns whether a refusal may be different at another time.
pub(super) fn is_for_now(message: &str) -> bool {
    let printed = message.to_lowercase();
    LATER.iter().any(|phrase| printed.contains(phrase))
}

/// What Slurm's programs put before what they have to say.
const INTRODUCTIONS: [&str; 3] = ["error: ", "Batch job submission failed: ", "allocation failure: "];

impl Denial {
    /// Returns what a failure of `program` means.
    pub(super) fn of(program: &str, error: CommandError) -> Self {
        match error {
            CommandError::Unreachable { ref stderr, .. } => {
                let printed = stderr.to_lowercase();
                if MAY_BE_HEARD.iter().any(|phrase| printed.contains(phrase)) {
                    Self::Unknown(said(program, stderr))
                } else {
                    Self::Unreachable(error)
                }
            }
            CommandError::NotFound { .. }
            | CommandError::Unconfigured { .. }
            | CommandError::Start { .. }
            | CommandError::Unexpected { .. } => Self::Unreachable(error),
            CommandError::Failed { ref status, ref stderr, .. } if status.starts_with("exit status") => {
                let said = said(program, stderr);
                if MAY_BE_HEARD.iter().any(|phrase| said.to_lowercase().contains(phrase)) {
                    return Self::Unknown(said);
                }
                let reason =
                    if said.is_empty() { format!("{program} gave no reason ({status})") } else { said };
                Self::Refused(reason)
            }
            CommandError::Failed { .. }
            | CommandError::TimedOut { .. }
            | CommandError::TooMuchOutput { .. } => Self::Unknown(error.to_string()),
        }
    }
}

/// Returns what a program said in one line, without the words it puts before everything.
pub(super) fn said(program: &str, stderr: &str) -> String {
    let bare = |line: &str| {
        let line = line.trim();
        let line = line.strip_prefix(program).and_then(|line| line.strip_prefix(": ")).unwrap_or(line);
        INTRODUCTIONS.iter().fold(line, |line, words| line.strip_prefix(words).unwrap_or(line)).to_owned()
    };
    stderr.lines().map(bare).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}
