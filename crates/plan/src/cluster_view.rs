//! The inputs of a problem: jobs, speeds and the observed cluster.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use crate::parts::{Part, Parts};
use crate::replica::NodeShapes;
use crate::throughput::ThroughputMatrix;
use crate::{
    Host, JobModel, Objective, Problem, ProblemChanges, ProblemError, ReplicaModel, Room, Slot, TypeLimit,
    WorkerNode,
};
use hsched_model::{
    Access, Availability, BitRate, Cluster, GpuType, Holdings, Job, Node, NodeName, OfferedNode, Time, Usage,
};

/// The GPUs for the jobs, and which job may use which.
#[derive(Clone, Copy)]
pub struct ClusterView<'a> {
    pub cluster: &'a Cluster,
    pub access: &'a Access,
    /// GPUs held by running jobs. A node that is down is kept if one of our jobs runs there or waits for it.
    pub held: &'a Holdings,
    /// Link rates between nodes and inside them, used if the cluster does not give its rates.
    pub rates: (BitRate, BitRate),
}

/// Returns the shapes of all nodes of a cluster, regardless of their state and use.
fn node_shapes(parts: &Parts, cluster: &Cluster) -> NodeShapes {
    let counts =
        |node: &Node| parts.counts(&node.name, node.gpus.iter().map(|stock| (&stock.gpu_type, stock.total)));
    let nodes: Vec<Vec<u32>> = cluster.nodes.iter().map(counts).collect();
    NodeShapes::new(nodes.iter().map(Vec::as_slice))
}

/// Returns a job with the maximum number of replicas on a cluster's nodes.
fn with_ceiling(mut job: JobModel, nodes: &NodeShapes) -> JobModel {
    if job.replica.is_none() {
        return job;
    }
    let most = job.most_replicas(nodes);
    let usable = most.iter().zip(&job.types).filter(|(_, model)| model.is_some());
    let ever = usable.map(|(&count, _)| u64::from(count)).sum();
    let largest = nodes.largest(job.types.len());
    job.replica = job.replica.map(|replica| ReplicaModel { ever, largest, ..replica });
    job
}

impl Problem {
    /// Returns the problem of jobs with all GPUs that they hold or may get; their present placements are not
    /// set.
    ///
    /// # Errors
    /// If there are no jobs.
    pub fn live(
        cluster_view: ClusterView<'_>,
        jobs: &[impl Borrow<Job>],
        speeds: &ThroughputMatrix,
    ) -> Result<Self, ProblemError> {
        let ClusterView { cluster, access, held, rates: (network, intra_node) } = cluster_view;
        let intra_node = cluster.intra_node.unwrap_or(intra_node);
        let workers = |parts: &Parts| {
            let nodes = cluster.nodes.iter().filter(|node| access.reach(node).is_some());
            nodes.filter_map(|node| worker(node, parts, held, intra_node)).collect()
        };
        Self::with_workers(cluster, access, workers, jobs, speeds, network)
    }

    /// Returns the problem of placing jobs without GPUs on exactly these GPUs of a cluster's nodes.
    ///
    /// `access` states where these jobs may run. `network` and `intra_node` are used if the cluster does not
    /// give its rates.
    ///
    /// # Errors
    /// If there are no jobs.
    pub fn on(
        cluster: &Cluster,
        access: &Access,
        nodes: &[OfferedNode],
        jobs: &[impl Borrow<Job>],
        speeds: &ThroughputMatrix,
        network: BitRate,
        intra_node: BitRate,
    ) -> Result<Self, ProblemError> {
        let intra_node = cluster.intra_node.unwrap_or(intra_node);
        let workers = |parts: &Parts| {
            let worker = |node: &OfferedNode| {
                let gpus = parts.counts(&node.name, node.gpus.iter().map(|(ty, count)| (ty, *count)));
                WorkerNode::on_offer(node.name.clone(), gpus, node.intra_node.unwrap_or(intra_node))
            };
            nodes.iter().map(worker).collect()
        };
        Self::with_workers(cluster, access, workers, jobs, speeds, network)
    }

