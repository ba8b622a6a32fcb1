//! Writes files of the state directory atomically, keeps previous versions, and removes files that killed
//! writers left behind.

#![expect(clippy::disallowed_methods, reason = "this module is where state is written")]

use std::fs::{self, DirBuilder, DirEntry, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::{NamedTempFile, TempDir};

use crate::store::StateError;
use crate::store::names::{LOOKS, WISHES};

/// Names of incomplete files and folders: a prefix, and the number of random letters and digits after it.
const TEMPORARY: (&str, usize) = (".tmp", 6);

/// Age from which no process is still writing an incomplete deferred command or look.
const UNUSED: Duration = Duration::from_secs(3600);

/// Maximum number of damaged files of one name that are kept.
const MOST_ASIDE: u32 = 9;

/// Returns a file's bytes; `None` if it is missing.
///
/// # Errors
/// If it exists and cannot be read.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, StateError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StateError::Read { path: path.to_owned(), source }),
    }
}

/// Returns options that create files accessible only to their owner.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

pub(super) fn write_error(path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError::Write { path, source }
}

/// Replaces a file atomically. If `older` is given, the previous file is kept under that name and replaces
/// the one there.
///
/// # Errors
/// If it cannot be written.
pub(super) fn replace(
    path: &Path,
    content: impl AsRef<[u8]>,
    older: Option<&Path>,
) -> Result<(), StateError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let file = temporary_file(folder, content.as_ref(), true).map_err(write_error(path))?;
    if let Some(older) = older {
        keep(path, older).map_err(write_error(older))?;
    }
    file.persist(path).map_err(|error| StateError::Write { path: path.to_owned(), source: error.error })?;
    sync(folder);
    Ok(())
}

/// Replaces a file whose loss only costs time, without waiting for the disk.
///
/// # Errors
/// If it cannot be written.
pub(super) fn replace_soon(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    temporary_file(folder, content.as_ref(), false)?.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Creates a file atomically.
///
/// # Errors
/// If it cannot be written or already exists.
pub(super) fn create(path: &Path, text: &str) -> Result<(), StateError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let file = temporary_file(folder, text.as_bytes(), true).map_err(write_error(path))?;
    let created = file.persist_noclobber(path);
    created.map_err(|error| StateError::Write { path: path.to_owned(), source: error.error })?;
    sync(folder);
    Ok(())
}

/// Keeps a file under a second name, by a hard link if possible: the first name then exists all the time.
fn keep(path: &Path, older: &Path) -> io::Result<()> {
    match fs::remove_file(older) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    match fs::hard_link(path, older) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // Some file systems have no hard links. If hsched dies before the new file is in place, the older one
        // is used.
        Err(_) => fs::rename(path, older),
        Ok(()) => Ok(()),
    }
}

/// Returns a free name for a damaged file, or the last name if a failing disk has used them all.
pub(super) fn aside(path: &Path) -> PathBuf {
    let name = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(if number == 1 { ".damaged".to_owned() } else { format!(".damaged-{number}") });
        PathBuf::from(name)
    };
    (1..MOST_ASIDE)
        .map(name)
        .find(|path| path.symlink_metadata().is_err())
        .unwrap_or_else(|| name(MOST_ASIDE))
}

/// Creates a folder with these files (path in it, text) atomically, accessible only to their owner.
///
/// # Errors
/// If a file cannot be written: no space, no permission, or the folder exists.
pub(super) fn make_folder(folder: &Path, files: &[(String, &[u8])]) -> Result<(), StateError> {
    let parent = folder.parent().unwrap_or(Path::new("."));
    let new = temporary_folder(parent).map_err(write_error(folder))?;
    for (name, text) in files {
        let write = |mut file: File| file.write_all(text).and_then(|()| file.sync_all());
        let path = new.path().join(name);
        let inner = path.parent().filter(|inner| *inner != new.path());
        if let Some(inner) = inner {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(inner)
                .map_err(write_error(&folder.join(name)))?;
        }
        let file = private().write(true).open(&path);
        file.and_then(write).map_err(write_error(&folder.join(name)))?;
        inner.into_iter().for_each(sync);
    }
    sync(new.path());
    fs::rename(new.path(), folder).map_err(write_error(folder))?;
    let _ = new.keep();
    sync(parent);
    Ok(())
}

