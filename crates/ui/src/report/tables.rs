//! The data of a report as CSV files, by name.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::data::Report;

/// The columns that identify a row come first; the others follow by name.
const FIRST: [&str; 9] = ["policy", "sweep", "job", "model", "node", "type", "index", "metric", "epoch"];

/// Returns the tables that have rows, each with its file name without extension.
///
/// # Errors
/// Only through a bug of hsched.
pub fn tables(report: &Report) -> Result<Vec<(&'static str, String)>, csv::Error> {
    let tables = [
        ("jobs", jobs(report)),
        (
            "policies",
            listed("policy", &report.runs.iter().map(|run| (&run.name, &run.row)).collect::<Vec<_>>()),
        ),
        ("spans", spans(report)),
        ("queue", steps(report, "waiting", |run| &run.queue)),
        ("in-use", steps(report, "gpus", |run| &run.in_use)),
        ("epochs", rows(&report.epochs)),
        ("waits", rows(&report.waits)),
        ("speeds", rows(&report.speeds)),
        ("requests", rows(&report.options)),
        ("points", rows(&report.points)),
        ("curves", curves(report)),
    ];
    let filled = tables.into_iter().filter(|(_, rows)| !rows.is_empty());
    filled.map(|(name, rows)| Ok((name, csv(&rows)?))).collect()
}

/// Returns a row for each job under each policy.
fn jobs(report: &Report) -> Vec<Value> {
    let row = |(run, number): (usize, usize)| {
        let (run, job) = (&report.runs[run], &report.jobs[number]);
        let ended = run.ended_s.get(number).copied().flatten();
        json!({
            "policy": run.name, "job": job.name, "arrival_s": job.arrival_s,
            "started_s": run.started_s.get(number).copied().flatten(), "ended_s": ended,
            "jct_s": ended.map(|ended| ended - job.arrival_s),
        })
    };
    let pairs = (0..report.runs.len()).flat_map(|run| (0..report.jobs.len()).map(move |job| (run, job)));
    pairs.map(row).collect()
}

fn spans(report: &Report) -> Vec<Value> {
    let row = |run: &str, span: &super::Span, gpu: usize| {
        let gpu = &report.gpus[gpu];
        json!({
            "policy": run, "job": report.jobs[span.job].name, "node": gpu.node, "type": gpu.gpu_type, "index": gpu.index,
            "start_s": span.start, "work_s": span.work, "end_s": span.end,
        })
    };
    let of_span = |(run, span)| {
        let span: &super::Span = span;
        span.gpus.iter().map(move |gpu| row(run, span, *gpu))
    };
    report
        .runs
        .iter()
        .flat_map(|run| run.spans.iter().map(|span| (run.name.as_str(), span)))
        .flat_map(of_span)
        .collect()
}

fn steps(report: &Report, what: &str, of: fn(&super::ReportRun) -> &Vec<(f64, f64)>) -> Vec<Value> {
    let row = |(run, (at, value)): (&str, &(f64, f64))| json!({ "policy": run, "t_s": at, what: value });
    report.runs.iter().flat_map(|run| of(run).iter().map(|step| (run.name.as_str(), step))).map(row).collect()
}

fn curves(report: &Report) -> Vec<Value> {
    let of_run = |(sweep, run): (&super::ReportSweep, &super::SweepCurve)| {
        let row = |(epoch, value): &(u64, f64)| json!({ "sweep": sweep.name, "job": run.name, "metric": sweep.metric, "epoch": epoch, "value": value });
        run.curve.iter().map(row).collect::<Vec<_>>()
    };
    report
        .sweeps
        .iter()
        .flat_map(|sweep| sweep.runs.iter().map(move |run| (sweep, run)))
        .flat_map(of_run)
        .collect()
}

/// Returns rows as JSON values.
fn rows<T: serde::Serialize>(list: &[T]) -> Vec<Value> {
    list.iter().map(|row| json!(row)).collect()
}

/// Returns the rows, each preceded by a name.
fn listed<T: serde::Serialize>(heading: &str, list: &[(&String, &T)]) -> Vec<Value> {
    let row = |(name, row): &(&String, &T)| {
        let mut value = json!({ heading: name });
        if let (Value::Object(line), Value::Object(fields)) = (&mut value, json!(row)) {
            line.extend(fields);
        }
        value
    };
    list.iter().map(row).collect()
}

/// Returns rows as CSV, with a column for each key that any row has; lists and maps become several columns.
fn csv(rows: &[Value]) -> Result<String, csv::Error> {
    let flat: Vec<Vec<(String, String)>> = rows.iter().map(flat).collect();
    let names: BTreeSet<&str> = flat.iter().flatten().map(|(name, _)| name.as_str()).collect();
    let mut headings: Vec<&str> = names.into_iter().collect();
    let place = |name: &str| FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
    headings.sort_by_key(|name| place(name));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&headings)?;
    for row in &flat {
        let cell = |heading: &&str| row.iter().find(|(name, _)| name == heading).map_or("", |(_, text)| text);
        writer.write_record(headings.iter().map(cell))?;
    }
    let bytes = writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the cells of a row with their headings; a list has the 10 %, 50 % and 90 % quantiles of its key.
fn flat(row: &Value) -> Vec<(String, String)> {
    let mut cells = Vec::new();
    for (key, value) in row.as_object().into_iter().flatten() {
        match value {
            Value::Null => cells.push((key.clone(), String::new())),
            Value::Array(list) => {
                cells.extend(
                    list.iter()
                        .zip(["q10", "q50", "q90"])
                        .map(|(value, part)| (format!("{key}_{part}"), value.to_string())),
                );
            }
            Value::Object(map) => {
                cells.extend(map.iter().map(|(name, value)| (name.clone(), value.to_string())));
            }
            Value::String(text) => cells.push((key.clone(), text.clone())),
            other => cells.push((key.clone(), other.to_string())),
        }
    }
    cells
}
