//! Converts a typed value to the type of its key.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::entry::EntryValue;
use hsched_model::formats::{
    ValueError, no_nul, one_line, parse_duration, parse_number, parse_size, parse_whole, quoted, shell_lines,
    slurm_name, split_words,
};
use hsched_model::{BitRate, Bytes, ErrorId, Seconds};

/// A typed value with the context of its interpretation.
pub(super) struct TypedValue<'a> {
    /// Key inside a table; empty for other settings.
    pub(super) item: &'a str,
    pub(super) typed: &'a EntryValue,
    /// Base directory of relative paths.
    pub(super) base: &'a Path,
    /// The meaning of `~/`.
    pub(super) home: Option<&'a Path>,
}

impl TypedValue<'_> {
    /// Returns the name of an account, partition or quality of service; an empty text unsets it.
    pub(super) fn name(&self) -> Result<Option<String>, ValueError> {
        match self.text()? {
            "" => Ok(None),
            text => slurm_name(text).map(Some),
        }
    }

    /// Returns shell lines: the items of a list, or the lines of a text.
    pub(super) fn lines(&self) -> Result<Vec<String>, ValueError> {
        match self.typed {
            EntryValue::List(items) => items.iter().map(|item| no_nul(item)).collect(),
            EntryValue::Word(text) | EntryValue::Text(text) => shell_lines(text),
            _ => Err(self.not("a list of text")),
        }
    }

    /// Returns words: the items of a list, or a text split as by a shell.
    pub(super) fn words(&self) -> Result<Vec<String>, ValueError> {
        match self.typed {
            EntryValue::List(items) => items.iter().map(|item| one_line(item)).collect(),
            EntryValue::Word(text) | EntryValue::Text(text) => split_words(text),
            _ => Err(self.not("a list of text")),
        }
    }

    /// Returns a number for which `fits` is true; `range` describes the condition.
    pub(super) fn number(&self, fits: impl Fn(f64) -> bool, range: &str) -> Result<f64, ValueError> {
        let (EntryValue::Word(text) | EntryValue::Number(text)) = self.typed else {
            return Err(self.not("a number"));
        };
        let number = parse_number(text)?;
        if fits(number) {
            Ok(number)
        } else {
            Err(ValueError::new(format!("must be {range}, got {number}")).id(ErrorId::NumberRange))
        }
    }

    /// Returns the rate of a link in Gbit/s.
    pub(super) fn rate(&self) -> Result<BitRate, ValueError> {
        let number = self.number(|_| true, "a number")?;
        BitRate::new(number).ok_or_else(|| {
            ValueError::new(format!("must be above 0 Gbit/s, got {number}")).id(ErrorId::NumberRange)
        })
    }

    /// Returns an integer within the range.
    pub(super) fn count(&self, range: RangeInclusive<u32>) -> Result<u32, ValueError> {
        let (EntryValue::Word(text) | EntryValue::Number(text)) = self.typed else {
            return Err(self.not("a whole number"));
        };
        let number = parse_whole(text, u64::from(*range.start())..=u64::from(*range.end()))?;
        u32::try_from(number).map_err(|_| self.not("a smaller number"))
    }

    /// Returns a size with a unit; an empty text unsets it.
    pub(super) fn size(&self) -> Result<Option<Bytes>, ValueError> {
        match self.unit_text()? {
            "" => Ok(None),
            text => parse_size(text).map(Some),
        }
    }

    /// Returns a duration with a unit.
    pub(super) fn duration(&self) -> Result<Seconds, ValueError> {
        parse_duration(self.unit_text()?)
    }

    /// Returns a boolean.
    pub(super) fn switch(&self) -> Result<bool, ValueError> {
        match self.typed {
            EntryValue::Switch(on) => Ok(*on),
            EntryValue::Word(text) if text == "true" => Ok(true),
            EntryValue::Word(text) if text == "false" => Ok(false),
            _ => Err(self.not("true or false")),
        }
    }

    /// Returns a path, made absolute if its base is absolute; an empty text unsets it.
    pub(super) fn path(&self) -> Result<Option<PathBuf>, ValueError> {
        let text = one_line(self.text()?)?;
        if text.is_empty() {
            return Ok(None);
        }
        let inside_home = if text == "~" { Some("") } else { text.strip_prefix("~/") };
        match (inside_home, self.home) {
            (Some(rest), Some(home)) => Ok(Some(home.join(rest))),
            (Some(_), None) => {
                Err(ValueError::new("refers to the home directory, which is unknown").id(ErrorId::Directory))
            }
            (None, _) => Ok(Some(self.base.join(text))),
        }
    }

    /// Returns the text.
    pub(super) fn text(&self) -> Result<&str, ValueError> {
        match self.typed {
            EntryValue::Word(text) | EntryValue::Text(text) => Ok(text),
            _ => Err(self.not("text")),
        }
    }

    /// Returns an error that names the expected value.
    pub(super) fn not(&self, expected: &str) -> ValueError {
        let got = match self.typed {
            EntryValue::Word(text) | EntryValue::Text(text) => quoted(text),
            EntryValue::Number(number) => number.clone(),
            EntryValue::Switch(on) => on.to_string(),
            EntryValue::List(_) => "a list".to_owned(),
            EntryValue::Other(words) => (*words).to_owned(),
        };
        ValueError::new(format!("must be {expected}, got {got}")).id(ErrorId::Setting)
    }

    /// Returns a text, or the digits of a number so that the error can say that its unit is missing.
    fn unit_text(&self) -> Result<&str, ValueError> {
        match self.typed {
            EntryValue::Number(digits) => Ok(digits),
            _ => self.text(),
        }
    }
}
