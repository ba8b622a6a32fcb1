//! The state directory and its locks.
//!
//! ```text
//! STATE/lock                 held while a command changes the directory; contains its process id
//! STATE/watch.lock           held by a `watch` that runs continuously
//! STATE/add.lock             held by an `add` or `ask` from its look at the known names until its jobs are there
//! STATE/state.json           the state of every job, replaced atomically before any action
//! STATE/state.json.old       the previous state
//! STATE/looked               empty; its modification time is that of the last observation of the jobs
//! STATE/journal              one JSON object per line: events, intents, results, and records of the state, one
//!                            of which comes first
//! STATE/journal.old          the previous journal, for people only
//! STATE/newest               the numbers of the journal's newest line and of the newest state
//! STATE/throughput.json      measured speeds
//! STATE/queue/NAME.json      Slurm's last answers about its queue, and figures and lists made from them (*)
//! STATE/foretold/RUN.json    the start estimates of a run's submissions, and the real starts (*)
//! STATE/looks/               past looks at the site's queue, one file per day (*)
//! STATE/wishes/ID.json       `add` and `cancel` commands that were deferred (*)
//! STATE/fences/JOB/N         the Slurm job of JOB's N-th submission: a symbolic link to its id, written by
//!                            scripts
//! STATE/results              the results of forgotten jobs, one JSON object per line
//! STATE/untold               log lines that `watch` or `run` has not shown yet
//! STATE/pieces/RUN/          a script that runs in pieces, with the reports of its pieces
//! STATE/pool/                reports, orders and claims of a pool; see docs/design/pool.md
//! STATE/NAME.damaged         a damaged file that was replaced, or a file that a restored one replaced
//! STATE/runs/RUN/plan.json   the submitted plan
//! STATE/runs/RUN/JOB.sbatch  the script of each job as passed to sbatch
//! STATE/runs/RUN/SCRIPT      a user's batch script as submitted; SCRIPT.environment has its environment
//! STATE/runs/RUN/hsched_ddp/ the Python package that training programs may import
//! STATE/runs/RUN/JOB.guard   under `hsched run`: the guard process of the job
//! STATE/runs/RUN/report/JOB:claim  the Slurm job that won a race for JOB: a symbolic link to its id; with
//!                            -after-ID, the one that continued after ID
//! STATE/runs/RUN/report/JOB  reports and samples of the ranks, their new shares, and the script's notes
//!                            on the start of its output and its end
//!
//! (*) written without the lock
//! ```
//!
//! Folders that hsched creates have the mode 0700 and files directly in STATE 0600, so that only their owner
//! can read them. A state directory that others may write is refused, because it contains the scripts and
//! commands that hsched submits.

#![expect(clippy::disallowed_methods, reason = "this module is where state is written")]

mod error;

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

pub use self::error::StateError;
use crate::store::deferred_commands::{DeferredCommand, DeferredCommands};
use crate::store::files::{aside, private, replace, write_error};
use crate::store::names::{SNAPSHOT, SPEEDS, WISHES};
use crate::store::recovery::DirectoryContents;
use crate::store::state_file::Claim;
use crate::store::{Ledger, last_look};
use crate::{Rules, State};
use hsched_model::Time;

/// How long a command waits for another one that adds jobs before it prints a message.
const SILENT_WAIT: Duration = Duration::from_secs(1);

/// The state directory, locked.
#[derive(Debug)]
pub struct StateDir {
    pub(super) root: PathBuf,
    /// The lock, held until it is dropped; empty if another member of the pool may have it.
    lock: Mutex<Option<File>>,
}

/// The contents of a state directory, read without its lock.
#[derive(Debug)]
pub struct StateView {
    /// The state without the deferred commands.
    pub state: State,
    /// Commands that were not applied yet, in order.
    pub deferred_commands: Vec<DeferredCommand>,
    /// A sentence about each damaged file of the state.
    pub troubles: Vec<String>,
    /// A sentence about each damaged deferred command.
    pub lost: Vec<String>,
    /// The cluster of the jobs; `None` if it is unknown.
    pub cluster: Option<String>,
}

