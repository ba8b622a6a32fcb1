//! The pools of a state directory: each has a state directory of its own below it.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::app::context::Context;
use crate::app::patterns::is_meant;
use crate::app::state;
use hsched_engine::State;
use hsched_engine::store::StateDir;
use hsched_model::ErrorId;
use hsched_ui::{Exit, Failure};

/// The folder of the pools' state directories.
const TOGETHER: &str = "together";

/// The number of pools whose progress is read, newest first.
const NEWEST: usize = 20;

/// The progress of a pool.
pub(crate) struct PoolProgress {
    pub root: PathBuf,
    pub jobs: usize,
    pub ended: usize,
}

impl PoolProgress {
    fn is_open(&self) -> bool {
        self.ended < self.jobs
    }

    /// Returns the pool's progress in words, with the command line that shows more of it.
    pub(crate) fn text(&self, command: &str) -> String {
        let see = command_in(&self.root, command, &[]);
        let (jobs, ended) = (self.jobs, self.ended);
        let which = if self.is_open() { "a pool" } else { "the last pool" };
        format!("{which}: {ended} of {jobs} jobs have ended; to see it: {see}\n")
    }
}

/// Returns the folder for the state directories of new pools. Pools do not nest: from the state directory of a
/// pool, it is the folder of that pool.
pub(crate) fn folder(root: &Path) -> PathBuf {
    let siblings = root.parent().filter(|parent| parent.ends_with(TOGETHER));
    siblings.map_or_else(|| root.join(TOGETHER), Path::to_owned)
}

/// Returns those of the newest pools below a state directory that have jobs which have not ended, the newest
/// first.
pub(crate) fn open(context: &Context, root: &Path) -> Vec<PoolProgress> {
    progress(context, root).filter(PoolProgress::is_open).collect()
}

/// Returns the open pools among the newest, or else the newest pool.
pub(crate) fn open_or_last(context: &Context, root: &Path) -> Vec<PoolProgress> {
    let open = open(context, root);
    if open.is_empty() { progress(context, root).take(1).collect() } else { open }
}

/// Runs a command that only reads. If its names are unknown in the state directory, but known in a pool below it,
/// the command reads the newest such pool, and a note says so.
///
/// # Errors
/// Those of the command.
pub(crate) fn or_in_pool(
    context: &Context,
    names: &[String],
    read: impl Fn(&Context) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let failure = match read(context) {
        Err(failure) if is_unknown_name(&failure) => failure,
        other => return other,
    };
    let Some((root, _)) = with_jobs(context, names) else { return Err(failure) };
    context.note(&format!("reading the pool in {}", root.display()));
    read(&context.with_state_dir(root))
}

/// Returns the failure of a command that changes jobs; if its names are unknown in the state directory, but known in
/// a pool below it, with the command line for the newest such pool as the hint.
pub(crate) fn name_pool(context: &Context, failure: Failure, command: &str, names: &[String]) -> Failure {
    let pool = if is_unknown_name(&failure) { with_jobs(context, names) } else { None };
    let Some((root, state)) = pool else { return failure };
    let is_job = |name: &str| state.jobs.iter().any(|tracked| is_meant(name, tracked.job.name.as_str()));
    let words: Vec<String> =
        names.iter().map(|name| if is_job(name) { name.clone() } else { format!("{name}-*") }).collect();
    let again = command_in(&root, command, &words);
    Failure { hints: vec![format!("a pool has such jobs: {again}")], ..failure }
}

fn is_unknown_name(failure: &Failure) -> bool {
    matches!(failure.id, ErrorId::UnknownJob | ErrorId::UnknownSweep)
}

/// Returns the newest pool with jobs or sweeps of all these names; `None` if the state directory itself has
/// one of them or cannot be read, or no name is given.
fn with_jobs(context: &Context, names: &[String]) -> Option<(PathBuf, State)> {
    let root = state::root(context).ok()?;
    let has = |state: &State, name: &String| {
        state.jobs.iter().any(|tracked| {
            let sweep = tracked.job.variant.as_ref().map(|variant| variant.sweep.as_str());
            is_meant(name, tracked.job.name.as_str()) || sweep.is_some_and(|sweep| is_meant(name, sweep))
        })
    };
    let here = StateDir::peek(&root, &state::rules(context)).ok()?.state;
    if names.is_empty() || names.iter().any(|name| has(&here, name)) {
        return None;
    }
    newest(context, &root, usize::MAX).find(|(_, state)| names.iter().all(|name| has(state, name)))
}

/// Returns the command line of a command of hsched for another state directory.
fn command_in(root: &Path, command: &str, words: &[String]) -> String {
    let root = root.display().to_string();
    let words = words.iter().map(|word| format!(" {}", shell_words::quote(word)));
    format!("HSCHED_STATE_DIR={} hsched {command}{}", shell_words::quote(&root), words.collect::<String>())
}

/// Returns the progress of the newest pools below a state directory, the newest first.
fn progress(context: &Context, root: &Path) -> impl Iterator<Item = PoolProgress> {
    newest(context, root, NEWEST).map(|(root, state)| {
        let ended = state.jobs.iter().filter(|tracked| tracked.phase.is_over()).count();
        PoolProgress { root, jobs: state.jobs.len(), ended }
    })
}

/// Returns those of this many newest pools below a state directory that have jobs, the newest first.
fn newest(context: &Context, root: &Path, most: usize) -> impl Iterator<Item = (PathBuf, State)> {
    let rules = state::rules(context);
    let entries = std::fs::read_dir(root.join(TOGETHER)).into_iter().flatten().flatten();
    // Names do not show the age, because --run-id can give any name. Not every file system records the
    // creation.
    let time = |data: Metadata| data.created().or_else(|_| data.modified());
    let aged = entries.map(|entry| (entry.metadata().and_then(time).ok(), entry.path()));
    let mut roots: Vec<(Option<SystemTime>, PathBuf)> = aged.collect();
    roots.sort();
    let pool = move |(_, root): (_, PathBuf)| {
        let state = StateDir::peek(&root, &rules).ok()?.state;
        (!state.jobs.is_empty()).then_some((root, state))
    };
    roots.into_iter().rev().take(most).filter_map(pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_do_not_nest() {
        assert_eq!(folder(Path::new("/s")), Path::new("/s/together"));
        assert_eq!(folder(Path::new("/s/together/1")), Path::new("/s/together"));
    }
}
