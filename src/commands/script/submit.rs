//! `hsched submit SCRIPT`: submits a batch script unchanged and follows it like any other job.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::json;

use crate::app::answered::SubmissionResult;
use crate::app::context::{Context, Format};
use crate::app::slurm::script::{Script, ScriptFile};
use crate::app::slurm::script_refusal::{by_sbatch, unknown_resource};
use crate::app::slurm::script_submission::{self, NewScript, kept_script};
use crate::app::state;
use crate::commands::cli::{json_text, print};
use hsched_engine::live::absolute;
use hsched_engine::store::run_folder;
use hsched_engine::{Answer, RequestPart, ScriptFacts, ScriptJob, ScriptSubmission};
use hsched_model::number::to_f64;
use hsched_model::{ErrorId, JobName, Seconds, Time};
use hsched_slurm::live::script_command;
use hsched_slurm::script::{OptionSource, ScriptOption, ScriptReading, SlurmVersion, TimeLimit};
use hsched_slurm::site::Config;
use hsched_ui::{Exit, Failure};

/// Options for following a script.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Scripts")]
pub(in crate::commands) struct FollowArgs {
    /// For a batch script: what `hsched watch --queue` may change while the job is pending, if the change starts it sooner; a list
    /// separated by commas.
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',', conflicts_with_all = ["pieces", "pack", "together"])]
    pub may: Vec<MayArg>,
}

/// A part of a request that may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::commands) enum MayArg {
    /// Another GPU type.
    Type,
    /// Another partition.
    Partition,
    /// Another account.
    Account,
    /// A shorter time limit, if past runs show that it suffices.
    Limit,
}

/// The script to submit.
pub(in crate::commands) struct ScriptInput<'a> {
    pub path: &'a Path,
    pub bytes: &'a [u8],
    pub run: &'a str,
    /// Options for sbatch.
    pub sbatch: &'a [String],
    pub dry_run: bool,
    pub format: Format,
}

/// Options with which sbatch submits nothing, waits, or submits to another cluster; each with the reason for
/// refusing it.
const REFUSED: [(&str, &str); 3] = [
    ("test-only", "sbatch submits nothing with it; hsched submit --dry-run shows the command"),
    ("wait", "hsched does not wait for its jobs; hsched watch does"),
    ("clusters", "a state directory belongs to one cluster; run hsched on a login node of that cluster"),
];

impl From<MayArg> for RequestPart {
    fn from(arg: MayArg) -> Self {
        match arg {
            MayArg::Type => Self::Type,
            MayArg::Partition => Self::Partition,
            MayArg::Account => Self::Account,
            MayArg::Limit => Self::Limit,
        }
    }
}

impl FollowArgs {
    /// Submits a script.
    ///
    /// # Errors
    /// If sbatch would refuse the script, or nothing was submitted.
    pub(in crate::commands) fn submit(
        &self,
        context: &Context,
        input: &ScriptInput,
    ) -> Result<Exit, Failure> {
        let is_stdin = input.path == Path::new("-");
        let path = if is_stdin { PathBuf::from("script") } else { absolute(&context.directory, input.path) };
        let file = ScriptFile { path: path.clone(), bytes: input.bytes.to_vec() };
        let script = Script::new(Some(file), input.sbatch);
        let version =
            context.slurm.config().and_then(|config| SlurmVersion::parse(config.get("SLURM_VERSION")?));
        let reading = script.reading(version);
        refuse(context, &crate::app::input::name(input.path), &reading)?;
        let job = self.job(context, input, &script, &path, &reading)?;
        let file_name = path.file_name().and_then(|name| name.to_str()).unwrap_or("script");
        let kept = kept_script(&state::root(context)?, input.run, file_name);
        let submitted = if is_stdin { &kept } else { &path };
        if input.dry_run {
            let command = script_command(&job, &submitted.display().to_string()).to_string();
            return dry_run(context, input, &job.name, &command);
        }
        let name = job.name.clone();
        let path = (!is_stdin).then_some(path.as_path());
        let answered = script_submission::submit(context, NewScript { job, path, bytes: input.bytes })?;
        said(context, input, &name, &answered)
    }

