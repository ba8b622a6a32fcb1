//! The measured speeds on disk: `STATE/throughput.json`, and the same as text for other people.

mod csv;
mod file;
mod row;

pub use self::file::{SpeedFile, SpeedFileError};
