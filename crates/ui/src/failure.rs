//! The failure of a command: its kind, the problem and the remedies.

use std::error::Error;
use std::fmt;

use hsched_model::ErrorId;
use hsched_model::formats::{FileProblem, Problems};

use crate::Exit;

/// Why a command ended before it finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// The stable key of the failure's kind, which `hsched help error` explains.
    pub id: ErrorId,
    /// The problem and where it is.
    pub message: String,
    /// Possible remedies, one sentence each.
    pub hints: Vec<String>,
    /// The problems in a file, one by one; empty for all other failures.
    pub problems: Vec<FileProblem>,
}

impl Failure {
    /// Returns a failure with a message, of the general kind of its exit code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, id: exit.id(), message: message.into(), hints: Vec::new(), problems: Vec::new() }
    }

    /// Returns the failure of a file with problems; its kind is that of the first problem.
    pub fn from_problems(problems: &Problems, file: &str) -> Self {
        let failure = Self::new(Exit::BadInput, problems.in_file(file));
        let id = problems.as_slice().first().map_or(failure.id, |problem| problem.id);
        Self { id, problems: problems.as_slice().to_vec(), ..failure }
    }

    /// Returns a failure from an error and its chain of causes.
    pub fn from_error(exit: Exit, error: &dyn Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            message.push_str(": ");
            message.push_str(&inner.to_string());
            cause = inner.source();
        }
        Self::new(exit, message)
    }

    /// Returns the failure with this kind.
    pub fn id(self, id: ErrorId) -> Self {
        Self { id, ..self }
    }

    /// Returns the failure with one more hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        for hint in &self.hints {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}
