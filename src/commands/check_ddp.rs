//! `hsched check-ddp`: checks that the user's torch trains correctly with unequal ranks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::app::context::{Context, Format};
use crate::app::planning::PlanningResult;
use crate::app::{input, planning};
use crate::commands::cli::{Subcommand, json_text, print};
use crate::settings::process_environment;
use hsched_engine::named_ranks;
use hsched_model::{ErrorId, GpuType, Job, PlacedRank};
use hsched_slurm::{CommandError, CommandLine, Runner, System};
use hsched_ui::{Exit, Failure};

/// Check that your version of torch computes correct gradients with unequal local batches
///
/// Starts four ranks on this machine, with your Python and the package `hsched_ddp` that jobs import. The averaged
/// gradient must equal the gradient of one process with the whole batch. The cases: local batches as unequal as 1:31,
/// means and sums, with and without micro-batches, one model and two, extra passes, and layers that normalise over all ranks. The
/// order of samples must not depend on the split. A training run that stops and resumes on other ranks must give the same
/// result as one that never stops. Plain DDP must fail the same test.
///
/// Needs no Slurm and no GPU, takes less than a minute and leaves no files behind.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Plan from `hsched plan --format json`: warn about ranks with one sample per pass, too few for batch norm.
    #[arg(value_name = "PLAN")]
    plan: Option<PathBuf>,
    /// Python interpreter that has your torch.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: String,
    /// Device of the ranks. With fewer than four GPUs, the ranks share the GPUs and use gloo.
    #[arg(long, value_enum, default_value_t, value_name = "DEVICE")]
    device: TorchDevice,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum TorchDevice {
    #[default]
    Cpu,
    Cuda,
}

/// Output of the checks.
#[derive(Debug, Deserialize)]
struct CheckReport {
    python: String,
    /// Version of torch; `None` if Python has no torch.
    torch: Option<String>,
    /// Why the checks could not be run.
    problem: Option<String>,
    backend: Option<String>,
    device: Option<String>,
    checks: Vec<DdpCheck>,
}

/// One check: the largest relative error of its cases.
#[derive(Debug, Deserialize, Serialize)]
struct DdpCheck {
    name: String,
    error: f64,
    cases: u64,
    /// The largest allowed error; `None` for the control, which must fail.
    limit: Option<f64>,
    right: bool,
}

/// The program that runs the checks.
const CHECKS: &str = include_str!("../../templates/check_ddp.py");

/// Time limit: on a cold file system, loading torch takes minutes.
const LIMIT: Duration = Duration::from_secs(600);

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let planned = self.plan.as_ref().map(|path| planning::read(&input::text(path)?, path)).transpose()?;
        let warnings = planned.as_ref().map(warnings).unwrap_or_default();
        let answer = self.ask(&input::template(context)?.helpers)?;
        let Some(torch) = &answer.torch else {
            let problem = answer.problem.as_deref().unwrap_or("the checks gave no reason");
            return Err(self.unchecked(&answer.python, problem));
        };
        let right = answer.checks.iter().all(|check| check.right);
        let text = match self.format {
            Format::Table => format!("{}\n", verdict(torch, &answer)),
            Format::Json => json_text(&json!({
                "schema": "hsched.check-ddp/1",
                "right": right,
                "python": answer.python,
                "torch": torch,
                "device": answer.device,
                "backend": answer.backend,
                "checks": answer.checks,
                "warnings": warnings,
            }))?,
        };
        for warning in &warnings {
            context.note(warning);
        }
        print(context, &text)?;
        Ok(if right { Exit::Done } else { Exit::Failed })
    }
}

