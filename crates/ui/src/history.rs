//! The resource use of jobs as a table and as JSON: one row per job, and a total.

use serde_json::{Value, json};

use crate::quantity::duration;
use crate::slow_nodes::{slow_json, slow_lines};
use crate::terminal::harmless;
use crate::text::wrap;
use crate::{Align, Table, Terminal};
use hsched_engine::{EnergySource, GpuUsage, RunResult, SlowNode};
use hsched_model::{Seconds, Time, Unit};

/// A job with its resource use.
#[derive(Clone, Debug)]
pub struct HistoryRow {
    pub run: RunResult,
    pub usage: GpuUsage,
}

impl HistoryRow {
    /// Returns a job's row, with its resource use until `now`.
    pub fn new(run: RunResult, now: Time) -> Self {
        let usage = GpuUsage::of(&run, now);
        Self { run, usage }
    }

    /// Returns the time of the job's first start.
    pub fn started(&self) -> Option<Time> {
        let starts = self.run.submissions.iter().filter_map(|submission| submission.started);
        starts.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Returns the time from the job's addition to its first start.
    pub fn wait(&self) -> Option<Seconds> {
        self.started().map(|started| Seconds(started.since(self.run.added).0.max(0.0)))
    }
}

/// Returns the total resource use of several jobs.
fn total(rows: &[HistoryRow]) -> GpuUsage {
    GpuUsage::sum(&rows.iter().map(|row| &row.usage).collect::<Vec<_>>())
}

/// Returns the rows as a table, with the total as the last row.
pub fn history_table(rows: &[HistoryRow], slow: &[SlowNode], now: Time, terminal: Terminal) -> String {
    let all = total(rows);
    let is_billed = all.billed_hours.is_some();
    let mut table = Table::new(&[
        ("JOB", Align::Left),
        ("STATE", Align::Left),
        ("WAIT", Align::Right),
        ("STARTS", Align::Right),
        ("GPU HOURS", Align::Right),
        ("IDLE", Align::Right),
        ("LOST", Align::Right),
        ("KWH", Align::Right),
        (if is_billed { "BILLED" } else { "RGU HOURS" }, Align::Right),
    ]);
    let mut starts = 0;
    for row in rows {
        let started = row.run.submissions.iter().filter(|submission| submission.started.is_some()).count();
        starts += started;
        let wait = row.wait().map_or_else(|| "-".to_owned(), duration);
        let cells = [row.run.name.to_string(), row.run.state.clone(), wait, started.to_string()];
        table.row(cells.into_iter().chain(amounts(&row.usage, is_billed)));
    }
    let cells = [format!("all {}", rows.len()), String::new(), String::new(), starts.to_string()];
    table.row(cells.into_iter().chain(amounts(&all, is_billed)));
    let mut text = table.show(terminal);
    for line in slow_lines(slow, now) {
        text.push_str(&wrap(&harmless(&line), terminal.width(), "  "));
        text.push('\n');
    }
    text
}

/// Returns the cells for GPU hours, idle and lost hours, energy, and billing or else RGU hours.
fn amounts(usage: &GpuUsage, is_billed: bool) -> [String; 5] {
    let hours = |hours: Option<f64>| hours.map_or_else(|| "-".to_owned(), |hours| format!("{hours:.2}"));
    let energy = usage.energy.map(|energy| {
        let mark = if energy.source() == EnergySource::Samples { "" } else { "~" };
        format!("{mark}{:.2}", energy.kilowatt_hours())
    });
    [
        hours(Some(usage.hours())),
        hours(usage.idle),
        hours(usage.lost),
        energy.unwrap_or_else(|| "-".to_owned()),
        hours(if is_billed { usage.billed_hours } else { usage.reference_hours }),
    ]
}

/// Returns the rows as JSON (schema `hsched.history/1`); times are Unix seconds.
pub fn history_json(rows: &[HistoryRow], slow: &[SlowNode], now: Time) -> Value {
    let job = |row: &HistoryRow| {
        let HistoryRow { run, usage } = row;
        let mut value = json!({
            "name": run.name.as_str(),
            "sweep": run.sweep,
            "state": run.state,
            "added": run.added.0,
            "started": row.started().map(|started| started.0),
            "ended": run.ended.map(|ended| ended.0),
            "wait_s": row.wait().map(|wait| wait.0),
            "submissions": run.submissions.len(),
            "epochs_done": run.epochs_done,
            "epochs": run.epochs,
        });
        add(&mut value, usage);
        value
    };
    let mut all = json!({ "jobs": rows.len() });
    add(&mut all, &total(rows));
    json!({
        "schema": "hsched.history/1",
        "at": now.0,
        "total": all,
        "slow_nodes": slow_json(slow),
        "jobs": rows.iter().map(job).collect::<Vec<_>>(),
    })
}

/// Adds the keys of a resource use to an object of a job or the total.
fn add(value: &mut Value, usage: &GpuUsage) {
    let by_type: serde_json::Map<String, Value> =
        usage.held.iter().map(|(gpu_type, hours)| (gpu_type.to_string(), json!(hours))).collect();
    value["gpu_hours"] = json!(usage.hours());
    value["gpu_hours_by_type"] = Value::Object(by_type);
    value["idle_gpu_hours"] = json!(usage.idle);
    value["sampled_gpu_hours"] = json!(usage.sampled);
    value["lost_gpu_hours"] = json!(usage.lost);
    value["energy_kwh"] = json!(usage.energy.map(|energy| energy.kilowatt_hours()));
    value["energy_from"] = json!(usage.energy.map(|energy| energy.source().word()));
    value["energy_missing_gpu_hours"] = json!(usage.energy.map(|energy| energy.missing));
    let billed = usage.billed_hours.map(|hours| (hours, Unit::Billing));
    let cost = billed.or(usage.reference_hours.map(|hours| (hours, Unit::Rgu)));
    value["cost"] = json!(cost.map(|(hours, _)| hours));
    value["cost_unit"] = json!(cost.map(|(_, unit)| unit.word()));
}
