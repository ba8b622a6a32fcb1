//! `hsched doctor --bundle FILE`: Slurm's output on this system, without names, for a bug report.

use std::path::Path;

use chrono::TimeDelta;
use serde_json::json;

use crate::app::context::{Context, Format};
use crate::app::slurm::permissions::user_name;
use crate::app::state;
use crate::commands::cli::{json_text, print};
use hsched_engine::clock::Clock;
use hsched_model::ErrorId;
use hsched_slurm::saved::{BundledCall, SavedBundle};
use hsched_slurm::site_calls::{Call, NameReplacer, calls};
use hsched_slurm::{JobId, QueuedJob, Runner, site, squeue};
use hsched_ui::{Align, Exit, Failure, ProgressLine, Table, wrap, write_output};

/// How far back accounting is queried for the user's jobs.
const PAST: TimeDelta = TimeDelta::days(2);

/// Maximum number of the user's jobs whose details are recorded, one in each state.
const MOST_JOBS: usize = 6;

/// Message before a bundle is created.
const INTRODUCTION: &str = "hsched makes these read-only calls and writes their output to one file. It replaces the names of users, accounts, \
    jobs, reservations and nodes, leaves out commands, paths and comments, and keeps the names of partitions, QOS and features. It sends nothing.";

/// Creates a bundle, unless this is a dry run, and shows its list of calls.
///
/// # Errors
/// If Slurm does not answer at all (exit 69), or the file cannot be written.
pub(super) fn bundle(
    context: &Context,
    path: &Path,
    names: NamesIn,
    dry_run: bool,
    format: Format,
) -> Result<Exit, Failure> {
    let now = context.clock.now();
    let user = user_name();
    let version = context.slurm.ask(&site::version_command("sinfo"))?;
    let (queued, _) = squeue::parse(&context.slurm.ask(&squeue::command())?).unwrap_or_default();
    let name = queued.first().map_or("hsched", |job| job.name.as_str());
    let jobs = own_jobs(&queued);
    let version = site::version(&version);
    let release = version.as_deref().and_then(site::release);
    let calls = calls(&user, release, now, now - PAST, &jobs, name);
    if format == Format::Table {
        print(context, &list(context, &calls))?;
    }
    if dry_run {
        let commands: Vec<String> = calls.iter().map(|call| call.command.to_string()).collect();
        let json = json!({ "schema": "hsched.bundle/1", "dry_run": true, "file": path, "calls": commands });
        return finish(context, format, &json, "nothing was written: --dry-run\n");
    }
    let recorded = record(context, &calls, &user, names);
    let failed = recorded.iter().filter(|call| call.error.is_some()).count();
    let bundle = SavedBundle::new(version, state::now(context).0, recorded);
    let bytes = bundle.to_bytes().map_err(|error| Failure::from_error(Exit::Internal, &error))?;
    write_output(path, &bytes).map_err(|error| {
        Failure::new(Exit::Failed, format!("{}: cannot be written: {error}", path.display()))
            .id(ErrorId::FileUnwritable)
    })?;
    let gaps =
        if failed == 0 { String::new() } else { format!(" ({failed} of them failed, which is recorded)") };
    let said = format!(
        "wrote the output of {} calls{gaps} to {}; look at it with tar xzf, and read it with hsched inventory --from\n",
        calls.len(),
        path.display()
    );
    let mut json = json!(bundle);
    json["file"] = json!(path);
    finish(context, format, &json, &said)
}

/// Whether a bundle contains the real names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamesIn {
    Replaced,
    Kept,
}

fn finish(context: &Context, format: Format, json: &serde_json::Value, text: &str) -> Result<Exit, Failure> {
    match format {
        Format::Json => print(context, &json_text(json)?)?,
        Format::Table => print(context, &wrap(text.trim_end(), context.terminal.width(), "  "))
            .and_then(|()| print(context, "\n"))?,
    }
    Ok(Exit::Done)
}

/// Returns the ids of some of the user's jobs, one in each state.
fn own_jobs(jobs: &[QueuedJob]) -> Vec<JobId> {
    let mut found: Vec<(String, JobId)> = Vec::new();
    for job in jobs {
        let state = job.state.to_string();
        if found.len() < MOST_JOBS && found.iter().all(|(known, _)| *known != state) {
            found.push((state, job.het.map_or(job.id, |(leader, _)| leader)));
        }
    }
    let mut ids: Vec<JobId> = found.into_iter().map(|(_, id)| id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn list(context: &Context, calls: &[Call]) -> String {
    let mut table = Table::new(&[("FILE", Align::Left), ("CALL", Align::Left)]);
    for call in calls {
        table.row([format!("{}.txt", call.name), call.command.to_string()]);
    }
    let introduction = wrap(INTRODUCTION, context.terminal.width(), "");
    format!("{introduction}\n\n{}\n", table.show(context.terminal))
}

fn record(context: &Context, calls: &[Call], user: &str, names_in: NamesIn) -> Vec<BundledCall> {
    let mut names = NameReplacer::of_user(user);
    let _progress = ProgressLine::start("recording the output of Slurm".to_owned());
    let mut answers = Vec::new();
    for call in calls {
        let answer = context.slurm.run(&call.command);
        let error = answer.as_ref().err().map(ToString::to_string);
        answers.push((call, answer.map(|output| output.stdout).unwrap_or_default(), error));
    }
    let hide = |(call, output, error): (&Call, String, Option<String>)| match names_in {
        NamesIn::Kept => bundled(call, output, error, call.command.to_string()),
        NamesIn::Replaced => {
            let output = call.hidden(&output, &mut names);
            let error = error.map(|text| names.sentence(&text));
            bundled(call, output, error, call.hidden_command(&mut names))
        }
    };
    answers.into_iter().map(hide).collect()
}

fn bundled(call: &Call, output: String, error: Option<String>, command: String) -> BundledCall {
    BundledCall { name: call.name.clone(), command, error, output }
}
