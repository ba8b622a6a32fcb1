//! The pools of a state directory: each has a state directory of its own below it.

use std::path::{Path, PathBuf};

use crate::app::context::Context;
use crate::app::state;
use hsched_engine::store::StateDir;

/// The folder of the pools' state directories.
const TOGETHER: &str = "together";

/// The number of pools that are read, newest first.
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

    /// Returns the pool's progress, and the command that shows it.
    pub(crate) fn text(&self) -> String {
        let root = self.root.display().to_string();
        let root = shell_words::quote(&root);
        let (jobs, ended) = (self.jobs, self.ended);
        let which = if self.is_open() { "a pool" } else { "the last pool" };
        format!(
            "{which}: {ended} of {jobs} jobs have ended; to see it: HSCHED_STATE_DIR={root} hsched status\n"
        )
    }
}

/// Returns the folder for the state directories of new pools. Pools do not nest: from the state directory of a
/// pool, it is the folder of that pool.
pub(crate) fn folder(root: &Path) -> PathBuf {
    let siblings = root.parent().filter(|parent| parent.ends_with(TOGETHER));
    siblings.map_or_else(|| root.join(TOGETHER), Path::to_owned)
}

/// Returns the pools below a state directory that have jobs which have not ended, the newest first.
pub(crate) fn open(context: &Context, root: &Path) -> Vec<PoolProgress> {
    newest(context, root).filter(PoolProgress::is_open).collect()
}

/// Returns the open pools, or else the last one that has ended.
pub(crate) fn open_or_last(context: &Context, root: &Path) -> Vec<PoolProgress> {
    let open = open(context, root);
    if open.is_empty() { newest(context, root).take(1).collect() } else { open }
}

/// Returns the newest pools below a state directory, the newest first.
fn newest(context: &Context, root: &Path) -> impl Iterator<Item = PoolProgress> {
    let rules = state::rules(context);
    let entries = std::fs::read_dir(root.join(TOGETHER)).into_iter().flatten().flatten();
    let mut roots: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    roots.sort();
    let pool = move |root: PathBuf| {
        let state = StateDir::peek(&root, &rules).ok()?.state;
        let ended = state.jobs.iter().filter(|tracked| tracked.phase.is_over()).count();
        (!state.jobs.is_empty()).then_some(PoolProgress { root, jobs: state.jobs.len(), ended })
    };
    roots.into_iter().rev().take(NEWEST).filter_map(pool)
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
