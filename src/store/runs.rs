//! The runs under the state directory: one folder per submission, with its plan, scripts and journal.
//!
//! ```text
//! STATE/lock                 held while a command changes anything here
//! STATE/throughput.json      the measured speeds
//! STATE/runs/RUN/plan.json   the plan as it was submitted
//! STATE/runs/RUN/JOB.sbatch  the script of each job, as sbatch got it
//! STATE/runs/RUN/journal     one JSON object a line: what was meant, then what happened
//! STATE/runs/RUN/report/JOB  where the ranks report
//! ```
//!
//! Folders are for their owner alone (0700), files too (0600).

#![expect(clippy::disallowed_methods, reason = "this room is where state is written")]

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use nix::fcntl::{FallocateFlags, FcntlArg, FdFlag, fallocate, fcntl};
use serde::Serialize;
use tempfile::NamedTempFile;
use thiserror::Error;

use super::speeds::SpeedFile;

/// The state directory, locked.
#[derive(Debug)]
pub struct Runs {
    root: PathBuf,
    /// Holds the lock until it is dropped.
    _lock: File,
}

/// One submission's folder.
#[derive(Debug)]
pub struct Run {
    id: String,
    folder: PathBuf,
    journal: File,
}

/// A line of a run's journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Entry<'a> {
    /// The first line.
    Run { schema: &'static str, run: &'a str, plan: &'a str },
    /// A job is about to be given to sbatch.
    Intent { job: &'a str },
    /// Slurm took the job.
    Submitted { job: &'a str, job_id: &'a str },
    /// Slurm did not take the job.
    Refused { job: &'a str, message: &'a str },
    /// Nobody knows whether Slurm took the job; its comment tells, should it appear.
    Unknown { job: &'a str, message: &'a str },
}

/// The schema that this version writes.
const SCHEMA: &str = "hsched.run/1";

/// Journal space set aside for each job before anything is submitted, in bytes.
const RESERVED_PER_JOB: i64 = 4096;

/// Why the state directory cannot be used.
#[derive(Debug, Error)]
pub enum RunError {
    #[error("{}: another hsched is at work there", path.display())]
    Locked { path: PathBuf },
    #[error("run {id} exists already in {}", folder.display())]
    Exists { id: String, folder: PathBuf },
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Runs {
    /// Opens and locks the state directory, making it if need be.
    ///
    /// # Errors
    /// When another hsched holds the lock, or the directory cannot be made.
    pub fn open(root: &Path) -> Result<Self, RunError> {
        let runs = root.join("runs");
        make_folder(&runs)?;
        let path = root.join("lock");
        let lock = private().append(true).open(&path).map_err(write_error(&path))?;
        // Programs that we start inherit the lock: should we die while sbatch runs, nobody submits the same
        // before it is done. Where that cannot be said, the lock is ours alone.
        let _ = fcntl(&lock, FcntlArg::F_SETFD(FdFlag::empty()));
        match lock.try_lock() {
            Ok(()) => Ok(Self { root: root.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(RunError::Locked { path }),
            Err(TryLockError::Error(source)) => Err(RunError::Write { path, source }),
        }
    }

    /// Makes the folder of a new run and writes the plan, the scripts and the beginning of the journal.
    ///
    /// `files` are names and texts. Leaves nothing behind when anything cannot be written.
    ///
    /// # Errors
    /// When the run exists, or a file cannot be written: no space, no permission.
    pub fn create(&self, id: &str, plan: &str, files: &[(String, &str)]) -> Result<Run, RunError> {
        let folder = self.root.join("runs").join(id);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(RunError::Exists { id: id.to_owned(), folder });
            }
            other => other.map_err(write_error(&folder))?,
        }
        let filled = Self::fill(id, &folder, plan, files);
        if filled.is_err() {
            // What could not be written whole must not look like a run.
            let _ = std::fs::remove_dir_all(&folder);
        }
        filled
    }

    /// Replaces the file of measured speeds.
    pub(super) fn replace_speeds(&self, text: &str) -> Result<(), RunError> {
        replace(&SpeedFile::path(&self.root), text)
    }

    fn fill(id: &str, folder: &Path, plan: &str, files: &[(String, &str)]) -> Result<Run, RunError> {
        for (name, text) in files {
            replace(&folder.join(name), text)?;
        }
        let path = folder.join("journal");
        let journal = private().append(true).create_new(true).open(&path).map_err(write_error(&path))?;
        let reserve = i64::try_from(files.len()).unwrap_or(i64::MAX).saturating_mul(RESERVED_PER_JOB);
        // The disk must not fill between sbatch's answer and its record. Not every file system can set
        // space aside: other errors are no reason to stop.
        let reserved = fallocate(&journal, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, reserve);
        if let Err(nix::Error::ENOSPC | nix::Error::EDQUOT) = reserved {
            return Err(RunError::Write { path, source: io::ErrorKind::StorageFull.into() });
        }
        let mut run = Run { id: id.to_owned(), folder: folder.to_owned(), journal };
        run.record(&Entry::Run { schema: SCHEMA, run: id, plan })?;
        Ok(run)
    }
}

impl Run {
    /// Returns a new run's id: the time and six random hexadecimal digits.
    #[must_use]
    pub fn new_id(now: DateTime<Utc>) -> String {
        // The keys of a fresh hasher come from the operating system's random numbers.
        let random = RandomState::new().hash_one(now) & 0x00ff_ffff;
        format!("{}-{random:06x}", now.format("%Y%m%dT%H%M%S"))
    }

    /// Returns the run's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the run's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends a line to the journal and brings it to the disk.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn record(&mut self, entry: &Entry<'_>) -> Result<(), RunError> {
        let path = self.folder.join("journal");
        let mut line = serde_json::to_vec(entry).map_err(io::Error::other).map_err(write_error(&path))?;
        line.push(b'\n');
        self.journal.write_all(&line).and_then(|()| self.journal.sync_data()).map_err(write_error(&path))
    }
}

/// Writes a whole file under its name or not at all.
///
/// # Errors
/// When it cannot be written.
fn replace(path: &Path, text: &str) -> Result<(), RunError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // A temporary file is made 0600.
    let mut file = NamedTempFile::new_in(folder).map_err(write_error(path))?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(write_error(path))?;
    file.persist(path)
        .map(drop)
        .map_err(|error| RunError::Write { path: path.to_owned(), source: error.error })
}

