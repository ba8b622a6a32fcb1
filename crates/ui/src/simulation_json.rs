//! The results of policies on a trace as JSON and CSV: names and units of the metrics for other programs.

use serde_json::{Map, Value, json};

use crate::simulation::{SimulationResult, SweepCell};
use hsched_lab::replay::{ReplayEvent, TaskFacts};
use hsched_model::number::to_f64;
use hsched_plan::Problem;
use hsched_plan::kit::{TaskGpu, TaskRun};

/// A function that returns a metric of a run; `None` if the run lacks it.
pub(super) type Figure = fn(&SimulationResult) -> Option<f64>;

/// The metrics of a run by name, in the order of the CSV.
const FIGURES: [(&str, Figure); 16] = [
    ("mean_jct_s", |run| Some(run.figures?.mean_jct)),
    ("lower_bound_s", SimulationResult::lower_bound),
    ("ratio", SimulationResult::ratio),
    ("p50_jct_s", |run| Some(run.figures?.p50_jct)),
    ("p90_jct_s", |run| Some(run.figures?.p90_jct)),
    ("p99_jct_s", |run| Some(run.figures?.p99_jct)),
    ("makespan_s", |run| Some(run.figures?.makespan)),
    ("weighted_completion_s", |run| Some(run.figures?.weighted_completion)),
    ("mean_wait_s", |run| Some(run.figures?.mean_wait)),
    ("utilisation", |run| Some(run.figures?.utilisation)),
    ("goodput", |run| Some(run.figures?.goodput)),
    ("moves_per_job", |run| Some(run.figures?.moves_per_job)),
    ("longest_stretch", |run| Some(run.figures?.longest_stretch)),
    ("ended", |run| Some(to_f64(run.figures?.ended))),
    ("deadlines_met", |run| run.figures?.deadlines_met),
    ("stopped_early", |run| Some(to_f64(run.figures?.stopped_early))),
];

/// 97.5 % quantiles of Student's distribution by degrees of freedom from 1; beyond them, that of the normal
/// distribution is used.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
const NORMAL: f64 = 1.960;

/// Returns the results of some policies on one trace: `hsched.simulation/1`. With `certificate`, it includes
/// the prices that prove the bound.
pub fn simulation_json(runs: &[SimulationResult], certificate: bool) -> Value {
    let first = runs.first();
    let mut summary = json!({
        "schema": "hsched.simulation/1",
        "seed": first.map(|run| run.cell.options.seed),
        "jobs": first.map(|run| run.cell.trace.jobs.len()),
        "load": first.and_then(|run| run.cell.trace.load()),
        "lower_bound_s": runs.iter().find_map(SimulationResult::lower_bound),
    });
    if certificate {
        summary["certificate"] = first.map_or(Value::Null, |run| certificate_json(&run.cell));
    }
    summary["policies"] = runs.iter().map(policy).collect();
    summary
}

/// Returns prices over time by GPU type, and the bound that they prove, which is the bound itself unless a
/// simpler argument proves more.
fn certificate_json(cell: &SweepCell) -> Value {
    let Some((proves, certificate)) = cell.bound.as_ref().and_then(|bound| bound.priced.as_ref()) else {
        return Value::Null;
    };
    let of_type = |(place, label): (usize, &String)| {
        (label.clone(), certificate.prices.iter().map(|prices| json!(prices[place])).collect())
    };
    let prices: Map<String, Value> = cell.trace.problem.labels.iter().enumerate().map(of_type).collect();
    json!({ "proves_s": proves, "from_s": certificate.edges, "prices": prices })
}

