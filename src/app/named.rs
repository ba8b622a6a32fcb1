//! Flags whose words stand in a table beside what they mean: the same table that files are read and written by.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;

/// Reads one of the words of a table as the value beside it.
#[derive(Clone, Copy)]
pub(crate) struct Named<T: 'static>(pub &'static [(&'static str, T)]);

impl<T> Named<T> {
    fn words(&self) -> impl Iterator<Item = &'static str> + use<T> {
        self.0.iter().map(|(word, _)| *word)
    }
}

impl<T: Copy + Send + Sync + 'static> TypedValueParser for Named<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        // Its messages name all words and the nearest one.
        let text = PossibleValuesParser::new(self.words()).parse_ref(command, argument, value)?;
        let named = self.0.iter().find(|(word, _)| *word == text);
        named.map(|(_, value)| *value).ok_or_else(|| clap::Error::new(ErrorKind::InvalidValue))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.words().map(PossibleValue::new)))
    }
}
