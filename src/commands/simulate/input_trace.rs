//! The input of a simulation: the trace's jobs with their speeds, on a cluster without other users.

use std::path::Path;

use crate::app::context::Context;
use crate::app::input::{self, ClusterArgs, ClusterWithNotes};
use crate::app::offer::keep_partitions;
use crate::app::speeds::SpeedArgs;
use hsched_lab::replay::Trace;
use hsched_lab::trace::{self, TraceFile};
use hsched_model::{Cluster, ErrorId, Holdings};
use hsched_plan::{ClusterView, Problem};
use hsched_ui::{Exit, Failure};

/// Returns the trace of a file on a cluster.
///
/// # Errors
/// If a file or setting is invalid, or Slurm does not answer.
pub(super) fn input_trace(
    context: &Context,
    text: &str,
    path: &Path,
    cluster: &ClusterArgs,
    speeds: &SpeedArgs,
) -> Result<Trace, Failure> {
    let file = trace::parse(text).map_err(|error| {
        let name = input::name(path);
        let failure = match error {
            trace::TraceError::Problems(problems) => Failure::from_problems(&problems, &name),
            error => Failure::new(Exit::BadInput, format!("{name}: {error}")).id(ErrorId::TraceFile),
        };
        match mistaken(text) {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })?;
    on_cluster(context, &file, cluster, speeds)
}

/// Returns a hint for a file that is no trace but a kind of file that is often mistaken for one.
fn mistaken(text: &str) -> Option<&'static str> {
    let first = text.lines().next().unwrap_or_default();
    if text.trim().is_empty() {
        Some("the file is empty")
    } else if first.contains("JobID") && first.contains('|') {
        Some("this looks like output of sacct: convert it with hsched trace from-sacct")
    } else if text.lines().any(|line| line.starts_with("nodes:")) {
        Some("this looks like a cluster file: give it with --cluster")
    } else {
        None
    }
}

/// Returns the trace of these jobs on a cluster.
///
/// # Errors
/// If the cluster file or a setting is invalid, the trace contradicts itself, or Slurm does not answer.
pub(in crate::commands) fn on_cluster(
    context: &Context,
    file: &TraceFile,
    cluster: &ClusterArgs,
    speeds: &SpeedArgs,
) -> Result<Trace, Failure> {
    let jobs = &file.jobs;
    let ClusterWithNotes { mut cluster, mut notes } = input::cluster(context, cluster)?;
    vacate(&mut cluster);
    let access = keep_partitions(&mut cluster, jobs, context, &mut notes)?;
    let types = Problem::types_of(&cluster);
    let speeds = speeds.matrix(context, jobs, &types)?;
    let cluster_view = ClusterView {
        cluster: &cluster,
        access: &access,
        held: &Holdings::new(),
        rates: (context.settings.network, context.settings.intra_node),
    };
    let problem = Problem::live(cluster_view, jobs, &speeds)
        .map_err(|error| Failure::from_error(Exit::BadInput, &error).id(ErrorId::ClusterFile))?;
    for note in notes {
        context.terminal.say(&note);
    }
    Trace::new(problem, file)
        .map_err(|error| Failure::from_error(Exit::BadInput, &error).id(ErrorId::TraceFile))
}

/// Marks all GPUs, CPUs and memory as free: a simulation has no jobs besides those of the trace.
fn vacate(cluster: &mut Cluster) {
    for node in &mut cluster.nodes {
        for stock in &mut node.gpus {
            stock.used = 0;
        }
        for usage in [&mut node.cpus, &mut node.memory].into_iter().flatten() {
            usage.used = 0;
        }
    }
}
