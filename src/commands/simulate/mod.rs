//! `hsched simulate`: the results of policies on a trace.

mod bounds;
mod cores;
mod execution;
mod graphs;
mod hadare;
mod input_trace;
mod objective;
mod output;
mod report;
mod sweep;
mod unfit;

use std::path::PathBuf;
use std::sync::Arc;

use clap::builder::PossibleValuesParser;
use serde_json::{Map, Value, json};

use crate::app::context::Context;
use crate::app::input::{self, ClusterArgs};
use crate::app::named::WordParser;
use crate::app::policy_args::PolicyName;
use crate::app::policy_flags::{AllPolicies, PolicyFlags};
use crate::app::report::ReportArgs;
use crate::app::speeds::SpeedArgs;
use crate::commands::cli::{Subcommand, print};
use crate::commands::simulate::bounds::{add_bounds, is_usual};
use crate::commands::simulate::execution::ExecutionArgs;
use crate::commands::simulate::graphs::GraphArgs;
use crate::commands::simulate::hadare::HadareArgs;
use crate::commands::simulate::input_trace::input_trace;
pub(super) use crate::commands::simulate::input_trace::on_cluster;
use crate::commands::simulate::objective::ObjectiveArgs;
use hsched_engine::clock::Clock;

use crate::commands::simulate::output::{EventFile, OutputForm, SimulationFormat, results, simulated};
use crate::commands::simulate::report::PolicyRecorders;
pub(in crate::commands) use crate::commands::simulate::sweep::HADARE;
use crate::commands::simulate::sweep::{SweepAxis, SweepRunner, cells};
use crate::settings::CommandLineSetting;
use hsched_lab::replay::{Incidents, Loses, Options, ReplayRecord, Trace};
use hsched_model::formats;
use hsched_model::formats::ValueError;
use hsched_model::{ErrorId, Seconds};
use hsched_plan::{ExecutionMode, Knowledge, Moves, Parameters, Repacking, Replanning};
use hsched_ui::{Exit, Failure};