/// Removes temporary files and folders that killed writers left behind. The caller must hold the lock of the
/// state directory. In the swept folders, other processes write only deferred commands and looks without the
/// lock, and that takes so little time that none of the removed files is in use.
pub(super) fn sweep(root: &Path) {
    let is_old = |entry: &DirEntry| {
        let written = entry.metadata().and_then(|data| data.modified()).ok();
        written.and_then(|written| written.elapsed().ok()).is_some_and(|age| age >= UNUSED)
    };
    let folders = [
        (root.to_owned(), false),
        (root.join("runs"), false),
        (root.join(WISHES), true),
        (root.join(LOOKS), true),
    ];
    for (folder, shared) in folders {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().filter(is_temporary);
        for entry in entries.filter(|entry| !shared || is_old(entry)) {
            // A file that cannot be removed does no harm and is tried again next time.
            let _ = if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                fs::remove_dir_all(entry.path())
            } else {
                fs::remove_file(entry.path())
            };
        }
    }
}

fn is_temporary(entry: &DirEntry) -> bool {
    let (prefix, length) = TEMPORARY;
    let name = entry.file_name();
    let letters = name.to_str().and_then(|name| name.strip_prefix(prefix)).unwrap_or_default();
    letters.len() == length && letters.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Writes a new incomplete file; if it is `lasting`, syncs it to disk. Errors do not contain its name, so that
/// the same problem always has the same message.
fn temporary_file(folder: &Path, content: &[u8], lasting: bool) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix(TEMPORARY.0).rand_bytes(TEMPORARY.1);
    let file = builder.make_in(folder, |path| private().create_new(true).write(true).open(path))?;
    let mut handle = file.as_file();
    handle.write_all(content)?;
    if lasting {
        handle.sync_all()?;
    }
    Ok(file)
}

fn temporary_folder(folder: &Path) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    let permissions = fs::Permissions::from_mode(0o700);
    builder.prefix(TEMPORARY.0).rand_bytes(TEMPORARY.1).permissions(permissions).tempdir_in(folder)
}

/// Flushes the names in a folder to disk, if the file system supports it.
pub(super) fn sync(folder: &Path) {
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_file_before_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, older) = (folder.path().join("a"), folder.path().join("a.old"));
        let texts = || [&path, &older].map(|path| fs::read_to_string(path).ok());
        replace(&path, "1", Some(&older)).expect("writes");
        assert_eq!(texts(), [Some("1".into()), None]);
        replace(&path, "2", Some(&older)).expect("writes");
        replace(&path, "3", Some(&older)).expect("writes");
        assert_eq!(texts(), [Some("3".into()), Some("2".into())]);
        assert_eq!(names(folder.path()), ["a", "a.old"]);
        // A file cannot replace a folder; the folder stays unchanged.
        fs::remove_file(&older).expect("is there");
        fs::create_dir_all(older.join("full")).expect("a folder");
        replace(&path, "4", Some(&older)).expect_err("a folder is in the way");
        assert_eq!(
            (texts()[0].as_deref(), names(folder.path())),
            (Some("3"), vec!["a".into(), "a.old".into()])
        );
    }

    #[test]
    fn the_same_trouble_always_reads_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("gone/a");
        let said = || replace(&path, "1", None).expect_err("there is no folder").in_one_line();
        let expected = format!("cannot write {}: No such file or directory (os error 2)", path.display());
        assert_eq!([said(), said()], [expected.clone(), expected]);
    }

    #[test]
    fn damaged_files_do_not_take_each_others_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        for number in 1..=MOST_ASIDE + 3 {
            fs::write(&path, number.to_string()).expect("a file");
            fs::rename(&path, aside(&path)).expect("renames");
        }
        let names = names(folder.path());
        assert_eq!((&*names[0], &*names[1], names.len()), ("a.damaged", "a.damaged-2", 9));
        assert_eq!(fs::read_to_string(folder.path().join("a.damaged")).expect("a file"), "1");
        assert_eq!(fs::read_to_string(folder.path().join("a.damaged-9")).expect("a file"), "12");
    }

    #[test]
    fn only_what_killed_writers_left_is_swept() {
        let root = tempfile::tempdir().expect("a folder");
        for folder in ["runs/.tmpAb3dE9", "runs/r1", "report"] {
            fs::create_dir_all(root.path().join(folder)).expect("a folder");
        }
        let kept = [".tmp", ".tmp-notes", ".tmpAbcdefg", ".tmpAb.dEf", "tmpAbcdef", "runs/r1/.tmpAbcdef"];
        for file in kept.iter().chain(&[".tmpAbcdef", "runs/.tmp012345", "runs/.tmpAb3dE9/a.sbatch"]) {
            fs::write(root.path().join(file), "").expect("a file");
        }
        sweep(root.path());
        assert_eq!(
            names(root.path()),
            [".tmp", ".tmp-notes", ".tmpAb.dEf", ".tmpAbcdefg", "report", "runs", "tmpAbcdef"]
        );
        assert_eq!(names(&root.path().join("runs")), ["r1"]);
        assert!(kept.iter().all(|file| root.path().join(file).exists()));
    }
}
