//! A job under construction: its keys are read one by one according to the table of keys.

use super::job_keys::{JobKey, Requirement, job_keys};
use super::reader::{Fields, ReaderValue};
use crate::{Job, JobName};

/// A partially read job, for checks that involve several keys.
pub(super) struct JobDraft<'a> {
    /// Contains the default of a missing or invalid key.
    pub(super) job: Job,
    fields: Fields<'a>,
    /// Keys that are invalid, or missing and required.
    wrong: Vec<&'static str>,
}

impl<'a> JobDraft<'a> {
    /// Reads all keys of a job; a job that never `runs` may lack a command.
    pub(super) fn read(fields: Fields<'a>, runs: bool) -> Option<Job> {
        let mut job = Job::only_planned(JobName::new("x").ok()?, 1, 1, 1);
        job.is_plain = runs && is_plain(&fields);
        let wrong = read_keys(job_keys(), &fields, runs, &mut job);
        let mut draft = Self { job, fields, wrong };
        for key in job_keys() {
            if let Some(derive) = key.derive
                && draft.get(key.name).is_none()
            {
                derive(&mut draft.job);
            }
            (key.settle)(&mut draft);
        }
        draft.wrong.is_empty().then_some(draft.job)
    }

    /// Returns the value of a key in the file.
    pub(super) fn get(&self, key: &str) -> Option<&ReaderValue<'a>> {
        self.fields.get(key)
    }

    /// Returns whether the values of these keys are valid or their defaults.
    pub(super) fn is_sound(&self, keys: &[&str]) -> bool {
        !keys.iter().any(|key| self.wrong.contains(key))
    }
}

/// Returns whether a job has a command, but, except for `epochs`, no key that a training on several GPUs
/// needs.
fn is_plain(fields: &Fields<'_>) -> bool {
    let divides = |key: &JobKey| key.needed == Requirement::ToDivide && key.name != "epochs";
    fields.get("command").is_some() && !job_keys().any(|key| divides(key) && fields.get(key.name).is_some())
}

/// Reads keys of a map into a job; returns those that are invalid, or missing and required.
fn read_keys(
    keys: impl Iterator<Item = &'static JobKey>,
    fields: &Fields<'_>,
    runs: bool,
    job: &mut Job,
) -> Vec<&'static str> {
    let is_plain = job.is_plain;
    let is_needed = |key: &JobKey| match key.needed {
        Requirement::No => false,
        Requirement::Yes => true,
        Requirement::ToRun => runs,
        Requirement::ToDivide => !is_plain,
    };
    let mut is_sound = |key: &JobKey| match fields.get(key.name) {
        Some(value) => read_value(key, value, job).is_some(),
        None => !is_needed(key) || fields.required(key.name).is_some(),
    };
    keys.filter(|key| !is_sound(key)).map(|key| key.name).collect()
}

fn read_value(key: &JobKey, value: &ReaderValue<'_>, job: &mut Job) -> Option<()> {
    if key.inner.is_empty() {
        return (key.read)(value, job);
    }
    let names: Vec<&str> = key.inner.iter().map(|inner| inner.name).collect();
    if value.is_scalar() {
        value.not_a_map(&format!(
            "write {}: {{{}: …}}; its keys are {}",
            key.name,
            names[0],
            names.join(", ")
        ));
        return None;
    }
    read_keys(key.inner.iter(), &value.fields(&names), true, job).is_empty().then_some(())
}
