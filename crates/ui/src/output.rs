//! Files whose names the user gave.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

/// Writes a file atomically. An existing file keeps its permissions; for a symbolic link, the target is
/// replaced. If the name is that of a device, pipe or open file (`/dev/stdout`), writes into it.
///
/// # Errors
/// If the file cannot be written.
pub fn write_output(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let content = content.as_ref();
    let Ok(known) = path.metadata() else {
        return whole(path, content)?.persist(path).map(drop).map_err(|error| error.error);
    };
    if !known.is_file() || ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder)) {
        return write(path, content);
    }
    let target = path.canonicalize()?;
    let file = whole(&target, content)?;
    file.as_file().set_permissions(known.permissions())?;
    file.persist(&target).map(drop).map_err(|error| error.error)
}

/// Creates a new file atomically.
///
/// # Errors
/// If a file of that name exists, or the file cannot be written.
pub fn create_output(path: &Path, text: &str) -> io::Result<()> {
    whole(path, text.as_bytes())?.persist_noclobber(path).map(drop).map_err(|error| error.error)
}

/// Replaces a file atomically and keeps the old content under the name `older`. Both files get the
/// permissions of the original; for a symbolic link, the target is replaced.
///
/// # Errors
/// If writing fails, or the file no longer contains `before`.
#[expect(clippy::disallowed_methods, reason = "the user named this file")]
pub fn rewrite_output(path: &Path, older: &Path, before: &[u8], after: &[u8]) -> io::Result<()> {
    let target = path.canonicalize()?;
    if std::fs::read(&target)? != before {
        return Err(io::Error::other("it was changed in the meantime"));
    }
    let permissions = target.metadata()?.permissions();
    let [kept, new] = [(older, before), (&target, after)].map(|(path, content)| {
        let file = whole(path, content)?;
        file.as_file().set_permissions(permissions.clone())?;
        Ok::<_, io::Error>(file)
    });
    let new = new?;
    kept?.persist(older).map_err(|error| error.error)?;
    new.persist(&target).map(drop).map_err(|error| error.error)
}

/// Creates a directory and its parents; an existing one stays unchanged.
///
/// # Errors
/// If it cannot be created.
#[expect(clippy::disallowed_methods, reason = "the user named this directory")]
pub fn make_folder(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() { Ok(()) } else { std::fs::create_dir_all(path) }
}

/// Writes a temporary file next to the target.
fn whole(path: &Path, content: &[u8]) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Mode 666 minus the umask, as for files from a shell's redirection.
    let permissions = Permissions::from_mode(0o666);
    let file = tempfile::Builder::new().permissions(permissions).tempfile_in(folder);
    let mut file = file.map_err(without_path)?;
    file.write_all(content).map_err(without_path)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Returns the error without the name of the temporary file, which means nothing to the user.
fn without_path(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path ") {
        Some((what, _)) => io::Error::new(error.kind(), what),
        None => error,
    }
}

#[expect(clippy::disallowed_methods, reason = "the user named this file")]
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    std::fs::write(path, content)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make files")]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_keeps_its_permissions_and_its_links() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, link] = ["real.json", "link.json"].map(|name| folder.path().join(name));
        write_output(&file, "old").expect("writes");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("a mode");
        std::os::unix::fs::symlink("real.json", &link).expect("a link");
        write_output(&link, "new").expect("writes");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "new");
        assert!(link.is_symlink());
        assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    }
}
