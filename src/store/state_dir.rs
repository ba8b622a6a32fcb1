//! The state directory: its lock, its snapshot and journal, and a folder for each run.
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
//! Folders are for their owner alone (0700), files too (0600).

#![expect(clippy::disallowed_methods, reason = "this room is where state is written")]

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use nix::fcntl::{FallocateFlags, FcntlArg, FdFlag, fallocate, fcntl};
use tempfile::NamedTempFile;
use thiserror::Error;

use crate::engine::{Action, Event, Keeper, Rules, State, apply};
use crate::model::Time;
use crate::store::state_file::StateFile;
use crate::store::{SpeedFile, journal, last_look, old_runs};

/// The state directory, locked.
#[derive(Debug)]
pub struct StateDir {
    root: PathBuf,
    /// Holds the lock until it is dropped.
    _lock: File,
}

/// The state directory's snapshot and journal, at a known line.
#[derive(Debug)]
pub struct Ledger<'a> {
    directory: &'a StateDir,
    journal: File,
    /// The last line written.
    seq: u64,
    /// The speeds as they are on disk.
    speeds: SpeedFile,
    /// How many jobs are known.
    jobs: usize,
}

/// Journal space set aside for each job before anything is submitted, in bytes.
const RESERVED_PER_JOB: i64 = 4096;

/// Length from which the journal begins anew, in bytes.
const LONGEST_JOURNAL: u64 = 4 << 20;

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
    /// When another hsched holds the lock, or the directory cannot be made.
    pub fn open(root: &Path) -> Result<Self, StateError> {
        let runs = root.join("runs");
        DirBuilder::new().recursive(true).mode(0o700).create(&runs).map_err(write_error(&runs))?;
        let lock = lock(&root.join("lock"))?;
        // Programs that we start inherit the lock: should we die while sbatch runs, nobody submits the same
        // before it is done. Where that cannot be said, the lock is ours alone.
        let _ = fcntl(&lock, FcntlArg::F_SETFD(FdFlag::empty()));
        Ok(Self { root: root.to_owned(), _lock: lock })
    }

    /// Takes the lock of those that go on watching; it is given back when the file is closed.
    ///
    /// # Errors
    /// When another one watches, or the directory cannot be made.
    pub fn lock_watch(root: &Path) -> Result<File, StateError> {
        DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(write_error(root))?;
        lock(&root.join("watch.lock"))
    }

    /// Reads the state without the lock: as it was at some moment, whoever is at work there.
    ///
    /// # Errors
    /// When a file is there and cannot be used.
    pub fn peek(root: &Path, rules: &Rules) -> Result<State, StateError> {
        read_state(root, rules).map(|(state, _)| state)
    }

    /// Reads the state and opens the journal.
    ///
    /// # Errors
    /// When a file is there and cannot be used; it is left as it is.
    pub fn ledger(&self, rules: &Rules) -> Result<(State, Ledger<'_>), StateError> {
        let (state, seq) = read_state(&self.root, rules)?;
        let path = self.root.join("journal");
        let mut journal = private().append(true).open(&path).map_err(write_error(&path))?;
        if read(&path)?.is_some_and(|text| !text.is_empty() && !text.ends_with('\n')) {
            // A line that was cut off must not spoil the next one.
            journal.write_all(b"\n").map_err(write_error(&path))?;
        }
        let speeds = SpeedFile { contributor: state.contributor.clone(), cache: state.cache.clone() };
        let jobs = state.jobs.len();
        Ok((state, Ledger { directory: self, journal, seq, speeds, jobs }))
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

impl Keeper for Ledger<'_> {
    type Error = StateError;

    fn keep(
        &mut self,
        at: Time,
        state: &State,
        events: &[Event],
        actions: &[Action],
    ) -> Result<(), StateError> {
        let path = self.directory.root.join("journal");
        let lines = events.iter().map(journal::event_line);
        let lines = lines.chain(actions.iter().flat_map(journal::action_lines));
        self.keep_speeds(state)?;
        self.seq =
            journal::append(&mut self.journal, self.seq, at, lines, false).map_err(write_error(&path))?;
        // Before the state says that anything is meant.
        self.reserve(&path, actions)?;
        replace(&self.directory.root.join("state.json"), &StateFile::new(state, self.seq).to_json()?)?;
        if state.jobs.len() < self.jobs {
            old_runs::remove(&self.directory.root, state, at);
        }
        self.jobs = state.jobs.len();
        if self.shorten(&path)? { self.reserve(&path, actions) } else { Ok(()) }
    }

    fn add(&mut self, at: Time, event: &Event) -> Result<(), StateError> {
        let path = self.directory.root.join("journal");
        let line = journal::event_line(event);
        self.seq =
            journal::append(&mut self.journal, self.seq, at, [line], true).map_err(write_error(&path))?;
        Ok(())
    }
}

