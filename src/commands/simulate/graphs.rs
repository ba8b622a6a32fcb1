//! Traces of task graphs under `mlf-h`: flags, events of rounds, and a summary.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::app::context::Context;
use crate::app::input::{self, ClusterArgs, ClusterWithNotes};
use crate::commands::cli::{json_text, print};
use crate::settings::Origin;
use hsched_lab::mlfs::{
    GraphOptions, GraphRecord, GraphRound, MlfsParameters, Priority, TaskName, replay_graphs,
};
use hsched_model::formats;
use hsched_model::formats::graphs::{self, GraphFile};
use hsched_model::number::to_f64;
use hsched_model::{ErrorId, GraphJob, Node, Seconds, Server};
use hsched_ui::{Exit, Failure, write_output};

/// How `mlf-h` places tasks.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Policy mlf-h on task graphs")]
pub(super) struct GraphArgs {
    /// Place all tasks of a job or none.
    #[arg(long)]
    gang: bool,
    /// Largest fraction of the tasks on overloaded GPUs that may move.
    #[arg(long, value_name = "PART", default_value_t = 0.1, value_parser = part)]
    migrate_part: f64,
    /// Run at most one task on a GPU.
    #[arg(long)]
    exclusive: bool,
    /// Unit of the times in priorities.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = super::positive)]
    time_unit: Seconds,
}

/// The options of the command line that apply to task graphs.
pub(super) struct GraphChoices<'a> {
    pub trace: &'a Path,
    pub cluster: &'a ClusterArgs,
    pub policies: &'a [String],
    pub round: Option<Seconds>,
    pub rounds: Option<u64>,
    pub restart: Option<Seconds>,
    pub events: Option<&'a PathBuf>,
    pub json: bool,
}

/// The only policy that places tasks of graphs.
const POLICY: &str = "mlf-h";

/// Bytes per GiB.
const GIB: f64 = 1_073_741_824.0;

/// Length of a round in the paper.
const ROUND: Seconds = Seconds(60.0);

fn part(text: &str) -> Result<f64, String> {
    let number = formats::parse_number(text).map_err(|error| error.to_string())?;
    if (0.0..=1.0).contains(&number) { Ok(number) } else { Err("must be from 0 to 1".to_owned()) }
}

/// Replays a trace of graphs and prints the results.
///
/// # Errors
/// If a file is invalid, or another policy is requested.
pub(super) fn run(
    context: &Context,
    text: &str,
    args: &GraphArgs,
    asked: &GraphChoices<'_>,
) -> Result<Exit, Failure> {
    if let Some(other) = asked.policies.iter().find(|name| *name != POLICY) {
        let message = format!("the trace has task graphs, which policy {other} cannot place");
        return Err(Failure::new(Exit::Usage, message).id(ErrorId::PolicyUnfit).hint("use --policy mlf-h"));
    }
    let ClusterWithNotes { cluster, .. } = input::cluster(context, asked.cluster)?;
    let network = cluster.network.unwrap_or(context.settings.network).gigabits_per_second();
    let servers: Vec<Server> = cluster.nodes.iter().map(|node| server(node, network)).collect();
    let nodes: Vec<(String, usize)> =
        servers.iter().map(|server| (server.name.clone(), server.gpus)).collect();
    let GraphFile { now, jobs } = graphs::parse(text, &nodes)
        .map_err(|problems| Failure::from_problems(&problems, &input::name(asked.trace)))?;
    let usual = MlfsParameters::default();
    // If neither the option nor the setting is given, the paper's value applies.
    let is_default = context.settings.origin("restart_cost", "") == Origin::Default;
    let setting = (!is_default).then_some(context.settings.restart_cost);
    let parameters = MlfsParameters {
        gang: args.gang,
        exclusive: args.exclusive,
        part: args.migrate_part,
        unit: args.time_unit.0,
        restart: asked.restart.or(setting).map_or(usual.restart, |restart| restart.0),
        ..usual
    };
    let round = asked.round.unwrap_or(ROUND).0;
    let options = GraphOptions { now: now.0, round, rounds: asked.rounds, parameters };
    let mut events = String::new();
    let records = replay_graphs(&servers, jobs.clone(), &options, &mut |now, jobs, round| {
        events.push_str(&event(now, jobs, &servers, round).to_string());
        events.push('\n');
    });
    let on_stdout = asked.events.is_some_and(|path| path == Path::new("-"));
    match asked.events {
        Some(_) if on_stdout => print(context, &events)?,
        Some(path) => write_output(path, &events).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
                .id(ErrorId::FileUnwritable)
        })?,
        None => {}
    }
    let summary = summary(&jobs, &records);
    let text = match () {
        () if on_stdout => {
            let mut line = Map::from_iter([("event".to_owned(), json!("summary"))]);
            line.extend(summary.as_object().cloned().unwrap_or_default());
            format!("{}\n", Value::Object(line))
        }
        () if asked.json => json_text(&summary)?,
        () => table(&jobs, &records),
    };
    print(context, &text)?;
    let all = records.iter().all(|record| record.completed.is_some());
    Ok(if all || asked.rounds.is_some() { Exit::Done } else { Exit::Unplaced })
}