fn policy(run: &SimulationResult) -> Value {
    let mut entry = Map::from_iter([("policy".to_owned(), json!(run.policy))]);
    entry.extend(figures(run));
    let execution = match (&run.record.tasks, run.record.cru) {
        (Some(_), _) => "tasks",
        (None, Some(_)) => "copies",
        (None, None) => "gangs",
    };
    entry.insert("execution".to_owned(), json!(execution));
    if let Some(cru) = run.record.cru {
        entry.insert("cru".to_owned(), json!(cru));
    }
    if let Some(facts) = &run.record.tasks {
        entry.extend(of_tasks(run, facts));
    }
    if run.record.in_rounds
        && let Some(figures) = &run.figures
    {
        let gpus: u32 = run.cell.trace.problem.offered().iter().sum();
        let trained = run.record.held - run.record.restarting;
        entry.insert("gru".to_owned(), json!(trained / (f64::from(gpus) * figures.makespan)));
    }
    entry.insert("decision_s".to_owned(), json!(run.record.decision_time));
    entry.insert("decisions".to_owned(), json!(run.record.decisions));
    if let Some(error) = &run.error {
        entry.insert("error".to_owned(), json!(error));
    }
    let mut jobs: Vec<(usize, Value)> = run
        .cell
        .trace
        .jobs
        .iter()
        .zip(&run.record.jobs)
        .enumerate()
        .map(|(number, (entry, job))| {
            let mut value = json!({
                "name": entry.model.name.as_str(),
                "arrival_s": entry.arrival.0,
                "started_s": job.started.map(|at| at.0),
                "completion_s": job.completed.map(|at| at.0),
                "jct_s": job.completed.map(|at| at.since(entry.arrival).0),
                "moves": job.moves,
            });
            if job.cut_short {
                value["epochs_done"] = json!(job.done);
            }
            if job.failures > 0 {
                value["failures"] = json!(job.failures);
            }
            if let Some(why) = &job.why {
                value["reason"] = json!(why);
            }
            if let Some(facts) = &run.record.tasks {
                put_rounds(&mut value, facts, number);
            }
            (entry.place, value)
        })
        .collect();
    jobs.sort_by_key(|(place, _)| *place);
    entry.insert("jobs".to_owned(), jobs.into_iter().map(|(_, job)| job).collect());
    Value::Object(entry)
}

/// Returns the results for all jobs under a policy of single tasks.
fn of_tasks(run: &SimulationResult, facts: &TaskFacts) -> Map<String, Value> {
    let problem = &run.cell.trace.problem;
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    if let Some(assign) = facts.assign {
        let prices = problem.labels.iter().zip(&facts.prices);
        put("assign", json!(assign));
        put("lower_bound", json!(facts.lower_bound));
        put("gap", json!(run.task_gap()));
        put("prices", prices.map(|(label, price)| (label.clone(), json!(price))).collect());
    } else {
        let group = |gpus: &Vec<TaskGpu>| gpus.iter().map(|gpu| gpu_json(problem, gpu)).collect::<Value>();
        put("groups", facts.groups.iter().map(group).collect());
    }
    fields
}

/// Adds the results for one job under a policy of single tasks.
fn put_rounds(value: &mut Value, facts: &TaskFacts, number: usize) {
    if let Some(middles) = facts.middles.get(number) {
        value["middle_s"] = json!(middles);
    }
    if let Some(round) = facts.round_times.get(number) {
        value["round_s"] = json!(round);
    }
}

fn gpu_json(problem: &Problem, gpu: &TaskGpu) -> Value {
    json!({
        "node": problem.nodes[gpu.node].name.as_str(),
        "type": problem.gpu_types[gpu.gpu_type].as_str(),
        "index": gpu.index,
    })
}

fn figures(run: &SimulationResult) -> impl Iterator<Item = (String, Value)> + '_ {
    FIGURES.into_iter().map(|(name, figure)| {
        let value = match name {
            "ended" => json!(run.figures.map_or(0, |figures| figures.ended)),
            _ => json!(figure(run)),
        };
        (name.to_owned(), value)
    })
}

/// The runs of one policy at one point of a sweep, over its seeds.
pub(super) struct PolicyPoint<'a> {
    pub policy: &'a str,
    pub values: &'a [(&'static str, f64)],
    pub runs: Vec<&'a SimulationResult>,
}

/// A mean with its confidence interval.
pub(super) struct Mean {
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; `None` unless some runs differ.
    pub margin: Option<f64>,
}

/// Returns the points of a sweep, in the order of the runs.
pub(super) fn points(runs: &[SimulationResult]) -> Vec<PolicyPoint<'_>> {
    let mut points: Vec<PolicyPoint<'_>> = Vec::new();
    for run in runs {
        let known =
            points.iter_mut().find(|point| point.policy == run.policy && point.values == run.cell.values);
        match known {
            Some(point) => point.runs.push(run),
            None => {
                points.push(PolicyPoint { policy: &run.policy, values: &run.cell.values, runs: vec![run] });
            }
        }
    }
    points
}

