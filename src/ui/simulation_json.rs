//! What policies made of a trace, as JSON and CSV: the names and units of the figures that other programs read.

use serde_json::{Map, Value, json};

use crate::policy::Problem;
use crate::replay::{Event, Figures};
use crate::ui::simulation::Simulated;

/// Takes one of the figures.
pub(super) type Figure = fn(&Figures) -> f64;

/// The figures of a run by their names, in the order of the CSV.
const FIGURES: [(&str, Figure); 12] = [
    ("mean_jct_s", |own| own.mean_jct),
    ("p50_jct_s", |own| own.p50_jct),
    ("p90_jct_s", |own| own.p90_jct),
    ("p99_jct_s", |own| own.p99_jct),
    ("makespan_s", |own| own.makespan),
    ("weighted_completion_s", |own| own.weighted_completion),
    ("mean_wait_s", |own| own.mean_wait),
    ("utilisation", |own| own.utilisation),
    ("goodput", |own| own.goodput),
    ("moves_per_job", |own| own.moves_per_job),
    ("longest_stretch", |own| own.longest_stretch),
    ("ended", |own| {
        #[expect(clippy::cast_precision_loss, reason = "a count of jobs")]
        let ended = own.ended as f64;
        ended
    }),
];

/// Quantiles of Student's distribution at 97.5 %, by degrees of freedom from 1; beyond them the normal one's.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
const NORMAL: f64 = 1.960;

/// Returns the summary of one trace under some policies: `hsched.simulation/1`.
#[must_use]
pub fn simulation_json(runs: &[Simulated]) -> Value {
    let first = runs.first();
    json!({
        "schema": "hsched.simulation/1",
        "seed": first.map(|run| run.options.seed),
        "jobs": first.map(|run| run.trace.jobs.len()),
        "load": first.and_then(|run| run.trace.load()),
        "lower_bound_s": null,
        "policies": runs.iter().map(policy).collect::<Vec<_>>(),
    })
}

fn policy(run: &Simulated) -> Value {
    let mut entry =
        Map::from_iter([("policy".to_owned(), json!(run.policy)), ("ratio".to_owned(), Value::Null)]);
    entry.extend(figures(run));
    entry.insert("decision_s".to_owned(), json!(run.record.decision_time));
    entry.insert("decisions".to_owned(), json!(run.record.decisions));
    if let Some(error) = &run.error {
        entry.insert("error".to_owned(), json!(error));
    }
    let mut jobs: Vec<(usize, Value)> = run
        .trace
        .jobs
        .iter()
        .zip(&run.record.jobs)
        .map(|(entry, job)| {
            let mut value = json!({
                "name": entry.model.name.as_str(),
                "arrival_s": entry.arrival.0,
                "started_s": job.started.map(|at| at.0),
                "completion_s": job.completed.map(|at| at.0),
                "jct_s": job.completed.map(|at| at.since(entry.arrival).0),
                "moves": job.moves,
            });
            if job.failures > 0 {
                value["failures"] = json!(job.failures);
            }
            if let Some(why) = &job.why {
                value["reason"] = json!(why);
            }
            (entry.place, value)
        })
        .collect();
    jobs.sort_by_key(|(place, _)| *place);
    entry.insert("jobs".to_owned(), jobs.into_iter().map(|(_, job)| job).collect());
    Value::Object(entry)
}

fn figures(run: &Simulated) -> impl Iterator<Item = (String, Value)> {
    let own = run.figures;
    FIGURES.into_iter().map(move |(name, figure)| {
        let value = own.map(|own| figure(&own));
        let value = if name == "ended" { json!(own.map_or(0, |own| own.ended)) } else { json!(value) };
        (name.to_owned(), value)
    })
}

/// The runs of one policy at one point of a sweep, over its seeds.
pub(super) struct Point<'a> {
    pub policy: &'a str,
    pub values: &'a [(&'static str, f64)],
    pub runs: Vec<&'a Simulated>,
}

