//! Random numbers for names that must differ, from the operating system.

use std::io;

/// Returns a random number.
///
/// # Errors
/// If the system has none.
pub(super) fn number() -> io::Result<u64> {
    getrandom::u64().map_err(io::Error::from)
}
