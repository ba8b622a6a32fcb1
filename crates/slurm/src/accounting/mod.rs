//! Past runs of jobs in what `sacct -D -P` prints, with what each asked for and used.
//!
//! Reads saved output of any site and version: columns in any order, several pulls in one text. Rows that make no sense are
//! left out and named by their line.

mod amounts;
mod columns;
mod reader;
mod run;

use chrono::{DateTime, Utc};

use crate::record::FIELD_END;
use crate::{CommandLine, time};

pub use self::columns::{COLUMNS, HeaderError};
pub use self::reader::{Accounting, OddRow};
pub use self::run::{AccountedRun, AskedMemory};

/// Returns the command line that prints the user's own jobs and steps since a moment, each attempt of a job, with a header.
pub fn command(since: DateTime<Utc>) -> CommandLine {
    CommandLine::new(
        "sacct",
        [
            "--duplicates".to_owned(),
            "--parsable2".to_owned(),
            format!("--delimiter={FIELD_END}"),
            format!("--format={}", COLUMNS.join(",")),
            format!("--starttime={}", time::text(since)),
        ],
    )
}

#[cfg(test)]
mod tests;
