//! The files of a pool in memory, with injected write failures and crashes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use hsched_engine::pool::PoolFiles;

/// The files of the pool, and the injected fault of the process that uses them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Disk {
    files: BTreeMap<String, String>,
    fault: Option<Fault>,
}

/// A fault that occurs after a number of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The process is killed.
    Kill(u32),
    /// One write fails, and later ones succeed.
    Failure(u32),
}

thread_local! {
    static DISK: RefCell<Disk> = RefCell::default();
}

/// Access to the current disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Files;

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WriteError {
    /// The process was killed before the write.
    Killed,
    Failed,
}

/// Gives a process the disk.
pub(super) fn put(files: BTreeMap<String, String>, fault: Option<Fault>) {
    DISK.set(Disk { files, fault });
}

/// Takes the disk back.
pub(super) fn take() -> BTreeMap<String, String> {
    DISK.take().files
}

/// Fails if the process was killed.
pub(super) fn survived() -> Result<(), WriteError> {
    DISK.with_borrow(|disk| match disk.fault {
        Some(Fault::Kill(u32::MAX)) => Err(WriteError::Killed),
        _ => Ok(()),
    })
}

/// Writes, unless a fault is due.
pub(super) fn write<T>(change: impl FnOnce(&mut BTreeMap<String, String>) -> T) -> Result<T, WriteError> {
    DISK.with_borrow_mut(|disk| {
        match disk.fault {
            // All writes of a killed process fail.
            Some(Fault::Kill(0 | u32::MAX)) => {
                disk.fault = Some(Fault::Kill(u32::MAX));
                return Err(WriteError::Killed);
            }
            Some(Fault::Kill(left)) => disk.fault = Some(Fault::Kill(left - 1)),
            Some(Fault::Failure(0)) => {
                disk.fault = None;
                return Err(WriteError::Failed);
            }
            Some(Fault::Failure(left)) => disk.fault = Some(Fault::Failure(left - 1)),
            None => {}
        }
        Ok(change(&mut disk.files))
    })
}

impl PoolFiles for Files {
    type Error = WriteError;

    fn read(&self, path: &str) -> Result<Option<String>, WriteError> {
        DISK.with_borrow(|disk| Ok(disk.files.get(path).cloned()))
    }

    fn replace(&self, path: &str, text: &str) -> Result<(), WriteError> {
        write(|files| drop(files.insert(path.to_owned(), text.to_owned())))
    }

    fn claim(&self, path: &str, text: &str) -> Result<bool, WriteError> {
        if self.read(path)?.is_some() {
            return Ok(false);
        }
        write(|files| files.insert(path.to_owned(), text.to_owned()).is_none())
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, WriteError> {
        let folder = format!("{folder}/");
        DISK.with_borrow(|disk| {
            let inner = disk.files.keys().filter_map(|path| path.strip_prefix(&folder));
            let names: BTreeSet<&str> = inner.filter_map(|path| path.split('/').next()).collect();
            Ok(names.into_iter().map(str::to_owned).collect())
        })
    }

    fn damaged(&self, path: &str, what: &str) -> WriteError {
        panic!("{path}: {what}")
    }
}
