//! Traces of any format as jobs: job files and CSV with job keys are recognised by their text; other formats
//! are converted.

mod csv;
mod gavel;
mod recorded;
mod sia;
pub mod table;

use thiserror::Error;

pub use hsched_model::formats::jobs::TraceFile;
use hsched_model::formats::{self, Problems};

pub use self::gavel::{GavelSpeeds, gavel};
pub use self::recorded::{RecordedJob, alibaba, jobs as recorded_jobs, philly, usable};
pub use self::sia::{Applications, sia};

/// Why a text is not a trace.
#[derive(Debug, Error)]
pub enum TraceError {
    /// Problems in a file with jobs, by line.
    #[error("{0}")]
    Problems(Problems),
    #[error("line {line}: not valid CSV: {message}")]
    Csv { line: u64, message: String },
    #[error("there is no column {needed}; the columns are {there}")]
    Column { needed: String, there: String },
    #[error("{0}")]
    Other(String),
}

/// Parses a trace: a job file (YAML or JSON), or CSV with job keys as columns.
///
/// # Errors
/// If the text is in none of these formats, or a job is invalid; the error contains all problems of the jobs.
pub fn parse(text: &str) -> Result<TraceFile, TraceError> {
    if csv::is_csv(text) {
        return csv::parse(text);
    }
    formats::jobs::parse_trace(text).map_err(TraceError::Problems)
}
