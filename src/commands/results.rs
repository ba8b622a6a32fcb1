//! `hsched results`: the results of runs, also of jobs that were forgotten.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::Path;

use clap::ValueEnum;

use crate::app::completions;
use crate::app::context::Context;
use crate::app::patterns::is_meant;
use crate::app::tags::TagArgs;
use crate::app::{deferred_commands, pools, state};
use crate::commands::cli::{Subcommand, json_text, print};
use hsched_engine::RunResult;
use hsched_engine::store::Results;
use hsched_model::{ErrorId, GoalMode, formats};
use hsched_ui::{
    Exit, Failure, ResultRow, RowMetric, direction, parameter_order, results_csv, results_json, results_table,
};

/// Show the results of runs: parameters, best and last metric, epochs, GPU hours
///
/// One row per run, including jobs that ended long ago: `hsched status` forgets a job 30 days after its end, but its results are kept.
/// BEST and LAST are of the metric that --sort names, else of the job's target, else of its loss. Metrics come from
/// the reports of rank 0. The best run is the one with the best value after any epoch, as in `hsched status`. Does not call Slurm.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Names of sweeps (the name of the job in the job file) or of runs. A * matches any text. Default: all runs.
    #[arg(value_name = "SWEEP", add = completions::past_jobs())]
    names: Vec<String>,
    #[command(flatten)]
    tags: TagArgs,
    /// Sort by a metric, the best run first, by a parameter, or by a column: name, sweep, state, epoch, `gpu_hours`.
    #[arg(long, value_name = "KEY")]
    sort: Option<String>,
    /// Print only the command that repeats the best run.
    ///
    /// The command is that of the job file with its working directory and environment variables, without setup lines, and runs as one process. It
    /// prints its reports, and saves its checkpoints to a new directory.
    #[arg(long)]
    best: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: ResultFormat,
}

/// Columns that --sort accepts besides metrics and parameters.
const SORTED_COLUMNS: [&str; 8] =
    ["name", "sweep", "state", "epoch", "epochs", "gpu_hours", "best", "metric"];

/// The output formats of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ResultFormat {
    /// Human-readable text.
    #[default]
    Table,
    /// One line per run; parameters are columns.
    Csv,
    /// JSON.
    Json,
}

/// Printed if all runs have ended and none has reported a metric.
const NO_METRICS: &str =
    "no run has reported a metric; hsched help program shows how a program reports its epochs and metrics";

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == ResultFormat::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        pools::or_in_pool(context, &self.names, |context| self.show(context))
    }
}

impl Args {
    fn show(&self, context: &Context) -> Result<Exit, Failure> {
        let root = state::root(context)?;
        let known = deferred_commands::expected(context, &state::rules(context))?;
        let results = Results::read(&root, &known, state::now(context));
        let Results { runs, damaged, .. } = results.map_err(|error| state::failure(&error))?;
        warn_of_damage(context, &root, &damaged);
        let runs = meant(runs, &self.names, &self.tags, "hsched results")?;
        let metric = self.metric(&runs)?;
        let mut rows: Vec<ResultRow> = runs.iter().map(|run| row(run, metric, &runs)).collect();
        if let Some(key) = &self.sort {
            rows.sort_by(|a, b| order(key, metric, a, b));
        }
        if self.best {
            rows = vec![best(rows)?];
        }
        let text = match self.format {
            ResultFormat::Json => json_text(&results_json(&rows))?,
            ResultFormat::Csv => {
                results_csv(&rows).map_err(|error| Failure::from_error(Exit::Internal, &error))?
            }
            ResultFormat::Table if self.best => {
                rows.iter().map(|row| row.run.command.clone() + "\n").collect()
            }
            ResultFormat::Table if rows.is_empty() => {
                match &pools::open_or_last(context, &root)[..] {
                    [] => {
                        context.note(
                            "there are no runs yet: hsched submit, hsched add or hsched run start some",
                        );
                    }
                    pools => pools.iter().for_each(|pool| context.note(pool.text("results").trim_end())),
                }
                String::new()
            }
            ResultFormat::Table => {
                if rows.iter().all(|row| row.metric.is_none() && row.run.ended.is_some()) {
                    context.note(NO_METRICS);
                }
                results_table(&rows, context.terminal) + "\n"
            }
        };
        print(context, &text).map(|()| Exit::Done)
    }

