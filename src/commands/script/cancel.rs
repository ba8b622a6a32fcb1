//! `hsched cancel` of scripts that run in pieces.

use serde_json::{Value, json};

use crate::app::context::{Context, Format};
use crate::app::{deferred_commands, state};
use crate::commands::cli::{json_text, print};
use hsched_engine::store::{ScriptChain, script_chains};
use hsched_model::{ErrorId, JobName};
use hsched_slurm::scancel;
use hsched_ui::{Exit, Failure};

/// Message for a chain without a known Slurm job.
const NO_JOB: &str = "no Slurm job to cancel; the chain is closed";

/// Returns the script of each name or id; of several scripts with a name, the one that has not ended, or else
/// the last. Empty if none of the names is that of a script.
///
/// # Errors
/// If some names are those of scripts and others are not, because their outputs differ, or if several chains
/// with a name have not ended.
pub(in crate::commands) fn meant(context: &Context, names: &[String]) -> Result<Vec<ScriptChain>, Failure> {
    let mut all = script_chains(&state::root(context)?);
    if all.is_empty() {
        return Ok(Vec::new());
    }
    // A job is found even if an ended chain has its name.
    let state = deferred_commands::expected(context, &state::rules(context))?;
    let is_job = |name: &str| {
        let job = JobName::new(name).ok();
        job.is_some_and(|job| state.find(&job).is_some() || state.script(&job).is_some())
    };
    all.retain(|chain| !chain.state().is_over() || names.contains(&chain.run) || !is_job(&chain.name));
    let is_meant = |chain: &ScriptChain, name: &String| chain.name == *name || chain.run == *name;
    let is_script = |name: &&String| all.iter().any(|chain| is_meant(chain, name));
    let scripts = names.iter().filter(is_script).count();
    if scripts == 0 {
        return Ok(Vec::new());
    }
    if scripts < names.len() {
        let message = "scripts and jobs of job files cannot be cancelled together";
        return Err(Failure::new(Exit::Usage, message)
            .id(ErrorId::OptionsConflict)
            .hint("give a command for each"));
    }
    let mut meant: Vec<ScriptChain> = Vec::new();
    for name in names {
        let of_name: Vec<&ScriptChain> = all.iter().filter(|chain| is_meant(chain, name)).collect();
        let live: Vec<&ScriptChain> =
            of_name.iter().copied().filter(|chain| !chain.state().is_over()).collect();
        if live.len() > 1 && !live.iter().any(|chain| chain.run == *name) {
            return Err(several(name, &live));
        }
        let one = of_name.iter().find(|chain| chain.run == *name).or(live.first()).or(of_name.last());
        meant.extend(one.filter(|chain| !meant.contains(chain)).map(|chain| (**chain).clone()));
    }
    Ok(meant)
}

/// Returns the failure for a name of several chains that have not ended.
fn several(name: &str, live: &[&ScriptChain]) -> Failure {
    let ids: Vec<&str> = live.iter().map(|chain| chain.run.as_str()).collect();
    let message = format!("{} chains of {name:?} have not ended: {}", ids.len(), ids.join(", "));
    Failure::new(Exit::Usage, message).id(ErrorId::SeveralMeant).hint("give the id of the one to cancel")
}

/// Cancels scripts: no further piece runs them, and the running piece and the next one are cancelled in
/// Slurm.
///
/// # Errors
/// If a folder cannot be written.
pub(in crate::commands) fn cancel(
    context: &Context,
    scripts: &[ScriptChain],
    dry_run: bool,
    format: Format,
) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    let (mut lines, mut jobs): (Vec<String>, Vec<Value>) = <(Vec<String>, Vec<Value>)>::default();
    for chain in scripts {
        let open = chain.open_jobs();
        let ids = open.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let (word, said) = if chain.state().is_over() {
            ("ended", format!("already ended: {}", chain.state().word()))
        } else if dry_run && open.is_empty() {
            ("cancelled", "no Slurm job to cancel; the chain would be closed".to_owned())
        } else if dry_run {
            ("cancelling", format!("would be cancelled (jobs {ids})"))
        } else {
            chain.cancel().map_err(|error| state::failure(&error))?;
            let command = scancel::cancel_all(&open);
            match command.map(|command| scancel::send(&context.slurm, &command)) {
                None => ("cancelled", NO_JOB.to_owned()),
                Some(Ok(_)) => ("cancelling", format!("cancelling (jobs {ids})")),
                Some(Err(error)) => {
                    exit = Exit::Failed;
                    (
                        "not_cancelled",
                        format!("no further piece will run; jobs {ids} were not cancelled: {error}"),
                    )
                }
            }
        };
        lines.push(format!("{}: {said}\n", chain.name));
        let job_id = chain.job().map(|job| job.to_string());
        jobs.push(json!({"name": chain.name, "state": word, "job_id": job_id, "message": said}));
    }
    let text = match format {
        Format::Table => lines.concat(),
        Format::Json => json_text(&json!({
            "schema": "hsched.cancel/1", "dry_run": dry_run, "carried_out_by": "cancel", "jobs": jobs,
        }))?,
    };
    print(context, &text).map(|()| exit)
}
