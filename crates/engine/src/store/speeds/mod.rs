//! The measured speeds on disk: `STATE/throughput.json`, and their export formats.

mod csv;
mod file;
mod row;

pub(super) use self::file::WITHOUT;
pub use self::file::{SpeedFile, SpeedFileError};