impl Ledger<'_> {
    /// Writes down the measured speeds where they changed.
    fn keep_speeds(&mut self, state: &State) -> Result<(), StateError> {
        if self.speeds.cache != state.cache {
            self.speeds.cache.clone_from(&state.cache);
            self.speeds.save(self.directory)?;
        }
        Ok(())
    }

    /// Puts a long journal aside, all of which the snapshot has taken in; returns whether it did.
    fn shorten(&mut self, path: &Path) -> Result<bool, StateError> {
        if self.journal.metadata().map_err(write_error(path))?.len() < LONGEST_JOURNAL {
            return Ok(false);
        }
        fs::rename(path, path.with_extension("old")).map_err(write_error(path))?;
        self.journal = private().append(true).open(path).map_err(write_error(path))?;
        Ok(true)
    }

    /// Sets disk space aside for the answers of what is about to be submitted: the disk must not fill between
    /// sbatch's answer and its record.
    fn reserve(&self, path: &Path, actions: &[Action]) -> Result<(), StateError> {
        let jobs = actions.iter().map(|action| match action {
            Action::Submit(batch) => batch.submitted.len(),
            _ => 0,
        });
        let bytes = i64::try_from(jobs.sum::<usize>()).unwrap_or(i64::MAX).saturating_mul(RESERVED_PER_JOB);
        if bytes == 0 {
            return Ok(());
        }
        let length = self.journal.metadata().map_err(write_error(path))?.len();
        let start = i64::try_from(length).unwrap_or(i64::MAX - bytes);
        // Not every file system can set space aside: other errors are no reason to stop.
        match fallocate(&self.journal, FallocateFlags::FALLOC_FL_KEEP_SIZE, start, bytes) {
            Err(nix::Error::ENOSPC | nix::Error::EDQUOT) => {
                Err(StateError::Write { path: path.to_owned(), source: io::ErrorKind::StorageFull.into() })
            }
            _ => Ok(()),
        }
    }
}

/// Returns the state and the last line that it takes in: the snapshot, the answers that came after it, and the
/// measured speeds.
fn read_state(root: &Path, rules: &Rules) -> Result<(State, u64), StateError> {
    let path = root.join("state.json");
    let damaged = |what| StateError::Damaged { path: path.clone(), what };
    let (mut state, seq) = match read(&path)? {
        Some(text) => {
            let file = StateFile::parse(&text).map_err(damaged)?;
            let seq = file.seq;
            (file.into_state().map_err(damaged)?, seq)
        }
        None => (State::default(), 0),
    };
    let text = read(&root.join("journal"))?.unwrap_or_default();
    let (answers, last) = journal::answers(&text, seq);
    for (at, answer) in answers {
        apply(&mut state, at, &answer, rules);
    }
    let path = SpeedFile::path(root);
    let speeds = SpeedFile::load(root).map_err(|error| StateError::Damaged { path, what: chain(&error) })?;
    (state.cache, state.contributor) = (speeds.cache, speeds.contributor);
    Ok((state, last))
}

/// Returns an error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}

fn read(path: &Path) -> Result<Option<String>, StateError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StateError::Read { path: path.to_owned(), source }),
    }
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

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

fn write_error(path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError::Write { path, source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

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
