//! The devices for jobs, which are found on this machine, simulated, or part of an allocation; and their
//! assignment to submissions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use thiserror::Error;

use crate::probe::{self, Facts};
use hsched_engine::SubmissionKey;
use hsched_engine::pool::{MemberId, SubmissionStart};
use hsched_model::{
    Bytes, Cluster, GpuStock, GpuType, Node, NodeName, NodeState, PlacedRank, RankNeeds, Usage,
};

/// One device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    pub gpu_type: GpuType,
    /// The name by which programs address it: a UUID, its index among the devices of an allocation's node, or
    /// an empty text if it is simulated.
    pub name: String,
    pub memory: Option<Bytes>,
}

/// The nodes with their devices, and the devices of each submission.
#[derive(Clone, Debug)]
pub struct Devices {
    pub(super) nodes: Vec<(Node, Vec<Device>)>,
    /// The lease of each submission.
    pub(super) taken: BTreeMap<SubmissionKey, Lease>,
    /// The GPU number of each device that is a slot; other devices are absent.
    pub(super) units: BTreeMap<DeviceIndex, usize>,
}

/// A device by its node and its index in the node's list.
pub(super) type DeviceIndex = (NodeName, usize);

/// The devices of a submission, one for each rank in the ranks' order, and the slots reserved beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub(super) devices: Vec<DeviceIndex>,
    pub(super) needs: RankNeeds,
    /// The other slots of the same GPUs, if the job needs the GPUs exclusively.
    pub(super) beside: Vec<DeviceIndex>,
}

impl Lease {
    /// Returns all devices that are reserved by this lease.
    pub(super) fn all(&self) -> impl Iterator<Item = &DeviceIndex> {
        self.devices.iter().chain(&self.beside)
    }
}

impl Lease {
    /// Returns the devices on which a submission is started.
    pub(super) fn of(start: &SubmissionStart) -> Self {
        let (cpus, memory) = start.needs;
        let (devices, beside) = (start.devices.clone(), start.beside.clone());
        Self { devices, needs: RankNeeds { cpus, memory }, beside }
    }
}

/// The maximum count of a type in a list of devices.
const MOST: u32 = 10_000;

/// The type of unknown GPUs.
const UNKNOWN: &str = "gpu";

/// Why a list of devices is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", refusal(text))]
pub struct DevicesError {
    text: String,
}

/// Returns the error message for a list of devices; the usual mistakes are types without a count, or without
/// a colon before the count.
fn refusal(text: &str) -> String {
    let typed = |part: &str| {
        let gpu_type = GpuType::new(part.trim()).filter(|gpu_type| !gpu_type.as_str().contains(':'))?;
        let is_type = gpu_type.as_str().contains(|c: char| c.is_ascii_alphabetic());
        is_type.then(|| with_colon(gpu_type.as_str()).unwrap_or_else(|| format!("{gpu_type}:1")))
    };
    let has_no_slot = |part: &str| {
        part.rsplit_once(['x', ':']).is_some_and(|(count, slots)| slots == "0" && count.contains(':'))
    };
    if text.split(',').any(has_no_slot) {
        return format!("{text:?}: the number after x, of runs that share a device, must be at least 1");
    }
    let has_count = text.split(',').any(|part| with_colon(part.trim()).is_some());
    match text.split(',').map(typed).collect::<Option<Vec<_>>>() {
        Some(counted) if has_count => {
            format!("{text:?} has no colon before the count: write {}", counted.join(","))
        }
        Some(counted) => format!("{text:?} has no count: write {}", counted.join(",")),
        None => format!(
            "{text:?} is not a list of devices: write TYPE:COUNT with commas between them, such as cpu:4 \
             or v100:2,t4:2; a \
             count is from 1 to {MOST}"
        ),
    }
}

/// Returns `v100:4` for `v100x4`, and `cpu:4` for `cpu4`; `None` for a type, such as `gtx1080`.
fn with_colon(part: &str) -> Option<String> {
    let (gpu_type, count) = match part.split_once("cpu") {
        Some(("", count)) => ("cpu", count.trim_start_matches('x')),
        _ => part.rsplit_once('x').filter(|(name, _)| name.contains(|c: char| c.is_ascii_digit()))?,
    };
    let is_count = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    is_count.then(|| format!("{gpu_type}:{count}"))
}

