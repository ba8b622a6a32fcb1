//! A script's request on the cluster of a snapshot, in the queue model's form, with the site's defaults
//! filled in.

use std::collections::BTreeSet;

use crate::sbatch_options;
use crate::script::{Exclusive, GpuShare, ResourceRequest, ScriptReading, TimeLimit};
use hsched_model::number::to_f64;
use hsched_model::{Asks, FurtherOptions, GpuAsk, GpuType, Request, RequestId, SbatchOptions, Seconds};
use hsched_queue::{NodeUse, QueueNode, QueuePartition, Snapshot, meets};

/// A script as requests to the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteRequest {
    /// One request, or one per component of a het job. Each is expected to run for its whole limit.
    pub requests: Vec<Request>,
    /// Options that affect the start but are ignored.
    pub not_counted: Vec<String>,
}

/// Options that the reader covers.
const READ: [&str; 24] = [
    "account",
    "array",
    "constraint",
    "cpus-per-gpu",
    "cpus-per-task",
    "exclusive",
    "gpus",
    "gpus-per-node",
    "gpus-per-socket",
    "gpus-per-task",
    "gres",
    "mem",
    "mem-per-cpu",
    "mem-per-gpu",
    "nodes",
    "ntasks",
    "ntasks-per-gpu",
    "ntasks-per-node",
    "partition",
    "qos",
    "sockets-per-node",
    "time",
    "tres-per-task",
    "hetjob",
];

/// Value for "no limit" in seconds: one year.
const NO_LIMIT: f64 = 365.0 * 86_400.0;

/// Returns a script's request on a cluster; `None` if the request, or a number of nodes, GPUs or tasks that
/// it depends on, is unknown, or if no cluster can have a requested GPU type.
pub fn site_request(reading: &ScriptReading, snapshot: &Snapshot) -> Option<SiteRequest> {
    let asked = reading.request.as_ref()?;
    let extra = extra(reading, snapshot);
    let components = match asked.components.as_slice() {
        [] => std::slice::from_ref(&asked.total),
        components => components,
    };
    let site_requests: Option<Vec<(Request, Vec<String>)>> =
        components.iter().map(|resource_request| request(resource_request, &extra, snapshot)).collect();
    let site_requests = site_requests?;
    let mut not_counted = extra.not_counted;
    let reservation = extra.further.reservation.filter(|name| !has_reservation(snapshot, name));
    not_counted.extend(reservation.map(|name| format!("--reservation={name}")));
    not_counted.extend(site_requests.iter().flat_map(|(_, ignored)| ignored.clone()));
    let others = reading.other_resources.iter().map(|resource| resource.text.clone());
    not_counted.extend(others.collect::<BTreeSet<_>>());
    let shared = |resource_request: &ResourceRequest| match resource_request.exclusive {
        Exclusive::No | Exclusive::Nodes => None,
        Exclusive::User => Some("--exclusive=user"),
        Exclusive::Mcs => Some("--exclusive=mcs"),
        Exclusive::Topology => Some("--exclusive=topo"),
        Exclusive::Oversubscribe => Some("--oversubscribe"),
    };
    not_counted.extend(components.iter().find_map(shared).map(str::to_owned));
    let requests = site_requests.into_iter().map(|(request, _)| request).collect();
    Some(SiteRequest { requests, not_counted })
}

/// Interprets the options that the reader does not cover.
fn extra(reading: &ScriptReading, snapshot: &Snapshot) -> SbatchOptions {
    let left = reading.options.iter().filter(|script_option| !READ.contains(&script_option.name.as_str()));
    let word = |name: &str, value: &Option<String>| match value {
        Some(value) => format!("--{name}={value}"),
        None => format!("--{name}"),
    };
    let words: Vec<String> =
        left.map(|script_option| word(&script_option.name, &script_option.value)).collect();
    sbatch_options(&words, snapshot.taken_at)
}

fn has_reservation(snapshot: &Snapshot, name: &str) -> bool {
    snapshot.reservations.iter().any(|reservation| reservation.name == name)
}