/// Simulate policies on a trace of jobs, such as those of your last month
///
/// Replays the trace under each policy and compares completion times, waiting times and GPU use. A trace is a job
/// file with the keys `arrival` and `gpus` (the GPUs that the user requested), or CSV with job keys as columns.
/// Changes nothing. Asks Slurm only for the cluster, and only if no cluster file is given.
#[derive(Debug, clap::Args)]
#[command(after_long_help = knowledge())]
pub(super) struct Args {
    /// Trace: a job file (YAML or JSON) or CSV; - reads standard input.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Policies, separated by commas. The policies of `hsched plan` place all jobs again whenever a job arrives or
    /// ends.
    #[arg(long, value_name = "POLICIES", value_delimiter = ',', required = true,
          value_parser = PossibleValuesParser::new(policies()))]
    policy: Vec<String>,
    #[command(flatten)]
    objective: ObjectiveArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
    #[command(flatten)]
    flags: PolicyFlags<AllPolicies>,
    #[command(flatten)]
    hadare: HadareArgs,
    #[command(flatten)]
    graphs: GraphArgs,
    /// Decide only at multiples of this time [default: at every change; 6m for hadar and hadare].
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    round: Option<Seconds>,
    /// Stop after this many rounds. Without --round, a round takes 6m, or 1m for task graphs.
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// Time that each restart costs [default: the job key `checkpoint.restart_cost`, else the setting
    /// `restart_cost`].
    #[arg(long, value_name = "DURATION", value_parser = formats::parse_duration)]
    restart_cost: Option<Seconds>,
    /// Work that a stopped job loses: nothing, or its current epoch.
    #[arg(long, value_name = "WHAT", default_value = "nothing", value_parser = WordParser(&Loses::NAMES))]
    lose: Loses,
    /// Decide by the rules of `hsched watch --moves auto` on a shared cluster: no running job is stopped only to
    /// wait, and policies that reschedule running jobs stop only jobs with the key `checkpoint`. Each move waits
    /// this long in the queue, such as 0s.
    #[arg(long, value_name = "DURATION", value_parser = formats::parse_duration)]
    queue_wait: Option<Seconds>,
    /// Whether running jobs move between nodes of the same type, so that a job on several nodes fits on one:
    /// never (off), only to free GPUs (gather), or also by moving other jobs (full).
    #[arg(long, value_name = "HOW", default_value = "full", value_parser = WordParser(&Repacking::NAMES))]
    repack: Repacking,
    /// Relative error of the work that policies see: each job gets a random factor between 1 - NOISE and 1 + NOISE.
    #[arg(long, value_name = "NOISE", default_value_t = 0.0, value_parser = noise)]
    noise: f64,
    /// Mean time between failures of a running job [default: no failures].
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    job_failures: Option<Seconds>,
    /// Mean time between failures of a node [default: no failures].
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    node_failures: Option<Seconds>,
    /// Downtime of a failed node.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = positive)]
    node_repair: Seconds,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Repeat for several values: load=0.5,0.8,1 seed=0..9 restart-cost=0s,60s noise=0,0.3; may be given several
    /// times.
    ///
    /// `load` scales the times between arrivals so that the jobs request this fraction of the cluster. Results of
    /// several seeds are averaged, with an interval if they differ.
    #[arg(long, value_name = "WHAT=VALUES", value_parser = SweepAxis::parse, conflicts_with = "events")]
    sweep: Vec<SweepAxis>,
    /// Compute a lower bound on the mean completion time of any schedule [default: for up to 1000 jobs].
    #[arg(long, overrides_with = "no_bound")]
    bound: bool,
    /// Do not compute the lower bound.
    #[arg(long, overrides_with = "bound")]
    no_bound: bool,
    /// Add the certificate to the JSON: the prices that prove the bound.
    #[arg(long, conflicts_with_all = ["no_bound", "sweep"])]
    certificate: bool,
    /// Write all events to this file as JSON lines, policy by policy; - writes them to standard output.
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: SimulationFormat,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    speeds: SpeedArgs,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == SimulationFormat::Json
    }

    fn flags(&self) -> Vec<CommandLineSetting> {
        self.speeds.flags()
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        if self.certificate && self.format != SimulationFormat::Json {
            return Err(
                Failure::new(Exit::Usage, "--certificate needs --format json").id(ErrorId::OptionNeeds)
            );
        }
        let policies = self.policies();
        let text = input::text(&self.trace)?;
        if formats::graphs::is_graphs(&text) {
            if self.report.is_given()? {
                return Err(Failure::new(Exit::Usage, "traces of task graphs have no report"));
            }
            if let Some(flag) = self.flag_of_jobs() {
                let message = format!("{flag} does not work with traces of task graphs");
                return Err(Failure::new(Exit::Usage, message).id(ErrorId::PolicyUnfit));
            }
            return graphs::run(context, &text, &self.graphs, &self.asked(&policies));
        }
        let names: Vec<&str> = policies.iter().map(String::as_str).collect();
        let parameters = self.flags.parameters(self.parameters(), &names)?;
        let tasks = self.execution.task_policies(&policies, &parameters)?;
        if let (Some(policy), Some(flag)) = (tasks.first(), self.flag_of_gangs()) {
            let why = format!("{}, which assigns individual tasks to GPUs", policy.name());
            if tasks.len() == policies.len() {
                return Err(Failure::new(Exit::Usage, format!("{flag} does not work with {why}"))
                    .id(ErrorId::PolicyUnfit)
                    .hint("add --execution gangs"));
            }
            context.note(&format!("{flag} has no effect with {why}"));
        }
        let objective = self.objective.of(&policies, context)?;
        let copies = self.hadare.parameters(self.round, objective);
        let copies = copies.map_err(|why| Failure::new(Exit::Usage, why).id(ErrorId::PolicyOption))?;
        let mut trace = input_trace(context, &text, &self.trace, &self.cluster, &self.speeds)?;
        trace.problem.objective = objective;
        let trace = Arc::new(trace);
        if !tasks.is_empty() && !trace.is_whole() {
            let message = "the trace has jobs that have already begun (steps_done, held), which policies that schedule individual tasks do not support";
            return Err(Failure::new(Exit::Usage, message)
                .id(ErrorId::PolicyUnfit)
                .hint("add --execution gangs"));
        }
        if !tasks.is_empty() && trace.jobs.iter().any(|entry| !entry.after.is_empty()) {
            let message = "jobs of the trace have the key `after`, which policies that schedule individual tasks do not support";
            return Err(Failure::new(Exit::Usage, message)
                .id(ErrorId::PolicyUnfit)
                .hint("add --execution gangs"));
        }
        self.note_unsaved(context, &trace);
        let mut cells = cells(&trace, &self.options(context), &self.sweep)?;
        // The bound holds only for jobs that hold all their GPUs together, not for single tasks.
        let is_bounded = tasks.len() < policies.len() && is_usual(trace.jobs.len()) && !self.no_bound;
        if self.bound || self.certificate || is_bounded {
            add_bounds(&mut cells);
        }
        let clock = &context.clock;
        let elapsed = || clock.elapsed().as_secs_f64();
        let runner = SweepRunner { policies: &policies, parameters, tasks, copies, elapsed: &elapsed };
        let wants_report = self.report.is_given()?;
        let with_events = (self.events.is_some() || wants_report) && self.sweep.is_empty();
        let mut file = self.events.as_ref().map(|path| EventFile::create(path, &trace));
        let mut records = PolicyRecorders::new(&trace);
        let runs = if with_events {
            runner.one_by_one(&cells[0], &mut |policy, event| {
                if let Some(file) = &mut file {
                    file.add(policy, event);
                }
                if wants_report {
                    records.add(policy, event);
                }
            })?
        } else {
            runner.all(&cells)?
        };
        let events = file.map(|file| file.finish(context)).transpose()?;
        let form = OutputForm {
            format: self.format,
            is_sweep: !self.sweep.is_empty(),
            after_events: events.is_some_and(|event| event.to_stdout),
            certificate: self.certificate,
        };
        let ended = |record: &ReplayRecord| record.jobs.iter().all(|job| job.completed.is_some());
        // The row of a policy that refuses the trace says why; the others decide about the exit code.
        let mut carried_out = runs.iter().filter_map(|run| run.record.as_ref().ok()).peekable();
        let all_ended = carried_out.peek().is_some() && carried_out.all(ended);
        let runs = simulated(&cells, runs);
        if wants_report {
            self.report.write(records.report(&runs, self.parameters_told(&policies), form.is_sweep))?;
        }
        print(context, &results(&form, &runs, context)?)?;
        Ok(if all_ended || self.rounds.is_some() { Exit::Done } else { Exit::Unplaced })
    }
}

