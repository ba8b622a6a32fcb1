//! The exception with which a run failed, from the end of its output.

use crate::app::context::Context;
use crate::app::printed::submissions;
use hsched_engine::{JobState, SubmissionKey};

/// Number of bytes searched at the end of an output.
const TAIL: u64 = 1 << 16;

/// Maximum number of characters shown of an exception.
const SHOWN: usize = 120;

/// Prefix of hsched's own lines in an output.
const PREFIX: &str = "hsched: ";

/// Returns the last Python exception in the output of a job's submission; `None` if there is none, or if the
/// output cannot be separated from that of earlier submissions.
pub(crate) fn last_error(context: &Context, tracked: &JobState, of: &SubmissionKey) -> Option<String> {
    let all = submissions(context, tracked).ok()?;
    let place = all.iter().position(|printed| printed.key == *of)?;
    let (before, last) = (&all[..place], &all[place]);
    let output = last.told_apart()?;
    // Errors may go to a separate file, in which the beginning of a submission is not recorded.
    let errors = last.parts.get(1).filter(|stderr| {
        before.iter().flat_map(|printed| &printed.parts).all(|part| part.path != stderr.path)
    });
    errors
        .into_iter()
        .chain([output])
        .find_map(|part| exception(&String::from_utf8_lossy(&part.clone().tail(TAIL).ok()?)))
}

/// Returns the last exception in an output.
fn exception(output: &str) -> Option<String> {
    let mut lines = output.lines().rev().skip_while(|line| line.starts_with(PREFIX));
    let found = lines.find_map(|line| {
        let line = strip_rank(line).trim_end();
        is_exception(line.split_once(':').map_or(line, |(name, _)| name)).then_some(line)
    })?;
    let short: String = found.chars().take(SHOWN).collect();
    Some(if short.len() < found.len() { format!("{short}…") } else { short })
}

/// Returns a line without the prefix `[rank0]: ` of `torchrun`.
fn strip_rank(line: &str) -> &str {
    let rest = line.strip_prefix("[rank").and_then(|rest| rest.split_once("]: "));
    rest.filter(|(rank, _)| rank.bytes().all(|byte| byte.is_ascii_digit())).map_or(line, |(_, rest)| rest)
}

/// Returns whether this is the name of an exception, such as `torch.OutOfMemoryError`.
fn is_exception(name: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(is_name)
        && (name.ends_with("Error") || name.ends_with("Exception"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_exception_is_found_behind_what_pytorch_and_hsched_add() {
        let check = |output: &str, expected: Option<&str>| {
            assert_eq!(exception(output).as_deref(), expected, "{output}");
        };
        check("", None);
        check("epoch 1: an Error: none\nhsched: rank 0 on n1: the command failed (status 1)\n", None);
        check(
            "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"train.py\", line 28\n\
             [rank0]: torch.OutOfMemoryError: CUDA out of memory.\n\
             [rank0]:[W1126 ProcessGroupNCCL.cpp:1575] Warning: destroy_process_group() was not called\n\
             hsched: rank 0 on n1: the command failed (status 1)\nhsched: rank 0 on n1 failed first, with status 1\n",
            Some("torch.OutOfMemoryError: CUDA out of memory."),
        );
        check("KeyError: 'lr'\n\nDuring handling …\n\nValueError: bad\n", Some("ValueError: bad"));
        check("AssertionError\n", Some("AssertionError"));
        let long = format!("ValueError: {}", "é".repeat(SHOWN));
        assert_eq!(exception(&long).map(|text| text.chars().count()), Some(SHOWN + 1));
    }
}
