//! Detects ranks that all did the same work because their command does not know that it is one of several.

use std::collections::BTreeMap;

use crate::app::context::Context;
use crate::app::printed::{latest, submissions};
use hsched_engine::{JobState, Outcome, Phase};

/// Length of an output in bytes above which it is not examined.
const MOST_BYTES: usize = 1 << 20;

/// Returns a note on a completed job if all its ranks printed the same and none reported an epoch.
pub(crate) fn remark(context: &Context, tracked: &JobState) -> Option<String> {
    let is_completed = matches!(tracked.phase, Phase::Ended { outcome: Outcome::Completed, .. });
    let ranks = tracked.past.last()?.attempt.gpus.total();
    if !is_completed || tracked.epochs_done > 0 || tracked.job.training().is_some() || ranks < 2 {
        return None;
    }
    // An unreadable output gives no evidence.
    let all = submissions(context, tracked).ok()?;
    let mut part = latest(tracked, &all)?.parts.first()?.clone();
    let mut text = Vec::new();
    loop {
        let more = part.read().ok()?;
        if more.is_empty() {
            break;
        }
        text.extend(more);
        if text.len() > MOST_BYTES {
            return None;
        }
    }
    is_in_unison(&String::from_utf8_lossy(&text), ranks).then(|| {
        format!(
            "{}: its {ranks} ranks printed the same output and reported no epoch; a command that ignores \
             RANK does all its work once per GPU; to run it once, set max_gpus: 1",
            tracked.job.name
        )
    })
}

/// Returns whether an output may be the same text printed by each rank, with lines in any order: each line
/// occurs once or several times per rank.
fn is_in_unison(output: &str, ranks: u32) -> bool {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let said = output.lines().map(str::trim_end).filter(|line| !line.is_empty());
    for line in said {
        *counts.entry(line).or_default() += 1;
    }
    !counts.is_empty() && counts.values().all(|count| count % ranks as usize == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_must_come_from_every_rank() {
        for (output, ranks, expected) in [
            ("hello\nhello\n", 2, true),
            ("a\nb\na\n\nb\n", 2, true),
            ("a\na\na\na\n", 2, true),
            ("a\na\na\n", 2, false),
            ("rank 0\nrank 1\n", 2, false),
            ("hello\nhello\nloss 0.3\n", 2, false),
            ("", 2, false),
            ("\n\n", 2, false),
        ] {
            assert_eq!(is_in_unison(output, ranks), expected, "{output:?}");
        }
    }
}
