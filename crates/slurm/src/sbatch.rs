//! Submission of a job: the command line, the job id that it prints, and the meaning of its errors.

use crate::record::excerpt;
use crate::request::said;
use crate::{CommandError, CommandLine, CommandOutput, JobId, RequestError, Runner, time};

/// A job that Slurm accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmittedJob {
    /// The job's id; for a heterogeneous job, that of its first component.
    pub id: JobId,
    /// The cluster that accepted the job, if sbatch printed it, as it does with `--clusters`.
    pub cluster: Option<String>,
}

/// Slurm's answer to a test submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestOnlyAnswer {
    /// The start in local time, `2026-11-21T06:13:16`, if running jobs use their full time limits.
    Starts(String),
    /// Slurm would refuse the job.
    Refused(String),
    /// Slurm would accept the job but gives no start time.
    Unknown,
}

/// Returns the command line that submits a script file.
pub fn command(script: &str, options: &[String]) -> CommandLine {
    let fixed = ["--parsable".to_owned()];
    CommandLine::new("sbatch", fixed.iter().chain(options).cloned().chain([script.to_owned()]))
}

/// Submits once; an unanswered request is never sent again.
///
/// # Errors
/// If Slurm refuses the job or gives no clear answer.
pub fn submit(runner: &dyn Runner, command: &CommandLine) -> Result<SubmittedJob, RequestError> {
    let answer = runner.run(command).map_err(|error| RequestError::of(&command.program, error))?;
    parse(&answer.stdout).ok_or_else(|| {
        let CommandOutput { stdout, stderr } = answer;
        let message = format!(
            "sbatch printed {:?} but no job id{}",
            excerpt(&stdout),
            after(&said(&command.program, &stderr))
        );
        RequestError::Unclear { message }
    })
}

/// Returns the job in the output of `--parsable` (`123` or `123;cluster`); wrapper programs may print lines
/// before it.
pub fn parse(stdout: &str) -> Option<SubmittedJob> {
    stdout.lines().rev().find_map(|line| {
        let (number, cluster) = match line.trim().split_once(';') {
            Some((number, cluster)) => (number, Some(cluster.to_owned())),
            None => (line.trim(), None),
        };
        let digits = number.bytes().all(|b| b.is_ascii_digit());
        let id = number.parse().ok().filter(|id| digits && *id > 0)?;
        Some(SubmittedJob { id: JobId(id), cluster })
    })
}

/// Returns the command line that asks when a script with this text would start, without submitting it.
///
/// Slurm uses up a job id for the answer. It does not check limits of partitions.
pub fn test_command(script: &str, options: &[String]) -> CommandLine {
    let fixed = ["--test-only".to_owned()];
    let command = CommandLine::new("sbatch", fixed.iter().chain(options).cloned());
    CommandLine { stdin: Some(script.to_owned()), ..command }
}

/// Runs [`test_command`].
///
/// # Errors
/// If Slurm gives no answer.
pub fn test(runner: &dyn Runner, command: &CommandLine) -> Result<TestOnlyAnswer, CommandError> {
    match runner.run(command) {
        Ok(answer) => {
            Ok(expected_start(&answer.stderr).map_or(TestOnlyAnswer::Unknown, TestOnlyAnswer::Starts))
        }
        Err(CommandError::Failed { status, stderr, .. }) if status.starts_with("exit status") => {
            Ok(TestOnlyAnswer::Refused(said(&command.program, &stderr)))
        }
        Err(error) => Err(error),
    }
}

/// Returns the date in `sbatch: Job 7 to start at 2026-11-21T06:13:16 using …`, which is on stderr.
fn expected_start(stderr: &str) -> Option<String> {
    let date = |line: &str| line.split_once(" to start at ")?.1.split_whitespace().next().map(str::to_owned);
    stderr.lines().find_map(date).filter(|date| time::unix(date).is_some())
}

