//! Notes on the folders of jobs to be added or submitted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::app::context::Context;
use crate::app::state;
use hsched_engine::State;
use hsched_engine::live::absolute;
use hsched_engine::store::StateDir;
use hsched_model::Job;

/// Notes which jobs would overwrite each other's checkpoints: the given ones, and others that have not ended.
pub(crate) fn note_shared_checkpoints(context: &Context, jobs: &[&Job]) {
    // An unreadable state is reported by the code that writes it.
    let rules = state::rules(context);
    let known = state::root(context).ok().and_then(|root| StateDir::peek(&root, &rules).ok());
    let State { jobs: tracked, .. } = known.map(|peeked| peeked.state).unwrap_or_default();
    let is_given = |other: &Job| jobs.iter().any(|job| job.name == other.name);
    let others = tracked.iter().filter(|job| !job.phase.is_over()).map(|job| &*job.job);
    let others = others.filter(|job| !is_given(job));
    let mut users: BTreeMap<PathBuf, Vec<&str>> = BTreeMap::new();
    for job in jobs.iter().copied().chain(others) {
        let names = users.entry(checkpoints(context, job)).or_default();
        // The copies of one training share a checkpoint.
        let name = job.training().unwrap_or(job.name.as_str());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    // Known jobs were reported when they were added.
    let is_new =
        |names: &[&str]| jobs.iter().any(|job| names.contains(&job.training().unwrap_or(job.name.as_str())));
    for (folder, names) in users.iter().filter(|(_, names)| names.len() > 1 && is_new(names)) {
        context.note(&format!(
            "{} save checkpoints in the same directory {} and would overwrite each other; give each its own checkpoint.dir",
            names.join(" and "),
            folder.display()
        ));
    }
}

/// Notes which jobs have a directory that does not exist here; it may exist on the nodes.
pub(crate) fn note_missing_workdirs(context: &Context, jobs: &[Job]) {
    let mut missing: BTreeMap<PathBuf, Vec<&str>> = BTreeMap::new();
    for job in jobs {
        missing.entry(workdir(context, job)).or_default().push(job.name.as_str());
    }
    for (workdir, names) in missing.iter().filter(|(workdir, _)| !workdir.is_dir()) {
        let (names, workdir) = (named(names), workdir.display());
        context.note(&format!("{names}: the workdir {workdir} does not exist on this machine"));
    }
}

/// Returns whether a run of a job can be continued after its time limit: the user states that it saves, or an
/// earlier run was seen to resume or to write into its checkpoint directory.
pub(crate) fn resumes(context: &Context, job: &Job) -> bool {
    if job.resumes() {
        return true;
    }
    let rules = state::rules(context);
    let known = state::root(context).ok().and_then(|root| StateDir::peek(&root, &rules).ok());
    let Some(peeked) = known else { return false };
    let Some(tracked) = peeked.state.find(&job.name) else { return false };
    let past = tracked.past.iter().map(|past| &past.attempt);
    let attempts = past.chain(tracked.phase.submissions().iter().map(|submission| &submission.attempt));
    let begun = attempts.filter_map(|record| Some(record.started?.0)).min_by(f64::total_cmp);
    tracked.resumes() || begun.is_some_and(|begun| is_written(&checkpoints(context, &tracked.job), begun))
}

/// Returns whether a directory contains a file written after a given time.
fn is_written(folder: &Path, after: f64) -> bool {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let written = entries.filter_map(|entry| entry.metadata().ok()?.modified().ok());
    let mut seconds = written.filter_map(|at| at.duration_since(UNIX_EPOCH).ok());
    seconds.any(|at| at.as_secs_f64() > after)
}

/// Lists at most three names, and the number of others.
pub(crate) fn named(names: &[&str]) -> String {
    match names {
        [] | [_] => names.concat(),
        [all @ .., last] if all.len() < 3 => format!("{} and {last}", all.join(", ")),
        _ => format!("{} and {} more", names[..3].join(", "), names.len() - 3),
    }
}

/// Returns the directory of a job's checkpoints.
pub(crate) fn checkpoints(context: &Context, job: &Job) -> PathBuf {
    let usual = format!("checkpoints/{}", job.name);
    absolute(&workdir(context, job), job.launch.checkpoint.dir.as_ref().unwrap_or(&usual))
}

fn workdir(context: &Context, job: &Job) -> PathBuf {
    absolute(&context.directory, job.launch.workdir.as_deref().unwrap_or("."))
}
