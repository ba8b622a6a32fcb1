//! The job script: all decisions about a job, rendered with its template.

use std::collections::BTreeSet;
use std::error::Error;

use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value};
use serde_json::{Value as JsonValue, json};
use thiserror::Error;

use crate::render::helper::PACKAGE;
use crate::render::{Batch, Component, Launcher, components, quote};
use hsched_model::{Command, GpuType, Job, NodeName, PlacedRank};

/// The template texts of job scripts, and the Python package written beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The template's name in error messages.
    pub name: String,
    /// minijinja template, rendered with the data of one run.
    pub job: String,
    /// bash functions of every rank, inserted unchanged.
    pub rank_functions: String,
    /// bash functions that let only one submission of a job train, inserted after those of the ranks.
    pub fence_functions: String,
    /// bash functions that sample the activity of a node's ranks, inserted after the fence functions.
    pub sample_functions: String,
    /// bash functions with which the batch shell starts its ranks, inserted before its other functions.
    pub start_functions: String,
    /// bash functions of the batch shell, inserted unchanged.
    pub batch_functions: String,
    /// bash functions with which the batch shell determines how its ranks ended, inserted after its other
    /// functions.
    pub end_functions: String,
    /// bash functions that check a node before the first step, inserted after the functions of the batch
    /// shell for jobs with a preflight check.
    pub preflight_functions: String,
    /// bash functions of the batch shell for replicas of several GPUs, inserted after all others.
    pub replica_functions: String,
    /// The Python package for training programs: paths beside the script, and contents.
    pub helpers: Vec<(&'static str, String)>,
}

impl Default for Template {
    /// Returns the built-in texts.
    fn default() -> Self {
        Self {
            name: "job.sh.j2".into(),
            job: include_str!("../../../../templates/job.sh.j2").into(),
            rank_functions: include_str!("../../../../templates/rank.sh").into(),
            fence_functions: include_str!("../../../../templates/fence.sh").into(),
            sample_functions: include_str!("../../../../templates/samples.sh").into(),
            start_functions: include_str!("../../../../templates/start.sh").into(),
            batch_functions: include_str!("../../../../templates/batch.sh").into(),
            end_functions: include_str!("../../../../templates/ends.sh").into(),
            preflight_functions: include_str!("../../../../templates/preflight.sh").into(),
            replica_functions: include_str!("../../../../templates/replicas.sh").into(),
            helpers: PACKAGE.map(|(path, text)| (path, text.into())).to_vec(),
        }
    }
}

/// Why a template cannot be rendered.
#[derive(Debug, Error)]
pub enum RenderError {
    #[error("template {name}{place}: {message}")]
    Template { name: String, place: String, message: String },
}

/// Returns the text of the job script.
///
/// # Errors
/// If the template is invalid or uses an undefined variable; the error has its name and line.
pub fn render(template: &Template, batch: &Batch<'_>) -> Result<String, RenderError> {
    text(&template.name, &template.job, context(template, batch))
}

/// Returns the bash functions of the ranks.
fn functions_of_ranks(template: &Template) -> String {
    let Template { rank_functions, fence_functions, sample_functions, .. } = template;
    [rank_functions.as_str(), fence_functions, sample_functions].join("\n")
}

/// Returns the bash functions of the batch shell.
pub(super) fn functions_of_batch(template: &Template) -> String {
    let Template { start_functions, batch_functions, end_functions, .. } = template;
    [start_functions.as_str(), batch_functions, end_functions].join("\n")
}

/// Renders a template with values by name.
pub(super) fn text(name: &str, template: &str, values: JsonValue) -> Result<String, RenderError> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.add_filter("sh", |word: &Value| quote::shell(&word.to_string()));
    environment.add_filter("directive", |option: &str| quote::directive(option));
    let failed = |error: minijinja::Error| failure(name, &error);
    let values = Value::from(Serde(values));
    let mut script = environment.render_named_str(name, template, values).map_err(failed)?;
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

/// Returns a rank's line of the table; the node is an index into the job's nodes.
fn row(job: &Job, rank: &PlacedRank, nodes: &[&NodeName]) -> JsonValue {
    let (micro_batch, accumulation) = rank.micro_batches(job);
    json!({
        "node": nodes.iter().position(|node| **node == rank.node),
        "local_rank": rank.local_rank,
        "gpu_type": rank.gpu_type.as_str(),
        "batch": rank.batch,
        "micro_batch": micro_batch,
        "accumulation": accumulation,
    })
}

/// Returns the table of another request; `None` if its nodes differ, because an ordinary Slurm job cannot
/// have different nodes.
fn choice(job: &Job, ranks: &[PlacedRank]) -> Option<JsonValue> {
    let parts = components(ranks);
    let [part] = parts.as_slice() else { return None };
    let nodes: Vec<&NodeName> = part.nodes.iter().collect();
    Some(ranks.iter().map(|rank| row(job, rank, &nodes)).collect())
}