/// Returns the text as the last part of a message; empty if there is none.
fn after(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("; {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::RecordedRunner;

    fn submitted(answer: Result<CommandOutput, CommandError>) -> Result<SubmittedJob, RequestError> {
        let command = command("job.sh", &["--gres=gpu:v100:1".to_owned()]);
        assert_eq!(command.to_string(), "sbatch --parsable '--gres=gpu:v100:1' job.sh");
        submit(&RecordedRunner::new([(command.clone(), answer)]), &command)
    }

    fn failure(status: &str, stderr: &str) -> RequestError {
        let error = CommandError::failed(&CommandLine::new("sbatch", ["job.sh"]), status, stderr);
        submitted(Err(error)).expect_err("a failure")
    }

    #[test]
    fn the_number_may_have_a_cluster_and_lines_before_it() {
        let check = |stdout: &str, id: u32, cluster: Option<&str>| {
            let expected = SubmittedJob { id: JobId(id), cluster: cluster.map(str::to_owned) };
            assert_eq!(parse(stdout), Some(expected), "{stdout}");
        };
        check("123\n", 123, None);
        check("123;north\n", 123, Some("north"));
        check("Using account 7x\n 123 \n\n", 123, None);
        for stdout in ["", "Submitted batch job 123", "-1", "+5", "0", "99999999999"] {
            assert_eq!(parse(stdout), None, "{stdout}");
        }
    }

    #[test]
    fn a_refusal_is_told_from_silence() {
        let refused = failure(
            "exit status: 1",
            "sbatch: error: invalid partition specified: nope\n\
             sbatch: error: Batch job submission failed: Invalid partition name specified\n",
        );
        let expected =
            "Slurm refused the request: invalid partition specified: nope; Invalid partition name specified";
        assert_eq!(refused.to_string(), expected);
        let silent = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)";
        assert!(matches!(failure("exit status: 1", silent), RequestError::Unreachable { .. }));
        let unheard = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation";
        assert!(matches!(failure("exit status: 1", unheard), RequestError::Unclear { .. }));
        assert!(matches!(failure("signal: 9 (SIGKILL)", ""), RequestError::Unclear { .. }));
    }

    #[test]
    fn only_a_submit_limit_allows_the_same_request_later() {
        let check = |reason: &str, is_later: bool| {
            let stderr = format!(
                "{reason}sbatch: error: Batch job submission failed: Job violates accounting/QOS policy \
                 (job submit limit, user's size and/or time limits)\n"
            );
            let error = failure("exit status: 1", &stderr);
            assert_eq!(matches!(error, RequestError::Deferred { .. }), is_later, "{error:?}");
            assert_eq!(matches!(error, RequestError::Refused { .. }), !is_later, "{error:?}");
            assert_eq!(error.is_about_size(), is_later, "{error:?}");
        };
        for reason in ["AssocMaxSubmitJobLimit", "QOSMaxSubmitJobPerUserLimit", "AssocGrpSubmitJobsLimit"] {
            check(&format!("sbatch: error: {reason}\n"), true);
        }
        check("", true);
        check("sbatch: error: Reached jobs per hour limit\n", true);
        check("sbatch: error: QOSMaxWallDurationPerJobLimit\n", false);
        check("sbatch: lua: hello\nsbatch: error: AssocMaxGRESPerJob\n", false);
    }

    #[test]
    fn an_answer_without_a_number_is_no_certainty() {
        let output = CommandOutput { stdout: "queued\n".to_owned(), stderr: "sbatch: hm".to_owned() };
        let error = submitted(Ok(output)).expect_err("no number");
        let expected =
            "the request may or may not have reached Slurm: sbatch printed \"queued\" but no job id; hm";
        assert_eq!(error.to_string(), expected);
    }

    fn forecast(answer: Result<&str, &str>) -> Result<TestOnlyAnswer, CommandError> {
        let command = test_command("#!/bin/sh\n", &["-w".to_owned(), "v1".to_owned()]);
        assert_eq!(command.to_string(), "sbatch --test-only -w v1");
        let answer = answer
            .map(|stderr| CommandOutput { stdout: String::new(), stderr: stderr.to_owned() })
            .map_err(|stderr| CommandError::failed(&command, "exit status: 1", stderr));
        test(&RecordedRunner::new([(command.clone(), answer)]), &command)
    }

    #[test]
    fn a_forecast_is_a_date_or_a_refusal() {
        let starts = |stderr: &str| {
            let expected = TestOnlyAnswer::Starts("2026-11-21T15:00:35".to_owned());
            assert_eq!(forecast(Ok(stderr)).expect("an answer"), expected, "{stderr}");
        };
        starts(
            "sbatch: Job 15 to start at 2026-11-21T15:00:35 using 1 processors on nodes m1 in partition gpu\n",
        );
        starts(
            "sbatch: lua: hello\nsbatch: Job 17 to start at 2026-11-21T15:00:35 using 2 processors on m1,v1\n",
        );
        assert_eq!(
            forecast(Ok("sbatch: Job 17 to start at some time")).expect("an answer"),
            TestOnlyAnswer::Unknown
        );
        let stderr = "sbatch: error: invalid partition specified: nope\n\
            allocation failure: Invalid partition name specified\n";
        let why = "invalid partition specified: nope; Invalid partition name specified".to_owned();
        assert_eq!(forecast(Err(stderr)).expect("an answer"), TestOnlyAnswer::Refused(why));
        let silent =
            forecast(Err("allocation failure: Unable to contact slurm controller (connect failure)"));
        assert!(matches!(silent, Err(CommandError::Unreachable { .. })), "{silent:?}");
    }
}