    /// Returns the metric that --sort names; `None` if it names a column, a parameter or nothing.
    fn metric(&self, runs: &[RunResult]) -> Result<Option<&str>, Failure> {
        let Some(key) = self.sort.as_deref() else { return Ok(None) };
        let is_metric = runs.iter().any(|run| run.metrics.contains_key(key));
        let is_parameter = runs.iter().any(|run| run.parameters.contains_key(key));
        if is_metric && !is_parameter {
            return Ok(Some(key));
        }
        if is_parameter || SORTED_COLUMNS.contains(&key) || runs.is_empty() {
            return Ok(None);
        }
        let names: BTreeSet<&str> = runs
            .iter()
            .flat_map(|run| run.metrics.keys().chain(run.parameters.keys()).map(String::as_str))
            .collect();
        let failure = Failure::new(Exit::Usage, format!("no run has a metric or a parameter {key:?}"))
            .id(ErrorId::UnknownKey);
        let names: Vec<&str> = names.into_iter().collect();
        Err(match formats::nearest(key, names.iter().copied()) {
            Some(near) => failure.hint(format!("did you mean {near}?")),
            None => failure.hint(format!("known: {}", names.join(", "))),
        })
    }
}

/// Warns about unreadable lines of the result file.
pub(super) fn warn_of_damage(context: &Context, root: &Path, damaged: &[usize]) {
    if let Some(first) = damaged.first() {
        let path = root.join("results").display().to_string();
        context.warn(&format!("{path} has {} damaged lines, the first is line {first}", damaged.len()));
    }
}

/// Returns the runs of the given names or sweeps with the given tags, in their original order, or all runs
/// with these tags if no name is given. `list` is the command that lists all names.
///
/// # Errors
/// If a name belongs to no run and no sweep, a tag to no run, or no named run has one of the tags.
pub(super) fn meant(
    runs: Vec<RunResult>,
    names: &[String],
    tags: &TagArgs,
    list: &str,
) -> Result<Vec<RunResult>, Failure> {
    tags.check(runs.iter().map(|run| &*run.tags))?;
    let is_one = |name: &str, run: &RunResult| {
        let sweep = run.sweep.as_deref();
        sweep.is_some_and(|sweep| is_meant(name, sweep)) || is_meant(name, run.name.as_str())
    };
    for name in names {
        if !runs.iter().any(|run| is_one(name, run)) {
            let failure = Failure::new(Exit::Usage, format!("there is no job and no sweep {name:?}"))
                .id(ErrorId::UnknownSweep);
            let known =
                runs.iter().flat_map(|run| run.sweep.as_deref().into_iter().chain([run.name.as_str()]));
            return Err(match formats::nearest(name, known) {
                Some(near) => failure.hint(format!("did you mean {near}?")),
                None if runs.is_empty() => failure.hint("hsched submit, hsched add and hsched run add jobs"),
                None => failure.hint(format!("{list} lists them all")),
            });
        }
    }
    let is_any = |run: &RunResult| names.is_empty() || names.iter().any(|name| is_one(name, run));
    let meant: Vec<RunResult> = runs.into_iter().filter(|run| is_any(run) && tags.mean(&run.tags)).collect();
    if meant.is_empty() && !names.is_empty() { Err(tags.none_of_names()) } else { Ok(meant) }
}

/// Returns the metric that a run shows by default.
pub(super) fn shown_metric(run: &RunResult) -> Option<&str> {
    let target = run.target.as_ref().map(|(name, _)| name.as_str());
    let names: Vec<&str> = run.metrics.keys().map(String::as_str).collect();
    hsched_ui::shown_metric(&names, target)
}

/// Returns a run with the metric to show: the requested one, else that of [`shown_metric`].
pub(super) fn row(run: &RunResult, wanted: Option<&str>, runs: &[RunResult]) -> ResultRow {
    let found = wanted.or_else(|| shown_metric(run)).and_then(|name| run.metrics.get_key_value(name));
    let metric = found.map(|(name, range)| {
        let mode = mode(name, runs);
        let (best, best_epoch) = range.best(mode);
        RowMetric { name: name.clone(), mode, best, best_epoch, last: range.last }
    });
    ResultRow { run: run.clone(), metric }
}

