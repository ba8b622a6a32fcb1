//! Stopping and cancelling jobs: the command lines, and the meaning of their errors.

use crate::{CommandLine, JobId, RequestError, Runner};

/// Slurm's answer to a request that it received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Slurm carries out the request if it applies. It gives the same answer if a job to stop does not run
    /// yet, or if the job with that id has another name.
    Done,
    /// There is no job to stop or cancel: it has ended, or Slurm never had it.
    Ended,
}

/// Returns the command line that tells the user's running job with that name and id to save and stop
/// (`SIGUSR1`).
///
/// A heterogeneous job has only one batch script, which receives the signal only if the id is that of the
/// first component.
pub fn stop(name: &str, id: JobId) -> CommandLine {
    // Without the filter, scancel tries for 90 s to signal a job that does not run yet.
    command(name, &["--state=RUNNING", "--signal=USR1", "--batch"], id)
}

/// Returns the command line that cancels the user's job with that name and id; the id of the first component
/// cancels the whole heterogeneous job.
pub fn cancel(name: &str, id: JobId) -> CommandLine {
    command(name, &[], id)
}

/// Returns the command line that cancels the user's job with that name and id if it is pending.
pub fn cancel_pending(name: &str, id: JobId) -> CommandLine {
    command(name, &["--state=PENDING"], id)
}

/// Returns the command line that cancels these jobs of the user, regardless of their names; `None` for no
/// job, because `scancel --me` without an id cancels all jobs of the user.
pub fn cancel_all(ids: &[JobId]) -> Option<CommandLine> {
    let words = ["--me".to_owned()].into_iter().chain(ids.iter().map(ToString::to_string));
    (!ids.is_empty()).then(|| CommandLine::new("scancel", words))
}

fn command(name: &str, options: &[&str], id: JobId) -> CommandLine {
    // Another cluster, or a controller that lost its state, may assign the same ids; the filters protect
    // those jobs.
    let safeguards = ["--me".to_owned(), format!("--name={name}")];
    let options = options.iter().map(|&option| option.to_owned());
    CommandLine::new("scancel", safeguards.into_iter().chain(options).chain([id.to_string()]))
}

/// Sends one of these commands once.
///
/// # Errors
/// If Slurm refuses it or gives no clear answer.
pub fn send(runner: &dyn Runner, command: &CommandLine) -> Result<Reply, RequestError> {
    match runner.run(command).map_err(|error| RequestError::of(&command.program, error)) {
        Ok(_) => Ok(Reply::Done),
        Err(RequestError::Refused { message }) if has_ended(&message) => Ok(Reply::Ended),
        Err(error) => Err(error),
    }
}

fn has_ended(message: &str) -> bool {
    let printed = message.to_lowercase();
    ["invalid job id", "already completing or completed"].iter().any(|phrase| printed.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::RecordedRunner;
    use crate::{CommandError, CommandOutput};

    fn failure(status: &str, stderr: &str) -> Result<Reply, RequestError> {
        let command = stop("a", JobId(7));
        let error = CommandError::failed(&command, status, stderr);
        send(&RecordedRunner::new([(command.clone(), Err(error))]), &command)
    }

    #[test]
    fn a_job_must_be_the_users_and_of_the_name() {
        assert_eq!(
            stop("a", JobId(7)).to_string(),
            "scancel --me '--name=a' '--state=RUNNING' '--signal=USR1' --batch 7"
        );
        let cancel = cancel("a", JobId(7));
        assert_eq!(cancel.to_string(), "scancel --me '--name=a' 7");
        let done = send(&RecordedRunner::new([(cancel.clone(), Ok(CommandOutput::default()))]), &cancel);
        assert!(matches!(done, Ok(Reply::Done)), "{done:?}");
    }

    #[test]
    fn no_job_is_no_command() {
        assert_eq!(cancel_all(&[]), None);
        let command = cancel_all(&[JobId(7), JobId(8)]).expect("a command");
        assert_eq!(command.to_string(), "scancel --me 7 8");
    }

    #[test]
    fn a_job_that_has_ended_is_no_error() {
        for words in ["Invalid job id specified", "Job/step already completing or completed"] {
            let stderr = format!("scancel: error: Kill job error on job id 7: {words}\n");
            assert_eq!(failure("exit status: 1", &stderr).expect(words), Reply::Ended);
        }
    }

    #[test]
    fn a_refusal_is_told_from_silence() {
        let refused =
            failure("exit status: 1", "scancel: error: Kill job error on job id 7: Access denied\n");
        let expected = "Slurm refused the request: Kill job error on job id 7: Access denied";
        assert_eq!(refused.expect_err("no").to_string(), expected);
        let silent = "scancel: error: Kill job error on job id 7: Unable to contact slurm controller (connect failure)";
        assert!(matches!(failure("exit status: 8", silent), Err(RequestError::Unreachable { .. })));
        let unheard = "scancel: error: Kill job error on job id 7: Socket timed out on send/recv operation";
        assert!(matches!(failure("exit status: 1", unheard), Err(RequestError::Unclear { .. })));
    }
}
