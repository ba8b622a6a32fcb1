//! `hsched doctor --restore FILE`: restores the state chosen by the user.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::app::context::{Context, Format};
use crate::app::state;
use crate::commands::cli::{json_text, print};
use hsched_engine::live::absolute;
use hsched_engine::store::{StateDir, StoredState, is_name_of_state};
use hsched_ui::{Exit, Failure};

/// Restores a file, unless this is a dry run, and reports its content and the files that it replaces.
pub(super) fn restore(
    context: &Context,
    file: &Path,
    dry_run: bool,
    format: Format,
) -> Result<Exit, Failure> {
    let rules = state::rules(context);
    let root = state::root(context)?;
    let failure = |error| state::failure(&error);
    let file = match file.to_str().filter(|name| is_name_of_state(name)) {
        Some(name) => root.join(name),
        None => absolute(&context.directory, file),
    };
    let held = || StoredState::read(&file, &rules).map_err(failure);
    let (held, replaced) = if dry_run {
        (held()?, StateDir::would_replace(&root, &rules).map_err(failure)?)
    } else {
        let directory = state::open(context)?;
        let held = held()?;
        let replaced = directory.restore(&file, &held, state::now(context), &rules).map_err(failure)?;
        (held, replaced)
    };
    let name =
        |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let text = match format {
        Format::Table => {
            let (restored, kept) =
                if dry_run { ("would restore", "would keep") } else { ("restored", "kept") };
            let trouble = held.trouble.as_ref().map(|what| format!("{what}, ")).unwrap_or_default();
            let first = format!("{restored} {}, which {trouble}{}\n", file.display(), held.knows());
            let rest =
                replaced.iter().map(|(path, aside)| format!("{kept} {} as {}\n", name(path), name(aside)));
            rest.fold(first, |text, line| text + &line)
        }
        Format::Json => {
            let jobs = held.state.jobs.iter();
            let jobs: Vec<Value> =
                jobs.map(|job| json!({ "name": job.job.name.as_str(), "state": job.phase.word() })).collect();
            let replaced: Vec<Value> = replaced
                .iter()
                .map(|(path, aside)| json!({ "file": name(path), "kept_as": name(aside) }))
                .collect();
            json_text(&json!({
                "schema": "hsched.restore/1", "dry_run": dry_run, "file": file.display().to_string(),
                "at": held.at.map(|at| at.0), "trouble": held.trouble, "jobs": jobs, "replaced": replaced,
            }))?
        }
    };
    print(context, &text)?;
    Ok(Exit::Done)
}