/// Returns the request of a component, and what it ignores.
fn request(
    resource_request: &ResourceRequest,
    extra: &SbatchOptions,
    snapshot: &Snapshot,
) -> Option<(Request, Vec<String>)> {
    let names: Vec<&str> =
        resource_request.partition.iter().flat_map(|names| names.split(',')).map(str::trim).collect();
    let site = UsableNodes { snapshot, names, features: resource_request.constraint.as_deref() };
    let shares: Option<Vec<TypedShare>> = resource_request.gpu_shares.iter().map(TypedShare::new).collect();
    let (shares, mut ignored) = site.possible(shares?);
    let largest = site.largest(&shares);
    let all_gpus = resource_request.gpus_total?;
    let cpus_per_task = resource_request.cpus_per_task.unwrap_or(1).max(1);
    let mut nodes = resource_request.nodes_min?.max(1);
    // If Slurm may choose, it uses as many nodes as the GPUs and the tasks need.
    if resource_request.nodes_max.is_none() {
        let needed = |amount: u64, there: u64| if there > 0 { amount.div_ceil(there) } else { 1 };
        // All CPUs of a task, or of a GPU, are on one node.
        let (count, each) = match resource_request.cpus_per_gpu {
            Some(each) => (all_gpus, each.max(1)),
            None => (resource_request.ntasks?, cpus_per_task),
        };
        let of_cpus = needed(count, largest.cpus / each);
        let of_gpus = shares.iter().map(|share| site.nodes_for(share)).max().unwrap_or(1);
        nodes = nodes.max(of_gpus).max(of_cpus);
    }
    let split: Vec<GpuSplit> = shares.iter().map(|share| site.split(share, nodes)).collect();
    if split.iter().any(|part| part.is_uneven) {
        ignored.push(format!("the uneven split of {all_gpus} GPUs over {nodes} nodes"));
    }
    let per_node: u64 = split.iter().map(|part| part.per_node).fold(0, u64::saturating_add);
    let cpus = match resource_request.cpus_per_gpu {
        Some(each) => each.saturating_mul(per_node),
        None => resource_request.ntasks?.div_ceil(nodes).saturating_mul(cpus_per_task),
    };
    let whole = || largest.least_memory;
    let memory = match (
        resource_request.mem_mb_per_node,
        resource_request.mem_mb_per_cpu,
        resource_request.mem_mb_per_gpu,
    ) {
        (Some(0), ..) | (None, Some(0), _) => whole(),
        (Some(amount), ..) => Some(amount),
        (None, Some(each), _) => Some(each.saturating_mul(cpus.max(1))),
        (None, None, Some(each)) => Some(each.saturating_mul(per_node)),
        (None, None, None) => None,
    };
    let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let gpus = shares.into_iter().zip(split).filter(|(_, part)| part.per_node > 0);
    let gpus = gpus.map(|(share, part)| GpuAsk { gpu_type: share.gpu_type, count: count(part.per_node) });
    let limit = site.limit(resource_request.time_limit);
    let request = Request {
        id: RequestId::default(),
        asks: Asks {
            nodes: count(nodes),
            gpus: gpus.collect(),
            cpus: (cpus > 0).then_some(cpus),
            memory_mib: memory,
            exclusive: resource_request.exclusive == Exclusive::Nodes,
            features: resource_request.constraint.clone(),
            ..extra.asks.clone()
        },
        partition: resource_request.partition.clone(),
        account: resource_request.account.clone(),
        limit,
        run: limit,
        further: FurtherOptions {
            qos: resource_request.qos.clone(),
            reservation: extra.further.reservation.clone().filter(|name| has_reservation(snapshot, name)),
            ..extra.further.clone()
        },
    };
    Some((request, ignored))
}

/// The part of a cluster that a job may use.
struct UsableNodes<'a> {
    snapshot: &'a Snapshot,
    names: Vec<&'a str>,
    features: Option<&'a str>,
}

/// The GPUs of one type in a request.
struct TypedShare {
    gpu_type: Option<GpuType>,
    total: u64,
    per_node: Option<u64>,
}

/// The GPUs of one type on each node.
#[derive(Clone, Copy)]
struct GpuSplit {
    per_node: u64,
    /// Whether some nodes must provide more than `per_node`.
    is_uneven: bool,
}

/// The largest number of CPUs of a node, and the smallest memory of a node.
#[derive(Clone, Copy, Default)]
struct Largest {
    cpus: u64,
    least_memory: Option<u64>,
}

impl TypedShare {
    /// Returns a share with its type; `None` if no cluster can have such a type.
    fn new(share: &GpuShare) -> Option<Self> {
        let gpu_type = match &share.kind {
            Some(name) => Some(GpuType::new(name)?),
            None => None,
        };
        Some(Self { gpu_type, total: share.total, per_node: share.per_node })
    }

    /// Returns how many GPUs of the share's type a node has.
    fn on(&self, node: &QueueNode) -> u64 {
        let is_wanted = |gpu_type: &GpuType| self.gpu_type.as_ref().is_none_or(|wanted| wanted == gpu_type);
        let gpus = node.gpus.iter().filter(|gpu| is_wanted(&gpu.gpu_type));
        gpus.map(|gpu| u64::from(gpu.count)).sum()
    }
}