fn make_folder(path: &Path) -> Result<(), RunError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(write_error(path))
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

fn write_error(path: &Path) -> impl FnOnce(io::Error) -> RunError {
    let path = path.to_owned();
    move |source| RunError::Write { path, source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_run_is_whole_private_and_made_once() {
        let root = tempfile::tempdir().expect("a directory");
        let state = root.path().join("state");
        let runs = Runs::open(&state).expect("opens");
        let files = [("a.sbatch".to_owned(), "#!/bin/bash\n")];
        let mut run = runs.create("r1", "abc", &files).expect("writes");
        run.record(&Entry::Intent { job: "a" }).expect("writes");
        run.record(&Entry::Submitted { job: "a", job_id: "7" }).expect("writes");
        let journal = std::fs::read_to_string(run.folder().join("journal")).expect("reads");
        let expected = [
            r#"{"event":"run","schema":"hsched.run/1","run":"r1","plan":"abc"}"#,
            r#"{"event":"intent","job":"a"}"#,
            r#"{"event":"submitted","job":"a","job_id":"7"}"#,
        ];
        assert_eq!(journal.lines().collect::<Vec<_>>(), expected);
        let mode = |path: &Path| path.metadata().expect("exists").permissions().mode() & 0o777;
        assert_eq!(mode(&run.folder().join("a.sbatch")), 0o600);
        assert_eq!(mode(&run.folder().join("journal")), 0o600);
        assert_eq!(mode(run.folder()), 0o700);
        assert!(matches!(runs.create("r1", "abc", &files), Err(RunError::Exists { .. })));
    }

    #[test]
    fn the_state_directory_serves_one_hsched_at_a_time() {
        let root = tempfile::tempdir().expect("a directory");
        let first = Runs::open(root.path()).expect("opens");
        assert!(matches!(Runs::open(root.path()), Err(RunError::Locked { .. })));
        drop(first);
        Runs::open(root.path()).expect("opens again");
    }

    #[test]
    fn what_cannot_be_written_leaves_no_run() {
        let root = tempfile::tempdir().expect("a directory");
        let runs = Runs::open(root.path()).expect("opens");
        let files = [("plan.json".to_owned(), "{}"), ("missing/x".to_owned(), "")];
        assert!(matches!(runs.create("r1", "abc", &files), Err(RunError::Write { .. })));
        assert!(!root.path().join("runs/r1").exists());
    }
}
