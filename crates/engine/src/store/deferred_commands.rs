//! Deferred commands: files that `add` and `cancel` write while another hsched holds the lock.

#![expect(clippy::disallowed_methods, reason = "this module is where state is written")]

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Event;
use crate::store::files::{aside, create, read, sync, write_error};
use crate::store::names::WISHES;
use crate::store::seal::{FILE, SealVerdict};
use crate::store::{StateError, random};
use hsched_model::formats;
use hsched_model::{Job, JobName, Time};

/// A change to the jobs that the user requested.
#[derive(Clone, Debug, PartialEq)]
pub enum DeferredChange {
    /// `planned_by` has the policy's options for `watch`, if the command has any.
    Add {
        jobs: Vec<Job>,
        restart: bool,
        planned_by: Option<String>,
    },
    Cancel {
        jobs: Vec<JobName>,
    },
}

/// A command that waits for the lock.
#[derive(Clone, Debug, PartialEq)]
pub struct DeferredCommand {
    /// Unique id; ids of later commands sort after it.
    pub id: String,
    pub at: Time,
    pub wanted: DeferredChange,
}

/// The deferred commands of a state directory.
#[derive(Debug, Default)]
pub(super) struct DeferredCommands {
    /// Readable commands, in the order in which they were made.
    pub whole: Vec<DeferredCommand>,
    /// The names of damaged files, each with the rest of a sentence that begins with it.
    pub damaged: Vec<(String, String)>,
}

/// A deferred command in its file format.
#[derive(Serialize, Deserialize)]
struct CommandFile {
    schema: String,
    /// Unix time in seconds.
    at: f64,
    wanted: WantedFile,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WantedFile {
    /// Jobs in the format of a job file.
    Add {
        jobs: Vec<Value>,
        restart: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        planned_by: Option<String>,
    },
    Cancel {
        jobs: Vec<String>,
    },
}

/// The schema that this version reads and writes.
const SCHEMA: &str = "hsched.wish/1";

/// Suffix of the file names.
const ENDING: &str = ".json";

impl DeferredChange {
    /// Returns the events that the command stands for.
    pub fn events(&self) -> Vec<Event> {
        match self {
            Self::Add { jobs, restart, .. } => {
                let added = |job: &Job| Event::Added { job: Box::new(job.clone()), restart: *restart };
                jobs.iter().map(added).collect()
            }
            Self::Cancel { jobs } => jobs.iter().map(|job| Event::CancelAsked { job: job.clone() }).collect(),
        }
    }
}

impl DeferredCommand {
    /// Stores a deferred command without taking the lock. The present holder of the lock applies it, or the
    /// next one.
    ///
    /// # Errors
    /// If it cannot be written; the command then has no effect.
    pub fn leave(root: &Path, at: Time, wanted: DeferredChange) -> Result<Self, StateError> {
        let folder = root.join(WISHES);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(write_error(&folder))?;
        // Clocks can go back, but sequence numbers cannot: a new command sorts after every existing one.
        let number = |name: &String| name.split('-').next()?.parse::<u64>().ok();
        let next =
            deferred_ids(root).iter().filter_map(number).max().map_or(1, |last| last.saturating_add(1));
        let random = random::number().map_err(|source| StateError::Random { source })?;
        let command = Self { id: format!("{next:010}-{random:016x}"), at, wanted };
        create(&path(root, &command.id), &FILE.put(command.to_json()?))?;
        Ok(command)
    }

    fn to_json(&self) -> Result<String, StateError> {
        let wanted = match &self.wanted {
            DeferredChange::Add { jobs, restart, planned_by } => WantedFile::Add {
                jobs: jobs.iter().map(formats::jobs::to_json).collect(),
                restart: *restart,
                planned_by: planned_by.clone(),
            },
            DeferredChange::Cancel { jobs } => {
                WantedFile::Cancel { jobs: jobs.iter().map(ToString::to_string).collect() }
            }
        };
        let file = CommandFile { schema: SCHEMA.to_owned(), at: self.at.0, wanted };
        let text = serde_json::to_string_pretty(&file).map_err(|source| StateError::Json { source })?;
        Ok(text + "\n")
    }