impl Args {
    /// Returns the output of the checks.
    ///
    /// # Errors
    /// If Python cannot be started (exit 78), or the checks fail to run, take too long or print no result.
    fn ask(&self, package: &[(&'static str, String)]) -> Result<CheckReport, Failure> {
        let device = if self.device == TorchDevice::Cpu { "cpu" } else { "cuda" };
        let package: BTreeMap<_, _> = package.iter().map(|(path, text)| (path, text)).collect();
        // JSON strings and objects are also valid in Python.
        let program = format!("PACKAGE = {}\nDEVICE = {}\n{CHECKS}", json!(package), Value::from(device));
        let command = CommandLine { stdin: Some(program), ..CommandLine::new(self.python.clone(), ["-"]) };
        let output =
            System::new(process_environment(), LIMIT).run(&command).map_err(|error| match error {
                CommandError::NotFound { .. } | CommandError::Start { .. } => {
                    let message = format!("{}: cannot start this Python", self.python);
                    Failure::new(Exit::BadInput, message)
                        .id(ErrorId::Python)
                        .hint("pass the Python of your training environment with --python PROGRAM")
                }
                CommandError::Unconfigured { stderr, .. }
                | CommandError::Unreachable { stderr, .. }
                | CommandError::Failed { stderr, .. } => {
                    self.odd(stderr.lines().last().unwrap_or("it gave no reason"))
                }
                other => Failure::from_error(Exit::Failed, &other).id(ErrorId::Python),
            })?;
        // Libraries may print text before the line of JSON.
        let last = output.stdout.lines().last().unwrap_or_default();
        serde_json::from_str(last).map_err(|_| self.odd("cannot read their output"))
    }

    fn odd(&self, why: &str) -> Failure {
        Failure::new(Exit::Failed, format!("{}: the checks did not run: {why}", self.python))
            .id(ErrorId::Python)
            .hint("Python 3.8 or later and torch 1.13 or later are needed")
    }

    /// Returns the failure for checks that could not be run.
    fn unchecked(&self, version: &str, problem: &str) -> Failure {
        let missing = problem.starts_with("no module");
        let exit = if missing { Exit::BadInput } else { Exit::Failed };
        let failure =
            Failure::new(exit, format!("{} (Python {version}): {problem}", self.python)).id(ErrorId::Python);
        if !missing {
            return failure;
        }
        failure
            .hint("activate the environment of your training first, or give its Python with --python PROGRAM")
    }
}

/// Returns a warning for each placed job and GPU type with ranks that take a single sample in a pass.
fn warnings(planned: &PlanningResult) -> Vec<String> {
    let placed = planned.jobs.iter().zip(planned.plan.verdicts());
    let placed = placed.filter_map(|(job, verdict)| Some((job, verdict.placement()?)));
    placed
        .flat_map(|(job, placement)| single_samples(job, &named_ranks(&planned.problem, placement)))
        .collect()
}

fn single_samples(job: &Job, ranks: &[PlacedRank]) -> Vec<String> {
    let mut counts: BTreeMap<&GpuType, u64> = BTreeMap::new();
    for rank in ranks.iter().filter(|rank| rank.batch / rank.micro_batches(job).1 == 1) {
        *counts.entry(&rank.gpu_type).or_default() += 1;
    }
    let warning = |(gpu_type, count)| {
        let ranks = if count == 1 { "1 rank takes".into() } else { format!("{count} ranks take") };
        let remedy = if job.max_batch.get(gpu_type) == Some(&1) {
            "max_batch allows no more; exclude the type with gpu_types"
        } else {
            "set batch_quantum: 2"
        };
        let name = &job.name;
        format!("{name}: on {gpu_type} {ranks} one sample per pass, too few for BatchNorm: {remedy}")
    };
    counts.into_iter().map(warning).collect()
}

/// Returns the summary line.
fn verdict(torch: &str, answer: &CheckReport) -> String {
    let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".into());
    let place = format!("2 to 4 ranks, {}, {}", word(&answer.device), word(&answer.backend));
    let part = |check: &DdpCheck| match check.limit {
        Some(limit) => format!("{} off by {:.1e} (limit {limit:e})", check.name, check.error),
        None => {
            format!("{} off by only {:.1e}: the test failed to detect a known error", check.name, check.error)
        }
    };
    let wrong: Vec<String> = answer.checks.iter().filter(|check| !check.right).map(part).collect();
    if !wrong.is_empty() {
        return format!("wrong: torch {torch} ({place}): {}", wrong.join("; "));
    }
    let errors = answer.checks.iter().filter(|check| check.error > 0.0);
    let errors: Vec<String> = errors.map(|check| format!("{} {:.0e}", check.name, check.error)).collect();
    format!("right: torch {torch} ({place}); relative errors at most: {}", errors.join(", "))
}
