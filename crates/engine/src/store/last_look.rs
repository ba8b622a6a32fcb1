//! Time of the last observation of the jobs, stored as the time of an empty file, because most observations
//! change nothing else.

#![expect(clippy::disallowed_methods, reason = "this module is where state is written")]

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use crate::store::files::private;
use hsched_model::Time;

fn path(root: &Path) -> PathBuf {
    root.join("looked")
}

/// Records an observation. A failure is ignored, because the next observation records another.
pub(super) fn note(root: &Path, at: Time) {
    let Ok(since) = Duration::try_from_secs_f64(at.0) else { return };
    if let Ok(file) = private().append(true).open(path(root)) {
        let _ = file.set_modified(UNIX_EPOCH + since);
    }
}

/// Returns the time of the last observation; `None` if there was none.
pub fn last_look(root: &Path) -> Option<Time> {
    let modified = path(root).metadata().ok()?.modified().ok()?;
    Some(Time(modified.duration_since(UNIX_EPOCH).ok()?.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_remembered_until_the_next() {
        let root = tempfile::tempdir().expect("a directory");
        assert_eq!(last_look(root.path()), None);
        for at in [Time(1000.0), Time(2000.5)] {
            note(root.path(), at);
            assert_eq!(last_look(root.path()), Some(at));
        }
    }
}
