//! Checks of the state directory: its location and its files.

use std::path::Path;

use super::check::Check;
use crate::app::context::Context;
use crate::app::state;
use hsched_engine::live::{ReportedData, reported};
use hsched_engine::store::samples::RecentSamples;
use hsched_engine::store::{Inspection, StateError, StateLocation};
use hsched_model::Bytes;
use hsched_model::formats::counted;

/// Free space in bytes below which a note is due: plans and scripts are small, but reports of many ranks are
/// not.
const LITTLE: u64 = 100 << 20;

/// Returns the checks of the state directory. `with_slurm` says whether Slurm answers here.
pub(super) fn checks(context: &Context, with_slurm: bool) -> Vec<Check> {
    let Some(directory) = &context.settings.state_dir else {
        return vec![Check::problem("state", "no home directory found").advise("set HSCHED_STATE_DIR")];
    };
    let mut checks = location_checks(directory, with_slurm);
    if directory.is_dir() {
        checks.extend(files(context, directory));
    }
    checks
}

/// Returns the checks of the location.
fn location_checks(directory: &Path, with_slurm: bool) -> Vec<Check> {
    const ADVICE: &str = "choose another directory with the setting state_dir or HSCHED_STATE_DIR";
    let path = directory.display();
    let location = match StateLocation::look(directory) {
        Ok(place) => place,
        Err(error) => return vec![Check::problem("state", format!("{path}: {error}")).advise(ADVICE)],
    };
    if let Some(error) = &location.unwritable {
        let found = format!("cannot write to {}: {error}", location.existing.display());
        return vec![Check::problem("state", found).advise(ADVICE)];
    }
    let exists = location.existing == *directory;
    let mut checks = Vec::new();
    let free = location.free.map(|bytes| format!(", {} free", size(bytes))).unwrap_or_default();
    let made = if exists { "" } else { " can be created" };
    checks.push(match location.free {
        Some(bytes) if bytes < LITTLE => Check::note("state", format!("{path}{made}{free}")).advise(
            "free some space, or move the \
                directory",
        ),
        _ => Check::ok("state", format!("{path}{made}{free}")),
    });
    if exists && location.mode & 0o022 != 0 {
        let found = format!("other users can write to {path} (mode {:o})", location.mode);
        checks.push(
            Check::problem("state", found)
                .advise(format!("chmod 700 {}", shell_words::quote(&path.to_string()))),
        );
    }
    if let Some(error) = &location.unlockable {
        let found = format!("cannot lock files there: {error}");
        checks.push(Check::problem("state", found).advise(ADVICE));
    }
    if with_slurm {
        checks.push(visibility(&location));
    }
    checks
}

/// Returns the checks of the files.
fn files(context: &Context, directory: &Path) -> Vec<Check> {
    const NAME: &str = "files";
    let Inspection { state, plans, commands, findings } =
        match Inspection::of(directory, &state::rules(context)) {
            Ok(inspection) => inspection,
            Err(error) => {
                let found = match &error {
                    StateError::Lost { known, .. } => {
                        format!("the state cannot be used: {}", known.join("; "))
                    }
                    other => other.in_one_line(),
                };
                return vec![
                    Check::problem(NAME, found).advise(match &error {
                        StateError::Read { .. } => "check its permissions and the disk".to_owned(),
                        StateError::Lost { restore: Some(file), .. } => format!(
                            "to restore the newest of these states: {}; hsched status explains the effect; \
                         until then, hsched submits no job",
                            state::restoration(file)
                        ),
                        StateError::Lost { .. } => {
                            "run hsched status: it lists what you can do; until then, hsched submits no \
                         job"
                            .to_owned()
                        }
                        _ => "update hsched if a newer version wrote it, or correct it by hand".to_owned(),
                    }),
                ];
            }
        };
    let note =
        |file: String, what: &str| Check::note(NAME, format!("{} {what}", directory.join(file).display()));
    let mut checks: Vec<Check> = findings
        .into_iter()
        .map(|finding| note(finding.file, &finding.what).advise(finding.advice))
        .collect();
    let ReportedData { odd, notes, .. } =
        reported(directory, &state, &mut RecentSamples::default(), state::now(context));
    checks.extend(odd.into_iter().map(|(of, what)| {
        Check::note(NAME, format!("{}: {what}", of.name()))
            .advise("fix the program that writes the reports; hsched ignores such lines")
    }));
    checks.extend(notes.into_iter().map(|what| Check::note(NAME, what)));
    if commands > 0 {
        let found = format!(
            "{} of hsched add and cancel not applied \
            yet",
            counted(commands, "deferred command")
        );
        checks.push(Check::note(NAME, found).advise("run hsched watch"));
    }
    if checks.is_empty() {
        let found = format!(
            "intact: the state of {}, the plans of {}",
            counted(state.jobs.len(), "job"),
            counted(plans, "run")
        );
        checks.push(Check::ok(NAME, found));
    }
    checks
}

fn visibility(location: &StateLocation) -> Check {
    const ADVICE: &str = "ranks write their reports there: if compute nodes cannot see this directory, set state_dir to one that they can see";
    match location.file_system {
        Some((name, true)) => Check::ok("state", format!("on {name}, which other nodes can see")),
        Some((name, false)) => {
            Check::note("state", format!("on {name}, a file system of this machine")).advise(ADVICE)
        }
        None => Check::note("state", "on an unknown file system").advise(ADVICE),
    }
}

fn size(bytes: u64) -> String {
    let mebibytes = Bytes(bytes).whole_mebibytes();
    if mebibytes >= 10_240 { format!("{} GiB", mebibytes / 1024) } else { format!("{mebibytes} MiB") }
}