    /// Returns the problem of `jobs` on the nodes of `cluster` that `workers` returns.
    fn with_workers(
        cluster: &Cluster,
        access: &Access,
        workers: impl FnOnce(&Parts) -> Vec<WorkerNode>,
        jobs: &[impl Borrow<Job>],
        speeds: &ThroughputMatrix,
        network: BitRate,
    ) -> Result<Self, ProblemError> {
        if jobs.is_empty() {
            return Err(ProblemError::NoJobs);
        }
        let parts = Parts::new(cluster, access, speeds.columns());
        let nodes = workers(&parts);
        // A job may wait for GPUs that other users hold.
        let offered = |ty: usize| nodes.iter().map(|node: &WorkerNode| node.gpus[ty].max(node.up[ty])).sum();
        let offered: Vec<u32> = (0..parts.list.len()).map(offered).collect();
        let shapes = node_shapes(&parts, cluster);
        let model = |(index, job): (usize, &Job)| {
            let refusal = |part: &Part| access.refusal(index, &cluster.nodes[part.node]);
            let needs = access.needs(index);
            let model = JobModel::new(job, &parts, &refusal, &offered, speeds.row(index));
            JobModel { needs, ..with_ceiling(model, &shapes) }
        };
        Ok(Self {
            nodes,
            ceiling: parts.ceiling(cluster),
            network: cluster.network.unwrap_or(network),
            jobs: jobs.iter().map(Borrow::borrow).enumerate().map(model).collect(),
            objective: Objective::default(),
            late: 0.0,
            seed: 0,
            gpu_types: parts.list.iter().map(|part| part.gpu_type.clone()).collect(),
            labels: parts.labels(cluster, access),
            now: Time::default(),
            limits: Vec::new(),
            forecasts: Vec::new(),
            start_estimates: None,
            changed: ProblemChanges::All,
        })
    }

    /// Limits the GPUs of each type that all jobs together may hold; a type without an entry may not be used
    /// at all. An empty map means no limits.
    pub fn limit(&mut self, capacity: &BTreeMap<GpuType, u32>) {
        self.limits = limits(&self.gpu_types, capacity);
    }

    /// Converts GPUs by node and type to indices; GPUs on nodes or of types outside the problem are dropped.
    pub fn slots<'a>(&self, gpus: impl Iterator<Item = (&'a NodeName, &'a GpuType, u32)>) -> Vec<Slot> {
        let slot = |(name, gpu_type, count): (&NodeName, &GpuType, u32)| {
            let node = self.nodes.iter().position(|node| node.name == *name)?;
            let has = |ty: usize| self.nodes[node].up[ty] > 0 || self.nodes[node].gpus[ty] > 0;
            let is_type = |ty: &usize| self.gpu_types[*ty] == *gpu_type;
            let mut types = (0..self.gpu_types.len()).filter(is_type);
            let gpu_type = types.clone().find(|&ty| has(ty)).or_else(|| types.next())?;
            Some(Slot { node, gpu_type, count })
        };
        gpus.filter_map(slot).collect()
    }
}

/// Returns a node with the GPUs that the jobs have or may get there; `None` if the node has no GPUs, or is
/// not up and the jobs hold nothing there.
fn worker(node: &Node, parts: &Parts, held: &Holdings, intra_node: BitRate) -> Option<WorkerNode> {
    let held_here = held.get(&node.name);
    let is_up = node.state.availability() == Availability::Up;
    if (!is_up && held_here.is_none()) || node.gpus.is_empty() {
        return None;
    }
    let mine = |gpu_type: &GpuType| held_here.and_then(|held| held.gpus.get(gpu_type)).copied().unwrap_or(0);
    let gpus = node.gpus.iter().map(|stock| {
        let free = if is_up { stock.free() } else { 0 };
        (&stock.gpu_type, free.saturating_add(mine(&stock.gpu_type)).min(stock.total))
    });
    let up = node.gpus.iter().map(|stock| (&stock.gpu_type, if is_up { stock.total } else { 0 }));
    let room = |usage: Option<Usage>, mine: u64| {
        let usage = usage?;
        Some(Room { free: usage.free().saturating_add(mine).min(usage.total), total: usage.total })
    };
    Some(WorkerNode {
        name: node.name.clone(),
        gpus: parts.counts(&node.name, gpus),
        intra_node: node.intra_node.unwrap_or(intra_node),
        up: parts.counts(&node.name, up),
        host: Some(Host {
            cpus: room(node.cpus, held_here.map_or(0, |held| held.cpus)),
            memory: room(node.memory, held_here.map_or(0, |held| held.memory)),
        }),
    })
}

/// Returns a limit for each GPU type, if there are limits; a type without an entry may not be used at all.
fn limits(gpu_types: &[GpuType], capacity: &BTreeMap<GpuType, u32>) -> Vec<TypeLimit> {
    if capacity.is_empty() {
        return Vec::new();
    }
    let mut limits: BTreeMap<&GpuType, Vec<usize>> = BTreeMap::new();
    for (number, gpu_type) in gpu_types.iter().enumerate() {
        limits.entry(gpu_type).or_default().push(number);
    }
    let limit = |(name, gpu_types): (&GpuType, Vec<usize>)| TypeLimit {
        gpu_types,
        most: capacity.get(name).copied().unwrap_or(0),
    };
    limits.into_iter().map(limit).collect()
}
