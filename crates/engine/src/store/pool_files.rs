//! The files of a pool on disk.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::pool::{self, POOL, PoolFiles, PoolPlan};
use crate::store::StateError;
use crate::store::files::{create, read, replace};
use crate::store::state_dir::make;

/// The file with the parameters of the pool's submission.
const PLAN: &str = "plan";

/// The files of a pool in a state directory.
#[derive(Clone, Debug)]
pub struct PoolFolder {
    root: PathBuf,
}

impl PoolFolder {
    /// Returns the pool of a state directory; `None` if it has none.
    pub fn find(root: &Path) -> Option<Self> {
        root.join(POOL).is_dir().then(|| Self { root: root.to_owned() })
    }

    /// Turns a state directory into that of a pool.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn create(root: &Path) -> Result<Self, StateError> {
        make(root, &root.join(POOL))?;
        Ok(Self { root: root.to_owned() })
    }

    /// Returns the path of a file or folder of the pool.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(POOL).join(path)
    }

    /// Writes the parameters of the pool's submission.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_plan(&self, plan: &PoolPlan) -> Result<(), StateError> {
        let text = pool::write(plan).map_err(|what| self.damaged(PLAN, &what))?;
        self.replace(PLAN, &text)
    }

    /// Returns the parameters of the pool's submission.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn plan(&self) -> Result<PoolPlan, StateError> {
        let Some(text) = self.read(PLAN)? else { return Err(StateError::Missing { path: self.path(PLAN) }) };
        pool::parse(&text).map_err(|what| self.damaged(PLAN, &what))
    }

    /// Creates the folder of a file.
    fn make_parent(&self, path: &Path) -> Result<(), StateError> {
        path.parent().map_or(Ok(()), |folder| make(&self.root, folder))
    }
}

impl PoolFiles for PoolFolder {
    type Error = StateError;

    fn read(&self, path: &str) -> Result<Option<String>, StateError> {
        let path = self.path(path);
        let Some(bytes) = read(&path)? else { return Ok(None) };
        let text = String::from_utf8(bytes);
        text.map(Some).map_err(|_| StateError::Damaged { path, what: "not UTF-8".to_owned() })
    }

    fn replace(&self, path: &str, text: &str) -> Result<(), StateError> {
        let path = self.path(path);
        self.make_parent(&path)?;
        replace(&path, text, None)
    }

    fn claim(&self, path: &str, text: &str) -> Result<bool, StateError> {
        let path = self.path(path);
        if path.symlink_metadata().is_ok() {
            return Ok(false);
        }
        self.make_parent(&path)?;
        match create(&path, text) {
            Ok(()) => Ok(true),
            Err(StateError::Write { source, .. }) if source.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, StateError> {
        let path = self.path(folder);
        let failure = |source: io::Error| StateError::Read { path: path.clone(), source };
        let entries = match path.read_dir() {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failure(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry.map_err(failure)?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    fn damaged(&self, path: &str, what: &str) -> StateError {
        StateError::Damaged { path: self.path(path), what: what.to_owned() }
    }
}
