//! Reads scalars: texts, numbers, durations, amounts of bytes, switches and words.

use std::ops::RangeInclusive;

use super::super::duration::parse_duration;
use super::super::number::{parse_number, parse_whole};
use super::super::problem::{ValueError, quoted};
use super::super::size::{parse_size, parse_size_or_bytes};
use super::super::yaml::ValueKind;
use super::{ReaderValue, is_null, with_nearest};
use crate::{Bytes, ErrorId, Seconds};

impl<'a> ReaderValue<'a> {
    /// Reads the text of a non-null scalar of any YAML type.
    pub(in crate::formats) fn text(&self) -> Option<&'a str> {
        self.text_quietly().or_else(|| self.wrong_shape("text"))
    }

    /// Returns the text of a non-null scalar without reporting other values, for checks of values that are
    /// read elsewhere.
    pub(in crate::formats) fn text_quietly(&self) -> Option<&'a str> {
        match &self.node.kind {
            ValueKind::Scalar { text, quoted } if *quoted || !is_null(text) => Some(text),
            _ => None,
        }
    }

    /// Reads a text that `parse` accepts.
    pub(in crate::formats) fn parsed<T>(
        &self,
        parse: impl FnOnce(&str) -> Result<T, ValueError>,
    ) -> Option<T> {
        self.text().and_then(|text| self.accept(parse(text)))
    }

    /// Reads a duration; in JSON a bare number is in seconds.
    pub(in crate::formats) fn duration(&self) -> Option<Seconds> {
        self.duration_with(|hint| hint)
    }

    /// Reads a duration; `hint` extends the hint for a missing unit.
    pub(in crate::formats) fn duration_with(&self, hint: impl FnOnce(String) -> String) -> Option<Seconds> {
        if self.is_bare_seconds() {
            let range = "from 0 to 1e9 seconds";
            return self.ranged(|number| (0.0..=1e9).contains(&number).then_some(Seconds(number)), range);
        }
        let is_bare = self.plain().is_some_and(|text| parse_number(text).is_ok());
        let with_hint = |error: ValueError| ValueError { hint: error.hint.map(hint), ..error };
        self.parsed(|text| {
            parse_duration(text).map_err(|error| if is_bare { with_hint(error) } else { error })
        })
    }

    /// Returns whether this is a bare number that means seconds.
    pub(in crate::formats) fn is_bare_seconds(&self) -> bool {
        self.sink.is_json && self.plain().is_some_and(|text| parse_number(text).is_ok())
    }

    /// Reads an amount of bytes; a bare number means bytes in JSON, and is refused elsewhere unless it is 0.
    pub(in crate::formats) fn bytes(&self) -> Option<Bytes> {
        let is_bare = self.sink.is_json || self.plain() == Some("0");
        self.parsed(if is_bare { parse_size_or_bytes } else { parse_size })
    }

    /// Reads an integer within the range.
    pub(in crate::formats) fn whole(&self, range: RangeInclusive<u64>) -> Option<u64> {
        match self.plain() {
            Some(text) => self.accept(parse_whole(text, range)),
            None => self.wrong_shape("a whole number"),
        }
    }

    /// Reads an integer within the range as `u32`.
    pub(in crate::formats) fn whole_u32(&self, range: RangeInclusive<u32>) -> Option<u32> {
        let range = u64::from(*range.start())..=u64::from(*range.end());
        self.whole(range).and_then(|number| u32::try_from(number).ok())
    }

    /// Reads a finite number.
    pub(in crate::formats) fn number(&self) -> Option<f64> {
        match self.plain() {
            Some(text) => self.accept(parse_number(text)),
            None => self.wrong_shape("a number"),
        }
    }

    /// Reads a finite number and converts it with `make`, which returns `None` for a number out of range.
    pub(in crate::formats) fn ranged<T>(
        &self,
        make: impl FnOnce(f64) -> Option<T>,
        range: &str,
    ) -> Option<T> {
        let number = self.number()?;
        self.accept(make(number).ok_or_else(|| {
            ValueError::new(format!("must be {range}, got {number}")).id(ErrorId::NumberRange)
        }))
    }

    /// Reads `true` or `false`.
    pub(in crate::formats) fn switch(&self) -> Option<bool> {
        match self.plain() {
            Some("true" | "True" | "TRUE") => Some(true),
            Some("false" | "False" | "FALSE") => Some(false),
            _ => self.wrong_shape("true or false"),
        }
    }

    /// Reads one of the given words.
    pub(in crate::formats) fn word_of<T: Copy>(&self, words: &[(&'static str, T)]) -> Option<T> {
        let text = self.text()?;
        if let Some(&(_, value)) = words.iter().find(|&&(word, _)| word == text) {
            return Some(value);
        }
        let known: Vec<&str> = words.iter().map(|&(word, _)| word).collect();
        let error = ValueError::new(format!("must be one of {}, got {}", known.join(", "), quoted(text)))
            .id(ErrorId::UnknownWord);
        self.report(with_nearest(error, text, known));
        None
    }

    /// Returns the text of an unquoted scalar that is not null.
    pub(super) fn plain(&self) -> Option<&'a str> {
        match &self.node.kind {
            ValueKind::Scalar { text, quoted: false } if !is_null(text) => Some(text),
            _ => None,
        }
    }
}
