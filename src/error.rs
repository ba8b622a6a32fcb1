//! A command's failure: what kind, what was wrong, and what to do; decided once, at the top.

use std::error::Error;
use std::fmt;

use crate::exit::Exit;

/// Why a command ended before its work was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code to end with.
    pub exit: Exit,
    /// What was wrong and where.
    pub message: String,
    /// What the user can do, a sentence each.
    pub hints: Vec<String>,
}

impl Failure {
    /// Returns a failure with a message.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hints: Vec::new() }
    }

    /// Returns a failure from an error and the chain of its causes.
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
