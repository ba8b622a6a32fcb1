//! The columns of a table without a header line, as given by the user or by a typed command: the format of
//! `sinfo -o` or `-O`.

use std::str::FromStr;

use thiserror::Error;

use super::fields::{Field, of_letter, of_name};
use super::header::{CellLayout, Column, Header};
use crate::record::excerpt;

/// Width of the columns of `-O` without an explicit width.
const WIDTH: usize = 20;

/// Programs after a pipe that leave lines unchanged.
const FILTERS: [&str; 9] = ["sort", "head", "tail", "grep", "egrep", "less", "more", "cat", "tee"];

/// The columns of a table, and their separator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(Header);

/// Why a text is not a sinfo format that defines how lines are split into columns.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ColumnsError {
    #[error("sinfo has no field {field:?}")]
    Field { field: String },
    #[error("list the fields instead of %all; a table with a header line needs no --columns")]
    All,
    #[error("{text:?} comes before the first field; remove it from the format and from the table")]
    Before { text: String },
    #[error("nothing separates {field} from the next field; give the width that sinfo was given")]
    Together { field: &'static str },
    #[error("the same character must separate all fields, as in '%N|%G|%T'")]
    Marks,
    #[error("it has neither node names (%N, NodeList) nor node counts (%D, Nodes)")]
    NoNodes,
}

/// A field of the format, with its width and the text after it.
struct FormatField<'a> {
    field: &'static Field,
    width: Option<usize>,
    behind: &'a str,
}

impl Columns {
    pub(super) fn header(&self) -> &Header {
        &self.0
    }

    /// Returns the columns printed by a typed command, if it is a sinfo with a format.
    pub(super) fn of_command(command: &str) -> Option<Self> {
        let words = shell_words::split(command).ok()?;
        let mut words =
            words.iter().map(String::as_str).skip_while(|word| word.rsplit('/').next() != Some("sinfo"));
        let mut format = None;
        words.next()?;
        while let Some(word) = words.next() {
            let short = word.strip_prefix('-').filter(|word| !word.starts_with('-'));
            if word == "|" {
                // `uniq -c` adds a column; awk and cut remove some.
                if !words.next().is_some_and(|program| FILTERS.contains(&program)) {
                    return None;
                }
            } else if let Some((_, given)) =
                word.split_once('=').filter(|_| word.to_lowercase().starts_with("--format="))
            {
                format = Some(given);
            } else if let Some((_, given)) = short.and_then(|word| word.split_once(['o', 'O'])) {
                format = if given.is_empty() { words.next() } else { Some(given) };
            } else if word.to_lowercase() == "--format" {
                format = words.next();
            }
        }
        format?.parse().ok()
    }
}

impl FromStr for Columns {
    type Err = ColumnsError;

    fn from_str(format: &str) -> Result<Self, ColumnsError> {
        let asked = if format.contains('%') { short(format)? } else { long(format)? };
        let layout = layout(&asked)?;
        let mut start = 0;
        let mut columns = Vec::new();
        for FormatField { field, width, behind } in &asked {
            columns.push(Column { field: Some(field), word: (start, start), width: *width });
            start += width.unwrap_or(0) + behind.len();
        }
        if layout != CellLayout::Fixed {
            for column in &mut columns {
                column.word = (0, 0);
            }
        }
        let header = Header { columns, layout };
        if header.names().is_none() && !header.counts_nodes() {
            return Err(ColumnsError::NoNodes);
        }
        Ok(Self(header))
    }
}

/// Returns the fields of a format of `-o`: `%[[.]width]letter` with any text between them.
fn short(format: &str) -> Result<Vec<FormatField<'_>>, ColumnsError> {
    let (before, fields) = format.split_once('%').unwrap_or((format, ""));
    if !before.trim().is_empty() {
        return Err(ColumnsError::Before { text: excerpt(before) });
    }
    if fields.eq_ignore_ascii_case("all") {
        return Err(ColumnsError::All);
    }
    let asked = |text: &'_ str| -> Result<_, ColumnsError> {
        let (width, rest) = width(text);
        let unknown = || ColumnsError::Field { field: excerpt(&format!("%{text}")) };
        let letter = rest.chars().next().ok_or_else(unknown)?;
        Ok((of_letter(letter).ok_or_else(unknown)?, width, letter.len_utf8() + text.len() - rest.len()))
    };
    fields
        .split('%')
        .map(|text| asked(text).map(|(field, width, end)| FormatField { field, width, behind: &text[end..] }))
        .collect()
}

/// Parses the fields of a format of `-O`: `name[:[.][width][text]]`, separated by commas.
fn long(format: &str) -> Result<Vec<FormatField<'_>>, ColumnsError> {
    let asked = |text| {
        let (name, rest) = match str::split_once(text, ':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        let field =
            of_name(name.trim()).ok_or_else(|| ColumnsError::Field { field: excerpt(name.trim()) })?;
        let (width, behind) = rest.map_or((Some(WIDTH), ""), width);
        Ok(FormatField { field, width, behind })
    };
    format.split(',').map(asked).collect()
}

/// Splits off a width, which a dot may precede; 0, or 10,000 and more, means no width.
fn width(text: &str) -> (Option<usize>, &str) {
    let text = text.strip_prefix('.').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].parse().ok().filter(|&width| width > 0 && width < 10_000), &text[end..])
}

fn layout(asked: &[FormatField<'_>]) -> Result<CellLayout, ColumnsError> {
    let between = asked.split_last().map_or(asked, |(_, between)| between);
    let mut marks: Vec<&str> = between.iter().map(|asked| asked.behind.trim()).collect();
    marks.dedup();
    match *marks.as_slice() {
        [] => Ok(CellLayout::Blanks),
        [""] if between.iter().all(|asked| !asked.behind.is_empty()) => Ok(CellLayout::Blanks),
        [""] => match between.iter().find(|asked| asked.width.is_none()) {
            Some(asked) => Err(ColumnsError::Together { field: asked.field.header }),
            None => Ok(CellLayout::Fixed),
        },
        [mark] => {
            let mut letters = mark.chars();
            match (letters.next(), letters.next()) {
                (Some(mark), None) => Ok(CellLayout::Separated(mark)),
                _ => Err(ColumnsError::Marks),
            }
        }
        _ => Err(ColumnsError::Marks),
    }
}