impl DevicesError {
    pub(super) fn of(text: &str) -> Self {
        Self { text: text.to_owned() }
    }
}

impl Devices {
    /// Returns nodes with their devices, all free; the GPU counts of a node follow from its devices.
    pub fn new(nodes: Vec<(Node, Vec<Device>)>) -> Self {
        let stocked = |(mut node, devices): (Node, Vec<Device>)| {
            node.gpus = stock(&devices);
            (node, devices)
        };
        let nodes = nodes.into_iter().map(stocked).collect();
        Self { nodes, taken: BTreeMap::new(), units: BTreeMap::new() }
    }

    /// Returns the GPUs of this machine, as NVML lists them; a GPU in MIG mode is replaced by its slices.
    pub fn found(facts: &Facts) -> Self {
        let mut node = probe::node(facts);
        node.memory = node.memory.map(|memory| Usage { used: 0, ..memory });
        let units = |gpu: &probe::GpuDevice| {
            let names: Vec<(String, Option<u64>)> = if gpu.mig {
                gpu.slices.iter().map(|slice| (slice.uuid.clone(), slice.memory)).collect()
            } else {
                vec![(gpu.uuid.clone(), gpu.memory)]
            };
            let device = |(gpu_type, (name, memory)): (GpuType, (String, Option<u64>))| Device {
                gpu_type,
                name,
                memory: memory.map(Bytes),
            };
            probe::gpu_types(gpu).into_iter().zip(names).map(device).collect::<Vec<_>>()
        };
        Self::new(vec![(node, facts.gpus.iter().flat_map(units).collect())])
    }

    /// Returns the GPUs of this machine that are visible under these `names`, which are indices or beginnings
    /// of UUIDs; all GPUs if there are no names. Skips names without a GPU. If NVML lists no GPU at all,
    /// returns devices of unknown type with these names.
    pub fn visible(facts: &Facts, names: &[String]) -> Self {
        let found = Self::found(facts);
        let (node, all) = found.nodes.into_iter().next().unwrap_or_else(|| (probe::node(facts), Vec::new()));
        let named = |name: &String| match name.parse::<usize>() {
            Ok(number) => all.get(number),
            Err(_) => all.iter().find(|device| device.name.starts_with(name.as_str())),
        };
        let unknown = || GpuType::new(UNKNOWN);
        let devices = match names {
            [] => all,
            names if all.is_empty() => names
                .iter()
                .filter_map(|name| Some(Device { gpu_type: unknown()?, name: name.clone(), memory: None }))
                .collect(),
            names => names.iter().filter_map(named).cloned().collect(),
        };
        Self::new(vec![(node, devices)])
    }

    /// Returns a machine with simulated devices, which its CPUs and memory do not limit.
    pub fn imagined(counts: &[(GpuType, u32)], facts: &Facts) -> Self {
        let device =
            |gpu_type: &GpuType| Device { gpu_type: gpu_type.clone(), name: String::new(), memory: None };
        let devices =
            counts.iter().flat_map(|(gpu_type, count)| (0..*count).map(move |_| device(gpu_type))).collect();
        let node = Node { cpus: None, memory: None, intra_node: None, ..probe::node(facts) };
        Self::new(vec![(node, devices)])
    }

    /// Parses a list of devices without slots: `cpu:4`, `v100:2,t4:2`.
    ///
    /// # Errors
    /// If the text is not such a list.
    pub fn parse(text: &str) -> Result<Vec<(GpuType, u32)>, DevicesError> {
        let one = |part: &str| {
            let (name, count) = part.trim().rsplit_once(':')?;
            let count: u32 = count.parse().ok().filter(|count| (1..=MOST).contains(count))?;
            Some((GpuType::new(name)?, count))
        };
        let counts: Option<Vec<_>> = text.split(',').map(one).collect();
        counts.ok_or_else(|| DevicesError::of(text))
    }