impl PolicyPoint<'_> {
    /// Returns whether any two of its runs differ; equal runs have no interval.
    pub(super) fn differs(&self) -> bool {
        self.runs.windows(2).any(|pair| {
            let (one, other) = (&pair[0].record, &pair[1].record);
            one.jobs != other.jobs || one.in_use != other.in_use
        })
    }

    /// Returns the mean of a metric over the seeds; `None` if a run lacks it.
    pub(super) fn mean(&self, figure: Figure) -> Option<Mean> {
        let values: Vec<f64> = self.runs.iter().map(|run| figure(run)).collect::<Option<_>>()?;
        let count = to_f64(values.len());
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let margin = self.differs().then(|| {
            let quantile = STUDENT.get(values.len() - 2).copied().unwrap_or(NORMAL);
            quantile * (squares / (count - 1.0) / count).sqrt()
        });
        Some(Mean { mean, margin })
    }
}

/// Returns the results of a sweep: `hsched.sweep/1`.
pub fn sweep_json(runs: &[SimulationResult]) -> Value {
    let point = |point: &PolicyPoint<'_>| {
        let mut entry = Map::new();
        for (name, value) in point.values {
            entry.insert((*name).to_owned(), json!(value));
        }
        entry.insert("policy".to_owned(), json!(point.policy));
        entry.insert("seeds".to_owned(), point.runs.iter().map(|run| json!(run.cell.options.seed)).collect());
        for (name, figure) in FIGURES {
            let mean = point.mean(figure);
            entry.insert(name.to_owned(), json!(mean.as_ref().map(|mean| mean.mean)));
            entry.insert(format!("{name}_ci95"), json!(mean.and_then(|mean| mean.margin)));
        }
        let each = point.runs.iter().map(|run| json!(run.figures.map(|figures| figures.mean_jct)));
        entry.insert("mean_jct_s_by_seed".to_owned(), each.collect());
        Value::Object(entry)
    };
    json!({ "schema": "hsched.sweep/1", "points": points(runs).iter().map(point).collect::<Vec<_>>() })
}

/// Returns a header, and a line for each run with the varied parameters and the metrics.
pub fn simulation_csv(runs: &[SimulationResult]) -> String {
    let varied: Vec<&str> =
        runs.first().map_or_else(Vec::new, |run| run.cell.values.iter().map(|(name, _)| *name).collect());
    let names = FIGURES.map(|(name, _)| name);
    let mut text = ["policy", "seed"].into_iter().chain(varied).chain(names).collect::<Vec<_>>().join(",");
    text.push('\n');
    for run in runs {
        let values = run.cell.values.iter().map(|(_, value)| value.to_string());
        let figure =
            |(_, figure): (&str, Figure)| figure(run).map_or_else(String::new, |figure| figure.to_string());
        let cells = [run.policy.clone(), run.cell.options.seed.to_string()];
        let cells: Vec<String> = cells.into_iter().chain(values).chain(FIGURES.map(figure)).collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

/// Returns the line of an event; `names` are those of the jobs by index in the file, `gpus` those of the
/// problem.
pub fn event_json(
    problem: &Problem,
    gpus: &[TaskGpu],
    names: &[&str],
    policy: &str,
    event: &ReplayEvent,
) -> Value {
    let mut line = json!({ "t": event.at.0, "event": event.kind.name(), "policy": policy });
    if let Some(job) = event.job {
        line["job"] = json!(names[job]);
    }
    if let Some(node) = event.node {
        line["node"] = json!(problem.nodes[node].name.as_str());
    }
    if !event.slots.is_empty() {
        let slot = |slot: &hsched_plan::Slot| {
            json!({
                "node": problem.nodes[slot.node].name.as_str(),
                "type": problem.gpu_types[slot.gpu_type].as_str(),
                "count": slot.count,
            })
        };
        line["gpus"] = event.slots.iter().map(slot).collect();
    }
    if let Some(restart) = event.restart {
        line["restart_s"] = json!(restart.0);
    }
    if !event.why.is_empty() {
        line["reason"] = json!(event.why);
    }
    if let Some(TaskRun { round, task, gpu, start, computed, synced, .. }) = event.task {
        line["round"] = json!(round);
        line["task"] = json!(task);
        line["gpu"] = gpu_json(problem, &gpus[gpu]);
        (line["start_s"], line["computed_s"], line["synced_s"]) =
            (json!(start), json!(computed), json!(synced));
    }
    if let Some(line) = line.as_object_mut() {
        line.extend(event.facts.clone());
    }
    line
}
