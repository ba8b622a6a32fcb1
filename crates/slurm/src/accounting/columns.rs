//! Columns of a row, according to the header that `sacct` prints.

use thiserror::Error;

use crate::record::FIELD_END;

/// The columns that are read; Slurm 20.11 and later have them all.
pub const COLUMNS: [&str; 17] = [
    "JobIDRaw",
    "JobName",
    "Partition",
    "State",
    "ExitCode",
    "Submit",
    "Start",
    "End",
    "Timelimit",
    "ReqTRES",
    "AllocTRES",
    "NNodes",
    "NTasks",
    "ReqMem",
    "MaxRSS",
    "TotalCPU",
    "TRESUsageInAve",
];

/// Columns without which a run cannot be read.
const REQUIRED: [&str; 6] = ["JobIDRaw", "JobName", "State", "Submit", "Start", "End"];

/// Why a text is not readable output of `sacct`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    #[error("the file is empty")]
    Empty,
    #[error("line {line}: the header has no column {}", columns.join(", "))]
    Missing { line: usize, columns: Vec<&'static str> },
}

/// The positions of the columns in rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnPlaces {
    delimiter: char,
    count: usize,
    /// Positions in the order of [`COLUMNS`].
    places: [Option<usize>; COLUMNS.len()],
}

impl ColumnPlaces {
    /// Returns whether a line is a header.
    pub(super) fn is_header(line: &str) -> bool {
        let has = |name: &str| line.split(delimiter(line)).any(|cell| is(cell, name));
        has("JobIDRaw") && has("State")
    }

    /// Returns the columns of a header.
    ///
    /// # Errors
    /// If a required one is missing; `line` is the number of the header.
    pub(super) fn of(header: &str, line: usize) -> Result<Self, HeaderError> {
        let delimiter = delimiter(header);
        let names: Vec<&str> = header.split(delimiter).collect();
        let place = |column: &str| names.iter().position(|name| is(name, column));
        let columns = Self { delimiter, count: names.len(), places: COLUMNS.map(place) };
        let missing: Vec<&str> = columns.missing().filter(|name| REQUIRED.contains(name)).collect();
        if missing.is_empty() { Ok(columns) } else { Err(HeaderError::Missing { line, columns: missing }) }
    }

    /// Returns the columns that are missing.
    pub(super) fn missing(&self) -> impl Iterator<Item = &'static str> {
        COLUMNS.iter().zip(&self.places).filter(|(_, place)| place.is_none()).map(|(name, _)| *name)
    }

    /// Returns the cells of a row.
    ///
    /// # Errors
    /// The number of columns found, and the expected number.
    pub(super) fn row<'a>(&'a self, line: &'a str) -> Result<AccountingRow<'a>, String> {
        let cells: Vec<&str> = line.split(self.delimiter).collect();
        if cells.len() == self.count {
            return Ok(AccountingRow { columns: self, cells });
        }
        let few = if cells.len() < self.count { "few" } else { "many" };
        Err(format!("too {few} columns: {} for the {} of the header", cells.len(), self.count))
    }

    /// Returns the job's id in a row, which may have too few or too many columns; `None` if it is missing.
    pub(super) fn id_of<'a>(&self, line: &'a str) -> Option<&'a str> {
        line.split(self.delimiter).nth(self.places[0]?)
    }
}

/// A row with the same number of cells as the header.
#[derive(Clone, Debug)]
pub(super) struct AccountingRow<'a> {
    columns: &'a ColumnPlaces,
    cells: Vec<&'a str>,
}

impl<'a> AccountingRow<'a> {
    /// Returns the cell of a column; empty if the table lacks the column.
    pub(super) fn cell(&self, column: &str) -> &'a str {
        let number = COLUMNS.iter().position(|name| *name == column);
        let place = number.and_then(|number| self.columns.places[number]);
        place.map_or("", |place| self.cells[place])
    }

    /// Returns the values that distinguish the row from others, independent of the order of its columns.
    pub(super) fn key(&self, columns: &[&str]) -> Vec<String> {
        columns.iter().map(|column| self.cell(column).to_owned()).collect()
    }
}

/// Returns the delimiter of a header: that of hsched's own calls, or else that of `sacct -P`.
fn delimiter(header: &str) -> char {
    if header.contains(FIELD_END) { FIELD_END } else { '|' }
}

/// Returns whether a cell of a header names a column.
fn is(cell: &str, column: &str) -> bool {
    cell.trim().eq_ignore_ascii_case(column)
}
