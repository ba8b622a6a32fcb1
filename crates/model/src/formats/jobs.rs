//! Job files: the jobs of a file, with their sweeps and copies; each job is read with the table of keys
//! (`job_keys`).

use std::collections::BTreeMap;

use serde_json::json;

use super::after;
use super::copies;
use super::draft::JobDraft;
pub use super::job_json::to_json;
use super::job_keys::{JobKey, job_keys};
pub use super::job_yaml::to_yaml;
use super::json;
use super::launch;
use super::problem::{Problems, ValueError};
use super::reader::{ReaderValue, all, read_file, read_tree};
use super::sweep::Sweeps;
use super::trial::Trial;
use crate::{ErrorId, Job, JobName, Seconds};

/// Parses a job file, with all defaults filled in.
///
/// # Errors
/// If the text is not YAML or not a job file; all problems are listed.
pub fn parse(text: &str) -> Result<Vec<Job>, Problems> {
    read_file(text, |root| read_jobs(root, true, None))
}

/// Returns the jobs of the entries of a job file, as [`to_json`] writes them.
///
/// # Errors
/// If they are not valid entries; all problems are listed.
pub fn from_json(entries: &[serde_json::Value]) -> Result<Vec<Job>, Problems> {
    read_tree(&json::tree(&json!({ "jobs": entries })), true, |root| read_jobs(root, true, None))
}

/// A trace of jobs over time.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceFile {
    /// The initial time, from the trace's start.
    pub now: Seconds,
    pub jobs: Vec<Job>,
}

/// Parses a trace: a job file whose jobs may lack a command, with an optional initial time (`now`).
///
/// # Errors
/// The errors of [`parse`].
pub fn parse_trace(text: &str) -> Result<TraceFile, Problems> {
    read_file(text, |root| {
        let now = root.entries_quietly().into_iter().find(|(key, _)| *key == "now");
        let now = now.map_or(Some(Seconds(0.0)), |(_, value)| value.duration());
        Some(TraceFile { jobs: read_jobs(root, false, None)?, now: now? })
    })
}

/// Reads the jobs of a file, with the values of a trial if one is given.
pub(super) fn read_jobs(root: &ReaderValue<'_>, runs: bool, trial: Option<&Trial>) -> Option<Vec<Job>> {
    if root.is_list() {
        root.report(
            ValueError::new("must be a map, got a list")
                .id(ErrorId::JobFileShape)
                .hint("put the list under jobs:"),
        );
        return None;
    }
    if is_one_job(root) {
        root.report(
            ValueError::new("is a single job, not a list of jobs")
                .id(ErrorId::JobFileShape)
                .hint("put it under jobs: as - name: …"),
        );
        return None;
    }
    let known: &[&str] =
        if runs { &["jobs", "sweep", "search"] } else { &["jobs", "sweep", "search", "now"] };
    let fields = root.fields_with_anchors(known);
    let mut sweeps = trial.map_or_else(|| Sweeps::of_file(&fields), |trial| trial.sweeps(&fields));
    let list = fields.required("jobs")?;
    let items = list.items();
    if items.is_empty() && (list.is_list() || list.is_nothing()) {
        list.report(ValueError::new("must contain at least one job").id(ErrorId::JobFileShape));
    }
    let mut lines = BTreeMap::new();
    let entries = all(items.into_iter().map(|item| {
        let jobs = all(sweeps.variants(&item, |job| read_job(job, runs, &mut lines)).into_iter());
        let jobs = if runs { copies::forked(&item, jobs?, &mut lines)? } else { jobs? };
        Some((item, jobs))
    }));
    sweeps.finish(&fields);
    Some(after::settled(entries?))
}

/// Returns whether the file has the keys of a job in place of `jobs`.
fn is_one_job(root: &ReaderValue<'_>) -> bool {
    let keys: Vec<&str> = root.entries_quietly().into_iter().map(|(key, _)| key).collect();
    let of_job = keys.iter().filter(|key| JobKey::named(key).is_some());
    !keys.contains(&"jobs") && keys.contains(&"name") && of_job.count() > 1
}

fn read_job(value: &ReaderValue<'_>, runs: bool, lines: &mut BTreeMap<JobName, usize>) -> Option<Job> {
    let names: Vec<&str> = job_keys().map(|key| key.name).collect();
    let fields = value.fields(&names);
    let is_new = fields.get("name").is_none_or(|name| is_new(name, lines));
    JobDraft::read(fields, runs).filter(|_| is_new)
}

/// Returns whether no earlier job has this name, and records the name; reports a duplicate. An invalid name
/// is reported where it is read.
fn is_new(value: &ReaderValue<'_>, lines: &mut BTreeMap<JobName, usize>) -> bool {
    let Some(name) = value.text_quietly().and_then(|text| JobName::new(text).ok()) else { return true };
    if let Some(first) = lines.get(&name) {
        let message = format!("{:?} is already the name of the job on line {first}", name.as_str());
        value.report(ValueError::new(message).id(ErrorId::NameTaken));
        return false;
    }
    lines.insert(name, value.line());
    true
}

/// Returns the text if it is a valid display name: one line, not empty.
///
/// # Errors
/// If it is invalid.
pub fn label(text: &str) -> Result<String, ValueError> {
    if text.trim().is_empty() {
        return Err(ValueError::new("must not be empty").id(ErrorId::TextFormat));
    }
    launch::one_line(text)
}
