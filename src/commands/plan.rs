//! `hsched plan`: plans which jobs get which GPUs, and the resulting times.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use serde_json::{Map, Value, json};

use crate::app::context::{Context, Format};
use crate::app::report::ReportArgs;
use crate::app::start_estimates::{QueueViewArgs, without_queue};
use crate::app::{input, planning};
use crate::commands::cli::{Subcommand, json_text, print};
use crate::commands::explain::explain_plan;
use crate::commands::pareto;
use crate::commands::plan_queue::QueuePlanArgs;
use crate::commands::plan_report::plan_report;
use crate::settings::CommandLineSetting;
use hsched_model::ErrorId;
use hsched_plan::plan_file::PlanFile;
use hsched_plan::{CheckedPlan, PlanFigures, Quality, Verdict};
use hsched_ui::{Exit, Failure, PolicyComparison, PolicyResult, compare_table, plan_table, write_output};

/// Plan which GPUs each job gets and how its batch is split over them
///
/// Changes nothing. `hsched submit` accepts the job file itself, or the plan that `--output` or `--format json`
/// writes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Job file (YAML); - reads standard input.
    // `--explain JOBS` takes the file for a job's name.
    #[arg(value_name = "JOBS", required_unless_present = "explain")]
    jobs: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Also write the plan to this file, as JSON.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Compare policies instead of printing a plan: `all`, or names separated by commas.
    #[arg(long, value_name = "POLICIES", value_delimiter = ',', conflicts_with_all = ["output", "policy"],
          value_parser = PossibleValuesParser::new(hsched_lab::registry().names().into_iter().chain(["all"])))]
    compare: Vec<String>,
    /// Explain the plan instead of printing it: the prices of the GPUs and a summary of all jobs, or one job in full.
    /// With --queue, show each job's requests that no other request beats in both time and cost.
    #[arg(long, value_name = "JOB", num_args = 0..=1, default_missing_value = "", conflicts_with = "compare")]
    explain: Option<String>,
    /// List plans that trade off mean completion time, fairness and, if all GPU types have reference GPU units, cost. No
    /// listed plan is at least as good as another one in every criterion and better in one. The policy is optimal, and
    /// the search takes up to 10 s unless --budget is given.
    #[arg(long, conflicts_with_all = ["compare", "explain", "queue", "output", "policy", "objective"])]
    pareto: bool,
    /// Plan through Slurm's queue: choose a request for each job to minimise the mean completion time. Start
    /// estimates are those of `hsched when`, but include the chosen requests of the other jobs.
    #[arg(long, help_heading = "Queue", conflicts_with_all = ["compare", "policy", "capacity", "cluster", "from"])]
    queue: bool,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    view: QueueViewArgs,
    #[command(flatten)]
    planning: planning::PlanningArgs,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn flags(&self) -> Vec<CommandLineSetting> {
        self.planning.flags()
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let (path, explain) = self.jobs_and_explain()?;
        let text = input::text(path)?;
        if PlanFile::recognises(&text) {
            let message = format!("{} is a plan, not a job file", path.display());
            return Err(Failure::new(Exit::BadInput, message)
                .id(ErrorId::FileKind)
                .hint("submit it with hsched submit"));
        }
        let wants_report = self.report.is_given()?;
        if wants_report && (self.queue || self.pareto || !self.compare.is_empty()) {
            let message =
                "--report, --svg and --csv are for one plan, not for --queue, --pareto and --compare";
            return Err(Failure::new(Exit::Usage, message));
        }
        if self.queue {
            let queue_plan = QueuePlanArgs {
                planning: &self.planning,
                view: &self.view,
                explain,
                text: &text,
                path,
                format: self.format,
                output: self.output.as_deref(),
            };
            return queue_plan.run(context);
        }
        if self.view.is_given() {
            return Err(without_queue("--snapshot, --cost-weight, --futures and --refresh"));
        }
        if self.pareto {
            return pareto::run(context, &self.planning, &text, path, self.format);
        }
        if !self.compare.is_empty() {
            return compare(self, context, &text, path);
        }
        let planned = planning::plan(&self.planning, context, &text, path)?;
        let json = planned.file.to_json().map_err(|error| Failure::from_error(Exit::Internal, &error))?;
        if let Some(path) = &self.output {
            write_output(path, &json).map_err(|error| {
                Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
                    .id(ErrorId::FileUnwritable)
            })?;
        }
        if wants_report {
            self.report.write(plan_report(&planned.file, self.parameters_told(path, &planned.file)))?;
        }
        if let Some(name) = explain {
            explain_plan(
                &planned,
                context,
                name,
                self.format,
                &self.planning.stop(context, Some(planning::USUAL_BUDGET)),
            )?;
            return Ok(planned.exit());
        }
        match self.format {
            Format::Json => print(context, &json)?,
            Format::Table => {
                let file = &planned.file;
                let terminal = context.terminal;
                print(
                    context,
                    &plan_table(
                        &planned.jobs,
                        &planned.problem,
                        &planned.plan,
                        &file.policy,
                        planned.proven.as_ref(),
                        &file.notes,
                        terminal,
                    ),
                )?;
            }
        }
        Ok(planned.exit())
    }
}