/// Returns the direction in which a metric improves: from the target of a job, else from its name; upwards if
/// neither gives one.
fn mode(metric: &str, runs: &[RunResult]) -> GoalMode {
    let mode = |word: &str| GoalMode::NAMES.iter().find(|(name, _)| *name == word).map(|(_, mode)| *mode);
    let targets = runs.iter().filter_map(|run| run.target.as_ref());
    let targets = targets.filter_map(|(name, word)| Some((name.as_str(), mode(word)?)));
    direction(metric, targets).unwrap_or(GoalMode::Max)
}

/// Orders rows by a metric, the best first, or by a parameter or a column, the smallest first; missing values
/// come last.
fn order(key: &str, metric: Option<&str>, a: &ResultRow, b: &ResultRow) -> Ordering {
    if metric.is_some() || matches!(key, "best" | "metric") {
        return by_metric(a.metric.as_ref(), b.metric.as_ref());
    }
    let column = |row: &ResultRow| match key {
        "name" => Some(row.run.name.as_str().into()),
        "sweep" => row.run.sweep.as_deref().map(Into::into),
        "state" => Some(row.run.state.as_str().into()),
        "epoch" => Some(row.run.epochs_done.into()),
        "epochs" => Some(row.run.epochs.into()),
        "gpu_hours" => Some(row.run.gpu_hours().into()),
        _ => row.run.parameters.get(key).cloned(),
    };
    let [a, b] = [a, b].map(|row| parameter_order(column(row).as_ref()));
    a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
}

/// Orders values of metrics, the best first; values of different metrics are ordered by the metrics' names.
fn by_metric(a: Option<&RowMetric>, b: Option<&RowMetric>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.name.cmp(&b.name).then_with(|| match a.mode {
            GoalMode::Min => a.best.total_cmp(&b.best),
            GoalMode::Max => b.best.total_cmp(&a.best),
        }),
        (a, b) => a.is_none().cmp(&b.is_none()),
    }
}

/// Returns the best of the runs that have a value.
fn best(rows: Vec<ResultRow>) -> Result<ResultRow, Failure> {
    let sweeps: BTreeSet<&str> = rows.iter().filter_map(|row| row.run.sweep.as_deref()).collect();
    if sweeps.len() > 1 {
        let names = sweeps.into_iter().collect::<Vec<_>>().join(", ");
        let failure =
            Failure::new(Exit::Usage, "--best needs the name of one sweep, because there are several")
                .id(ErrorId::SeveralMeant);
        return Err(failure.hint(format!("they are: {names}")));
    }
    let metrics: BTreeSet<&str> =
        rows.iter().filter_map(|row| Some(row.metric.as_ref()?.name.as_str())).collect();
    if metrics.len() > 1 {
        let names = metrics.into_iter().collect::<Vec<_>>().join(", ");
        let failure =
            Failure::new(Exit::Usage, "--best needs --sort METRIC, because the runs have different metrics")
                .id(ErrorId::OptionNeeds);
        return Err(failure.hint(format!("they are: {names}")));
    }
    let best = rows.into_iter().filter(|row| row.metric.is_some());
    let best = best.min_by(|a, b| by_metric(a.metric.as_ref(), b.metric.as_ref()));
    best.ok_or_else(|| {
        Failure::new(Exit::Failed, "no run has reported a metric")
            .id(ErrorId::NoMetric)
            .hint("hsched help program shows how a program reports metrics")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_several_metrics_have_one_order() {
        let metric = |name: &str, mode: GoalMode, best: u32| {
            let best = f64::from(best);
            RowMetric { name: name.to_owned(), mode, best, best_epoch: 1, last: best }
        };
        let mut metrics: Vec<Option<RowMetric>> = vec![None];
        for value in 0..20 {
            metrics.push(Some(metric("loss", GoalMode::Min, value)));
            metrics.push(Some(metric("acc", GoalMode::Max, value)));
        }
        metrics.sort_by(|a, b| by_metric(a.as_ref(), b.as_ref()));
        let sorted: Vec<String> = metrics
            .iter()
            .map(|metric| {
                metric.as_ref().map_or_else(String::new, |metric| format!("{} {}", metric.name, metric.best))
            })
            .collect();
        assert_eq!(sorted[..2], ["acc 19", "acc 18"]);
        assert_eq!(sorted[19..22], ["acc 0", "loss 0", "loss 1"]);
        assert_eq!(sorted[40], "");
    }
}
