//! Records of fields, framed so that no value can break them.
//!
//! Reasons, names and comments may contain any printable text and line breaks. Fields therefore end with the
//! unit separator and records with the record separator, control characters intended for this.

use thiserror::Error;

/// Ends every field but the last.
pub(crate) const FIELD_END: char = '\u{1f}';
/// Ends the last field.
pub(crate) const RECORD_END: char = '\u{1e}';

/// Why the output of a command cannot be read as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    #[error("the output of {program} could not be parsed; it begins with {first_line:?}")]
    Unreadable { program: &'static str, first_line: String },
}

/// Returns the argument of `-O` that prints these fields, framed.
pub(crate) fn format(fields: &[&str]) -> String {
    let last = fields.len().saturating_sub(1);
    let end = |index| if index == last { RECORD_END } else { FIELD_END };
    let framed: Vec<String> =
        fields.iter().enumerate().map(|(index, field)| format!("{field}:{}", end(index))).collect();
    framed.join(",")
}

/// Returns each record's values.
///
/// Other lines may precede the first value, such as the cluster's name that `-M` adds.
pub(crate) fn records(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.split(RECORD_END).filter(|record| !record.trim().is_empty()).map(|record| {
        let mut values: Vec<&str> = record.split(FIELD_END).collect();
        if let Some(first) = values.first_mut() {
            *first = first.trim().lines().next_back().unwrap_or("");
        }
        values
    })
}

/// Returns the value, or `None` for one of Slurm's words for a missing value.
pub(crate) fn value(text: &str) -> Option<&str> {
    let text = text.trim();
    let none = ["", "(null)", "none", "n/a", "unknown"];
    (!none.iter().any(|word| text.eq_ignore_ascii_case(word))).then_some(text)
}

/// Returns a partition's name and whether it is the default (`gpu*`), or `None` for an invalid name.
pub(crate) fn partition(printed: &str) -> Option<(&str, bool)> {
    let printed = value(printed)?;
    let name = printed.strip_suffix('*').unwrap_or(printed);
    let is_name = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control());
    is_name.then_some((name, name != printed))
}

/// Returns the text in one line without control characters, shortened for a message.
pub(crate) fn excerpt(text: &str) -> String {
    let line = one_line(text);
    if line.chars().count() <= 200 { line } else { line.chars().take(200).chain(['…']).collect() }
}

/// Returns the text in one line without control characters.
pub(crate) fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the error for output without a single readable record.
pub(crate) fn unreadable(program: &'static str, text: &str) -> ParseError {
    let first_line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    ParseError::Unreadable { program, first_line: excerpt(first_line) }
}