impl Args {
    /// Returns the parameters of the plan, for a report.
    fn parameters_told(&self, path: &Path, file: &PlanFile) -> Map<String, Value> {
        let told = json!({
            "jobs": input::name(path), "cluster": self.planning.cluster(), "policy": file.policy, "objective": file.objective,
            "capacity": file.capacity, "seed": file.seed, "network_gbps": file.network_gbps,
            "proven_optimal": file.proven_optimal,
        });
        let told = if let Value::Object(told) = told { told } else { Map::new() };
        told.into_iter().filter(|(_, value)| !value.is_null()).collect()
    }

    /// Returns the job file, and the job to explain; an empty name means all jobs.
    fn jobs_and_explain(&self) -> Result<(&Path, Option<&str>), Failure> {
        match (&self.jobs, self.explain.as_deref()) {
            (Some(path), explain) => Ok((path, explain)),
            (None, Some(path)) if !path.is_empty() => Ok((Path::new(path), Some(""))),
            (None, _) => {
                let failure = Failure::new(Exit::Usage, "no job file given").id(ErrorId::MissingArgument);
                Err(failure.hint("hsched plan JOBS --explain [JOB]"))
            }
        }
    }
}

/// Plans the same problem with several policies and compares the results.
fn compare(args: &Args, context: &Context, text: &str, path: &Path) -> Result<Exit, Failure> {
    let input = planning::prepare(&args.planning, context, text, path)?;
    let all = args.compare.iter().any(|name| name == "all");
    let chosen = |name: &&str| all || args.compare.iter().any(|candidate| candidate == name);
    let (mut rows, mut known) = (Vec::new(), Vec::new());
    for policy in hsched_lab::registry().names().into_iter().filter(chosen) {
        let result = match planning::solve(policy, &args.planning, context, &input.jobs, &input.problem) {
            Ok((plan, time)) => {
                let proven = planning::bound(&args.planning, context, &input.problem, &plan, &mut known);
                let outcome = PlanFigures::of(&input.problem, &plan);
                let quality =
                    proven.zip(outcome).and_then(|((bound, _), outcome)| Quality::new(&bound, &outcome));
                let why = why_none(policy, &plan);
                Ok(PolicyResult { placed: plan.placed().len(), outcome, quality, time, why })
            }
            // A failure of one policy, for example because the problem is too large for it, does not stop the
            // others.
            Err(failure) if failure.exit == Exit::Failed => Err(failure.message),
            Err(failure) => return Err(failure),
        };
        rows.push(PolicyComparison { policy, result });
    }
    let text = match args.format {
        Format::Table => compare_table(&rows, context.terminal),
        Format::Json => {
            let objective = input.problem.objective.name();
            let policies: Vec<Value> = rows.iter().map(compared_json).collect();
            json_text(&json!({ "schema": "hsched.compare/1", "objective": objective, "policies": policies }))?
        }
    };
    print(context, &text)?;
    let placed = rows.iter().any(|row| row.result.as_ref().is_ok_and(|made| made.placed > 0));
    Ok(if placed { Exit::Done } else { Exit::Unplaced })
}

/// Returns why a policy places no job, if it has the same reason for all of them.
fn why_none(policy: &str, plan: &CheckedPlan) -> Option<String> {
    let reason = |verdict: &Verdict| match verdict {
        Verdict::Place(_) => None,
        Verdict::Defer { reason } | Verdict::Reject { reason } => Some(reason.clone()),
    };
    let why = reason(plan.verdicts().first()?)?;
    let is_same = plan.verdicts().iter().all(|verdict| reason(verdict).as_ref() == Some(&why));
    let refusal = format!("not planned: policy {policy}: ");
    is_same.then(|| why.strip_prefix(&refusal).unwrap_or(&why).to_owned())
}

fn compared_json(row: &PolicyComparison) -> Value {
    let PolicyResult { placed, outcome, quality, time, why } = match &row.result {
        Ok(made) => made,
        Err(message) => return json!({ "policy": row.policy, "error": message }),
    };
    let mut figures = json!({
        "policy": row.policy,
        "placed": placed,
        "objective_value": outcome.map(|outcome| outcome.objective_value),
        "mean_jct_s": outcome.map(|outcome| outcome.mean_jct),
        "makespan_s": outcome.map(|outcome| outcome.makespan),
        "fairness": outcome.map(|outcome| outcome.fairness),
        "lower_bound": quality.map(|quality| quality.lower_bound),
        "gap": quality.map(|quality| quality.gap),
        "solve_s": time.0,
    });
    if let Some(why) = why {
        figures["error"] = json!(why);
    }
    figures
}
