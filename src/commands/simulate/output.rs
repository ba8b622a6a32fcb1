//! The output of a simulation: a table with charts, JSON, CSV, and event lines.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::app::context::Context;
use crate::commands::cli::{json_text, print};
use crate::commands::simulate::sweep::CellRun;
use hsched_lab::replay::{ReplayEvent, Trace};
use hsched_model::ErrorId;
use hsched_plan::kit::TaskGpu;
use hsched_ui::{
    Exit, Failure, SimulationResult, SweepCell, event_json, idle_seed, simulation_csv, simulation_json,
    simulation_table, sweep_json, sweep_table, write_output,
};

/// The output formats of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum SimulationFormat {
    /// Tables and charts.
    #[default]
    Table,
    /// JSON.
    Json,
    /// CSV, one line per run.
    Csv,
}

/// Which results are printed, and in which format.
pub(super) struct OutputForm {
    pub format: SimulationFormat,
    pub is_sweep: bool,
    /// Whether events precede the results on stdout: the results are then one line, the last.
    pub after_events: bool,
    /// Whether the JSON contains the prices that prove the bound.
    pub certificate: bool,
}

/// Collects the event lines.
pub(super) struct EventFile<'a> {
    path: PathBuf,
    trace: &'a Trace,
    /// Names of jobs by index in the file.
    names: Vec<&'a str>,
    gpus: Vec<TaskGpu>,
    text: String,
}

/// Where the events were written.
pub(super) struct EventText {
    /// Whether the events are on stdout, with the summary as the last line.
    pub to_stdout: bool,
}

impl<'a> EventFile<'a> {
    pub(super) fn create(path: &Path, trace: &'a Trace) -> Self {
        let mut names = vec![""; trace.jobs.len()];
        for entry in &trace.jobs {
            names[entry.place] = entry.model.name.as_str();
        }
        let gpus = TaskGpu::all(&trace.problem);
        Self { path: path.to_owned(), trace, names, gpus, text: String::new() }
    }

    pub(super) fn add(&mut self, policy: &str, event: &ReplayEvent) {
        let line = event_json(&self.trace.problem, &self.gpus, &self.names, policy, event);
        self.text.push_str(&line.to_string());
        self.text.push('\n');
    }

    /// Writes all lines.
    ///
    /// # Errors
    /// If the file or stdout cannot be written.
    pub(super) fn finish(self, context: &Context) -> Result<EventText, Failure> {
        let to_stdout = self.path == Path::new("-");
        if to_stdout {
            print(context, &self.text)?;
        } else {
            write_output(&self.path, &self.text).map_err(|error| {
                Failure::new(Exit::Failed, format!("cannot write {}: {error}", self.path.display()))
                    .id(ErrorId::FileUnwritable)
            })?;
        }
        Ok(EventText { to_stdout })
    }
}

/// Returns the runs with their metrics.
pub(super) fn simulated(cells: &[SweepCell], runs: Vec<CellRun>) -> Vec<SimulationResult> {
    let one = |CellRun { cell, policy, record }: CellRun| {
        SimulationResult::new(cells[cell].clone(), policy, record)
    };
    runs.into_iter().map(one).collect()
}

/// Returns the results as text; notes on standard error if varying the seed had no effect.
///
/// # Errors
/// Only if hsched has a bug.
pub(super) fn results(
    form: &OutputForm,
    all: &[SimulationResult],
    context: &Context,
) -> Result<String, Failure> {
    if form.after_events {
        let mut summary = json!({ "event": "summary" });
        if let (Value::Object(line), Value::Object(fields)) =
            (&mut summary, simulation_json(all, form.certificate))
        {
            line.extend(fields);
        }
        return Ok(format!("{summary}\n"));
    }
    if let Some(note) = idle_seed(all) {
        context.note(&note);
    }
    let terminal = context.terminal;
    match form.format {
        SimulationFormat::Json if form.is_sweep => json_text(&sweep_json(all)),
        SimulationFormat::Json => json_text(&simulation_json(all, form.certificate)),
        SimulationFormat::Csv => Ok(simulation_csv(all)),
        SimulationFormat::Table if form.is_sweep => Ok(sweep_table(all, terminal)),
        SimulationFormat::Table => Ok(simulation_table(all, terminal)),
    }
}
