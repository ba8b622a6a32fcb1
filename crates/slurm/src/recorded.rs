//! A runner that answers from a list, for tests.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::{CommandError, CommandLine, CommandOutput, Runner};

/// Answers each expected command line once, in order; starts no program.
#[derive(Debug, Default)]
pub(crate) struct RecordedRunner {
    answers: Mutex<VecDeque<(CommandLine, Result<CommandOutput, CommandError>)>>,
}

impl RecordedRunner {
    /// Returns a runner that expects these command lines in this order.
    pub(crate) fn new(
        answers: impl IntoIterator<Item = (CommandLine, Result<CommandOutput, CommandError>)>,
    ) -> Self {
        Self { answers: Mutex::new(answers.into_iter().collect()) }
    }
}

impl Runner for RecordedRunner {
    fn run(&self, command: &CommandLine) -> Result<CommandOutput, CommandError> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let (expected, answer) = answers.pop_front().expect("an answer for each command line");
        assert_eq!(expected, *command);
        answer
    }
}
