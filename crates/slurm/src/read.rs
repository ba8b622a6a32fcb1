//! Retries of read-only commands if the controller is busy.

use std::time::Duration;

use crate::{CommandError, CommandLine, CommandOutput, Runner};

/// The pauses before the second and the third attempt.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

/// Runs a read-only command, and retries it after a pause while the controller is busy.
///
/// Must not run `sbatch` or `scancel`, because Slurm may have received a request that it did not answer.
///
/// # Errors
/// The error of the last attempt.
pub fn read(
    runner: &dyn Runner,
    command: &CommandLine,
    pause: &dyn Fn(Duration),
) -> Result<CommandOutput, CommandError> {
    for length in PAUSES {
        match runner.run(command) {
            Err(error) if error.is_transient() => pause(length),
            answer => return answer,
        }
    }
    runner.run(command)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::recorded::RecordedRunner;

    /// Reads from a runner that fails with the given messages and then answers; returns the answer and the
    /// number of pauses.
    fn check(failures: &[&str]) -> (Result<CommandOutput, CommandError>, usize) {
        let command = CommandLine::new("sinfo", ["-h"]);
        let failed = |stderr: &&str| (command.clone(), Err(CommandError::failed(&command, "1", stderr)));
        let answer = (command.clone(), Ok(CommandOutput::default()));
        let runner = RecordedRunner::new(failures.iter().map(failed).chain([answer]));
        let pauses = RefCell::new(Vec::new());
        let result = read(&runner, &command, &|length| pauses.borrow_mut().push(length));
        assert!(pauses.borrow().is_sorted());
        (result, pauses.into_inner().len())
    }

    #[test]
    fn a_busy_controller_gets_two_more_chances() {
        let silent = "Socket timed out on send/recv operation";
        assert!(matches!(check(&[]), (Ok(_), 0)));
        assert!(matches!(check(&[silent, silent]), (Ok(_), 2)));
        assert!(matches!(check(&[silent, silent, silent]), (Err(CommandError::Unreachable { .. }), 2)));
        assert!(matches!(check(&["Invalid user"]), (Err(CommandError::Failed { .. }), 0)));
    }
}
