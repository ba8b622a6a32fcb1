//! `hsched tell`: the results of trials, for an optimiser outside hsched.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::app::completions;
use crate::app::context::Context;
use crate::app::tags::TagArgs;
use crate::app::{deferred_commands, pools, state};
use crate::commands::cli::{Subcommand, print};
use crate::commands::results::{meant, shown_metric, warn_of_damage};
use hsched_engine::store::{MetricCurves, Results, state_stamp};
use hsched_engine::{RunResult, State};
use hsched_model::JobName;
use hsched_model::formats::{trial_json, trial_of};
use hsched_ui::{Exit, Failure};

/// Time between two checks of the state: a network file system does not report changes.
const PAUSE: Duration = Duration::from_secs(1);

/// Print the results of trials, as lines of JSON for an optimiser
///
/// Prints a line for each epoch that a run of the sweep has reported, {"trial": 7, "epoch": 3, "metric": 0.31,
/// "state": "running"}, and one when it has ended, with its last epoch and metric and the state `completed`, `failed` or
/// `cancelled`. NaN and infinities are printed as null. Every call prints all lines from the beginning, so an optimiser that was
/// interrupted can read them again. `hsched ask` adds the runs, and `hsched cancel NAME-t7` prunes one. For runs
/// that were not added as trials, `trial` is the name of the run. Does not call Slurm.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the sweep: that of the job in the job file.
    #[arg(value_name = "SWEEP", add = completions::sweeps())]
    sweep: String,
    /// Metric to print [default: that of the job's target, else its loss].
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    /// Keep printing as the runs progress, until the reading program ends.
    #[arg(long, short)]
    follow: bool,
}

/// The printed lines of each run, keyed by name and time of adding: the last epoch, and whether the end was
/// printed.
type PrintedLines = BTreeMap<(JobName, u64), (u64, bool)>;

impl Subcommand for Args {
    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        pools::or_in_pool(context, std::slice::from_ref(&self.sweep), |context| self.tell(context))
    }
}

impl Args {
    fn tell(&self, context: &Context) -> Result<Exit, Failure> {
        let root = state::root(context)?;
        let rules = state::rules(context);
        let mut printed = PrintedLines::new();
        let mut stamp = None;
        loop {
            let now = state_stamp(&root);
            if stamp.as_ref() != Some(&now) {
                let known = deferred_commands::expected(context, &rules)?;
                let results = Results::read(&root, &known, state::now(context));
                let results = results.map_err(|error| state::failure(&error))?;
                if stamp.is_none() {
                    warn_of_damage(context, &root, &results.damaged);
                }
                stamp = Some(now);
                self.print_new(context, &known, results, &mut printed)?;
            }
            if !self.follow || context.terminal.loses_reader_within(PAUSE) {
                return Ok(Exit::Done);
            }
        }
    }

    /// Prints the lines of the runs that were not printed yet.
    fn print_new(
        &self,
        context: &Context,
        known: &State,
        results: Results,
        printed: &mut PrintedLines,
    ) -> Result<(), Failure> {
        let Results { mut runs, curves, .. } = results;
        // If a trial was repeated, only its last run counts.
        let newest = runs.iter().fold(BTreeMap::<JobName, u64>::new(), |mut newest, run| {
            let added = newest.entry(run.name.clone()).or_default();
            *added = run.key().1.max(*added);
            newest
        });
        runs.retain(|run| newest.get(&run.name) == Some(&run.key().1));
        let is_of_sweep = |run: &RunResult| run.sweep.as_deref() == Some(self.sweep.as_str());
        // With --follow, the first trial may be added later.
        let runs: Vec<RunResult> = if self.follow || runs.iter().any(is_of_sweep) {
            runs.into_iter().filter(is_of_sweep).collect()
        } else {
            meant(runs, std::slice::from_ref(&self.sweep), &TagArgs::default(), "hsched results")?
        };
        if let Some(metric) = self.metric.as_deref().filter(|_| !self.follow) {
            note_unknown_metric(context, &runs, metric);
        }
        let mut text = String::new();
        for run in &runs {
            let tracked = known.find(&run.name).filter(|tracked| tracked.added == run.added);
            let curve = tracked.and_then(|tracked| curves.get(&tracked.job.name));
            let (last, is_told) = printed.entry(run.key()).or_default();
            let metric = self.metric.as_deref().or_else(|| shown_metric(run));
            for (epoch, value) in points(run, curve, metric) {
                if epoch > *last {
                    *last = epoch;
                    let _ = writeln!(text, "{}", line(run, Some(epoch), value, "running"));
                }
            }
            if run.ended.is_some() && !*is_told {
                *is_told = true;
                let epoch = Some(run.epochs_done).filter(|epochs| *epochs > 0);
                let value = metric.and_then(|metric| run.metrics.get(metric)).map(|range| range.last);
                let _ = writeln!(text, "{}", line(run, epoch, value, &run.state));
            }
        }
        if text.is_empty() { Ok(()) } else { print(context, &text) }
    }
}

/// Notes that no run has reported the metric, if runs have reported other metrics: all its values are then
/// null.
fn note_unknown_metric(context: &Context, runs: &[RunResult], metric: &str) {
    let names: BTreeSet<&str> = runs.iter().flat_map(|run| run.metrics.keys().map(String::as_str)).collect();
    if !names.is_empty() && !names.contains(metric) {
        let known = names.into_iter().collect::<Vec<_>>().join(", ");
        context.note(&format!("no run has reported a metric {metric:?}; known: {known}"));
    }
}

/// Returns the epochs of a run with the metric's values: all epochs if its reports exist, otherwise those of
/// the lowest, the highest and the last value, if the metric is known.
fn points(run: &RunResult, curve: Option<&MetricCurves>, metric: Option<&str>) -> BTreeMap<u64, Option<f64>> {
    let of_epoch = |metrics: &[(String, f64)]| {
        metrics.iter().find(|(name, _)| Some(name.as_str()) == metric).map(|(_, value)| *value)
    };
    match (curve, metric.and_then(|metric| run.metrics.get(metric))) {
        (Some(curve), _) => curve.iter().map(|(epoch, metrics)| (*epoch, of_epoch(metrics))).collect(),
        (None, Some(range)) => BTreeMap::from([
            (range.least_epoch, Some(range.least)),
            (range.most_epoch, Some(range.most)),
            (range.last_epoch, Some(range.last)),
        ]),
        (None, None) => BTreeMap::new(),
    }
}

fn line(run: &RunResult, epoch: Option<u64>, metric: Option<f64>, state: &str) -> Value {
    let id = run.sweep.as_deref().and_then(|sweep| trial_of(&run.name, sweep, &run.parameters));
    let trial = trial_json(id.as_deref().unwrap_or(run.name.as_str()));
    json!({ "trial": trial, "epoch": epoch, "metric": metric, "state": state })
}
