//! The GPUs for a plan: the nodes of the jobs' partitions, and their free, up or allowed GPUs.

use std::collections::BTreeMap;

use clap::ValueEnum;

use crate::app::context::Context;
use crate::app::slurm;
use hsched_model::formats;
use hsched_model::{Access, Availability, Cluster, ErrorId, GpuType, Holdings, Job, NodeName};
use hsched_plan::plan_file::Capacity;
use hsched_plan::throughput::ThroughputMatrix;
use hsched_plan::{Basis, ClusterView, Problem, WorkerNode};
use hsched_ui::{Exit, Failure};

/// The values of `--capacity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CapacityChoice {
    /// GPUs that are free now or held by jobs of this plan.
    Free,
    /// All GPUs on nodes that are up.
    Up,
    /// The number of GPUs of each type that the setting `capacity` gives.
    Limits,
}

impl From<CapacityChoice> for Capacity {
    fn from(choice: CapacityChoice) -> Self {
        match choice {
            CapacityChoice::Free => Self::Free,
            CapacityChoice::Up => Self::Up,
            CapacityChoice::Limits => Self::Limits,
        }
    }
}

/// The GPUs on which a plan is made.
pub(crate) struct OfferedGpus {
    pub capacity: Capacity,
    pub problem: Problem,
    /// For each job, whether other jobs hold GPUs that it could use; all false unless only free GPUs are offered.
    pub could_use_held: Vec<bool>,
}

/// Jobs, and the cluster for their placement.
pub(crate) struct OfferRequest<'a> {
    /// Which GPUs the plan may use, if given on the command line.
    pub wanted: Option<CapacityChoice>,
    /// Whether the cluster was read from Slurm just now.
    pub is_live: bool,
    pub cluster: &'a Cluster,
    pub access: &'a Access,
    pub jobs: &'a [Job],
    pub speeds: &'a ThroughputMatrix,
}

/// Returns the problem of placing all jobs on the GPUs that they may use; adds notes on excluded ones.
pub(crate) fn offer(
    request: &OfferRequest<'_>,
    context: &Context,
    notes: &mut Vec<String>,
) -> Result<OfferedGpus, Failure> {
    let &OfferRequest { wanted, is_live, cluster, access, jobs, speeds } = request;
    let settings = &context.settings;
    let usual = if settings.capacity.is_empty() { Capacity::Free } else { Capacity::Limits };
    let capacity = wanted.map_or(usual, Capacity::from);
    let held = match capacity {
        Capacity::Free => held_by(jobs, context, cluster, is_live, notes)?,
        Capacity::Limits if settings.capacity.is_empty() => {
            let message = "--capacity limits needs a [capacity] table in the settings";
            return Err(Failure::new(Exit::BadInput, message)
                .id(ErrorId::MissingKey)
                .hint("or set it here: --set capacity.v100=8"));
        }
        Capacity::Up | Capacity::Limits => Holdings::new(),
    };
    let cluster_view =
        ClusterView { cluster, access, held: &held, rates: (settings.network, settings.intra_node) };
    let mut problem = Problem::live(cluster_view, jobs, speeds)
        .map_err(|error| Failure::from_error(Exit::BadInput, &error).id(ErrorId::ClusterFile))?;
    let all: Vec<usize> = (0..jobs.len()).collect();
    let up = by_type(&problem, &problem.offered_to(&all, Basis::Queue));
    let basis = if capacity == Capacity::Free { Basis::Free } else { Basis::Queue };
    notes.extend(problem.stranded(&all, basis));
    if capacity == Capacity::Limits {
        notes.extend(missing(&up, &settings.capacity));
        problem.limit(&settings.capacity);
    }
    let is_held = held_types(&problem, capacity);
    let could_use_held = problem.jobs.iter().map(|job| {
        let mut usable = job.types.iter().zip(&is_held).filter(|(model, _)| model.is_some());
        usable.any(|(_, is_held)| *is_held)
    });
    let could_use_held = could_use_held.collect();
    let problem = problem.extract(&all, basis).problem;
    Ok(OfferedGpus { capacity, problem, could_use_held })
}

/// Returns, for each GPU type, whether other jobs than those of the problem hold such GPUs, which `capacity` leaves out.
fn held_types(problem: &Problem, capacity: Capacity) -> Vec<bool> {
    let is_held = |gpu_type: usize| {
        let is_held = |node: &WorkerNode| node.gpus[gpu_type] < node.up[gpu_type];
        capacity == Capacity::Free && problem.nodes.iter().any(is_held)
    };
    (0..problem.gpu_types.len()).map(is_held).collect()
}

/// Returns a note for each GPU type with fewer GPUs on nodes that are up than the setting `capacity` states.
fn missing(up: &BTreeMap<GpuType, u32>, limits: &BTreeMap<GpuType, u32>) -> Vec<String> {
    let note = |(gpu_type, limit): (&GpuType, &u32)| {
        let up = up.get(gpu_type).copied().unwrap_or(0);
        (up < *limit).then(|| format!("capacity {gpu_type}: {limit} set, but only {up} are up"))
    };
    limits.iter().filter_map(note).collect()
}

/// Converts GPUs by node and type index to GPUs by type.
fn by_type(problem: &Problem, gpus: &[Vec<u32>]) -> BTreeMap<GpuType, u32> {
    let mut sums = BTreeMap::new();
    for (gpu_type, count) in gpus.iter().flat_map(|gpu| problem.gpu_types.iter().zip(gpu)) {
        *sums.entry(gpu_type.clone()).or_insert(0) += count;
    }
    sums
}

/// Returns the resources held by running jobs of this plan, which they would release if planned again.
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
    let (mut held, said) = slurm::held_by(context, jobs, cluster)?;
    notes.extend(said);
    // Nodes that are down offer nothing to a new plan, even if jobs are still on them.
    let is_up = |name: &NodeName| {
        cluster.node(name).is_some_and(|node| node.state.availability() == Availability::Up)
    };
    held.retain(|name, _| is_up(name));
    Ok(held)
}

/// Returns which nodes the jobs may use, and removes the others from the cluster.
///
/// # Errors
/// If a partition has no node.
pub(crate) fn keep_partitions(
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

/// Checks that a partition, or each of several separated by commas, has nodes, if the cluster lists the nodes
/// of partitions.
fn check_partition(cluster: &Cluster, names: &str) -> Result<(), Failure> {
    let Some((unknown, known)) = cluster.unknown_partition(names) else { return Ok(()) };
    let message = format!("no node of this cluster is in partition {unknown:?}");
    let hint = match formats::nearest(unknown, known.iter().copied()) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("partitions: {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    };
    Err(Failure::new(Exit::BadInput, message).id(ErrorId::UnknownPartition).hint(hint))
}
