//! Traces of any format as jobs: each format has its parser here, and is recognised by its text.

mod csv;

use thiserror::Error;

use crate::formats::{self, Problems};
use crate::model::Job;

/// Why a text is no trace.
#[derive(Debug, Error)]
pub enum TraceError {
    /// What is wrong in a file with jobs, by line.
    #[error("{0}")]
    Problems(Problems),
    #[error("line {line}: not valid CSV: {message}")]
    Csv { line: u64, message: String },
}

/// Returns the jobs of a trace: a job file (YAML or JSON), or CSV with the keys of jobs as columns.
///
/// # Errors
/// When the text is none of these, with all problems.
pub fn parse(text: &str) -> Result<Vec<Job>, TraceError> {
    if csv::is_csv(text) {
        return csv::parse(text);
    }
    formats::jobs::parse_trace(text).map_err(TraceError::Problems)
}
