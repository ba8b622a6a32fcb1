//! The job script: everything that was decided about a job, put into its template.

use std::error::Error;

use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value};
use serde_json::{Value as JsonValue, json};
use thiserror::Error;

use crate::model::{Command, GpuType, Job, NodeName, PlacedRank};
use crate::render::{Component, Launcher, quote};

/// A template and the files that it includes, by name.
#[derive(Clone, Debug)]
pub struct Template<'a> {
    /// The name under which errors speak of the template.
    pub name: &'a str,
    pub text: &'a str,
    /// Names and texts that `{% include %}` finds.
    pub parts: &'a [(&'a str, &'a str)],
}

/// One run of a job, ready to be written down.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch<'a> {
    pub job: &'a Job,
    /// Unique id of the run.
    pub run: &'a str,
    /// Id of the plan.
    pub plan: &'a str,
    /// sbatch options of the whole job.
    pub options: Vec<String>,
    /// Components with their own sbatch options.
    pub components: Vec<(Component, Vec<String>)>,
    pub launcher: Launcher,
    /// Whether the ranks must be on the planned nodes, not only on their kind.
    pub pinned: bool,
    pub ranks: &'a [PlacedRank],
    /// CPUs of each rank, where the job or the settings say so.
    pub cpus_per_rank: Option<u32>,
    pub epochs_done: u64,
    pub checkpoint_dir: &'a str,
    pub report_dir: &'a str,
    pub grace_s: u64,
    /// Shell lines of the settings and the job, run once.
    pub setup: Vec<String>,
    /// Shell lines of the settings and the job, run once per node.
    pub node_setup: Vec<String>,
    /// Nodes with several GPU types, and the order of their devices.
    pub device_order: Vec<(NodeName, Vec<GpuType>)>,
}

/// Why a template gives no script.
#[derive(Debug, Error)]
pub enum RenderError {
    #[error("template {name}{place}: {message}")]
    Template { name: String, place: String, message: String },
    #[error("job {job}: sbatch option {option:?} holds a line break or NUL, which no #SBATCH line can carry")]
    Option { job: String, option: String },
}

/// Returns the text of the job script.
///
/// # Errors
/// When the template is wrong or uses a variable that does not exist, with its name and line; when an sbatch
/// option cannot stand on a line.
pub fn render(template: &Template<'_>, batch: &Batch<'_>) -> Result<String, RenderError> {
    let all_options = batch.options.iter().chain(batch.components.iter().flat_map(|(_, own)| own));
    for option in all_options {
        if option.contains(['\n', '\r', '\0']) {
            let (job, option) = (batch.job.name.to_string(), option.clone());
            return Err(RenderError::Option { job, option });
        }
    }
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.add_filter("sh", |word: &Value| quote::shell(&word.to_string()));
    environment.add_filter("directive", |option: &str| quote::directive(option).into_owned());
    let failed = |error: &minijinja::Error| failure(template.name, error);
    for (name, text) in template.parts {
        environment.add_template(name, text).map_err(|error| failed(&error))?;
    }
    let rendered =
        environment.render_named_str(template.name, template.text, Value::from(Serde(context(batch))));
    let mut script = rendered.map_err(|error| failed(&error))?;
    if !script.ends_with('\n') {
        script.push('\n');
    }
    Ok(script)
}

fn failure(name: &str, error: &minijinja::Error) -> RenderError {
    let place = error.line().map_or_else(String::new, |line| format!(":{line}"));
    let mut message =
        error.detail().map_or_else(|| error.kind().to_string(), |d| format!("{}: {d}", error.kind()));
    if let Some(cause) = error.source() {
        message = format!("{message}: {cause}");
    }
    RenderError::Template { name: error.name().unwrap_or(name).to_owned(), place, message }
}

/// Returns what templates can use, by name.
fn context(batch: &Batch<'_>) -> JsonValue {
    let job = batch.job;
    let (command, shell) = match &job.launch.command {
        Command::Words(words) => (Some(words), None),
        Command::Shell(line) => (None, Some(line)),
    };
    let component = |(own, options): &(Component, Vec<String>)| {
        json!({
            "options": options,
            "nodes": own.nodes.len(),
            "ranks_per_node": own.ranks_per_node(),
            "cpus_per_task": batch.cpus_per_rank,
        })
    };
    let nodes: Vec<&NodeName> = batch.components.iter().flat_map(|(own, _)| &own.nodes).collect();
    let rank = |(number, rank): (usize, &PlacedRank)| {
        let (micro_batch, accumulation) = micro_batches(job, rank);
        json!({
            "rank": number,
            "node": nodes.iter().position(|node| **node == rank.node),
            "local_rank": rank.local_rank,
            "gpu_type": rank.gpu_type.as_str(),
            "batch": rank.batch,
            "micro_batch": micro_batch,
            "accumulation": accumulation,
        })
    };
    let device_order = |(node, types): &(NodeName, Vec<GpuType>)| json!({ "node": node.as_str(), "types": types.iter().map(GpuType::as_str).collect::<Vec<_>>() });
    json!({
        "job": {
            "name": job.name.as_str(),
            "command": command,
            "shell": shell,
            "env": job.launch.env,
            "setup": batch.setup,
            "node_setup": batch.node_setup,
        },
        "run": batch.run,
        "plan": batch.plan,
        "options": batch.options,
        "components": batch.components.iter().map(component).collect::<Vec<_>>(),
        "launch": batch.launcher.name(),
        "hosts": batch.pinned.then(|| nodes.iter().map(|node| node.as_str()).collect::<Vec<_>>()),
        "ranks": batch.ranks.iter().enumerate().map(rank).collect::<Vec<_>>(),
        "world_size": batch.ranks.len(),
        "global_batch": job.global_batch,
        "epochs": job.epochs,
        "epochs_done": batch.epochs_done,
        "checkpoint_dir": batch.checkpoint_dir,
        "report_dir": batch.report_dir,
        "grace_s": batch.grace_s,
        "device_order": batch.device_order.iter().map(device_order).collect::<Vec<_>>(),
    })
}

/// Returns the size of a rank's micro-batches and how many make its batch: as even as its memory allows.
fn micro_batches(job: &Job, rank: &PlacedRank) -> (u64, u64) {
    let memory = job.max_batch.get(&rank.gpu_type).copied().unwrap_or(rank.batch).max(1);
    let accumulation = rank.batch.div_ceil(memory).max(1);
    (rank.batch.div_ceil(accumulation), accumulation)
}