    /// Returns the number of devices.
    pub fn count(&self) -> usize {
        self.nodes.iter().map(|(_, devices)| devices.len()).sum()
    }

    /// Returns the types of the devices.
    pub fn gpu_types(&self) -> Vec<GpuType> {
        let mut types: Vec<GpuType> = self
            .nodes
            .iter()
            .flat_map(|(_, node)| node.iter().map(|device| device.gpu_type.clone()))
            .collect();
        types.sort();
        types.dedup();
        types
    }

    /// Returns the nodes with their devices.
    pub fn nodes(&self) -> &[(Node, Vec<Device>)] {
        &self.nodes
    }

    /// Returns the devices as those of a member of a pool, whose id becomes part of the node names.
    pub fn of_member(self, member: &MemberId) -> Self {
        let named =
            |(node, devices): (Node, Vec<Device>)| (Node { name: member.node(&node.name), ..node }, devices);
        let nodes = self.nodes.into_iter().map(named).collect();
        let units = self.units.into_iter().map(|((node, device), unit)| ((member.node(&node), device), unit));
        Self { nodes, units: units.collect(), taken: self.taken }
    }

    /// Records which nodes remain. A lost node never returns to its Slurm allocation.
    pub fn keep(&mut self, left: &[NodeName]) {
        let is_lost = |node: &Node| !left.contains(&MemberId::plain(&node.name));
        for (node, _) in self.nodes.iter_mut().filter(|(node, _)| is_lost(node)) {
            node.state = NodeState::parse("down");
            node.reason = Some("no longer in the allocation".to_owned());
        }
    }

    /// Returns the nodes, with the resources that submissions use.
    pub fn cluster(&self) -> Cluster {
        self.cluster_without(|_| false)
    }

    /// Returns the nodes, with the resources that submissions use. Submissions that are still `waiting` use none,
    /// but the slots that they reserve beside their own are in use.
    pub(super) fn cluster_without(&self, waiting: impl Fn(&SubmissionKey) -> bool) -> Cluster {
        let mut nodes: Vec<Node> = self.nodes.iter().map(|(node, _)| node.clone()).collect();
        let at_work = || self.taken.iter().filter(|(of, _)| !waiting(of)).map(|(_, lease)| lease);
        let besides = self.taken.values().flat_map(|lease| &lease.beside);
        let used: BTreeSet<&DeviceIndex> =
            at_work().flat_map(|lease| &lease.devices).chain(besides).collect();
        for (name, device) in used {
            let Some(place) = nodes.iter().position(|node| node.name == *name) else { continue };
            let gpu_type = &self.nodes[place].1[*device].gpu_type;
            if let Some(stock) = nodes[place].gpus.iter_mut().find(|stock| stock.gpu_type == *gpu_type) {
                stock.used += 1;
            }
        }
        for lease in at_work() {
            for (name, _) in &lease.devices {
                let Some(node) = nodes.iter_mut().find(|node| node.name == *name) else { continue };
                let add = |usage: &mut Option<Usage>, taken: u64| {
                    if let Some(usage) = usage {
                        usage.used = (usage.used + taken).min(usage.total);
                    }
                };
                add(&mut node.cpus, lease.needs.cpus);
                add(&mut node.memory, lease.needs.memory);
            }
        }
        for node in &mut nodes {
            let used: u32 = node.gpus.iter().map(|stock| stock.used).sum();
            if used > 0 && node.state == NodeState::idle() {
                node.state = NodeState::parse(if used < node.gpu_total() { "mixed" } else { "allocated" });
            }
        }
        Cluster { nodes, ..Cluster::default() }
    }

