//! A command line as a value, its output, and its possible failures.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;

use thiserror::Error;

/// A program with its arguments; creating one runs nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    pub program: Cow<'static, str>,
    pub args: Vec<String>,
    /// The program's standard input; `None` is empty.
    pub stdin: Option<String>,
}

/// The output of a program that ended with status 0; invalid UTF-8 becomes `U+FFFD`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandOutput {
    pub stdout: String,
    pub stderr: String,
}

/// Runs command lines.
pub trait Runner {
    /// Runs the command to its end.
    ///
    /// # Errors
    /// If the program cannot be started, takes too long, writes too much or fails.
    fn run(&self, command: &CommandLine) -> Result<CommandOutput, CommandError>;
}

/// Why a command failed.
#[derive(Debug, Error)]
pub enum CommandError {
    #[error("{program}: command not found; is Slurm installed and in PATH?")]
    NotFound { program: Cow<'static, str> },
    #[error("{}: cannot be started", command.program)]
    Start {
        command: CommandLine,
        #[source]
        source: io::Error,
    },
    #[error("{}: no answer within {limit:?}{}", command.program, said(stderr))]
    TimedOut { command: CommandLine, limit: Duration, stderr: String },
    #[error("{}: printed more than {limit} bytes", command.program)]
    TooMuchOutput { command: CommandLine, limit: u64 },
    /// The client found no configuration, so this machine is not part of a cluster.
    #[error("{}: Slurm is not configured on this machine: {}", command.program, stderr.lines().last().unwrap_or_default())]
    Unconfigured { command: CommandLine, stderr: String },
    /// The controller or the authentication service did not answer; they may answer later.
    #[error("{}: Slurm's controller cannot be reached: {stderr}", command.program)]
    Unreachable { command: CommandLine, stderr: String },
    #[error("{}: {status}: {}", command.program, if stderr.is_empty() { "no error message" } else { stderr })]
    Failed { command: CommandLine, status: String, stderr: String },
}

/// Returns a program's message, as the end of a sentence.
fn said(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; error output: {stderr}") }
}

/// Messages of Slurm's clients without a configuration, in lower case.
const UNCONFIGURED: [&str; 4] = [
    "could not establish a configuration source",
    "unable to process configuration file",
    "unable to open slurm.conf",
    "failed to fetch config",
];

/// Messages of Slurm's clients if the controller does not answer, in lower case.
const UNREACHABLE: [&str; 11] = [
    "unable to contact slurm controller",
    "unable to connect to slurm daemon",
    "unable to establish",
    "socket timed out",
    "connection refused",
    "connect failure",
    "zero bytes were transmitted or received",
    "transport endpoint is not connected",
    "in standby mode",
    "munge encode failed",
    "protocol authentication error",
];

/// Messages of Slurm's clients if the controller is running but too busy to answer, in lower case.
const BUSY: [&str; 4] = [
    "socket timed out",
    "zero bytes were transmitted or received",
    "transport endpoint is not connected",
    "in standby mode",
];

impl CommandLine {
    /// Returns a command line with an empty input.
    pub fn new<S: Into<String>>(
        program: impl Into<Cow<'static, str>>,
        args: impl IntoIterator<Item = S>,
    ) -> Self {
        Self { program: program.into(), args: args.into_iter().map(Into::into).collect(), stdin: None }
    }
}

impl fmt::Display for CommandLine {
    /// Formats the line so that it can be pasted into bash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        for arg in &self.args {
            // Separators in formats are control characters, which terminals do not show.
            if arg.contains(char::is_control) {
                write!(f, " $'{}'", ansi_quoted(arg))?;
            } else {
                write!(f, " {}", shell_words::quote(arg))?;
            }
        }
        Ok(())
    }
}

fn ansi_quoted(text: &str) -> String {
    let quoted = |c: char| match c {
        '\'' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    text.chars().map(quoted).collect()
}

impl CommandError {
    /// Returns the error of a command that ended with a non-zero status.
    pub fn failed(command: &CommandLine, status: &str, stderr: &str) -> Self {
        let (command, stderr) = (command.clone(), stderr.trim().to_owned());
        let printed = stderr.to_lowercase();
        let says = |marks: &[&str]| marks.iter().any(|mark| printed.contains(mark));
        if says(&UNCONFIGURED) {
            Self::Unconfigured { command, stderr }
        } else if says(&UNREACHABLE) {
            Self::Unreachable { command, stderr }
        } else {
            Self::Failed { command, status: status.to_owned(), stderr }
        }
    }

    /// Returns whether the same command may succeed a little later: the controller is running but busy.
    ///
    /// Slurm's clients themselves try for nine seconds before they report the controller as unreachable, and
    /// a command that timed out has used the time that the user allows, so neither is repeated.
    pub(crate) fn is_transient(&self) -> bool {
        let Self::Unreachable { stderr, .. } = self else { return false };
        let printed = stderr.to_lowercase();
        BUSY.iter().any(|mark| printed.contains(mark))
    }

    /// Returns whether Slurm as a whole is missing or does not answer, whatever was requested.
    pub fn is_without_slurm(&self) -> bool {
        matches!(
            self,
            Self::NotFound { .. }
                | Self::TimedOut { .. }
                | Self::Unconfigured { .. }
                | Self::Unreachable { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        let check =
            |arg: &str, expected: &str| assert_eq!(CommandLine::new("squeue", [arg]).to_string(), expected);
        check("--me", "squeue --me");
        check("", "squeue ''");
        check("a b", "squeue 'a b'");
        check("Name:\u{1f},It's:\\", r"squeue $'Name:\u001f,It\'s:\\'");
    }

    #[test]
    fn an_absent_slurm_is_told_from_a_refusal() {
        let kind =
            |stderr: &str| CommandError::failed(&CommandLine::new("sinfo", ["-h"]), "exit status: 1", stderr);
        for (stderr, busy) in [
            ("slurm_load_partitions: Unable to contact slurm controller (connect failure)\n", false),
            ("slurm_load_jobs error: Socket timed out on send/recv operation", true),
        ] {
            assert!(matches!(kind(stderr), CommandError::Unreachable { .. }), "{stderr}");
            assert!(kind(stderr).is_transient() == busy && kind(stderr).is_without_slurm(), "{stderr}");
        }
        let missing = kind("sinfo: fatal: Could not establish a configuration source");
        assert!(matches!(missing, CommandError::Unconfigured { .. }));
        assert!(!missing.is_transient() && missing.is_without_slurm());
        let refused = kind("sinfo: error: no\n");
        assert_eq!(refused.to_string(), "sinfo: exit status: 1: sinfo: error: no");
        assert!(!refused.is_transient() && !refused.is_without_slurm());
    }
}
