//! What a plan may use: the nodes of the jobs' partitions, and on them what is free, up or allowed.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum;

use crate::commands::context::Context;
use crate::commands::input;
use crate::error::Failure;
use crate::exit::Exit;
use crate::model::{Cluster, Holdings, Job, JobName, NodeName, Offer, RankNeeds};
use crate::slurm::holdings;
use crate::spec;

/// Which GPUs a plan may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Capacity {
    /// Those free now, and those that jobs of this plan hold.
    Free,
    /// All on nodes that are up.
    Up,
    /// As many of each type as the settings' capacity table says.
    Limits,
}

impl Capacity {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Up => "up",
            Self::Limits => "limits",
        }
    }
}

/// Returns what the plan may use, with notes on what it may not.
pub(super) fn offer(
    wanted: Option<Capacity>,
    live: bool,
    context: &Context,
    cluster: &Cluster,
    jobs: &[Job],
    notes: Vec<String>,
) -> Result<(Capacity, Offer), Failure> {
    let settings = &context.settings;
    let usual = if settings.capacity.is_empty() { Capacity::Free } else { Capacity::Limits };
    let capacity = wanted.unwrap_or(usual);
    let cpus = jobs.iter().map(|job| job.launch.cpus_per_gpu.unwrap_or(settings.jobs.cpus_per_gpu));
    let memory = jobs.iter().filter_map(|job| job.launch.memory_per_gpu.or(settings.jobs.memory_per_gpu));
    let needs =
        RankNeeds { cpus: cpus.max().unwrap_or(1).into(), memory: memory.max().map_or(0, |memory| memory.0) };
    let mut notes = notes;
    let mut offer = match capacity {
        Capacity::Free => {
            let mine = held_by(jobs, context, cluster, live, &mut notes)?;
            Offer::free(cluster, needs, &mine)
        }
        Capacity::Up => Offer::up(cluster, needs),
        Capacity::Limits if settings.capacity.is_empty() => {
            let message = "--capacity limits needs a [capacity] table in the settings";
            return Err(Failure::new(Exit::BadInput, message).hint("or give it here: --set capacity.v100=8"));
        }
        Capacity::Limits => Offer::limits(cluster, needs, &settings.capacity),
    };
    notes.append(&mut offer.notes);
    offer.notes = notes;
    Ok((capacity, offer))
}

/// Returns what running jobs of this plan hold: planned anew, they would give it back.
fn held_by(
    jobs: &[Job],
    context: &Context,
    cluster: &Cluster,
    live: bool,
    notes: &mut Vec<String>,
) -> Result<Holdings, Failure> {
    if !live {
        return Ok(Holdings::new());
    }
    let (queue, unread) = input::queue(context)?;
    notes.extend(unread);
    let own = queue.iter().filter(|queued| {
        let tag = queued.tag();
        tag.is_some_and(|tag| jobs.iter().any(|job| job.name.as_str() == tag.job))
    });
    let own: Vec<_> = own.collect();
    for queued in own.iter().filter(|queued| queued.state.holds_nodes()) {
        let (id, name) = (&queued.shown_id, &queued.name);
        notes.push(format!("job {id} ({name}) is running: its GPUs count as free for this plan"));
    }
    let (held, unclear) = holdings(own.iter().copied(), cluster);
    notes.extend(unclear);
    Ok(held)
}

/// Leaves out nodes on which the jobs' partitions cannot run.
///
/// # Errors
/// When a partition has no node, or the jobs' partitions have different ones: a plan knows one set of nodes.
pub(super) fn keep_partitions(
    cluster: &mut Cluster,
    jobs: &[Job],
    context: &Context,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let default = cluster.partitions.iter().find(|partition| partition.default);
    let default = default.map(|partition| partition.name.clone());
    let setting = context.settings.jobs.partition.clone().or(default);
    let mut nodes_of: BTreeMap<String, (&JobName, BTreeSet<NodeName>)> = BTreeMap::new();
    for job in jobs {
        let Some(names) = job.launch.partition.as_ref().or(setting.as_ref()) else { continue };
        if !nodes_of.contains_key(names) {
            nodes_of.insert(names.clone(), (&job.name, partition_nodes(cluster, names)?));
        }
    }
    let mut sets = nodes_of.iter();
    let Some((names, (job, nodes))) = sets.next() else { return Ok(()) };
    if let Some((other, (other_job, _))) = sets.find(|(_, (_, others))| others != nodes) {
        let message = format!(
            "{job} goes to partition {names}, {other_job} to {other}, and these have different nodes; \
             a plan is for jobs that share their nodes"
        );
        let hint = "plan them from separate job files, or for one partition: submit --partition";
        return Err(Failure::new(Exit::BadInput, message).hint(hint));
    }
    let (names, nodes, all) = (names.clone(), nodes.clone(), cluster.nodes.len());
    cluster.nodes.retain(|node| nodes.contains(&node.name));
    let left_out = all - cluster.nodes.len();
    if left_out > 0 {
        notes.push(format!("{left_out} of {all} nodes left out: not in partition {names}"));
    }
    Ok(())
}

/// Returns the nodes of one partition, or of several with commas; all where the cluster names no partitions.
fn partition_nodes(cluster: &Cluster, names: &str) -> Result<BTreeSet<NodeName>, Failure> {
    if let Some((unknown, known)) = cluster.unknown_partition(names) {
        let message = format!("partition {unknown:?} has no node in this cluster");
        let hint = match spec::nearest(unknown, known.iter().copied()) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("there are: {}", known.into_iter().collect::<Vec<_>>().join(", ")),
        };
        return Err(Failure::new(Exit::BadInput, message).hint(hint));
    }
    Ok(cluster.in_partitions(names).nodes.into_iter().map(|node| node.name).collect())
}
