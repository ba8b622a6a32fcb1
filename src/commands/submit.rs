//! `hsched submit`: submits job scripts of a plan to Slurm.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::app::after::{behind, refuse_unknown};
use crate::app::answered::SubmissionResult;
use crate::app::context::{Context, Format};
use crate::app::entries::Entries;
use crate::app::folders::note_shared_checkpoints;
use crate::app::planning::PlanningResult;
use crate::app::policy_args::PolicyName;
use crate::app::queue_args::QueueArgs;
use crate::app::slurm::permissions;
use crate::app::slurm::script::is_script;
use crate::app::state;
use crate::app::submission::{self, SubmissionOptions, SubmissionOutcome};
use crate::app::{deferred_commands, file_kind, input, planning, predictions};
use crate::commands::cli::{Subcommand, json_text, print};
use crate::commands::pack::{PackArgs, PackRequest};
use crate::commands::script::pieces::{Chain, PiecesArgs};
use crate::commands::script::submit::{FollowArgs, ScriptInput};
use crate::commands::submit_queue::ThroughArgs;
use crate::settings::CommandLineSetting;
use hsched_engine::Run;
use hsched_model::formats;
use hsched_model::{ErrorId, Job, JobName};
use hsched_plan::Verdict;
use hsched_plan::plan_file::PlanFile;
use hsched_ui::{Exit, Failure};

/// The rest of the message about a job without a request, if other jobs of the file have one.
const KEPT: &str = "; it is kept as waiting for hsched watch --queue";

/// Printed after the submissions of `--queue`.
const FOLLOW: &str = "hsched watch --queue follows the jobs and replaces requests by better ones";

/// Write a job script for each placed job and submit it with sbatch, or submit a batch script as it is
///
/// Takes a plan that `hsched plan` wrote, or a job file, which it plans first. `--dry-run` prints the scripts and
/// changes nothing; with `-j NAME`, you can pipe the output into sbatch. A job that is already in the queue is not
/// submitted again.
///
/// A job that is waiting, failed or was cancelled resumes after the last reported epoch, unless its model,
/// `samples_per_epoch` or `global_batch` changed. A job that completed starts over.
///
/// A batch script (a file with `#!` or `#SBATCH` lines) is submitted unchanged, once. `hsched watch`, `status`, `logs` and
/// `cancel` find its job by its name in Slurm; hsched does not retry it.
#[derive(Debug, clap::Args)]
#[command(mut_arg("policy", |policy| policy
    .value_parser(PolicyName::RUN)
    .default_value_ifs(["pack", "together"].map(|pool| (pool, "true", hsched_lab::registry().names_over_time()[0])))
    .help(format!("Policy that places the jobs. All policies except optimal use every GPU that the jobs can use. With --pack, the policy of hsched run, which may also be one that reschedules running jobs [default with --pack: {}]", hsched_lab::registry().names_over_time()[0]))))]
pub(super) struct Args {
    /// Plan (JSON), job file (YAML), or batch script; - reads standard input.
    #[arg(value_name = "PLAN|JOBS|SCRIPT")]
    input: PathBuf,
    /// Submit only this job; may be given several times.
    #[arg(long = "job", short = 'j', value_name = "NAME")]
    jobs: Vec<String>,
    /// Print the scripts instead of submitting them. `hsched watch` does not follow a job whose script you submit
    /// yourself.
    #[arg(long)]
    dry_run: bool,
    /// Start over at the first epoch. Checkpoints are not deleted: remove them, or the training program resumes from
    /// them.
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    queue: QueueArgs,
    #[command(flatten)]
    through: ThroughArgs,
    /// Id of this run [default: the time and a random number].
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Additional sbatch options; in a heterogeneous job they apply to the first component.
    #[arg(last = true, value_name = "SBATCH OPTIONS")]
    sbatch: Vec<String>,
    #[command(flatten)]
    pack: PackArgs,
    #[command(flatten)]
    follow: FollowArgs,
    #[command(flatten)]
    pieces: PiecesArgs,
    #[command(flatten)]
    planning: planning::PlanningArgs,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn flags(&self) -> Vec<CommandLineSetting> {
        self.queue.flags().into_iter().chain(self.planning.flags()).collect()
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        if let Some(exit) = self.submit_whole(context)? {
            return Ok(exit);
        }
        let bytes = input::raw_bytes(&self.input)?;
        if is_script(&bytes, &self.input) {
            return self.submit_script(context, &bytes);
        }
        if !self.follow.may.is_empty() {
            return Err(Failure::new(
                Exit::Usage,
                "--may is for a batch script; for a job file, see the job keys",
            )
            .id(ErrorId::OptionsConflict));
        }
        self.submit_jobs(context, bytes)
    }
}