impl UsableNodes<'_> {
    fn partitions(&self) -> impl Iterator<Item = &QueuePartition> {
        let is_named = |partition: &&QueuePartition| match self.names.as_slice() {
            [] => partition.default,
            names => names.contains(&partition.name.as_str()),
        };
        self.snapshot.partitions.iter().filter(is_named)
    }

    /// Returns the usable nodes of the job's partitions that have the features that it requests.
    fn nodes(&self) -> Vec<&QueueNode> {
        let names: Vec<&str> = self.partitions().map(|partition| partition.name.as_str()).collect();
        let is_in = |node: &&QueueNode| {
            let is_in = names.is_empty()
                || node.partitions.is_empty()
                || names.iter().any(|name| node.partitions.contains(*name));
            let has_features = self.features.is_none_or(|feature| meets(feature, &node.features));
            node.usable == NodeUse::Up && is_in && has_features
        };
        self.snapshot.nodes.iter().filter(is_in).collect()
    }

    /// Returns the shares that the model can place, and names of the others.
    ///
    /// Slurm may allocate several types without a number per node on different nodes; the model places all
    /// types on each node. If no node has all of them, only the largest share counts.
    fn possible(&self, mut shares: Vec<TypedShare>) -> (Vec<TypedShare>, Vec<String>) {
        let is_fixed = shares.len() < 2 || shares.iter().all(|share| share.per_node.is_some());
        if is_fixed || self.nodes().iter().any(|node| shares.iter().all(|share| share.on(node) > 0)) {
            return (shares, Vec::new());
        }
        shares.sort_by_key(|share| std::cmp::Reverse(share.total));
        let others = shares.split_off(1);
        let name = |share: &TypedShare| share.gpu_type.as_ref().map_or("any", GpuType::as_str).to_owned();
        (shares, others.iter().map(|share| format!("GPUs of type {}", name(share))).collect())
    }

    fn largest(&self, shares: &[TypedShare]) -> Largest {
        let has_types =
            |node: &&QueueNode| shares.iter().all(|share| share.gpu_type.is_none() || share.on(node) > 0);
        let nodes: Vec<&QueueNode> = self.nodes().into_iter().filter(has_types).collect();
        Largest {
            cpus: nodes.iter().filter_map(|node| node.cpus).max().unwrap_or(0),
            least_memory: nodes.iter().filter_map(|node| node.memory_mib).min(),
        }
    }

    /// Returns the numbers of a share's GPUs on all nodes, the largest first.
    fn stock(&self, share: &TypedShare) -> Vec<u64> {
        let mut stock: Vec<u64> = self.nodes().iter().map(|node| share.on(node)).collect();
        stock.sort_unstable_by(|a, b| b.cmp(a));
        stock
    }

    /// Returns the smallest number of nodes that have a share's GPUs together; 1 if the number per node is
    /// given. If all nodes together have too few, each is assumed to have as many as the largest.
    fn nodes_for(&self, share: &TypedShare) -> u64 {
        if share.per_node.is_some() {
            return 1;
        }
        let (mut sum, mut nodes) = (0, 0);
        let stock = self.stock(share);
        for count in &stock {
            if sum >= share.total {
                break;
            }
            (sum, nodes) = (sum + count, nodes + 1);
        }
        let largest = stock.first().copied().filter(|count| *count > 0);
        if sum >= share.total { nodes.max(1) } else { largest.map_or(1, |count| share.total.div_ceil(count)) }
    }

    /// Returns a share's GPUs per node on this number of nodes: equal numbers if the nodes have them, or if
    /// all nodes together have too few; else the largest number that each of them has.
    fn split(&self, share: &TypedShare, nodes: u64) -> GpuSplit {
        let even = share.total.div_ceil(nodes);
        if let Some(per_node) = share.per_node {
            return GpuSplit { per_node, is_uneven: false };
        }
        let mut stock = self.stock(share);
        stock.retain(|count| *count > 0);
        stock.truncate(usize::try_from(nodes).unwrap_or(usize::MAX));
        let is_enough = u64::try_from(stock.len()) == Ok(nodes) && stock.iter().sum::<u64>() >= share.total;
        let least = stock.last().copied().filter(|least| is_enough && *least < even);
        GpuSplit { per_node: least.unwrap_or(even), is_uneven: least.is_some() }
    }

    /// Returns the limit that Slurm assigns to the job.
    fn limit(&self, asked: Option<TimeLimit>) -> Seconds {
        let longest = self.partitions().find_map(|partition| partition.max_time_s);
        let usual = self.partitions().find_map(|partition| partition.default_time_s);
        match asked {
            Some(TimeLimit::Seconds(seconds)) => Seconds(to_f64(seconds)),
            Some(TimeLimit::Unlimited) => longest.unwrap_or(Seconds(NO_LIMIT)),
            None => usual.or(longest).unwrap_or(Seconds(NO_LIMIT)),
        }
    }
}
