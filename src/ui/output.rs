//! Files that the user named with `--output`.

use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// Writes a whole file under its name or not at all; where the name is a device or pipe, writes into it.
///
/// # Errors
/// When it cannot be written.
pub fn write_output(path: &Path, text: &str) -> io::Result<()> {
    if path.metadata().is_ok_and(|data| !data.is_file()) {
        return write(path, text);
    }
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    // Like any file that a shell's redirection makes, readable for those whom the umask lets.
    file.persist(path).map(drop).map_err(|error| error.error)
}

#[expect(clippy::disallowed_methods, reason = "the user named this file")]
fn write(path: &Path, text: &str) -> io::Result<()> {
    std::fs::write(path, text)
}
