//! Recognition of values without a column name.

use crate::{Gres, amount};
use hsched_model::{Availability, NodeState};

/// States of jobs that nodes do not have, in their long and short forms.
const JOB_STATES: [&str; 23] = [
    "RUNNING",
    "PENDING",
    "COMPLETED",
    "CONFIGURING",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "PREEMPTED",
    "NODE_FAIL",
    "SUSPENDED",
    "OUT_OF_MEMORY",
    "R",
    "PD",
    "CG",
    "CD",
    "CF",
    "F",
    "CA",
    "TO",
    "NF",
    "OOM",
    "PR",
    "S",
];

/// Returns the counts in `allocated/idle/other/total` or `allocated/idle`.
pub(super) fn counts(text: &str) -> Option<Vec<u64>> {
    let counts = text.trim().split('/').map(amount::count).collect::<Option<Vec<_>>>()?;
    matches!(counts.len(), 2 | 4).then_some(counts)
}

/// Returns whether the text is a job state that nodes do not have.
pub(super) fn is_job_state(text: &str) -> bool {
    JOB_STATES.contains(&text.trim().trim_end_matches('+'))
}

/// Returns whether every word of a node's state is known.
pub(super) fn is_state(text: &str) -> bool {
    text.trim_end_matches('+').split('+').all(|word| {
        let base = word.trim_end_matches(['*', '~', '#', '!', '%', '$', '@', '^', '-']);
        let shown = ["unk", "unknown", "n/a"].iter().any(|candidate| base.eq_ignore_ascii_case(candidate));
        shown || (!base.is_empty() && NodeState::parse(base).availability() != Availability::Unknown)
    })
}

/// Returns whether every part, except perhaps one that is cut off, is a resource with a count; its name does
/// not matter.
pub(super) fn is_gres(text: &str) -> bool {
    let gres = Gres::parse(text);
    let is_counted = |part: &str| {
        let bare = part.split_once('(').map_or(part, |(bare, _)| bare);
        let count = bare.rsplit_once(':').map(|(_, count)| count);
        bare.starts_with(|c: char| c.is_ascii_alphabetic())
            && !bare.contains(char::is_whitespace)
            && count.is_some_and(|count| amount::count(count).is_some())
    };
    // The last part may be cut off.
    let counted = gres.other.iter().filter(|part| is_counted(part)).count();
    let whole = counted + usize::from(counted > 0 || !gres.gpus.is_empty()) >= gres.other.len();
    // A single word is not a resource, although a request may contain `gpu` without a count.
    let some = !gres.gpus.is_empty() || counted > 0;
    some && whole && text.contains(':')
}
