//! A runner that answers from a list, for tests.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::{CommandError, CommandLine, CommandOutput, Runner};

/// Answers each expected command line once, in order; starts no program.
#[derive(Debug, Default)]
pub struct RecordedRunner {
    answers: Mutex<VecDeque<(CommandLine, Result<CommandOutput, CommandError>)>>,
}

impl RecordedRunner {
    /// Returns a runner that expects exactly these command lines.
    pub fn new(
        answers: impl IntoIterator<Item = (CommandLine, Result<CommandOutput, CommandError>)>,
    ) -> Self {
        Self { answers: Mutex::new(answers.into_iter().collect()) }
    }

    /// Returns how many of the expected command lines have not been run yet.
    pub fn left(&self) -> usize {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Runner for RecordedRunner {
    fn run(&self, command: &CommandLine) -> Result<CommandOutput, CommandError> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        match answers.pop_front() {
            Some((expected, answer)) if expected == *command => answer,
            other => {
                let expected = other.map_or("nothing".to_owned(), |(expected, _)| expected.to_string());
                Err(CommandError::Unexpected { command: command.clone(), expected })
            }
        }
    }
}