    fn parse(id: &str, text: &[u8]) -> Result<Self, String> {
        if FILE.check(text) != SealVerdict::Whole {
            return Err("its checksum is missing or does not match".into());
        }
        let file: CommandFile = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if file.schema != SCHEMA {
            return Err(format!("its schema is {}; this version reads {SCHEMA}", file.schema));
        }
        let wanted = match file.wanted {
            WantedFile::Add { jobs, restart, planned_by } => {
                let jobs = formats::jobs::from_json(&jobs).map_err(|problems| problems.to_string())?;
                DeferredChange::Add { jobs, restart, planned_by }
            }
            WantedFile::Cancel { jobs } => {
                let jobs: Result<_, _> = jobs.iter().map(|name| JobName::new(name)).collect();
                DeferredChange::Cancel { jobs: jobs.map_err(|error| error.to_string())? }
            }
        };
        Ok(Self { id: id.to_owned(), at: Time(file.at), wanted })
    }
}

impl DeferredCommands {
    /// Reads all deferred commands except the `taken` ones; changes nothing.
    pub(super) fn read(root: &Path, taken: &BTreeSet<String>) -> Self {
        let mut commands = Self::default();
        for id in deferred_ids(root).difference(taken) {
            let text = match read(&path(root, id)) {
                // Another hsched has applied and removed it in the meantime.
                Ok(None) => continue,
                Ok(Some(text)) => Ok(text),
                Err(error) => Err(error.in_one_line()),
            };
            match text.and_then(|text| DeferredCommand::parse(id, &text)) {
                Ok(command) => commands.whole.push(command),
                Err(what) => {
                    commands.damaged.push((format!("{WISHES}/{id}{ENDING}"), format!("is damaged ({what})")));
                }
            }
        }
        commands
    }

    /// Returns a sentence about each damaged file.
    pub(super) fn troubles(&self, root: &Path) -> Vec<String> {
        let trouble = |(name, what): &(String, String)| format!("{} {what}", root.join(name).display());
        self.damaged.iter().map(trouble).collect()
    }

    /// Puts damaged files aside; returns a sentence about each. The caller must hold the lock.
    pub(super) fn set_aside(&self, root: &Path) -> Vec<String> {
        let set_aside = |(name, what): &(String, String)| {
            let (path, kept) = (root.join(name), aside(&root.join(name)));
            let kept = match fs::rename(&path, &kept) {
                Ok(()) => format!("it is kept as {}", kept.display()),
                Err(error) => format!("it cannot be set aside: {error}"),
            };
            format!("{} {what}; the deferred command is lost: run it again; {kept}", path.display())
        };
        self.damaged.iter().map(set_aside).collect()
    }
}

/// Returns the ids of the deferred commands in a state directory.
pub fn deferred_ids(root: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(root.join(WISHES)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| Some(name.strip_suffix(ENDING)?.to_owned())).collect()
}

fn path(root: &Path, id: &str) -> PathBuf {
    root.join(WISHES).join(format!("{id}{ENDING}"))
}

/// Removes the files of applied deferred commands permanently; returns the ids of those still present.
pub(super) fn remove(root: &Path, taken: &BTreeSet<String>) -> BTreeSet<String> {
    let there: BTreeSet<String> = deferred_ids(root).intersection(taken).cloned().collect();
    let stays = |id: &String| fs::remove_file(path(root, id)).is_err();
    let left: BTreeSet<String> = there.iter().filter(|id| stays(id)).cloned().collect();
    if left.len() < there.len() {
        // The state drops their ids next, so no file may reappear after a power cut.
        sync(&root.join(WISHES));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_addition_is_read_as_written() {
        let job = serde_json::json!({"name": "a", "command": ["x"]});
        let jobs = formats::jobs::from_json(&[job]).expect("a job");
        for planned_by in [None, Some("--policy sjf".to_owned())] {
            let wanted = DeferredChange::Add { jobs: jobs.clone(), restart: true, planned_by };
            let command = DeferredCommand { id: "1".into(), at: Time(2.0), wanted };
            let text = FILE.put(command.to_json().expect("JSON"));
            assert_eq!(DeferredCommand::parse("1", text.as_ref()), Ok(command));
        }
    }
}