impl Args {
    /// Submits the jobs of a plan or a job file.
    fn submit_jobs(&self, context: &Context, bytes: Vec<u8>) -> Result<Exit, Failure> {
        self.through.check()?;
        let text = input::text_of(bytes, &self.input)?;
        let run_id = self.run_id(context)?;
        let (planned, planned_by, requested) = if PlanFile::recognises(&text) {
            if !self.planning.says_nothing() || self.through.is_wanted() {
                let message = "the input is a plan: --pin is the only planning option allowed";
                return Err(Failure::new(Exit::Usage, message)
                    .id(ErrorId::OptionsConflict)
                    .hint("to plan again, give the job file"));
            }
            let planned = planning::read(&text, &self.input)?;
            let planned_by = format!("--policy {}", planned.file.policy);
            (planned, planned_by, None)
        } else if self.through.is_wanted() {
            let (Entries { planned, intents, foretold }, at) = self.through.entries(
                context,
                &self.planning,
                &self.sbatch,
                text.as_str(),
                self.input.as_path(),
                |jobs| choose(jobs, &self.jobs),
            )?;
            (planned, self.planning.policy.words(), Some((intents, foretold, at)))
        } else {
            let planned = planning::plan(&self.planning, context, &text, &self.input)?;
            (planned, self.planning.policy.words(), None)
        };
        let chosen = choose(&planned.jobs, &self.jobs)?;
        let options = SubmissionOptions {
            run: &run_id,
            chosen: &chosen,
            pin: self.planning.pin,
            restart: self.restart,
            sbatch: &self.sbatch,
            planned_by: &planned_by,
        };
        let mut run = submission::run(context, &planned, options)?;
        let mut predicted = Vec::new();
        if let Some((intents, foretold, at)) = requested {
            run.submissions = intents;
            predicted = predictions::of_run(&run, &foretold, at);
        }
        let scripts = submission::prepare(context, &run, options)?;
        let chosen_jobs: Vec<&Job> = chosen.iter().map(|&index| &planned.jobs[index]).collect();
        if !self.dry_run {
            file_kind::refuse_examples(&text, &self.input, &chosen_jobs)?;
            permissions::refuse_accounts(context, &chosen_jobs)?;
        }
        note_shared_checkpoints(context, &chosen_jobs);
        let submitted: BTreeSet<usize> = run.submissions.iter().map(|submission| submission.job).collect();
        let reason =
            |index: usize| planned.plan.verdicts()[index].reason().filter(|_| !submitted.contains(&index));
        for &index in &chosen {
            if let Some(reason) = reason(index) {
                let job = &planned.jobs[index];
                // A job that depends on others states its own reason; if nothing is submitted, no job is
                // kept.
                let is_kept = self.through.is_wanted() && !self.dry_run && !scripts.is_empty();
                let kept = if is_kept && behind(job).is_none() { KEPT } else { "" };
                context.note(&format!("{} was not submitted: {reason}{kept}", job.name));
            }
        }
        let unplaced = |&index: &usize| {
            let reason = reason(index)?;
            let name = planned.jobs[index].name.as_str();
            Some(json!({ "name": name, "state": "not_placed", "job_id": null, "message": reason }))
        };
        let mut jobs: Vec<Value> = chosen.iter().filter_map(unplaced).collect();
        let settled = |index: &usize| submitted.contains(index) || behind(&planned.jobs[*index]).is_some();
        let is_whole = !self.through.is_wanted() || chosen.iter().all(settled);
        let (mut folder, mut exit) = (None, if is_whole { planned.exit() } else { Exit::Unplaced });
        if self.dry_run || scripts.is_empty() {
            refuse_unknown(&run.jobs, &deferred_commands::expected(context, &state::rules(context))?)?;
        }
        if self.dry_run {
            jobs.extend(dry_run(self, context, &scripts)?);
        } else if scripts.is_empty() {
            let waits = |index: &usize| matches!(planned.plan.verdicts()[*index], Verdict::Defer { .. });
            if chosen.iter().any(waits) {
                context.note(
                    "no job was submitted; to queue the waiting jobs, run hsched add JOBS and hsched watch",
                );
            }
        } else {
            let outcome = submit(self, context, run, &planned, options)?;
            if !predicted.is_empty() {
                predictions::keep(context, &run_id, &predicted);
            }
            jobs.extend(outcome.answers.iter().map(job_json));
            exit = if outcome.exit() == Exit::Done { exit } else { outcome.exit() };
            folder = Some(outcome.folder);
        }
        jobs.sort_by_key(|job| {
            planned.jobs.iter().position(|candidate| job["name"] == candidate.name.as_str())
        });
        if self.format == Format::Json {
            let value = json!({ "schema": "hsched.submit/1", "run": run_id, "folder": folder, "jobs": jobs });
            // If stdout fails, the answers must still be shown.
            print(context, &json_text(&value)?).inspect_err(|_| context.terminal.say(&value.to_string()))?;
        }
        Ok(exit)
    }

