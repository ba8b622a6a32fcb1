//! The table of a job's keys: how each is documented, read, checked and written.
//!
//! Job files, JSON, generated YAML, CSV traces, sweeps and the manual all use it. A new key is one entry
//! here, plus its field in [`Job`].

use serde_json::Value as Json;

use super::draft::JobDraft;
use super::job_yaml::flow;
use super::reader::ReaderValue;
use crate::Job;

mod course;
mod goal;
mod gpus;
mod launch;
mod replicas;
mod sweep;
#[cfg(test)]
mod tests;
mod trace;
mod training;

/// Largest count of samples, batches and steps, far below 2^53, so that the planner's floats represent it
/// exactly.
const COUNT_LIMIT: u64 = 1_000_000_000_000;

/// Largest number of GPUs that a job may request.
const GPU_LIMIT: u32 = 1_000_000;

/// All keys, grouped by subject, in the order in which files are written.
static TABLE: [&[JobKey]; 8] = [
    training::KEYS,
    gpus::KEYS,
    replicas::KEYS,
    launch::KEYS,
    course::KEYS,
    trace::KEYS,
    goal::KEYS,
    sweep::KEYS,
];

/// A key of a job, or of a map in a job.
pub struct JobKey {
    pub name: &'static str,
    /// Form of values for help texts. In a map: the key as written in the map's form; empty if only hsched
    /// writes it.
    pub(super) form: &'static str,
    /// Help text. In a map, it follows that of the map.
    pub(super) help: &'static str,
    pub(super) needed: Requirement,
    /// Default value as YAML; empty if there is none.
    pub default: &'static str,
    /// Whether the value is a name, so that a cell of a CSV trace is always text, even if it looks like a
    /// number.
    pub is_name: bool,
    /// Keys of a map value; empty if the value is not a map, or a map with arbitrary keys.
    pub(super) inner: &'static [Self],
    /// How the values of a sweep are inserted.
    pub(super) filling: PlaceholderForm,
    /// Reads a value into a job; if it is invalid, reports it and returns `None`. Not called for a map with
    /// `inner` keys.
    pub(super) read: fn(&ReaderValue<'_>, &mut Job) -> Option<()>,
    /// Derives a missing value from other keys, if the default is not the same for all jobs.
    pub(super) derive: Option<fn(&mut Job)>,
    /// Called after all keys have been read: reports conflicts with other keys, and sets values that follow
    /// from this key's value.
    pub(super) settle: fn(&mut JobDraft<'_>),
    /// Returns the value as JSON; `None` if the job is the same without the key.
    pub(super) write: fn(&Job) -> Option<Json>,
    /// Returns the value as YAML on one line; it also receives the JSON.
    pub(super) write_yaml: fn(&Job, &Json) -> String,
}

/// The files that must have a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Requirement {
    No,
    Yes,
    /// Job files, but not traces, whose jobs do not run.
    ToRun,
    /// All files, except for jobs of a job file that have a command and no such key besides `epochs`; these
    /// run on one GPU.
    ToDivide,
}

/// How a sweep fills the placeholders in a key's value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaceholderForm {
    /// As text.
    Plain,
    /// As shell words.
    Shell,
    /// As shell words; in a list, each item is one word.
    ShellUnlessList,
    /// Not filled: the variant's name replaces it.
    Name,
    /// Not filled: an empty map replaces the value.
    Nothing,
}

/// Common values of most keys.
const KEY: JobKey = JobKey {
    name: "",
    form: "",
    help: "",
    needed: Requirement::No,
    default: "",
    is_name: false,
    inner: &[],
    filling: PlaceholderForm::Plain,
    read: |_, _| Some(()),
    derive: None,
    settle: |_| {},
    write: |_| None,
    write_yaml: |_, value| flow(value),
};

/// Returns the keys of a job in file order; those of maps are inside their map's key.
pub fn job_keys() -> impl Iterator<Item = &'static JobKey> {
    TABLE.into_iter().flatten()
}

impl JobKey {
    /// Returns the key of a job with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        job_keys().find(|key| key.name == name)
    }

    /// Returns whether a job file must have the key, at least for a job that trains on several GPUs.
    pub fn is_required(&self) -> bool {
        self.needed != Requirement::No
    }

    /// Returns the form of values for help texts.
    pub fn form(&self) -> String {
        let inner: Vec<&str> =
            self.inner.iter().map(|key| key.form).filter(|form| !form.is_empty()).collect();
        if inner.is_empty() { self.form.to_owned() } else { format!("map of {}", inner.join(", ")) }
    }

    /// Returns the help text.
    pub fn help(&self) -> String {
        let all = [self.help].into_iter().chain(self.inner.iter().map(|key| key.help));
        all.filter(|help| !help.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// Returns the value in a job as JSON; `None` if the job is the same without the key.
    pub(super) fn json(&self, job: &Job) -> Option<Json> {
        if self.inner.is_empty() {
            return (self.write)(job);
        }
        let map = entries(self.inner, job);
        (!map.is_empty()).then_some(Json::Object(map))
    }

    /// Returns the value in a job as YAML on one line; `None` if the job is the same without the key.
    pub(super) fn yaml(&self, job: &Job) -> Option<String> {
        let text = (self.write_yaml)(job, &self.json(job)?);
        let goes_without_saying = text == self.default || text == "{}" || self.follows_from_others(job);
        (!goes_without_saying).then_some(text)
    }

    /// Returns whether a job would have the same value without the key, because other keys imply it.
    fn follows_from_others(&self, job: &Job) -> bool {
        self.derive.is_some_and(|derive| {
            let mut derived = job.clone();
            derive(&mut derived);
            self.json(&derived) == self.json(job)
        })
    }
}

/// Returns the entries of keys in a job, as JSON.
pub(super) fn entries<'k>(
    keys: impl IntoIterator<Item = &'k JobKey>,
    job: &Job,
) -> serde_json::Map<String, Json> {
    keys.into_iter().filter_map(|key| Some((key.name.to_owned(), key.json(job)?))).collect()
}
