//! Flags with a fixed set of words, defined by the table that is also used for files.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;

/// Parses a word of a table as the corresponding value.
#[derive(Clone, Copy)]
pub(crate) struct WordParser<T: 'static>(pub &'static [(&'static str, T)]);

impl<T> WordParser<T> {
    fn words(&self) -> impl Iterator<Item = &'static str> + use<T> {
        self.0.iter().map(|(word, _)| *word)
    }
}

impl<T: Copy + Send + Sync + 'static> TypedValueParser for WordParser<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        // The parser's messages list all words and the most similar one.
        let text = PossibleValuesParser::new(self.words()).parse_ref(command, argument, value)?;
        let named = self.0.iter().find(|(word, _)| *word == text);
        named.map(|(_, value)| *value).ok_or_else(|| clap::Error::new(ErrorKind::InvalidValue))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.words().map(PossibleValue::new)))
    }
}
