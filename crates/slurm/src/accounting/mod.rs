//! Past runs of jobs in the output of `sacct -D -P`, with their requests and their use.
//!
//! Reads saved output of any site and version: columns in any order, and several outputs in one text. Invalid
//! rows are skipped and reported with their line numbers.

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

/// Returns the command line that prints, with a header, the user's own jobs and steps since a given time,
/// including each attempt of a job.
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
