//! What a simulation prints: a table with pictures, JSON, CSV, and the lines of events.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::app::context::Context;
use crate::commands::cli::{json_text, print};
use crate::commands::simulate::sweep::Run;
use crate::error::Failure;
use crate::exit::Exit;
use crate::ui::{
    Cell, Simulated, event_json, idle_seed, simulation_csv, simulation_json, simulation_table, sweep_json,
    sweep_table, write_output,
};
use hsched_lab::replay::{Event, Trace};
use hsched_model::ErrorId;
use hsched_plan::kit::Gpu;

/// How results are printed.
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

/// What of the results is printed, and how.
pub(super) struct Form {
    pub format: SimulationFormat,
    pub is_sweep: bool,
    /// Whether the results come after events on stdout: they are one line then, the last of them.
    pub after_events: bool,
    /// Whether JSON has the prices that prove the bound.
    pub certificate: bool,
}

/// The lines of events, collected.
pub(super) struct EventFile<'a> {
    path: PathBuf,
    trace: &'a Trace,
    /// Names of jobs by their places in the file.
    names: Vec<&'a str>,
    gpus: Vec<Gpu>,
    text: String,
}

/// Where the events went.
pub(super) struct EventText {
    /// Whether they are on stdout, where the summary is their last line.
    pub to_stdout: bool,
}

impl<'a> EventFile<'a> {
    pub(super) fn create(path: &Path, trace: &'a Trace) -> Self {
        let mut names = vec![""; trace.jobs.len()];
        for entry in &trace.jobs {
            names[entry.place] = entry.model.name.as_str();
        }
        let gpus = Gpu::all(&trace.problem);
        Self { path: path.to_owned(), trace, names, gpus, text: String::new() }
    }

    pub(super) fn add(&mut self, policy: &str, event: &Event) {
        let line = event_json(&self.trace.problem, &self.gpus, &self.names, policy, event);
        self.text.push_str(&line.to_string());
        self.text.push('\n');
    }

    /// Writes all lines.
    ///
    /// # Errors
    /// When the file or stdout cannot be written.
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

/// Returns the runs with their figures.
pub(super) fn simulated(cells: &[Cell], runs: Vec<Run>) -> Vec<Simulated> {
    let one = |Run { cell, policy, record }: Run| Simulated::new(cells[cell].clone(), policy, record);
    runs.into_iter().map(one).collect()
}

/// Returns the results as text; notes on standard error if a seed was varied in vain.
///
/// # Errors
/// Never for values made here; a fault of hsched otherwise.
pub(super) fn results(form: &Form, all: &[Simulated], context: &Context) -> Result<String, Failure> {
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
