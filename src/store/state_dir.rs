//! The state directory: its lock, and a folder for each run.
//!
//! ```text
//! STATE/lock                 held while a command changes anything here
//! STATE/watch.lock           held by a `watch` that goes on
//! STATE/state.json           where every job stands: replaced as a whole, before anything is done
//! STATE/looked               empty; its time is that of the last look at the jobs
//! STATE/journal              one JSON object a line: what happened, what was meant, what came of it
//! STATE/throughput.json      measured speeds
//! STATE/runs/RUN/plan.json   the plan as it was submitted
//! STATE/runs/RUN/JOB.sbatch  the script of each job, as sbatch got it
//! STATE/runs/RUN/hsched_ddp.py  what training programs may import
//! STATE/runs/RUN/report/JOB  where the ranks report
//! ```
//!
//! Folders are for their owner alone (0700), files too (0600). A state directory that others may write is refused: the
//! scripts that hsched submits and the commands that it submits again are in it.

#![expect(clippy::disallowed_methods, reason = "this room is where state is written")]

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use tempfile::NamedTempFile;
use thiserror::Error;

use crate::engine::{Rules, State};
use crate::model::Time;
use crate::store::ledger::Contents;
use crate::store::{Ledger, SpeedFile, last_look, old_runs};

/// The state directory, locked.
#[derive(Debug)]
pub struct StateDir {
    pub(super) root: PathBuf,
    /// Holds the lock until it is dropped.
    _lock: File,
}

/// Why the state directory cannot be used.
#[derive(Debug, Error)]
pub enum StateError {
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
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{}: {what}", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("others may write to {} (mode {mode:o}), which has commands that are run as you", path.display())]
    Open { path: PathBuf, mode: u32 },
    #[error("the jobs in {} are on cluster {own}, and Slurm here is cluster {here}", path.display())]
    OtherCluster { path: PathBuf, own: String, here: String },
    #[error("the state cannot be written as JSON")]
    Json {
        #[source]
        source: serde_json::Error,
    },
}

impl StateError {
    /// Returns the error with its causes.
    #[must_use]
    pub fn in_one_line(&self) -> String {
        chain(self)
    }
}

impl StateDir {
    /// Opens and locks the state directory, making it if need be.
    ///
    /// # Errors
    /// When another hsched holds the lock, or the directory cannot be made or is not its owner's alone to write.
    pub fn open(root: &Path) -> Result<Self, StateError> {
        make(root, &root.join("runs"))?;
        let lock = lock(&root.join("lock"))?;
        // Programs that we start inherit the lock: should we die while sbatch runs, nobody submits the same
        // before it is done. Where that cannot be said, the lock is ours alone.
        let _ = fcntl(&lock, FcntlArg::F_SETFD(FdFlag::empty()));
        Ok(Self { root: root.to_owned(), _lock: lock })
    }

    /// Takes the lock of those that go on watching; it is given back when the file is closed.
    ///
    /// # Errors
    /// When another one watches, or the directory cannot be made or is not its owner's alone to write.
    pub fn lock_watch(root: &Path) -> Result<File, StateError> {
        make(root, root)?;
        lock(&root.join("watch.lock"))
    }

    /// Reads the state without the lock: as it was at some moment, whoever is at work there.
    ///
    /// # Errors
    /// When a file is there and cannot be used.
    pub fn peek(root: &Path, rules: &Rules) -> Result<State, StateError> {
        Contents::read(root, rules).map(|contents| contents.state)
    }

    /// Reads the state and opens the journal.
    ///
    /// # Errors
    /// When a file is there and cannot be used; it is left as it is.
    pub fn ledger(&self, rules: &Rules) -> Result<(State, Ledger<'_>), StateError> {
        Ledger::open(self, rules)
    }

    /// Notes that all jobs were looked at, and that the state is as they were then.
    pub fn looked(&self, at: Time) {
        last_look::note(&self.root, at);
    }

    /// Replaces the file of measured speeds.
    pub(super) fn replace_speeds(&self, text: &str) -> Result<(), StateError> {
        replace(&SpeedFile::path(&self.root), text)
    }

    /// Makes the folder of a new run with these files, by name and text. Leaves nothing behind when one cannot
    /// be written.
    ///
    /// # Errors
    /// When the run exists, or a file cannot be written: no space, no permission.
    pub fn create_run(&self, id: &str, files: &[(String, &str)]) -> Result<PathBuf, StateError> {
        let folder = run_folder(&self.root, id);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(StateError::Exists { id: id.to_owned(), folder });
            }
            other => other.map_err(write_error(&folder))?,
        }
        let filled = files.iter().try_for_each(|(name, text)| replace(&folder.join(name), text));
        if filled.is_err() {
            self.remove_run(id);
        }
        filled.map(|()| folder)
    }

    /// Removes a run that could not be written whole, or of which nothing was submitted: it must not look like one.
    pub fn remove_run(&self, id: &str) {
        // Who cannot write may be unable to remove as well; the error that brought us here says more.
        let _ = fs::remove_dir_all(run_folder(&self.root, id));
    }
}

