//! A script's request on the cluster of a snapshot, in the queue model's form, with the site's defaults
//! filled in.

use crate::sbatch_options;
use crate::script::{Exclusive, ResourceRequest, ScriptReading, TimeLimit};
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

/// Returns a script's request on a cluster; `None` if a number of nodes or GPUs is unknown.
pub fn site_request(reading: &ScriptReading, snapshot: &Snapshot) -> Option<SiteRequest> {
    let asked = reading.request.as_ref()?;
    let extra = extra(reading, snapshot);
    let components = match asked.components.as_slice() {
        [] => std::slice::from_ref(&asked.total),
        components => components,
    };
    let requests: Option<Vec<Request>> =
        components.iter().map(|resource_request| request(resource_request, &extra, snapshot)).collect();
    let mut not_counted = extra.not_counted;
    let reservation = extra.further.reservation.filter(|name| !has_reservation(snapshot, name));
    not_counted.extend(reservation.map(|name| format!("--reservation={name}")));
    let further_types =
        components.iter().flat_map(|resource_request| resource_request.gpu_types.iter().skip(1));
    not_counted.extend(further_types.map(|name| format!("GPUs of type {name}")));
    let shared = |resource_request: &ResourceRequest| match resource_request.exclusive {
        Exclusive::No | Exclusive::Nodes => None,
        Exclusive::User => Some("--exclusive=user"),
        Exclusive::Mcs => Some("--exclusive=mcs"),
        _ => Some("--oversubscribe"),
    };
    not_counted.extend(components.iter().find_map(shared).map(str::to_owned));
    Some(SiteRequest { requests: requests?, not_counted })
}

/// Interprets the options that the reader leaves unchanged.
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

fn request(
    resource_request: &ResourceRequest,
    extra: &SbatchOptions,
    snapshot: &Snapshot,
) -> Option<Request> {
    let names: Vec<&str> =
        resource_request.partition.iter().flat_map(|names| names.split(',')).map(str::trim).collect();
    let site = UsableNodes { snapshot, names, features: resource_request.constraint.as_deref() };
    let gpu_type = match &resource_request.gpu_type {
        Some(name) => Some(GpuType::new(name)?),
        None => None,
    };
    let largest = site.largest(gpu_type.as_ref());
    let all_gpus = resource_request.gpus_total?;
    let cpus_per_task = resource_request.cpus_per_task.unwrap_or(1).max(1);
    let all_cpus = match resource_request.cpus_per_gpu {
        Some(each) => each.saturating_mul(all_gpus),
        None => resource_request.ntasks?.saturating_mul(cpus_per_task),
    };
    let mut nodes = resource_request.nodes_min?.max(1);
    // If Slurm may choose, it uses as many nodes as the GPUs and the tasks need.
    if resource_request.nodes_max.is_none() {
        let needed = |amount: u64, there: u64| if there > 0 { amount.div_ceil(there) } else { 1 };
        let of_gpus = resource_request.gpus_per_node.map_or_else(|| needed(all_gpus, largest.gpus), |_| 1);
        nodes = nodes.max(of_gpus).max(needed(all_cpus, largest.cpus));
    }
    let per_node = resource_request.gpus_per_node.unwrap_or_else(|| all_gpus.div_ceil(nodes));
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
    let gpus = (per_node > 0).then(|| GpuAsk { gpu_type, count: count(per_node) });
    let limit = site.limit(resource_request.time_limit);
    Some(Request {
        id: RequestId::default(),
        asks: Asks {
            nodes: count(nodes),
            gpus: gpus.into_iter().collect(),
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
    })
}

/// The part of a cluster that a job may use.
struct UsableNodes<'a> {
    snapshot: &'a Snapshot,
    names: Vec<&'a str>,
    features: Option<&'a str>,
}

/// The maximum resources of a node, and the smallest memory of any.
#[derive(Clone, Copy, Default)]
struct Largest {
    gpus: u64,
    cpus: u64,
    least_memory: Option<u64>,
}

impl UsableNodes<'_> {
    fn partitions(&self) -> impl Iterator<Item = &QueuePartition> {
        let is_named = |partition: &&QueuePartition| match self.names.as_slice() {
            [] => partition.default,
            names => names.contains(&partition.name.as_str()),
        };
        self.snapshot.partitions.iter().filter(is_named)
    }

    fn largest(&self, gpu_type: Option<&GpuType>) -> Largest {
        let names: Vec<&str> = self.partitions().map(|partition| partition.name.as_str()).collect();
        let is_in = |node: &&QueueNode| {
            let is_in = names.is_empty()
                || node.partitions.is_empty()
                || names.iter().any(|name| node.partitions.contains(*name));
            let has_features = self.features.is_none_or(|feature| meets(feature, &node.features));
            let has_type =
                gpu_type.is_none_or(|gpu_type| node.gpus.iter().any(|gpu| gpu.gpu_type == *gpu_type));
            node.usable == NodeUse::Up && is_in && has_features && has_type
        };
        let gpus = |node: &QueueNode| -> u64 {
            let gpus =
                node.gpus.iter().filter(|gpu| gpu_type.is_none_or(|gpu_type| gpu.gpu_type == *gpu_type));
            gpus.map(|gpu| u64::from(gpu.count)).sum()
        };
        let nodes: Vec<&QueueNode> = self.snapshot.nodes.iter().filter(is_in).collect();
        Largest {
            gpus: nodes.iter().map(|node| gpus(node)).max().unwrap_or(0),
            cpus: nodes.iter().filter_map(|node| node.cpus).max().unwrap_or(0),
            least_memory: nodes.iter().filter_map(|node| node.memory_mib).min(),
        }
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