    /// Returns the job of a script as recorded before its submission.
    fn job(
        &self,
        context: &Context,
        input: &ScriptInput,
        script: &Script,
        path: &Path,
        reading: &ScriptReading,
    ) -> Result<ScriptJob, Failure> {
        let bad = |message: String| Failure::new(Exit::BadInput, message).id(ErrorId::FileEncoding);
        let utf8 = |path: &Path| {
            path.to_str().map(str::to_owned).ok_or_else(|| bad(format!("{}: is not UTF-8", path.display())))
        };
        let request = reading.request.as_ref();
        let file_name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let slurm_name = request.map_or(file_name, |request| request.job_name.clone());
        let value = |name: &str| {
            let option = reading.options.iter().rev().find(|option| option.name == name);
            option.and_then(|option| option.value.clone())
        };
        let array = request.and_then(|request| request.array);
        let usual = if array.is_some() { "slurm-%A_%a.out" } else { "slurm-%j.out" };
        let output = value("output").unwrap_or_else(|| usual.to_owned());
        let error = value("error").filter(|error| *error != output);
        let limit = match request.and_then(|request| request.total.time_limit) {
            Some(TimeLimit::Seconds(limit)) => Some(Seconds(to_f64(limit))),
            _ => None,
        };
        let at: Time = state::now(context);
        let submission = ScriptSubmission {
            facts: ScriptFacts {
                limit,
                partition: request.and_then(|request| request.total.partition.clone()),
                ..ScriptFacts::default()
            },
            ..ScriptSubmission::new(input.run, at)
        };
        let name = job_name(&slurm_name)?;
        if name.as_str() != slurm_name {
            context.note(&format!("hsched calls {slurm_name:?} {name}"));
        }
        if value("comment").is_some() {
            context
                .note("the comment of the script stands within that of hsched, which finds its jobs by it");
        }
        let workdir = value("chdir")
            .map_or_else(|| context.directory.clone(), |folder| absolute(&context.directory, folder));
        Ok(ScriptJob {
            name,
            slurm_name,
            script: if input.path == Path::new("-") { "-".to_owned() } else { utf8(path)? },
            submitted_in: utf8(&context.directory)?,
            workdir: utf8(&workdir)?,
            options: script.options(reading, &[]),
            comment: value("comment"),
            outputs: std::iter::once(output).chain(error).collect(),
            tasks: array.map(|array| array.tasks.unwrap_or(1)),
            may: self.may.iter().map(|part| RequestPart::from(*part)).collect::<BTreeSet<_>>(),
            added: at,
            last: (at, "about to be submitted".to_owned()),
            submission,
            end: None,
            next: None,
        })
    }
}

/// Returns hsched's name for a job: the first [`LONGEST_NAME`] characters of Slurm's name, with `_` in place
/// of characters that are invalid in job names, and after `script` if they do not begin with a letter or
/// digit.
fn job_name(slurm_name: &str) -> Result<JobName, Failure> {
    let legal = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = slurm_name.chars().take(LONGEST_NAME).map(legal).collect();
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let name = if starts { name } else { format!("script{name}") };
    JobName::new(&name).map_err(|error| Failure::from_error(Exit::BadInput, &error).id(ErrorId::NameFormat))
}

/// Maximum length of a name that is taken from a script.
const LONGEST_NAME: usize = 150;

/// Refuses scripts that sbatch refuses, and options that leave no job to follow.
fn refuse(context: &Context, name: &str, reading: &ScriptReading) -> Result<(), Failure> {
    let gres_types = context.slurm.config().and_then(Config::gres_types);
    let refusal = by_sbatch(reading, name).or_else(|| unknown_resource(reading, gres_types.as_ref(), &[]));
    if let Some(refusal) = refusal {
        let failure = Failure::new(Exit::BadInput, format!("sbatch would refuse {name}: {}", refusal.why))
            .id(ErrorId::ScriptRefused);
        return Err(match refusal.remedy {
            Some(remedy) => failure.hint(remedy),
            None => failure,
        });
    }
    let is_refused = |option: &str| {
        reading.options.iter().any(|candidate| candidate.name == option && !is_own_cluster(candidate))
    };
    let found = REFUSED.iter().find(|(option, _)| is_refused(option));
    match found {
        Some((option, why)) => {
            Err(Failure::new(Exit::BadInput, format!("{name}: --{option} cannot be used: {why}"))
                .id(ErrorId::SbatchOption))
        }
        None => Ok(()),
    }
}