    /// Returns a free device for each rank, or `None` if there are too few. Prefers devices on which the
    /// fewest jobs are parked, as counted by `crowd`, then slots of the GPUs with the fewest runs. With
    /// `alone`, it reserves all slots of its GPUs, even those that others still use.
    pub fn find(
        &self,
        ranks: &[PlacedRank],
        needs: RankNeeds,
        alone: bool,
        crowd: impl Fn(&NodeName, usize) -> usize,
    ) -> Option<Lease> {
        let mut lease = Lease { devices: Vec::new(), needs, beside: Vec::new() };
        for rank in ranks {
            let (node, devices) = self.nodes.iter().find(|(node, _)| node.name == rank.node)?;
            let is_usable = |device: &usize| {
                let place = (node.name.clone(), *device);
                devices[*device].gpu_type == rank.gpu_type
                    && self
                        .taken
                        .values()
                        .chain([&lease])
                        .all(|lease| lease.all().all(|taken| *taken != place))
                    && self.may_have(&place, &lease)
            };
            let usable = (0..devices.len()).filter(is_usable);
            let sharers = |device: usize| self.sharers(&(node.name.clone(), device)).count();
            let device =
                usable.min_by_key(|device| (crowd(&node.name, *device), sharers(*device), *device))?;
            lease.devices.push((node.name.clone(), device));
        }
        if alone {
            lease.beside = self.siblings(&lease);
        }
        Some(lease)
    }

    /// Returns whether all devices of a lease are free; exclusively reserved slots beside them may still be
    /// in use.
    pub fn is_free(&self, lease: &Lease) -> bool {
        self.taken.values().all(|taken| taken.all().all(|place| !lease.devices.contains(place)))
    }

    /// Returns the submissions that still use slots which a lease reserves exclusively.
    pub(super) fn in_the_way(&self, lease: &Lease) -> BTreeSet<SubmissionKey> {
        let has_some = |(_, taken): &(&SubmissionKey, &Lease)| {
            taken.devices.iter().any(|place| lease.beside.contains(place))
        };
        self.taken.iter().filter(has_some).map(|(of, _)| of.clone()).collect()
    }

    /// Assigns free devices to a submission.
    pub fn take(&mut self, of: &SubmissionKey, lease: Lease) {
        self.taken.insert(of.clone(), lease);
    }

    /// Returns the submissions that have devices.
    pub(super) fn users(&self) -> impl Iterator<Item = &SubmissionKey> {
        self.taken.keys()
    }

    /// Returns the lease of a submission.
    pub(crate) fn lease(&self, of: &SubmissionKey) -> Option<&Lease> {
        self.taken.get(of)
    }

    /// Returns a lease in the format of scripts: one line for each node.
    pub fn words(&self, lease: &Lease) -> String {
        let mut by_node: BTreeMap<&NodeName, Vec<&str>> = BTreeMap::new();
        for (name, device) in &lease.devices {
            let devices = self.nodes.iter().find(|(node, _)| node.name == *name).map(|(_, devices)| devices);
            by_node
                .entry(name)
                .or_default()
                .push(devices.map_or("", |devices| devices[*device].name.as_str()));
        }
        let mut words = String::new();
        for (name, devices) in by_node {
            let imagined = devices.iter().all(|device| device.is_empty());
            let name = MemberId::plain(name);
            let _ = writeln!(words, "{name} {}", if imagined { String::new() } else { devices.join(",") });
        }
        words
    }

    /// Returns how many bytes of a node's memory no submission uses, if known.
    pub(crate) fn free_memory(&self, node: &NodeName) -> Option<u64> {
        let nodes = self.cluster().nodes;
        nodes
            .into_iter()
            .find(|candidate| candidate.name == *node)?
            .memory
            .map(|memory| memory.total - memory.used)
    }

    /// Releases the devices of a submission.
    pub fn give_back(&mut self, of: &SubmissionKey) {
        self.taken.remove(of);
    }
}

fn stock(devices: &[Device]) -> Vec<GpuStock> {
    let mut stocks: Vec<GpuStock> = Vec::new();
    for device in devices {
        if let Some(stock) = stocks.iter_mut().find(|stock| stock.gpu_type == device.gpu_type) {
            stock.total += 1;
            stock.memory = stock.memory.zip(device.memory).map(|(one, other)| one.min(other));
        } else {
            let Device { gpu_type, memory, .. } = device.clone();
            stocks.push(GpuStock { gpu_type, total: 1, used: 0, memory });
        }
    }
    stocks
}

#[cfg(test)]
mod tests;