impl StateDir {
    /// Opens and locks the state directory, and creates it if necessary.
    ///
    /// # Errors
    /// If another hsched holds the lock, or if the directory cannot be created or is writable by others.
    pub fn open(root: &Path) -> Result<Self, StateError> {
        make(root, &root.join("runs"))?;
        let lock = lock(&root.join("lock"))?;
        // Programs started by hsched inherit the lock: if hsched dies while sbatch runs, no other process
        // submits the same job before sbatch ends. If this call fails, only hsched holds the lock.
        let _ = fcntl(&lock, FcntlArg::F_SETFD(FdFlag::empty()));
        Ok(Self { root: root.to_owned(), lock: Mutex::new(Some(lock)) })
    }

    /// Returns the directory for a pool member without the lock; it may only create report folders.
    ///
    /// # Errors
    /// If the directory cannot be created or is writable by others.
    pub fn of_member(root: &Path) -> Result<Self, StateError> {
        make(root, &root.join("runs"))?;
        Ok(Self { root: root.to_owned(), lock: Mutex::default() })
    }

    /// Takes the lock for this process alone, as after [`Self::keep_lock`]; returns whether it succeeded.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn try_lock(&self) -> Result<bool, StateError> {
        let mut held = self.held();
        if held.is_none() {
            match lock(&self.root.join("lock")) {
                Ok(lock) => *held = Some(lock),
                Err(StateError::Locked { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(held.is_some())
    }

    /// Releases the lock before this process ends.
    pub fn unlock(&self) {
        drop(self.held().take());
    }

    fn held(&self) -> MutexGuard<'_, Option<File>> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the lock to this process: programs that are started later do not inherit it. For callers whose
    /// child processes end together with them.
    pub fn keep_lock(&self) {
        let _ = self.held().as_ref().map(|lock| fcntl(lock, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)));
    }

    /// Creates the folder of deferred commands; returns its path.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make_wishes_folder(&self) -> Result<PathBuf, StateError> {
        let folder = self.root.join(WISHES);
        make(&self.root, &folder)?;
        Ok(folder)
    }

    /// Takes the lock that only one `watch` may hold; it is released when the file is closed.
    ///
    /// # Errors
    /// If another `watch` holds it, or if the directory cannot be created or is writable by others.
    pub fn lock_watch(root: &Path) -> Result<File, StateError> {
        make(root, root)?;
        lock(&root.join("watch.lock"))
    }

    /// Waits for the lock of commands whose new jobs depend on the names of the known ones. Such a command
    /// looks at the names before it holds the lock of the state directory, so two of them could otherwise
    /// find the same name free. Closing the file releases the lock. Calls `tell` once if it waits for more
    /// than a second.
    ///
    /// # Errors
    /// If the lock is unavailable, or the directory cannot be created or is writable by others.
    pub fn lock_add(root: &Path, tell: impl FnOnce()) -> Result<File, StateError> {
        make(root, root)?;
        let path = root.join("add.lock");
        let lock = private().append(true).open(&path).map_err(write_error(&path))?;
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(write_error(&path)(error)),
        }
        let (sender, receiver) = mpsc::channel();
        let locked = thread::scope(|scope| {
            thread::Builder::new().spawn_scoped(scope, || sender.send(lock.lock()))?;
            let waited = receiver.recv_timeout(SILENT_WAIT).or_else(|_| {
                tell();
                receiver.recv()
            });
            waited.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        });
        locked.map_err(write_error(&path))?;
        Ok(lock)
    }

    /// Returns whether another hsched holds the lock; also true if that is unknown.
    pub fn is_held(root: &Path) -> bool {
        // A shared lock, so that two commands that look at once do not take each other for the holder.
        let lock = private().read(true).append(true).open(root.join("lock"));
        !lock.is_ok_and(|lock| lock.try_lock_shared().is_ok())
    }