/// Returns whether an option only names the cluster that all commands of hsched use: Slurm's programs read
/// `SLURM_CLUSTERS`.
pub(super) fn is_own_cluster(option: &ScriptOption) -> bool {
    let is_of_all = matches!(&option.source, OptionSource::Environment(name) if name == "SLURM_CLUSTERS");
    is_of_all && option.value.as_deref().is_some_and(|names| !names.contains(',') && names != "all")
}

fn dry_run(context: &Context, input: &ScriptInput, name: &JobName, command: &str) -> Result<Exit, Failure> {
    let text = match input.format {
        Format::Table => format!("{command}\n"),
        Format::Json => json_text(&json!({
            "schema": "hsched.submit/1", "run": input.run, "folder": null,
            "jobs": [{
                "name": name.as_str(), "state": "dry_run", "job_id": null, "message": null, "command": command,
            }],
        }))?,
    };
    print(context, &text).map(|()| Exit::Done)
}

fn said(
    context: &Context,
    input: &ScriptInput,
    name: &JobName,
    answered: &SubmissionResult,
) -> Result<Exit, Failure> {
    let exit = match &answered.answer {
        Answer::Submitted { .. } => Exit::Done,
        Answer::Unreachable { .. } => Exit::SlurmUnavailable,
        _ => Exit::Failed,
    };
    let text = match input.format {
        Format::Table => format!("{answered}\n"),
        Format::Json => {
            let folder = run_folder(&state::root(context)?, input.run);
            let folder = (!answered.is_not_submitted()).then_some(folder);
            json_text(&json!({
                "schema": "hsched.submit/1", "run": input.run, "folder": folder,
                "jobs": [{
                    "name": name.as_str(), "state": answered.word(),
                    "job_id": answered.job_id().map(|id| id.to_string()), "message": answered.message(),
                }],
            }))?
        }
    };
    // If stdout fails, the answer must still be shown.
    print(context, &text).inspect_err(|_| context.terminal.say(text.trim_end()))?;
    if exit == Exit::Done && input.format == Format::Table {
        context.note(&format!("hsched watch follows it; hsched logs {name} prints its output"));
    }
    Ok(exit)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hsched_slurm::script::{ScriptSource, read_script};

    use super::{is_own_cluster, job_name};

    #[test]
    fn the_cluster_of_all_commands_is_no_other_cluster() {
        let check = |name: &str, value: &str, words: &[&str], expected: &[bool]| {
            let reading = read_script(&ScriptSource {
                script: Some(b"#!/bin/sh\n"),
                file_name: "x",
                command_line: &words.iter().map(ToString::to_string).collect::<Vec<_>>(),
                environment: &BTreeMap::from([(name.to_owned(), value.to_owned())]),
                version: None,
            });
            let own: Vec<bool> = reading.options.iter().map(is_own_cluster).collect();
            assert_eq!(own, expected, "{name}={value} {words:?}");
        };
        check("SLURM_CLUSTERS", "north", &[], &[true]);
        check("SLURM_CLUSTERS", "north", &["--clusters=south"], &[true, false]);
        check("SLURM_CLUSTERS", "north,south", &[], &[false]);
        check("SBATCH_CLUSTERS", "north", &[], &[false]);
    }

    #[test]
    fn every_name_of_slurm_becomes_one_of_hsched() {
        for (slurm, expected) in [
            ("train.sh", "train.sh"),
            ("a b/c", "a_b_c"),
            ("_x", "script_x"),
            ("é", "script_"),
            ("", "script"),
        ] {
            assert_eq!(job_name(slurm).map(|name| name.to_string()).ok().as_deref(), Some(expected));
        }
    }
}
