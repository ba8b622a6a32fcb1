//! Sentences on why a job ended and on what its user can do.

use crate::{JobRecord, SlurmState};

/// The end of a job in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobEnd {
    pub why: Vec<String>,
    pub way_out: Vec<String>,
}

/// The signals that end jobs: number, name and meaning.
const SIGNALS: [(u8, &str, &str); 9] = [
    (1, "SIGHUP", "its terminal went away"),
    (2, "SIGINT", "somebody interrupted it"),
    (
        6,
        "SIGABRT",
        "the program gave up by itself, as after a failed assertion or an uncaught exception of C++",
    ),
    (7, "SIGBUS", "it used memory that is not there, often because /dev/shm is full"),
    (8, "SIGFPE", "it divided by zero or the like"),
    (9, "SIGKILL", "it was killed: by scancel, by the kernel for its memory, or after its time limit"),
    (10, "SIGUSR1", "nothing in it handled this signal, which --signal may have sent"),
    (11, "SIGSEGV", "it used memory that is not its own"),
    (15, "SIGTERM", "it was asked to end: by scancel, preemption or its time limit"),
];

/// Conventional exit codes of shells, with their meanings.
const CODES: [(u8, &str); 2] =
    [(126, "a program of the script cannot be executed"), (127, "a program of the script was not found")];

/// Returns why a job ended; `id` is its id in commands.
pub fn ended(record: &JobRecord, id: &str) -> JobEnd {
    let when =
        record.end_time.as_deref().map_or(String::new(), |end| format!(" at {}", end.replace('T', " ")));
    let (why, way_out): (String, String) = match record.state {
        _ if record.out_of_memory => (
            format!("It needed more memory than it had, and Slurm ended it{when}."),
            format!(
                "Ask for more memory (--mem, --mem-per-cpu or --mem-per-gpu); sacct -j {id} --format=JobID,ReqMem,MaxRSS shows what it used."
            ),
        ),
        SlurmState::Completed => (format!("It completed{when} with exit code 0."), String::new()),
        SlurmState::Timeout => (
            format!("It reached its time limit{when}, and Slurm ended it."),
            "Ask for a longer --time, or save checkpoints and resume.".to_owned(),
        ),
        SlurmState::NodeFail => (
            format!("A node of it failed{when}{}.", on(record)),
            "Submit it again: it is not to blame. With --requeue Slurm does so itself.".to_owned(),
        ),
        SlurmState::BootFail => (
            format!("A node of it did not boot{when}{}.", on(record)),
            "Submit it again; if it happens again, exclude the node (--exclude).".to_owned(),
        ),
        SlurmState::Preempted => (
            format!("Slurm stopped it{when} for a job that may preempt it."),
            "Submit it again, save checkpoints, or use a partition or QOS that is not preempted.".to_owned(),
        ),
        SlurmState::Deadline => (
            format!("It could not end by its deadline, and Slurm ended it{when}."),
            "Submit it with a later --deadline or a shorter --time.".to_owned(),
        ),
        SlurmState::Cancelled => (format!("It was cancelled{when}."), String::new()),
        SlurmState::Failed => failed(record, &when),
        _ => (format!("It is in state {}.", record.state), String::new()),
    };
    JobEnd { why: vec![why], way_out: Some(way_out).filter(|text| !text.is_empty()).into_iter().collect() }
}

/// Returns the nodes on which the job ran, in parentheses for the end of a sentence; empty if there are none.
fn on(record: &JobRecord) -> String {
    if record.nodes.is_empty() { String::new() } else { format!(" (it had {})", record.nodes) }
}

fn failed(record: &JobRecord, when: &str) -> (String, String) {
    const READ: &str = "Read the end of its output.";
    let status = record.exit.filter(|exit| exit.code != 0 || exit.signal != 0).or(record.step_exit);
    let reason = record.reason.as_deref().filter(|reason| *reason != "NonZeroExitCode" && *reason != "None");
    let Some(status) = status.filter(|exit| exit.code != 0 || exit.signal != 0) else {
        let reason = reason.map_or(String::new(), |reason| format!("; Slurm gives the reason {reason}"));
        return (format!("It failed{when}{reason}."), READ.to_owned());
    };
    // Shells report a signal as 128 plus its number.
    let number = if status.signal > 0 { status.signal } else { status.code.saturating_sub(128) };
    if let Some((_, name, meaning)) = SIGNALS.iter().find(|(known, ..)| *known == number) {
        return (format!("It failed{when}: signal {number} ({name}), so {meaning}."), READ.to_owned());
    }
    let code = status.code;
    let meaning = CODES.iter().find(|(known, _)| *known == code);
    let meaning = meaning.map_or(String::new(), |(_, words)| format!(": {words}"));
    (format!("It failed{when} with exit code {code}{meaning}."), READ.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scontrol_job;

    fn told(changes: &[(&str, &str)]) -> JobEnd {
        let mut text = "JobId=2 JobName=f UserId=ann(7) JobState=FAILED Reason=NonZeroExitCode ExitCode=9:0 \
            SubmitTime=2026-11-21T14:56:06 StartTime=2026-11-21T14:56:08 EndTime=2026-11-21T14:56:09 NodeList=m1 Command=x"
            .to_owned();
        for (from, to) in changes {
            text = text.replace(from, to);
        }
        ended(&scontrol_job::parse(&text).expect("a job").0[0], "2")
    }

    #[test]
    fn every_end_says_why_and_what_next() {
        let check = |changes: &[(&str, &str)], why: &str, way_out: &str| {
            let told = told(changes);
            assert_eq!(told.why, [why]);
            assert!(told.way_out.concat().contains(way_out), "{:?}", told.way_out);
        };
        let at = "2026-11-21 14:56:09";
        check(&[], &format!("It failed at {at} with exit code 9."), "output");
        check(
            &[("9:0", "127:0")],
            &format!("It failed at {at} with exit code 127: a program of the script was not found."),
            "output",
        );
        check(
            &[("9:0", "0:11")],
            &format!("It failed at {at}: signal 11 (SIGSEGV), so it used memory that is not its own."),
            "output",
        );
        check(
            &[("9:0", "139:0")],
            &format!("It failed at {at}: signal 11 (SIGSEGV), so it used memory that is not its own."),
            "output",
        );
        check(
            &[("FAILED", "OUT_OF_MEMORY"), ("9:0", "0:125")],
            &format!("It needed more memory than it had, and Slurm ended it at {at}."),
            "--mem",
        );
        check(
            &[("FAILED", "TIMEOUT")],
            &format!("It reached its time limit at {at}, and Slurm ended it."),
            "--time",
        );
        check(&[("FAILED", "NODE_FAIL")], &format!("A node of it failed at {at} (it had m1)."), "again");
        check(
            &[("FAILED", "COMPLETED"), ("9:0", "0:0")],
            &format!("It completed at {at} with exit code 0."),
            "",
        );
        check(&[("FAILED", "CANCELLED"), ("9:0", "0:0")], &format!("It was cancelled at {at}."), "");
    }
}