    /// Submits inputs that no plan places: all jobs together, or a script in pieces. Returns `None` for every
    /// other input.
    fn submit_whole(&self, context: &Context) -> Result<Option<Exit>, Failure> {
        if self.pack.is_wanted() {
            let run = self.run_id(context)?;
            let request = PackRequest {
                path: &self.input,
                run: &run,
                sbatch: &self.sbatch,
                planning: &self.planning,
                search: self.through.search(),
                dry_run: self.dry_run,
                format: self.format,
            };
            return self.pack.submit(context, &request).map(Some);
        }
        let Some(limit) = self.pieces.pieces else { return Ok(None) };
        let run = self.run_id(context)?;
        let (dry_run, format) = (self.dry_run, self.format);
        let chain = Chain { script: &self.input, run: &run, limit, sbatch: &self.sbatch, dry_run, format };
        self.pieces.submit(context, &chain).map(Some)
    }

    /// Submits a batch script unchanged.
    fn submit_script(&self, context: &Context, bytes: &[u8]) -> Result<Exit, Failure> {
        let is_for_jobs = !self.jobs.is_empty() || self.restart || self.through.is_wanted();
        if is_for_jobs || self.planning.pin || !self.planning.says_nothing() {
            let name = input::name(&self.input);
            let message = format!(
                "{name} is a batch script: --job, --restart, --queue, --race, --pin and options of policies are for job files"
            );
            return Err(Failure::new(Exit::Usage, message).id(ErrorId::OptionsConflict)
                .hint(format!("hsched submit {name} --may partition,limit, then hsched watch --queue, moves a pending script"))
                .hint(format!("hsched when {name} shows what would start it sooner")));
        }
        let run = self.run_id(context)?;
        let input = ScriptInput {
            path: &self.input,
            bytes,
            run: &run,
            sbatch: &self.sbatch,
            dry_run: self.dry_run,
            format: self.format,
        };
        self.follow.submit(context, &input)
    }

    /// Returns the given id, or a new one.
    fn run_id(&self, context: &Context) -> Result<String, Failure> {
        match &self.run_id {
            Some(id) => JobName::new(id).map(|id| id.to_string()).map_err(|error| {
                Failure::new(Exit::Usage, error.to_string().replace("job name", "--run-id"))
                    .id(ErrorId::NameFormat)
            }),
            None => state::new_run(context),
        }
    }
}

/// Prints the scripts, unless the output is JSON, and returns them for JSON.
fn dry_run(args: &Args, context: &Context, scripts: &[(JobName, String)]) -> Result<Vec<Value>, Failure> {
    let json = |(name, script): &(JobName, String)| json!({ "name": name.as_str(), "state": "dry_run", "job_id": null, "message": null, "script": script });
    if args.format == Format::Table {
        scripts.iter().try_for_each(|(_, script)| print(context, script))?;
    }
    Ok(scripts.iter().map(json).collect())
}

/// Submits the jobs and prints each answer as it arrives, unless the output is JSON.
fn submit(
    args: &Args,
    context: &Context,
    run: Run,
    planned: &PlanningResult,
    options: SubmissionOptions<'_>,
) -> Result<SubmissionOutcome, Failure> {
    let unprinted = RefCell::new(None);
    let tell = |answered: &SubmissionResult| {
        let line = answered.to_string();
        if args.format == Format::Table
            && let Err(failure) = print(context, &format!("{line}\n"))
        {
            context.terminal.say(&line);
            unprinted.replace(Some(failure));
        }
    };
    let outcome = submission::submit(context, run, planned, options, &tell)?;
    let is_queued = |answered: &SubmissionResult| answered.job_id().is_some();
    if args.through.is_wanted() && args.format == Format::Table && outcome.answers.iter().any(is_queued) {
        context.note(FOLLOW);
    }
    unprinted.into_inner().map_or(Ok(outcome), Err)
}

fn job_json(answered: &SubmissionResult) -> Value {
    json!({
        "name": answered.job.as_str(), "state": answered.word(),
        "job_id": answered.job_id().map(|job_id| job_id.to_string()), "message": answered.message(),
        "epochs_done": answered.beginning.epochs_done(),
    })
}

/// Returns the indices of the named jobs; all if no name is given.
fn choose(jobs: &[Job], names: &[String]) -> Result<Vec<usize>, Failure> {
    if names.is_empty() {
        return Ok((0..jobs.len()).collect());
    }
    let number = |name: &String| {
        let known = || jobs.iter().map(|job| job.name.as_str());
        known().position(|candidate| candidate == name).ok_or_else(|| {
            let failure = Failure::new(Exit::Usage, format!("--job {name}: no such job in the plan"))
                .id(ErrorId::UnknownJob);
            let all: Vec<&str> = known().collect();
            match formats::nearest(name, known()) {
                Some(near) => failure.hint(format!("did you mean {near}?")),
                None => failure.hint(format!("jobs in the plan: {}", all.join(", "))),
            }
        })
    };
    // A job that is named twice is submitted once.
    let chosen = names.iter().map(number).collect::<Result<BTreeSet<_>, _>>()?;
    Ok(chosen.into_iter().collect())
}
