//! Results of runs as a table, as CSV and as JSON: one row per run, with its parameters as columns.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::status::number;
use crate::terminal::harmless;
use crate::{Align, Table, Terminal};
use hsched_engine::RunResult;
use hsched_model::GoalMode;

/// A run with the metric to show.
#[derive(Clone, Debug)]
pub struct ResultRow {
    pub run: RunResult,
    /// `None` if the run has reported none.
    pub metric: Option<RowMetric>,
}

/// The metric of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct RowMetric {
    pub name: String,
    pub mode: GoalMode,
    pub best: f64,
    pub best_epoch: u64,
    pub last: f64,
}

const PARAMETERS: &str = "PARAMETERS";
const METRIC: &str = "METRIC";
const GPU_HOURS: &str = "GPU HOURS";

/// The columns of the CSV besides parameters; a parameter with one of these names gets a prefix.
const RESULT_COLUMNS: [&str; 11] =
    ["name", "sweep", "metric", "best", "best_epoch", "last", "epoch", "epochs", "gpu_hours", "state", "why"];

/// Returns the rows as a table. On a narrow terminal, it lacks the GPU hours and then a metric that all runs
/// share, so that the names of runs stay whole.
pub fn results_table(rows: &[ResultRow], terminal: Terminal) -> String {
    let metrics: BTreeSet<&str> =
        rows.iter().filter_map(|row| row.metric.as_ref()).map(|metric| metric.name.as_str()).collect();
    let forms: &[&[&str]] = match metrics.len() {
        0 | 1 => &[&[], &[GPU_HOURS], &[GPU_HOURS, METRIC]],
        _ => &[&[], &[GPU_HOURS]],
    };
    let tables: Vec<Table> = forms.iter().map(|hidden| table(rows, hidden)).collect();
    let fitting = tables.iter().position(|table| !terminal.cuts() || table.fits(terminal));
    let form = fitting.unwrap_or(forms.len() - 1);
    let (hidden, shown) = (forms[form], tables[form].show(terminal));
    match metrics.first().filter(|_| hidden.contains(&METRIC)) {
        Some(metric) => format!("{shown}BEST and LAST: {}\n", harmless(metric)),
        None => shown,
    }
}

/// Returns the table without the columns of these headings.
fn table(rows: &[ResultRow], hidden: &[&str]) -> Table {
    // A single column for all parameters: headings are fixed, and sweeps have different keys.
    let columns = [
        ("RUN", Align::Left),
        (PARAMETERS, Align::Left),
        (METRIC, Align::Left),
        ("BEST", Align::Right),
        ("AT", Align::Right),
        ("LAST", Align::Right),
        ("EPOCHS", Align::Right),
        (GPU_HOURS, Align::Right),
        ("STATE", Align::Left),
    ];
    let has_parameters = !parameters(rows).is_empty();
    let is_shown = |heading: &str| !hidden.contains(&heading) && (heading != PARAMETERS || has_parameters);
    let shown: Vec<(&str, Align)> = columns.into_iter().filter(|(heading, _)| is_shown(heading)).collect();
    let mut table = Table::new(&shown);
    for ResultRow { run, metric } in rows {
        let words = run.parameters.iter().map(|(key, value)| format!("{key}={}", plain(value)));
        let of = |text: fn(&RowMetric) -> String| metric.as_ref().map_or_else(|| "-".to_owned(), text);
        let cells = [
            run.name.to_string(),
            harmless(&words.collect::<Vec<_>>().join(" ")),
            of(|metric| harmless(&metric.name)),
            of(|metric| number(metric.best)),
            of(|metric| metric.best_epoch.to_string()),
            of(|metric| number(metric.last)),
            if run.is_command { "-".to_owned() } else { format!("{}/{}", run.epochs_done, run.epochs) },
            format!("{:.2}", run.gpu_hours()),
            run.state.clone(),
        ];
        let cells = columns.iter().zip(cells).filter(|((heading, _), _)| is_shown(heading));
        table.row(cells.map(|(_, cell)| cell));
        if let Some(why) = &run.why {
            table.note(harmless(why));
        }
    }
    table
}

/// Returns the rows as CSV: one column per parameter, empty cells for unknown values.
///
/// # Errors
/// Only if hsched has a bug.
pub fn results_csv(rows: &[ResultRow]) -> Result<String, csv::Error> {
    let parameters = parameters(rows);
    let heading = |name: &&str| {
        if RESULT_COLUMNS.contains(name) { format!("parameter_{name}") } else { (*name).to_owned() }
    };
    let (first, rest) = RESULT_COLUMNS.split_at(2);
    let mut writer = csv::Writer::from_writer(Vec::new());
    let headings = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    writer
        .write_record([headings(first), parameters.iter().map(heading).collect(), headings(rest)].concat())?;
    for ResultRow { run, metric } in rows {
        let mut cells = vec![run.name.to_string(), run.sweep.clone().unwrap_or_default()];
        let value = |name: &&str| run.parameters.get(*name).map(plain).unwrap_or_default();
        cells.extend(parameters.iter().map(value));
        let of = |text: fn(&RowMetric) -> String| metric.as_ref().map(text).unwrap_or_default();
        cells.extend([
            of(|metric| metric.name.clone()),
            of(|metric| metric.best.to_string()),
            of(|metric| metric.best_epoch.to_string()),
            of(|metric| metric.last.to_string()),
            run.epochs_done.to_string(),
            run.epochs.to_string(),
            run.gpu_hours().to_string(),
            run.state.clone(),
            run.why.clone().unwrap_or_default(),
        ]);
        writer.write_record(cells)?;
    }
    let bytes = writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the rows as JSON (schema `hsched.results/1`); times are Unix seconds.
pub fn results_json(rows: &[ResultRow]) -> Value {
    let run = |ResultRow { run, metric }: &ResultRow| {
        let metric = metric.as_ref();
        let mode = |metric: &RowMetric| match metric.mode {
            GoalMode::Min => "min",
            GoalMode::Max => "max",
        };
        json!({
            "name": run.name.as_str(),
            "sweep": run.sweep,
            "parameters": run.parameters,
            "tags": run.tags,
            "metric": metric.map(|metric| &metric.name),
            "mode": metric.map(mode),
            "best": metric.map(|metric| metric.best),
            "best_epoch": metric.map(|metric| metric.best_epoch),
            "last": metric.map(|metric| metric.last),
            "epoch": run.epochs_done,
            "epochs": run.epochs,
            "gpu_hours": run.gpu_hours(),
            "state": run.state,
            "why": run.why,
            "added": run.added.0,
            "ended": run.ended.map(|ended| ended.0),
            "command": run.command,
        })
    };
    json!({ "schema": "hsched.results/1", "runs": rows.iter().map(run).collect::<Vec<_>>() })
}

/// Returns the names of all parameters in order.
fn parameters(rows: &[ResultRow]) -> Vec<&str> {
    let names = rows.iter().flat_map(|row| row.run.parameters.keys().map(String::as_str));
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the value of a parameter as in a file, without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Orders numbers by size before texts; missing values come last.
pub fn parameter_order(value: Option<&Value>) -> (u8, f64, String) {
    match value {
        Some(value) => match value.as_f64() {
            Some(number) => (0, number, String::new()),
            None => (1, 0.0, plain(value)),
        },
        None => (2, 0.0, String::new()),
    }
}