/// Returns the environment of all ranks: the variables from the job file and, for a copy, those about the
/// other copies and the rounds.
fn env(job: &Job, checkpoint_dir: &str) -> Vec<(String, String)> {
    let mut env = job.launch.env.clone();
    if let Some((copies, number)) = job.launch.copies.and_then(|copies| Some((copies, copies.number?))) {
        let variables = [
            ("HSCHED_COPY", number.to_string()),
            ("HSCHED_COPIES", copies.max.to_string()),
            ("HSCHED_ROUND_DIR", format!("{checkpoint_dir}/rounds")),
            ("HSCHED_COPY_ROUND_S", copies.round.0.to_string()),
            ("HSCHED_COPY_OPTIMIZER", copies.optimizer.name().to_owned()),
        ];
        env.extend(variables.map(|(name, value)| (name.to_owned(), value)));
    }
    env
}

/// Returns the number of GPUs per replica on each type of the tables; empty if the job sets no replicas.
fn replica_sizes(job: &Job, ranks: &[PlacedRank], others: &[Vec<PlacedRank>]) -> Vec<JsonValue> {
    let Some(replica) = &job.replica else { return Vec::new() };
    let types: BTreeSet<&GpuType> =
        ranks.iter().chain(others.iter().flatten()).map(|rank| &rank.gpu_type).collect();
    let cluster: Vec<GpuType> = types.iter().map(|gpu_type| (*gpu_type).clone()).collect();
    let size = |gpu_type: &GpuType| {
        let gpus = hsched_plan::throughput::replica_size(&replica.gpus, gpu_type, &cluster)?;
        Some(json!({ "gpu_type": gpu_type.as_str(), "gpus": gpus }))
    };
    types.into_iter().filter_map(size).collect()
}

/// Returns the variables of templates, by name.
fn context(template: &Template, batch: &Batch<'_>) -> JsonValue {
    let facts = &batch.facts;
    let job = batch.job;
    let (command, shell) = match &batch.command {
        Command::Words(words) => (Some(words), None),
        Command::Shell(line) => (None, Some(line)),
    };
    let component = |(component, options): &(Component, Vec<Vec<String>>)| {
        json!({
            "options": options,
            "nodes": component.nodes.len(),
            "ranks_per_node": component.ranks_per_node(),
            "cpus_per_task": batch.cpus_per_rank,
        })
    };
    let nodes: Vec<&NodeName> = batch.components.iter().flat_map(|(component, _)| &component.nodes).collect();
    let rank = |rank: &PlacedRank| row(job, rank, &nodes);
    // A job of several components, or on named nodes, gets exactly its request or nothing.
    let has_choice = batch.launcher == Launcher::Plain && !facts.pinned;
    let others = facts.others.iter().filter(|_| has_choice).filter_map(|ranks| choice(job, ranks));
    let device_order = |(node, types): &(NodeName, Vec<GpuType>)| json!({ "node": node.as_str(), "types": types.iter().map(GpuType::as_str).collect::<Vec<_>>() });
    json!({
        "rank_functions": functions_of_ranks(template),
        "replica_functions": template.replica_functions,
        "preflight_functions": if job.preflight { template.preflight_functions.as_str() } else { "" },
        "replica_sizes": replica_sizes(job, facts.ranks, facts.others),
        "batch_functions": functions_of_batch(template),
        "job": {
            "name": job.name.as_str(),
            "command": command,
            "shell": shell,
            "env": env(job, &facts.checkpoint_dir),
            "setup": batch.setup,
            "node_setup": batch.node_setup,
        },
        "run": facts.run,
        "plan": facts.plan,
        "options": batch.options,
        "components": batch.components.iter().map(component).collect::<Vec<_>>(),
        "launch": batch.launcher.name(),
        "hosts": facts.pinned.then(|| nodes.iter().map(|node| node.as_str()).collect::<Vec<_>>()),
        "ranks": facts.ranks.iter().map(rank).collect::<Vec<_>>(),
        "choices": others.collect::<Vec<_>>(),
        "world_size": facts.ranks.len(),
        "global_batch": job.global_batch,
        "epochs": job.epochs,
        "epochs_done": facts.epochs_done,
        "checkpoint_dir": facts.checkpoint_dir,
        "fence": facts.fence,
        "claim": facts.claim.as_deref().unwrap_or_default(),
        "follows": facts.follows.as_ref().map(|(id, folder)| json!({ "id": id.0, "report_dir": folder })),
        "report_dir": facts.report_dir,
        "helper_dir": facts.helper_dir,
        "grace_s": batch.grace_s,
        "device_order": facts.device_order.iter().map(device_order).collect::<Vec<_>>(),
    })
}
