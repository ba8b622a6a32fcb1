//! The folders of runs and of scripts that run in pieces, in the state directory.

#![expect(clippy::disallowed_methods, reason = "this module is where these folders are written")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use crate::store::files::{make_folder, replace, write_error};
use crate::store::state_dir::make;
use crate::store::{StateDir, StateError, old_runs, random};
use hsched_model::JobId;

impl StateDir {
    /// Creates the folder for the reports of a job's ranks in a run; returns its path.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make_report_folder(&self, run: &str, job: &str) -> Result<PathBuf, StateError> {
        let folder = report_folder(self.root(), run, job);
        make(self.root(), &folder)?;
        Ok(folder)
    }

    /// Creates the folder of a new run with these files, by name and text. Leaves nothing behind if a file
    /// cannot be written.
    ///
    /// # Errors
    /// If the run exists, or a file cannot be written: no space, no permission.
    pub fn create_run(&self, id: &str, files: &[(String, &[u8])]) -> Result<PathBuf, StateError> {
        let folder = run_folder(self.root(), id);
        if folder.symlink_metadata().is_ok() {
            return Err(StateError::Exists { id: id.to_owned(), folder });
        }
        make_folder(&folder, files)?;
        Ok(folder)
    }

    /// Writes a script of this directory atomically.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_script(&self, path: &Path, text: &str) -> Result<(), StateError> {
        replace(path, text, None)
    }

    /// Creates the folder for a script's chain of pieces. It is not a run and is never removed automatically.
    /// Its files are executable.
    ///
    /// # Errors
    /// If it exists, or a file cannot be written.
    pub fn create_pieces(&self, id: &str, files: &[(&Path, &[u8])]) -> Result<PathBuf, StateError> {
        let folder = pieces_folder(self.root(), id);
        if folder.symlink_metadata().is_ok() {
            return Err(StateError::Exists { id: id.to_owned(), folder });
        }
        for (name, bytes) in files {
            let path = folder.join(name);
            make(self.root(), path.parent().unwrap_or(&folder))?;
            fs::write(&path, bytes).map_err(write_error(&path))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).map_err(write_error(&path))?;
        }
        Ok(folder)
    }

    /// Removes a chain of pieces without any submission.
    pub fn remove_pieces(&self, id: &str) {
        // Errors are ignored, as for a run, because the caller's error is more informative.
        let _ = fs::remove_dir_all(pieces_folder(self.root(), id));
    }

    /// Removes the state directory of a pool without any submission, so that it is not mistaken for one.
    pub fn remove_pool(self) {
        // Errors are ignored, as for a run.
        let _ = fs::remove_dir_all(self.root());
    }

    /// Removes a run without any submission, so that it is not mistaken for one.
    pub fn remove_run(&self, id: &str) {
        // This may fail for the same reason as the preceding write, whose error is more informative.
        let _ = fs::remove_dir_all(run_folder(self.root(), id));
    }
}

/// Returns a new run's id: the time and six random hexadecimal digits.
///
/// # Errors
/// If the system has no random numbers.
pub fn new_run_id(now: DateTime<Utc>) -> Result<String, StateError> {
    let random = random::number().map_err(|source| StateError::Random { source })? & 0x00ff_ffff;
    Ok(format!("{}-{random:06x}", now.format(old_runs::RUN_TIME)))
}

/// Returns the folder of a run.
pub fn run_folder(root: &Path, run: &str) -> PathBuf {
    root.join("runs").join(run)
}

/// Returns the folder of a chain of pieces of a script.
pub fn pieces_folder(root: &Path, id: &str) -> PathBuf {
    root.join("pieces").join(id)
}

/// Returns the folder for the reports of a job's ranks in a run.
pub fn report_folder(root: &Path, run: &str, job: &str) -> PathBuf {
    run_folder(root, run).join("report").join(job)
}

/// Returns the path of the symbolic link with which one of several competing submissions claims a job of a
/// run; its target is the id of that submission's Slurm job.
///
/// Submissions that continue `after` another Slurm job use a claim named after that job.
pub fn claim_file(root: &Path, run: &str, job: &str, after: Option<JobId>) -> PathBuf {
    let after = after.map_or_else(String::new, |id| format!("-after-{id}"));
    // No job can have this name, so it does not collide with the report folders beside it.
    run_folder(root, run).join("report").join(format!("{job}:claim{after}"))
}

/// Returns the folder in which each submission of a job takes a number when it begins; submissions with lower
/// numbers end. Copies that train at the same time have separate folders.
pub(crate) fn fence_folder(root: &Path, job: &str, copy: Option<u32>) -> PathBuf {
    let copy = copy.map_or_else(String::new, |copy| format!(":c{copy}"));
    root.join("fences").join(format!("{job}{copy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_whole_private_and_made_once() {
        let root = tempfile::tempdir().expect("a directory");
        let directory = StateDir::open(&root.path().join("state")).expect("opens");
        let files = [("a.sbatch".to_owned(), "#!/bin/bash\n".as_bytes())];
        let folder = directory.create_run("r1", &files).expect("writes");
        let mode = |path: &Path| path.metadata().expect("exists").permissions().mode() & 0o777;
        assert_eq!((mode(&folder.join("a.sbatch")), mode(&folder)), (0o600, 0o700));
        assert!(matches!(directory.create_run("r1", &files), Err(StateError::Exists { .. })));
        let files = [("plan.json".to_owned(), "{}".as_bytes()), ("plan.json/x".to_owned(), "".as_bytes())];
        assert!(matches!(directory.create_run("r2", &files), Err(StateError::Write { .. })));
        assert!(!root.path().join("state/runs/r2").exists());
    }
}