/// Returns a new run's id: the time and six random hexadecimal digits.
#[must_use]
pub fn new_run_id(now: DateTime<Utc>) -> String {
    // The keys of a fresh hasher come from the operating system's random numbers.
    let random = RandomState::new().hash_one(now) & 0x00ff_ffff;
    format!("{}-{random:06x}", now.format(old_runs::RUN_TIME))
}

/// Returns the folder of a run.
#[must_use]
pub fn run_folder(root: &Path, run: &str) -> PathBuf {
    root.join("runs").join(run)
}

/// Returns the folder in which the ranks of a run's job report.
#[must_use]
pub fn report_folder(root: &Path, run: &str, job: &str) -> PathBuf {
    run_folder(root, run).join("report").join(job)
}

/// Returns an error with its causes, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}

pub(super) fn read(path: &Path) -> Result<Option<String>, StateError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(unmarked(&String::from_utf8_lossy(&bytes)).to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StateError::Read { path: path.to_owned(), source }),
    }
}

/// Returns a text without the byte order mark that an editor may have put before it.
pub(super) fn unmarked(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Makes a folder of the state directory, or that itself, unless it is there.
fn make(root: &Path, folder: &Path) -> Result<(), StateError> {
    // Whoever may write the scripts and commands in it has them run as this user.
    if let Ok(data) = fs::metadata(root)
        && data.is_dir()
        && data.permissions().mode() & 0o022 != 0
    {
        let mode = data.permissions().mode() & 0o7777;
        return Err(StateError::Open { path: root.to_owned(), mode });
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(write_error(folder))
}

fn lock(path: &Path) -> Result<File, StateError> {
    let lock = private().append(true).open(path).map_err(write_error(path))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StateError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(StateError::Write { path: path.to_owned(), source }),
    }
}

/// Writes a whole file under its name or not at all.
///
/// # Errors
/// When it cannot be written.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), StateError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // A temporary file is made 0600.
    let mut file = NamedTempFile::new_in(folder).map_err(write_error(path))?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(write_error(path))?;
    file.persist(path).map_err(|error| StateError::Write { path: path.to_owned(), source: error.error })?;
    // The new name is on the disk when the folder is; not every file system can be asked for that.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

pub(super) fn write_error(path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError::Write { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_others_may_write_is_refused() {
        let folder = tempfile::tempdir().expect("a directory");
        let check = |mode: u32, refused: bool| {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).expect("a mode");
            let opened = StateDir::open(folder.path()).map(drop);
            assert_eq!(matches!(opened, Err(StateError::Open { .. })), refused, "{mode:o}: {opened:?}");
            let watched = StateDir::lock_watch(folder.path()).map(drop);
            assert_eq!(matches!(watched, Err(StateError::Open { .. })), refused, "{mode:o}: {watched:?}");
        };
        check(0o777, true);
        check(0o770, true);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
        check(0o755, false);
        check(0o700, false);
    }

    #[test]
    fn a_run_is_whole_private_and_made_once() {
        let root = tempfile::tempdir().expect("a directory");
        let directory = StateDir::open(&root.path().join("state")).expect("opens");
        let files = [("a.sbatch".to_owned(), "#!/bin/bash\n")];
        let folder = directory.create_run("r1", &files).expect("writes");
        let mode = |path: &Path| path.metadata().expect("exists").permissions().mode() & 0o777;
        assert_eq!((mode(&folder.join("a.sbatch")), mode(&folder)), (0o600, 0o700));
        assert!(matches!(directory.create_run("r1", &files), Err(StateError::Exists { .. })));
        let files = [("plan.json".to_owned(), "{}"), ("missing/x".to_owned(), "")];
        assert!(matches!(directory.create_run("r2", &files), Err(StateError::Write { .. })));
        assert!(!root.path().join("state/runs/r2").exists());
    }

    #[test]
    fn the_state_directory_serves_one_hsched_at_a_time() {
        let root = tempfile::tempdir().expect("a directory");
        let first = StateDir::open(root.path()).expect("opens");
        assert!(matches!(StateDir::open(root.path()), Err(StateError::Locked { .. })));
        let watch = StateDir::lock_watch(root.path()).expect("another lock");
        assert!(matches!(StateDir::lock_watch(root.path()), Err(StateError::Locked { .. })));
        drop((first, watch));
        StateDir::open(root.path()).expect("opens again");
    }
}