/// A mean with its confidence interval.
pub(super) struct Mean {
    pub mean: f64,
    /// Half the width of the interval that holds the true mean with 95 %; `None` from one run.
    pub margin: Option<f64>,
}

/// Returns the points of a sweep, in the order of the runs.
pub(super) fn points(runs: &[Simulated]) -> Vec<Point<'_>> {
    let mut points: Vec<Point<'_>> = Vec::new();
    for run in runs {
        let known = points.iter_mut().find(|point| point.policy == run.policy && point.values == run.values);
        match known {
            Some(point) => point.runs.push(run),
            None => points.push(Point { policy: &run.policy, values: &run.values, runs: vec![run] }),
        }
    }
    points
}

impl Point<'_> {
    /// Returns a figure's mean over the seeds; `None` where a run has none.
    pub(super) fn mean(&self, figure: Figure) -> Option<Mean> {
        let values: Vec<f64> =
            self.runs.iter().map(|run| Some(figure(&run.figures?))).collect::<Option<_>>()?;
        #[expect(clippy::cast_precision_loss, reason = "a count of runs")]
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let margin = (values.len() > 1).then(|| {
            let quantile = STUDENT.get(values.len() - 2).copied().unwrap_or(NORMAL);
            quantile * (squares / (count - 1.0) / count).sqrt()
        });
        Some(Mean { mean, margin })
    }
}

/// Returns the summary of a sweep: `hsched.sweep/1`.
#[must_use]
pub fn sweep_json(runs: &[Simulated]) -> Value {
    let point = |point: &Point<'_>| {
        let mut entry = Map::new();
        for (name, value) in point.values {
            entry.insert((*name).to_owned(), json!(value));
        }
        entry.insert("policy".to_owned(), json!(point.policy));
        entry.insert("seeds".to_owned(), point.runs.iter().map(|run| json!(run.options.seed)).collect());
        for (name, figure) in FIGURES {
            let mean = point.mean(figure);
            entry.insert(name.to_owned(), json!(mean.as_ref().map(|own| own.mean)));
            entry.insert(format!("{name}_ci95"), json!(mean.and_then(|own| own.margin)));
        }
        let each = point.runs.iter().map(|run| json!(run.figures.map(|own| own.mean_jct)));
        entry.insert("mean_jct_s_by_seed".to_owned(), each.collect());
        Value::Object(entry)
    };
    json!({ "schema": "hsched.sweep/1", "points": points(runs).iter().map(point).collect::<Vec<_>>() })
}

/// Returns a line for each run, with what is varied and the figures.
#[must_use]
pub fn simulation_csv(runs: &[Simulated]) -> String {
    let varied: Vec<&str> =
        runs.first().map_or_else(Vec::new, |run| run.values.iter().map(|(name, _)| *name).collect());
    let names = FIGURES.map(|(name, _)| name);
    let mut text = ["policy", "seed"].into_iter().chain(varied).chain(names).collect::<Vec<_>>().join(",");
    text.push('\n');
    for run in runs {
        let values = run.values.iter().map(|(_, value)| value.to_string());
        let figure = |(_, figure): (&str, Figure)| {
            run.figures.map_or_else(String::new, |own| figure(&own).to_string())
        };
        let cells = [run.policy.clone(), run.options.seed.to_string()];
        let cells: Vec<String> = cells.into_iter().chain(values).chain(FIGURES.map(figure)).collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

/// Returns the line of an event; `names` are those of the jobs by their places in the file.
#[must_use]
pub fn event_json(problem: &Problem, names: &[&str], policy: &str, event: &Event) -> Value {
    let mut line = json!({ "t": event.at.0, "event": event.kind.name(), "policy": policy });
    if let Some(job) = event.job {
        line["job"] = json!(names[job]);
    }
    if let Some(node) = event.node {
        line["node"] = json!(problem.nodes[node].name.as_str());
    }
    if !event.slots.is_empty() {
        let slot = |slot: &crate::policy::Slot| {
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
    line
}