/// Returns a node in GPUs, CPUs, GiB and Gbit/s; resources that it does not state are unlimited.
fn server(node: &Node, network: f64) -> Server {
    let total = |usage: Option<hsched_model::Usage>| usage.map_or(f64::INFINITY, |usage| to_f64(usage.total));
    Server {
        name: node.name.to_string(),
        gpus: usize::try_from(node.gpu_total()).unwrap_or(usize::MAX),
        has: [f64::from(node.gpu_total()), total(node.cpus), total(node.memory) / GIB, network],
    }
}

fn name(jobs: &[GraphJob], (job, task): TaskName) -> String {
    format!("{}/{}", jobs[job].name, jobs[job].tasks[task].id)
}

fn event(now: f64, jobs: &[GraphJob], servers: &[Server], round: &GraphRound) -> Value {
    let named = |tasks: &[TaskName]| tasks.iter().map(|task| name(jobs, *task)).collect::<Vec<String>>();
    let priority = |(task, parts): (&TaskName, &Priority)| {
        let value = json!({ "ml": parts.ml, "computation": parts.computation, "priority": parts.whole });
        (name(jobs, *task), value)
    };
    let mut queued = named(&round.queued);
    queued.sort();
    let placed = round.placed.iter().map(|placement| {
        json!({
            "task": name(jobs, placement.task),
            "node": servers[placement.server].name,
            "gpu": placement.gpu,
            "distance": placement.distance,
        })
    });
    json!({
        "t": now,
        "event": "round",
        "policy": POLICY,
        "cluster_overload": round.overload,
        "busy": round.busy,
        "priorities": round.priorities.iter().map(priority).collect::<Map<String, Value>>(),
        "migrated": named(&round.migrated),
        "placed": placed.collect::<Vec<Value>>(),
        "queued": queued,
    })
}

/// Returns the mean time from arrival to completion, and the share of deadlines met.
fn figures(jobs: &[GraphJob], records: &[GraphRecord]) -> (Option<f64>, Option<f64>) {
    let times: Vec<f64> =
        jobs.iter().zip(records).filter_map(|(job, record)| Some(record.completed? - job.arrival)).collect();
    let due = jobs.iter().zip(records).filter_map(|(job, record)| Some((job.deadline?, record.completed)));
    let met: Vec<bool> = due.map(|(deadline, end)| end.is_some_and(|end| end <= deadline)).collect();
    let share = |part: f64, all: usize| (all > 0).then(|| part / to_f64(all));
    let count = to_f64(met.iter().filter(|met| **met).count());
    (share(times.iter().sum(), times.len()), share(count, met.len()))
}

fn summary(jobs: &[GraphJob], records: &[GraphRecord]) -> Value {
    let (mean, met) = figures(jobs, records);
    let job = |(job, record): (&GraphJob, &GraphRecord)| {
        json!({
            "name": job.name,
            "arrival_s": job.arrival,
            "started_s": record.started,
            "completion_s": record.completed,
            "jct_s": record.completed.map(|end| end - job.arrival),
            "moves": record.moves,
        })
    };
    json!({
        "schema": "hsched.simulation/1",
        "jobs": jobs.len(),
        "lower_bound_s": null,
        "policies": [{
            "policy": POLICY,
            "mean_jct_s": mean,
            "deadlines_met": met,
            "jobs": jobs.iter().zip(records).map(job).collect::<Vec<Value>>(),
        }],
    })
}

fn table(jobs: &[GraphJob], records: &[GraphRecord]) -> String {
    let (mean, met) = figures(jobs, records);
    let ended = records.iter().filter(|record| record.completed.is_some()).count();
    let mean = mean.map(|mean| format!(", mean completion time {}", hsched_ui::duration(Seconds(mean))));
    let met = met.map(|met| format!(", {:.0} % of deadlines met", 100.0 * met));
    format!(
        "{POLICY}: {ended} of {} jobs done{}{}\n",
        jobs.len(),
        mean.unwrap_or_default(),
        met.unwrap_or_default()
    )
}
