//! The script of an allocation submits itself again, and repeats the attempt only after a refusal that a
//! limit on submitted jobs may have caused.

use std::fs;
use std::process::{Command, Output};

use hsched_engine::render::Together;

use crate::race::program;

const LIMIT: &str = "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job violates \
     accounting/QOS policy (job submit limit, user's size and/or time limits)";
const TOO_LONG: &str = "sbatch: error: QOSMaxWallDurationPerJobLimit\nsbatch: error: Batch job submission failed: Job \
     violates accounting/QOS policy (job submit limit, user's size and/or time limits)";
const NO_REASON: &str = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, \
     user's size and/or time limits)";
const NO_ANSWER: &str = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation";

/// Runs the script with an hsched that exits with 85, and an sbatch that fails `failures` times with a message.
/// Returns the output and the number of calls of sbatch.
fn resubmitted(failures: usize, message: &str) -> (Output, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let sbatch = "echo \"$*\" >>\"${0%/*}/calls\"\n\
                  [ $(wc -l <\"${0%/*}/calls\") -gt $FAILURES ] || { echo \"$MESSAGE\" >&2; exit 1; }; echo 8";
    program(folder.path(), "sbatch", sbatch);
    program(folder.path(), "sleep", ":");
    program(folder.path(), "hsched", "exit 85");
    let script = Together {
        options: Vec::new(),
        state: at("state"),
        script: at("run.sbatch"),
        program: at("hsched"),
        array: false,
        arguments: Vec::new(),
    };
    fs::write(at("run.sbatch"), script.render().expect("a script")).expect("written");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("bash");
    command
        .arg(at("run.sbatch"))
        .env("PATH", path)
        .env("FAILURES", failures.to_string())
        .env("MESSAGE", message);
    let output = command.output().expect("bash");
    let calls = fs::read_to_string(at("calls")).expect("calls");
    let expected = format!("--parsable {}", at("run.sbatch"));
    assert!(calls.lines().all(|call| call == expected), "{calls}");
    (output, calls.lines().count())
}

#[test]
fn a_submit_limit_that_others_have_just_left_delays_the_next_allocation() {
    let (output, calls) = resubmitted(3, LIMIT);
    assert_eq!((output.status.code(), calls), (Some(0), 4));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "8\n");
}

#[test]
fn a_submission_that_may_have_succeeded_or_fails_for_long_is_left_to_the_user() {
    for (message, tries) in [(LIMIT, 10), (NO_REASON, 10), (TOO_LONG, 1), (NO_ANSWER, 1)] {
        let (output, calls) = resubmitted(usize::MAX >> 1, message);
        assert_eq!((output.status.code(), calls), (Some(85), tries), "{message}");
        let told = String::from_utf8_lossy(&output.stderr);
        let begin = told.find(message).expect("Slurm's message");
        assert!(told[begin..].contains("submit it by hand: sbatch "), "{told}");
    }
}
