//! Stopping and cancelling jobs: the command lines, and what their errors mean.

use thiserror::Error;

use crate::slurm::request::Denial;
use crate::slurm::{CommandError, CommandLine, JobId, Runner};

/// What Slurm made of a request that it heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Slurm does it. It also says so when told to cancel a job that has ended, or that it never had.
    Done,
    /// There is no such job, or it has ended.
    Ended,
    /// The job does not run yet: there is nothing to signal.
    NotYet,
}

/// Why nothing was done, or not for certain.
#[derive(Debug, Error)]
pub enum CancelError {
    /// Slurm answered no, for instance because the job is somebody else's.
    #[error("scancel was refused: {message}")]
    Refused { message: String },
    /// The request did not reach Slurm.
    #[error("the job was not told")]
    Unreachable {
        #[source]
        source: CommandError,
    },
    /// The request may have been heard; to repeat it does no harm.
    #[error("it is not known whether the job was told: {message}")]
    Unknown { message: String },
}

/// Returns the command line that tells a job's batch script to save and stop (`SIGUSR1`).
///
/// Of a heterogeneous job any component's id will do: the only batch script hears it.
#[must_use]
pub fn stop(id: JobId) -> CommandLine {
    CommandLine::new("scancel", ["--signal=USR1", "--batch", &id.to_string()])
}

/// Returns the command line that cancels a job; with the id of the first component the whole of a
/// heterogeneous job, with another one only that component while the job runs.
#[must_use]
pub fn cancel(id: JobId) -> CommandLine {
    CommandLine::new("scancel", [id.to_string()])
}

/// Sends [`stop`] or [`cancel`] once.
///
/// # Errors
/// When Slurm refuses it or gives no clear answer.
pub fn send(runner: &dyn Runner, command: &CommandLine) -> Result<Reply, CancelError> {
    match runner.run(command).map_err(|error| Denial::of(command.program, error)) {
        Ok(_) => Ok(Reply::Done),
        Err(Denial::Refused(message)) => reply(&message).ok_or(CancelError::Refused { message }),
        Err(Denial::Unreachable(source)) => Err(CancelError::Unreachable { source }),
        Err(Denial::Unknown(message)) => Err(CancelError::Unknown { message }),
    }
}

/// Returns the reply in what scancel prints on its way to a failure.
fn reply(message: &str) -> Option<Reply> {
    let says = |phrase: &str| message.to_lowercase().contains(phrase);
    if says("invalid job id") || says("already completing or completed") {
        Some(Reply::Ended)
    } else if says("can not be altered now") || says("job is pending execution") {
        Some(Reply::NotYet)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slurm::{Output, Recorded};

    fn failure(status: &str, stderr: &str) -> Result<Reply, CancelError> {
        let command = stop(JobId(7));
        let error = CommandError::failed(&command, status, stderr);
        send(&Recorded::new([(command.clone(), Err(error))]), &command)
    }

    #[test]
    fn jobs_are_named_by_their_number_alone() {
        assert_eq!(stop(JobId(7)).to_string(), "scancel '--signal=USR1' --batch 7");
        assert_eq!(cancel(JobId(7)).to_string(), "scancel 7");
        let done = send(&Recorded::new([(cancel(JobId(7)), Ok(Output::default()))]), &cancel(JobId(7)));
        assert!(matches!(done, Ok(Reply::Done)), "{done:?}");
    }

    #[test]
    fn a_job_that_cannot_hear_is_no_error() {
        let check = |status: &str, words: &str, expected: Reply| {
            let answer = failure(status, &format!("scancel: error: Kill job error on job id 7: {words}\n"));
            assert_eq!(answer.expect(words), expected, "{words}");
        };
        check("exit status: 1", "Invalid job id specified", Reply::Ended);
        check("exit status: 1", "Job/step already completing or completed", Reply::Ended);
        check("exit status: 228", "Job can not be altered now, try again later", Reply::NotYet);
    }

    #[test]
    fn a_refusal_is_told_from_silence() {
        let refused =
            failure("exit status: 1", "scancel: error: Kill job error on job id 7: Access denied\n");
        let expected = "scancel was refused: Kill job error on job id 7: Access denied";
        assert_eq!(refused.expect_err("no").to_string(), expected);
        let silent = "scancel: error: Kill job error on job id 7: Unable to contact slurm controller (connect failure)";
        assert!(matches!(failure("exit status: 8", silent), Err(CancelError::Unreachable { .. })));
        let unheard = "scancel: error: Kill job error on job id 7: Socket timed out on send/recv operation";
        assert!(matches!(failure("exit status: 1", unheard), Err(CancelError::Unknown { .. })));
    }
}
