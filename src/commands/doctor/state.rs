//! Checks of the state directory.

use super::check::Check;
use crate::model::Bytes;
use crate::settings::Settings;
use crate::store::Place;

/// Free space below which a note is due: plans and scripts are small, reports of many ranks are not.
const LITTLE: u64 = 100 << 20;

/// `with_slurm` says whether jobs can be submitted from here at all.
pub(super) fn checks(settings: &Settings, with_slurm: bool) -> Vec<Check> {
    const ADVICE: &str = "name another with the setting state_dir or HSCHED_STATE_DIR";
    let Some(directory) = &settings.state_dir else {
        return vec![Check::problem("state", "no home directory is known").advise("set HSCHED_STATE_DIR")];
    };
    let path = directory.display();
    let place = match Place::look(directory) {
        Ok(place) => place,
        Err(error) => return vec![Check::problem("state", format!("{path}: {error}")).advise(ADVICE)],
    };
    if let Some(error) = &place.unwritable {
        let found = format!("{} cannot be written: {error}", place.existing.display());
        return vec![Check::problem("state", found).advise(ADVICE)];
    }
    let exists = place.existing == *directory;
    let mut checks = Vec::new();
    let free = place.free.map(|bytes| format!(", {} free", size(bytes))).unwrap_or_default();
    let made = if exists { "" } else { " can be made" };
    checks.push(match place.free {
        Some(bytes) if bytes < LITTLE => {
            Check::note("state", format!("{path}{made}{free}")).advise("make room, or move it")
        }
        _ => Check::ok("state", format!("{path}{made}{free}")),
    });
    if exists && place.mode & 0o022 != 0 {
        let found = format!("others may write to {path} (mode {:o})", place.mode);
        checks.push(
            Check::problem("state", found)
                .advise(format!("chmod 700 {}", shell_words::quote(&path.to_string()))),
        );
    }
    if let Some(error) = &place.unlockable {
        let found = format!("files there cannot be locked: {error}");
        checks.push(Check::problem("state", found).advise(ADVICE));
    }
    if with_slurm {
        checks.push(visibility(&place));
    }
    checks
}

fn visibility(place: &Place) -> Check {
    const ADVICE: &str = "ranks report there: if compute nodes do not have this directory, set state_dir to one that they have";
    match place.file_system {
        Some((name, true)) => Check::ok("state", format!("on {name}, which other nodes can see")),
        Some((name, false)) => {
            Check::note("state", format!("on {name}, a file system of this machine")).advise(ADVICE)
        }
        None => Check::note("state", "on a file system that hsched does not know").advise(ADVICE),
    }
}

fn size(bytes: u64) -> String {
    let mebibytes = Bytes(bytes).whole_mebibytes();
    if mebibytes >= 10_240 { format!("{} GiB", mebibytes / 1024) } else { format!("{mebibytes} MiB") }
}
