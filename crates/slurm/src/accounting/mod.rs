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
use crate::{CommandLine, sacct, time};

pub use self::columns::{COLUMNS, HeaderError};
pub use self::reader::{Accounting, OddRow};
pub use self::run::{AccountedRun, AskedMemory};

/// Returns the command line that prints, with a header, a user's jobs and steps since a given time, including
/// each attempt of a job. For root and operators, Slurm would otherwise print the jobs of all users.
pub fn command(user: &str, since: DateTime<Utc>) -> CommandLine {
    let mut args = vec![
        "--duplicates".to_owned(),
        "--parsable2".to_owned(),
        format!("--delimiter={FIELD_END}"),
        format!("--format={}", COLUMNS.join(",")),
        format!("--starttime={}", time::text(since)),
    ];
    args.extend(sacct::of_user(user));
    CommandLine::new("sacct", args)
}

#[cfg(test)]
mod tests;
