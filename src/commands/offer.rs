//! What a plan may use: the nodes of the jobs' partitions, and on them what is free, up or allowed.

use clap::ValueEnum;

use crate::commands::context::Context;
use crate::commands::input;
use crate::error::Failure;
use crate::exit::Exit;
use crate::model::{Access, Cluster, Holdings, Job, Offer};
use crate::slurm::holdings;
use crate::spec;

/// Which GPUs a plan may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Capacity {
    /// GPUs that are free now or held by jobs of this plan.
    Free,
    /// All GPUs on nodes that are up.
    Up,
    /// As many GPUs of each type as the setting `capacity` says.
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
    (cluster, access): (&Cluster, &Access),
    jobs: &[Job],
    notes: Vec<String>,
) -> Result<(Capacity, Offer), Failure> {
    let settings = &context.settings;
    let usual = if settings.capacity.is_empty() { Capacity::Free } else { Capacity::Limits };
    let capacity = wanted.unwrap_or(usual);
    let mut notes = notes;
    let mut offer = match capacity {
        Capacity::Free => {
            let mine = held_by(jobs, context, cluster, live, &mut notes)?;
            Offer::free(cluster, access, &mine)
        }
        Capacity::Up => Offer::up(cluster, access),
        Capacity::Limits if settings.capacity.is_empty() => {
            let message = "--capacity limits needs a [capacity] table in the settings";
            return Err(Failure::new(Exit::BadInput, message).hint("or set it here: --set capacity.v100=8"));
        }
        Capacity::Limits => Offer::limits(cluster, access, &settings.capacity),
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

/// Returns which nodes the jobs may use, and leaves out of the cluster those that none may.
///
/// # Errors
/// When a partition has no node.
pub(super) fn keep_partitions(
    cluster: &mut Cluster,
    jobs: &[Job],
    context: &Context,
    notes: &mut Vec<String>,
) -> Result<Access, Failure> {
    let access = Access::new(cluster, jobs, &context.settings.jobs);
    let partitions = access.partitions();
    for names in &partitions {
        check_partition(cluster, names)?;
    }
    let all = cluster.nodes.len();
    cluster.nodes.retain(|node| access.reach(node).is_some());
    let left_out = all - cluster.nodes.len();
    if left_out > 0 {
        let plural = if partitions.len() == 1 { "" } else { "s" };
        let names = partitions.join(", ");
        notes
            .push(format!("{left_out} of {all} nodes are not in partition{plural} {names} and are not used"));
    }
    Ok(access)
}

/// Checks that a partition, or each of several with commas, has nodes, where the cluster says who belongs where.
fn check_partition(cluster: &Cluster, names: &str) -> Result<(), Failure> {
    let Some((unknown, known)) = cluster.unknown_partition(names) else { return Ok(()) };
    let message = format!("no node of this cluster is in partition {unknown:?}");
    let hint = match spec::nearest(unknown, known.iter().copied()) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("partitions: {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    };
    Err(Failure::new(Exit::BadInput, message).hint(hint))
}
