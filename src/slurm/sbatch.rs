//! Submitting a job: the command line, the number it prints, and what its errors mean.

use thiserror::Error;

use crate::slurm::record::excerpt;
use crate::slurm::{CommandError, CommandLine, JobId, Output, Runner};

/// A job that Slurm accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// The job's number; of a heterogeneous job that of its first component.
    pub id: JobId,
    /// The cluster that took it, where sbatch chose among several.
    pub cluster: Option<String>,
}

/// Why there is no job, or no certainty of one.
#[derive(Debug, Error)]
pub enum SubmitError {
    /// Slurm answered no; the same request will not be accepted later either, as far as it says.
    #[error("sbatch refused the job: {message}")]
    Refused { message: String },
    /// The request did not reach Slurm: there is no job.
    #[error("no job was submitted")]
    Unreachable {
        #[source]
        source: CommandError,
    },
    /// The request may have been heard: look for the job's comment in the queue before trying again.
    #[error("it is not known whether the job was submitted: {message}")]
    Unknown { message: String },
}

/// Phrases after which the controller may have taken the job although no answer came, in lower case.
const MAY_BE_HEARD: [&str; 3] =
    ["socket timed out", "zero bytes were transmitted or received", "transport endpoint is not connected"];

/// Returns the command line that submits a script file.
#[must_use]
pub fn command(script: &str, options: &[String]) -> CommandLine {
    let fixed = ["--parsable".to_owned()];
    CommandLine::new("sbatch", fixed.iter().chain(options).cloned().chain([script.to_owned()]))
}

/// Submits once; an unanswered request is never sent again.
///
/// # Errors
/// When Slurm refuses the job or gives no clear answer.
pub fn submit(runner: &dyn Runner, command: &CommandLine) -> Result<Submitted, SubmitError> {
    let answer = runner.run(command).map_err(classify)?;
    parse(&answer.stdout).ok_or_else(|| {
        let Output { stdout, stderr } = answer;
        let message =
            format!("sbatch printed {:?} and no job number{}", excerpt(&stdout), after(&said(&stderr)));
        SubmitError::Unknown { message }
    })
}

/// Returns the job that `--parsable` names (`123` or `123;cluster`); lines of wrappers around it may
/// come before.
#[must_use]
pub fn parse(stdout: &str) -> Option<Submitted> {
    stdout.lines().rev().find_map(|line| {
        let (number, cluster) = match line.trim().split_once(';') {
            Some((number, cluster)) => (number, Some(cluster.to_owned())),
            None => (line.trim(), None),
        };
        let digits = number.bytes().all(|b| b.is_ascii_digit());
        let id = number.parse().ok().filter(|id| digits && *id > 0)?;
        Some(Submitted { id: JobId(id), cluster })
    })
}

fn classify(error: CommandError) -> SubmitError {
    match error {
        CommandError::Unreachable { ref stderr, .. } => {
            let printed = stderr.to_lowercase();
            if MAY_BE_HEARD.iter().any(|phrase| printed.contains(phrase)) {
                SubmitError::Unknown { message: said(stderr) }
            } else {
                SubmitError::Unreachable { source: error }
            }
        }
        CommandError::NotFound { .. }
        | CommandError::Unconfigured { .. }
        | CommandError::Start { .. }
        | CommandError::Unexpected { .. } => SubmitError::Unreachable { source: error },
        CommandError::Failed { ref status, ref stderr, .. } if status.starts_with("exit status") => {
            let said = said(stderr);
            let message = if said.is_empty() { format!("sbatch gave no reason ({status})") } else { said };
            SubmitError::Refused { message }
        }
        CommandError::Failed { .. } | CommandError::TimedOut { .. } | CommandError::TooMuchOutput { .. } => {
            SubmitError::Unknown { message: error.to_string() }
        }
    }
}

/// Returns what sbatch said in one line, without the words it puts before everything.
fn said(stderr: &str) -> String {
    let bare = |line: &str| {
        let line = line.trim();
        let line = line.strip_prefix("sbatch: ").unwrap_or(line);
        let line = line.strip_prefix("error: ").unwrap_or(line);
        line.strip_prefix("Batch job submission failed: ").unwrap_or(line).to_owned()
    };
    stderr.lines().map(bare).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Returns the text as the last part of a message; nothing where there is none.
fn after(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("; {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slurm::Recorded;

    fn submitted(answer: Result<Output, CommandError>) -> Result<Submitted, SubmitError> {
        let command = command("job.sh", &["--gres=gpu:v100:1".to_owned()]);
        assert_eq!(command.to_string(), "sbatch --parsable '--gres=gpu:v100:1' job.sh");
        submit(&Recorded::new([(command.clone(), answer)]), &command)
    }

    fn failure(status: &str, stderr: &str) -> SubmitError {
        let error = CommandError::failed(&CommandLine::new("sbatch", ["job.sh"]), status, stderr);
        submitted(Err(error)).expect_err("a failure")
    }

    #[test]
    fn the_number_may_have_a_cluster_and_lines_before_it() {
        let check = |stdout: &str, id: u32, cluster: Option<&str>| {
            let expected = Submitted { id: JobId(id), cluster: cluster.map(str::to_owned) };
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
            "sbatch refused the job: invalid partition specified: nope; Invalid partition name specified";
        assert_eq!(refused.to_string(), expected);
        let silent = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)";
        assert!(matches!(failure("exit status: 1", silent), SubmitError::Unreachable { .. }));
        let unheard = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation";
        assert!(matches!(failure("exit status: 1", unheard), SubmitError::Unknown { .. }));
        assert!(matches!(failure("signal: 9 (SIGKILL)", ""), SubmitError::Unknown { .. }));
    }

    #[test]
    fn an_answer_without_a_number_is_no_certainty() {
        let output = Output { stdout: "queued\n".to_owned(), stderr: "sbatch: hm".to_owned() };
        let error = submitted(Ok(output)).expect_err("no number");
        let expected =
            "it is not known whether the job was submitted: sbatch printed \"queued\" and no job number; hm";
        assert_eq!(error.to_string(), expected);
    }
}