    /// Reads a consistent state without the lock, even while another hsched holds it.
    ///
    /// # Errors
    /// If a file cannot be used and the other files cannot replace it.
    pub fn peek(root: &Path, rules: &Rules) -> Result<StateView, StateError> {
        // This precedes the state: a command applied in the meantime appears twice rather than never.
        let there = DeferredCommands::read(root, &BTreeSet::new());
        let contents = DirectoryContents::read(root, rules)?;
        let troubles = contents.trouble_sentences(root);
        let lost = there.troubles(root);
        let Claim { taken, cluster, .. } = contents.recorded.map(|file| file.claim).unwrap_or_default();
        let commands = there.whole.into_iter().filter(|command| !taken.contains(&command.id)).collect();
        Ok(StateView { state: contents.state, deferred_commands: commands, troubles, lost, cluster })
    }

    /// Reads the state and opens the journal. Damaged files and files of version 0.1.0 are rewritten.
    ///
    /// # Errors
    /// If a file cannot be used and the others cannot replace it, in which case nothing is changed; or if a
    /// file cannot be written.
    pub fn ledger(&self, rules: &Rules, at: Time) -> Result<(State, Ledger<'_>), StateError> {
        Ledger::open(self, rules, at)
    }

    /// Reads the state for a dry run, which stores and repairs nothing.
    ///
    /// # Errors
    /// If a file cannot be used and the others cannot replace it.
    pub fn dry_ledger(&self, rules: &Rules) -> Result<(State, Ledger<'_>), StateError> {
        Ledger::dry_run(self, rules)
    }

    /// Returns the directory's path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Records that all jobs were observed and that the state reflects the observation.
    pub fn looked(&self, at: Time) {
        last_look::note(&self.root, at);
    }

    /// Renames a damaged file of measured speeds, and returns its new name.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn set_speeds_aside(&self) -> Result<String, StateError> {
        let path = self.root.join(SPEEDS);
        let aside = aside(&path);
        fs::rename(&path, &aside).map_err(write_error(&path))?;
        Ok(aside.file_name().unwrap_or_default().display().to_string())
    }

    /// Replaces the file of measured speeds.
    pub(super) fn replace_speeds(&self, text: &str) -> Result<(), StateError> {
        replace(&self.root.join(SPEEDS), text, None)
    }
}

/// Returns a value that differs between different states on disk: the snapshot's length and time; `None` if
/// there is no snapshot.
pub fn state_stamp(root: &Path) -> Option<(u64, SystemTime)> {
    let data = root.join(SNAPSHOT).metadata().ok()?;
    Some((data.len(), data.modified().ok()?))
}

/// Creates a folder of the state directory, or the directory itself, unless it exists.
pub(super) fn make(root: &Path, folder: &Path) -> Result<(), StateError> {
    // Other users with write access could run scripts and commands as this user.
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
    let mut lock = private().append(true).open(path).map_err(write_error(path))?;
    match lock.try_lock() {
        Ok(()) => {
            // This text is only informative, and writing it may fail on a full disk.
            let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", process::id()));
            Ok(lock)
        }
        Err(TryLockError::WouldBlock) => {
            let by = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
            Err(StateError::Locked { path: path.to_owned(), by })
        }
        Err(TryLockError::Error(source)) => Err(StateError::Write { path: path.to_owned(), source }),
    }
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
    fn the_state_directory_serves_one_hsched_at_a_time() {
        let root = tempfile::tempdir().expect("a directory");
        let first = StateDir::open(root.path()).expect("opens");
        assert!(matches!(StateDir::open(root.path()), Err(StateError::Locked { .. })));
        let watch = StateDir::lock_watch(root.path()).expect("another lock");
        assert!(matches!(StateDir::lock_watch(root.path()), Err(StateError::Locked { .. })));
        assert!(StateDir::is_held(root.path()));
        drop((first, watch));
        StateDir::open(root.path()).expect("opens again");
    }

    #[test]
    fn two_commands_that_look_at_once_hold_no_lock() {
        let root = tempfile::tempdir().expect("a directory");
        drop(StateDir::open(root.path()).expect("opens"));
        let look = File::open(root.path().join("lock")).expect("a file");
        look.lock_shared().expect("is free");
        assert!(!StateDir::is_held(root.path()));
    }
}