impl Args {
    /// Returns the policies without duplicates.
    fn policies(&self) -> Vec<String> {
        let mut policies: Vec<String> = Vec::new();
        for name in &self.policy {
            if !policies.contains(name) {
                policies.push(name.clone());
            }
        }
        policies
    }

    /// Prints a note with the number of jobs that policies over time do not stop under the rules of a shared
    /// cluster.
    fn note_unsaved(&self, context: &Context, trace: &Trace) {
        let unsaved = trace.jobs.iter().filter(|entry| !entry.saves).count();
        if self.queue_wait.is_some() && unsaved > 0 {
            let all = trace.jobs.len();
            context.note(&format!(
                "{unsaved} of {all} jobs have no key checkpoint: with --queue-wait, policies that decide \
                    over time do not stop them"
            ));
        }
    }

    /// Returns the parameters that determine the results, for the report.
    fn parameters_told(&self, policies: &[String]) -> Map<String, Value> {
        let seconds = |time: Option<Seconds>| time.map(|time| time.0);
        let told = json!({
            "trace": input::name(&self.trace),
            "cluster": self.cluster.name(),
            "policies": policies,
            "seed": self.seed,
            "round_s": seconds(self.round),
            "rounds": self.rounds,
            "restart_cost_s": seconds(self.restart_cost),
            "noise": self.noise,
            "queue_wait_s": seconds(self.queue_wait),
            "job_failures_s": seconds(self.job_failures),
            "node_failures_s": seconds(self.node_failures),
        });
        let told = if let Value::Object(told) = told { told } else { Map::new() };
        told.into_iter().filter(|(_, value)| !value.is_null()).collect()
    }

    /// Returns the input of a replay of graphs.
    fn asked<'a>(&'a self, policies: &'a [String]) -> graphs::GraphChoices<'a> {
        graphs::GraphChoices {
            trace: &self.trace,
            cluster: &self.cluster,
            policies,
            round: self.round,
            rounds: self.rounds,
            restart: self.restart_cost,
            events: self.events.as_ref(),
            json: self.format == SimulationFormat::Json,
        }
    }

    fn parameters(&self) -> Parameters {
        Parameters {
            repacking: self.repack,
            carrying: if self.queue_wait.is_some() { ExecutionMode::Shared } else { ExecutionMode::AtOnce },
            round: self.round,
            replanning: Replanning {
                moves: Moves::Auto { margin: Moves::USUAL_MARGIN },
                ..Replanning::default()
            },
            ..Parameters::default()
        }
    }

    fn options(&self, context: &Context) -> Options {
        Options {
            seed: self.seed,
            restart_cost: self.restart_cost,
            usual_restart_cost: context.settings.restart_cost,
            noise: self.noise,
            round: self.round.or(self.rounds.map(|_| Seconds(360.0))),
            rounds: self.rounds,
            loses: self.lose,
            queue_wait: self.queue_wait.unwrap_or(Seconds(0.0)),
            incidents: Incidents {
                job_failures: self.job_failures,
                node_failures: self.node_failures,
                repair: self.node_repair,
                outages: Vec::new(),
            },
        }
    }
}

/// Returns the information that each policy has about the jobs, one line per policy.
fn knowledge() -> String {
    let registry = hsched_lab::registry();
    let known = registry.entries().map(|entry| (entry.name, Knowledge::words(entry.knows)));
    let copies = (HADARE, Knowledge::words(&[Knowledge::Lengths, Knowledge::Speeds]));
    let lines = known.chain([copies]).map(|(name, words)| format!("  {name:<14} {words}\n"));
    format!("What policies know about jobs, besides the requested GPUs:\n{}", lines.collect::<String>())
}

/// Returns the names of all policies: those of the registry, and `hadare`, which forks jobs.
fn policies() -> Vec<&'static str> {
    PolicyName::all().into_iter().chain([HADARE]).collect()
}

fn positive(text: &str) -> Result<Seconds, ValueError> {
    let time = formats::parse_duration(text)?;
    if time.0 > 0.0 { Ok(time) } else { Err(ValueError::new("must be above 0").id(ErrorId::NumberRange)) }
}

/// Parses the relative error of estimates.
fn noise(text: &str) -> Result<f64, String> {
    let number = formats::parse_number(text).map_err(|error| error.to_string())?;
    if (0.0..1.0).contains(&number) { Ok(number) } else { Err("must be at least 0 and below 1".to_owned()) }
}
