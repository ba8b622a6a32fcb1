//! The one table of the keys of a job: how each is documented, read, checked and written.
//!
//! Job files, JSON, YAML for people, CSV traces, sweeps and the manual all go by it. A new key is one entry here, beside its field in
//! [`Job`].

use serde_json::Value as Json;

use super::draft::JobDraft;
use super::job_yaml::flow;
use super::reader::ReaderValue;
use crate::Job;

mod course;
mod gpus;
mod launch;
mod replicas;
#[cfg(test)]
mod tests;
mod training;

/// Largest count of samples, batches and steps: products of a few stay exact in the planner's doubles.
const COUNT_LIMIT: u64 = 1_000_000_000_000;

/// Largest number of GPUs a job may ask for.
const GPU_LIMIT: u32 = 1_000_000;

/// All keys in the order in which a file is best written, by subject.
static TABLE: [&[JobKey]; 5] = [training::KEYS, gpus::KEYS, replicas::KEYS, launch::KEYS, course::KEYS];

/// A key of a job, or of a map in a job.
pub struct JobKey {
    pub name: &'static str,
    /// What values look like, for people. In a map: the key as the map's form names it; empty if only hsched writes it.
    pub(super) form: &'static str,
    /// Sentences for people. In a map: they follow those of the map.
    pub(super) help: &'static str,
    pub(super) needed: Needed,
    /// Value where the key is missing, as YAML; empty where none is the same as a value.
    pub default: &'static str,
    /// Whether the value is a name: a cell of a CSV trace is then this text, even if it looks like a number.
    pub is_name: bool,
    /// Keys of the map that is the value; empty if it is no map, or one with any keys.
    pub(super) inner: &'static [Self],
    /// What the values of a sweep do to it.
    pub(super) filling: Filling,
    /// Reads a value into a job. Reports what is wrong with it and returns `None` then. Not called for a map of `inner` keys.
    pub(super) read: fn(&ReaderValue<'_>, &mut Job) -> Option<()>,
    /// Sets the value by those of other keys, where the key is missing and not the same for all jobs.
    pub(super) derive: Option<fn(&mut Job)>,
    /// Called after all keys have been read: reports what does not fit other keys, and sets those that follow from this one.
    pub(super) settle: fn(&mut JobDraft<'_>),
    /// Returns the value as JSON, for programs; `None` if the job is the same without the key.
    pub(super) write: fn(&Job) -> Option<Json>,
    /// Returns the value as YAML on one line, for people; given as JSON, too.
    pub(super) write_yaml: fn(&Job, &Json) -> String,
}

/// Which files must have a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Needed {
    No,
    Yes,
    /// Job files, but not traces, whose jobs never run.
    ToRun,
}

/// How a sweep fills the placeholders in the value of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Filling {
    /// As text.
    Plain,
    /// As words of a shell.
    Shell,
    /// As words of a shell, unless it is a list: that has one word an item.
    ShellUnlessList,
    /// Not at all: the variant's name replaces it.
    Name,
    /// Not at all: it is left out.
    Nothing,
}

/// What most keys have in common.
const KEY: JobKey = JobKey {
    name: "",
    form: "",
    help: "",
    needed: Needed::No,
    default: "",
    is_name: false,
    inner: &[],
    filling: Filling::Plain,
    read: |_, _| Some(()),
    derive: None,
    settle: |_| {},
    write: |_| None,
    write_yaml: |_, value| flow(value),
};

/// Returns the keys of a job in the order in which a file is best written; those of maps are inside of their map's key.
pub fn job_keys() -> impl Iterator<Item = &'static JobKey> {
    TABLE.into_iter().flatten()
}

impl JobKey {
    /// Returns the key of a job that has this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        job_keys().find(|key| key.name == name)
    }

    /// Returns whether a job file must have it.
    pub fn is_required(&self) -> bool {
        self.needed != Needed::No
    }

    /// Returns what values look like, for people.
    pub fn form(&self) -> String {
        let inner: Vec<&str> =
            self.inner.iter().map(|key| key.form).filter(|form| !form.is_empty()).collect();
        if inner.is_empty() { self.form.to_owned() } else { format!("map of {}", inner.join(", ")) }
    }

    /// Returns sentences for people.
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

    /// Returns whether a job would have the same value without the key, because of other keys.
    fn follows_from_others(&self, job: &Job) -> bool {
        self.derive.is_some_and(|derive| {
            let mut derived = job.clone();
            derive(&mut derived);
            self.json(&derived) == self.json(job)
        })
    }
}

/// Returns the entries that keys have in a job, as JSON.
pub(super) fn entries<'k>(
    keys: impl IntoIterator<Item = &'k JobKey>,
    job: &Job,
) -> serde_json::Map<String, Json> {
    keys.into_iter().filter_map(|key| Some((key.name.to_owned(), key.json(job)?))).collect()
}
