//! The nodes of the cluster, as Slurm prints them.

use crate::app::context::Context;
use crate::app::input::ClusterWithNotes;
use crate::app::slurm::client::slurm_failure;
use hsched_model::{Cluster, ErrorId};
use hsched_slurm::{CommandError, Runner as _, sinfo};
use hsched_ui::{Exit, Failure};

/// Returns the nodes of the cluster.
///
/// # Errors
/// If Slurm does not answer (exit 69) or prints unreadable output.
pub(crate) fn cluster(context: &Context) -> Result<ClusterWithNotes, Failure> {
    printed_cluster(context, &context.slurm.ask(&sinfo::command())?)
}

/// Returns the nodes of the cluster; `None` on a machine without Slurm.
///
/// # Errors
/// If Slurm does not answer (exit 69) or prints unreadable output.
pub(crate) fn cluster_if_present(context: &Context) -> Result<Option<ClusterWithNotes>, Failure> {
    match context.slurm.run(&sinfo::command()) {
        Ok(output) => printed_cluster(context, &output.stdout).map(Some),
        Err(CommandError::NotFound { .. } | CommandError::Unconfigured { .. }) => Ok(None),
        Err(error) => Err(slurm_failure(&error)),
    }
}

/// Parses the cluster in output of `sinfo`.
///
/// # Errors
/// If the text is not output of `sinfo`.
pub(crate) fn printed_cluster(context: &Context, printed: &str) -> Result<ClusterWithNotes, Failure> {
    let (cluster, mut notes) = sinfo::parse(printed)
        .map_err(|error| Failure::from_error(Exit::Failed, &error).id(ErrorId::SlurmOutput))?;
    if cluster.nodes.is_empty() {
        notes.push("sinfo lists no nodes: you may not have access to any partition".into());
    }
    Ok(completed(ClusterWithNotes { cluster, notes }, context))
}

/// Adds data that a cluster does not provide (see [`complete`]), and the notes on it.
pub(crate) fn completed(mut seen: ClusterWithNotes, context: &Context) -> ClusterWithNotes {
    let named = complete(&mut seen.cluster, context);
    // An inventory contains its own notes.
    seen.notes.retain(|note| !named.contains(note));
    seen.notes.extend(named);
    seen
}

/// Adds data that the cluster does not provide: types of untyped GPUs, rates of nodes. Returns notes,
/// including on accelerators that do not count as GPUs.
pub(crate) fn complete(cluster: &mut Cluster, context: &Context) -> Vec<String> {
    let mut notes = hsched_slurm::name_types(cluster, &context.settings.untyped_gpus);
    notes.extend(hsched_slurm::uncounted_accelerators(cluster));
    for node in &mut cluster.nodes {
        node.intra_node = node.intra_node.or_else(|| context.settings.node_rates.get(&node.name).copied());
    }
    notes
}
