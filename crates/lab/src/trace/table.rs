//! Tables of other formats: CSV with a header, columns by name, and a result for each line.

use std::collections::BTreeMap;
use std::fmt;

use crate::trace::TraceError;
use hsched_model::number::to_u64;

/// The parsed entries of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedEntries<T> {
    pub entries: Vec<T>,
    /// Unreadable lines.
    pub bad: Vec<BadLine>,
    /// Number of skipped lines by reason.
    pub skipped: BTreeMap<&'static str, usize>,
}

/// An unreadable line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// From 1; 0 if the text is not parsed by lines.
    pub line: u64,
    pub message: String,
}

/// Why a line gives no entry.
pub enum NoEntry {
    /// The line is unreadable.
    Bad(String),
    /// The line is out of scope, for example a job without GPUs.
    Skipped(&'static str),
}

/// The cells of a line, by column.
pub struct LineCells<'a> {
    columns: &'a BTreeMap<String, usize>,
    record: &'a csv::StringRecord,
}

impl<T> Default for ParsedEntries<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), bad: Vec::new(), skipped: BTreeMap::new() }
    }
}

impl<T> ParsedEntries<T> {
    /// Adds the result of a line.
    pub fn add(&mut self, line: u64, entry: Result<T, NoEntry>) {
        match entry {
            Ok(entry) => self.entries.push(entry),
            Err(NoEntry::Bad(message)) => self.bad.push(BadLine { line, message }),
            Err(NoEntry::Skipped(reason)) => *self.skipped.entry(reason).or_default() += 1,
        }
    }

    /// Converts each entry.
    pub fn map<U>(self, entry: impl FnMut(T) -> U) -> ParsedEntries<U> {
        ParsedEntries {
            entries: self.entries.into_iter().map(entry).collect(),
            bad: self.bad,
            skipped: self.skipped,
        }
    }
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

impl<'a> LineCells<'a> {
    /// Returns the cell of the first of these columns that exists; `None` if the cell is empty or no column
    /// exists.
    pub fn get(&self, names: &[&str]) -> Option<&'a str> {
        let column = names.iter().find_map(|name| self.columns.get(*name))?;
        self.record.get(*column).map(str::trim).filter(|cell| !cell.is_empty())
    }

    /// Returns the cell as non-empty text.
    ///
    /// # Errors
    /// If it is empty, or no column exists.
    pub fn text(&self, names: &[&str]) -> Result<&'a str, NoEntry> {
        self.get(names).ok_or_else(|| NoEntry::Bad(format!("{} is empty", names[0])))
    }

    /// Returns the cell as a non-negative number.
    ///
    /// # Errors
    /// If it is not such a number.
    pub fn number(&self, names: &[&str]) -> Result<f64, NoEntry> {
        let text = self.text(names)?;
        let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| NoEntry::Bad(format!("{} must be a number, at least 0, got {text:?}", names[0])))
    }

    /// Returns the cell as a non-negative integer; `2.0` is one.
    ///
    /// # Errors
    /// If it is not such an integer, or above 10^12.
    pub fn whole(&self, names: &[&str]) -> Result<u64, NoEntry> {
        let number = self.number(names)?;
        let whole = (number.fract() == 0.0 && number <= 1e12).then_some(to_u64(number));
        whole.ok_or_else(|| NoEntry::Bad(format!("{} must be a whole number, got {number}", names[0])))
    }

    /// Returns the cell as a number of GPUs.
    ///
    /// # Errors
    /// If it is not such a number.
    pub fn gpus(&self, names: &[&str]) -> Result<u32, NoEntry> {
        let whole = self.whole(names)?;
        u32::try_from(whole)
            .ok()
            .filter(|gpus| *gpus <= 1_000_000)
            .ok_or_else(|| NoEntry::Bad(format!("{} must be at most 1000000, got {whole}", names[0])))
    }
}

/// Parses a table by calling `entry` for each line. Of each group of names in `needed`, one must be a column.
///
/// # Errors
/// If there is no header, or a column is missing.
pub fn read<T>(
    text: &str,
    delimiter: u8,
    needed: &[&[&str]],
    mut entry: impl FnMut(&LineCells<'_>) -> Result<T, NoEntry>,
) -> Result<ParsedEntries<T>, TraceError> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .quoting(delimiter == b',')
        .from_reader(text.as_bytes());
    let header =
        reader.headers().map_err(|error| TraceError::Csv { line: 1, message: error.to_string() })?.clone();
    let columns: BTreeMap<String, usize> =
        header.iter().enumerate().map(|(place, name)| (name.trim().to_owned(), place)).collect();
    if let Some(missing) = needed.iter().find(|names| !names.iter().any(|name| columns.contains_key(*name))) {
        let there: Vec<&str> = header.iter().take(30).collect();
        return Err(TraceError::Column { needed: missing.join(" or "), there: there.join(", ") });
    }
    let mut found = ParsedEntries::default();
    let mut line = 1;
    for record in reader.records() {
        match record {
            Ok(record) => {
                line = record.position().map_or(line + 1, csv::Position::line);
                let result = if record.len() == header.len() {
                    entry(&LineCells { columns: &columns, record: &record })
                } else {
                    let (count, all) = (record.len(), header.len());
                    Err(NoEntry::Bad(format!("has {count} cells, but the header has {all}")))
                };
                found.add(line, result);
            }
            Err(error) => {
                line = error.position().map_or(line + 1, csv::Position::line);
                found.bad.push(BadLine { line, message: error.to_string() });
            }
        }
    }
    Ok(found)
}
