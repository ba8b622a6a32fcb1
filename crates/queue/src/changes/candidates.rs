//! The possible changes of a request on a cluster, before starts are estimated.

use std::collections::BTreeSet;

use super::others_preempted::preempts_others;
use super::past_runs::rounded_up;
use super::preemption::{preempts_own, qos_drawbacks};
use super::room::{self, FreeHost};
use crate::{Change, ChangeSet, Drawback, PastRuns, QueuePartition, Request, Snapshot};
use hsched_model::catalogue::recognise;
use hsched_model::number::to_f64;
use hsched_model::{GpuType, Seconds};

/// The inputs of changes of a request.
#[derive(Clone, Copy)]
pub(super) struct ChangeContext<'a> {
    pub snapshot: &'a Snapshot,
    pub request: &'a Request,
    pub past: &'a PastRuns,
}

/// A change leaves at least 1/`LEAST_PART` of the CPUs, of the GPUs per node, and of the memory if past runs
/// do not show the need; a larger reduction is not a small change.
const LEAST_PART: u64 = 4;

/// Limits tried if run times are unknown, as fractions of the present one.
const SHORTER: [f64; 2] = [0.5, 0.25];

/// Minimum reduction of a limit, and shortest limit tried if run times are unknown, in seconds.
const NO_CHANGE: f64 = 900.0;

/// Longest limit of which a fraction is tried, in seconds: two weeks. Longer ones stand for "no limit".
const LONGEST: f64 = 14.0 * 86_400.0;

/// Maximum number of node counts tried for the same GPUs, and of changes of CPUs and memory.
const SPLITS: usize = 4;

/// Returns the individual changes that a partition accepts and that past runs allow. If a change requires
/// another one, both form a set.
pub(super) fn candidates(site: ChangeContext) -> Vec<ChangeSet> {
    let limits = site.limits();
    let mut list = site.partitions(&limits);
    list.extend(limits);
    list.extend(site.accounts());
    list.extend(site.qualities());
    list.extend(site.gpu_types());
    list.extend(site.splits());
    list.extend(site.fewer_gpus());
    list.extend(site.hosts());
    list.retain(|set| site.is_taken(set) && site.is_allowed(set));
    list.into_iter().map(|set| site.with_others(set)).collect()
}

impl ChangeContext<'_> {
    /// Returns shorter limits: the need of past runs or, if that is unknown, fractions of the limit and the
    /// longest limits of partitions.
    fn limits(&self) -> Vec<ChangeSet> {
        let limit = self.request.limit.0;
        let is_shorter = |shorter: &Seconds| shorter.0 <= limit - NO_CHANGE;
        let ends_after = |limit: Seconds, need| {
            ChangeSet::new(Change::Limit(limit), Some(Drawback::EndsAfter { limit, need }))
        };
        if let Some(need) = self.past.need(self.request) {
            let least = Some(need.least_limit).filter(is_shorter);
            return least.map(|limit| ends_after(limit, Some(need))).into_iter().collect();
        }
        let parts = SHORTER.iter().map(|part| rounded_up(Seconds(limit.min(LONGEST) * part)));
        // A limit equal to the longest of a partition makes that partition available.
        let of_partitions = self.snapshot.partitions.iter().filter_map(|partition| partition.max_time_s);
        let mut tried: Vec<Seconds> =
            parts.chain(of_partitions).filter(is_shorter).filter(|length| length.0 >= NO_CHANGE).collect();
        tried.sort_by(|a, b| a.0.total_cmp(&b.0));
        tried.dedup();
        tried.into_iter().map(|limit| ends_after(limit, None)).collect()
    }

    /// Returns changes that add a partition to those of the request, with a shorter limit if the partition
    /// requires one; partitions that do not accept the request are dropped.
    fn partitions(&self, limits: &[ChangeSet]) -> Vec<ChangeSet> {
        let (snapshot, request) = (self.snapshot, self.request);
        let now = room::partitions(snapshot, request);
        let mut list = Vec::new();
        for partition in
            snapshot.partitions.iter().filter(|partition| !now.contains(&partition.name.as_str()))
        {
            if self.is_like_one_of(partition, &now) && takes(partition, snapshot, request) {
                continue;
            }
            let longest_first = std::iter::once(None).chain(limits.iter().rev().map(Some));
            let opened = longest_first.filter_map(|limit| {
                let limited = limit.map_or_else(|| request.clone(), |changes| changes.applied(request));
                let there = Request { partition: Some(partition.name.clone()), ..limited.clone() };
                if !takes(partition, snapshot, &there) || !room::fits(snapshot, &there) {
                    return None;
                }
                let kept = now.iter().copied().filter(|name| {
                    let partition = snapshot.partitions.iter().find(|partition| partition.name == **name);
                    partition.is_some_and(|partition| takes(partition, snapshot, &limited))
                });
                let names: Vec<&str> = kept.chain([partition.name.as_str()]).collect();
                let added = self.preempting(Change::Partition(names.join(",")), partition, &limited);
                limit.map_or_else(|| Some(added.clone()), |limit| limit.and(&added))
            });
            // The longest limit that the partition accepts is sufficient.
            list.extend(opened.take(1));
        }
        list
    }

    /// Returns a change of partitions after which the job may run in `partition`, with its drawbacks if jobs
    /// may be preempted: this job, or running jobs of the user.
    fn preempting(&self, change: Change, partition: &QueuePartition, request: &Request) -> ChangeSet {
        let mut set = ChangeSet::new(change, preemption(partition));
        let changed = set.applied(request);
        set.drawbacks.extend(preempts_own(self.snapshot, self.request, &changed));
        set
    }

    /// Returns whether one of the request's partitions that accept it has all nodes of this partition, the
    /// same tier and the same QOS.
    fn is_like_one_of(&self, partition: &QueuePartition, now: &[&str]) -> bool {
        let nodes = |name: &str| -> BTreeSet<usize> {
            let all = self.snapshot.nodes.iter().enumerate();
            all.filter(|(_, node)| node.partitions.contains(name)).map(|(number, _)| number).collect()
        };
        let of_partition = nodes(&partition.name);
        let alike = |other: &&QueuePartition| {
            now.contains(&other.name.as_str())
                && (other.tier, &other.limit_qos) == (partition.tier, &partition.limit_qos)
                && takes(other, self.snapshot, self.request)
        };
        self.snapshot.partitions.iter().filter(alike).any(|other| of_partition.is_subset(&nodes(&other.name)))
    }

    fn accounts(&self) -> Vec<ChangeSet> {
        let (snapshot, request) = (self.snapshot, self.request);
        let now = request.account.as_deref().or_else(|| snapshot.own_account());
        let others =
            snapshot.accounts.iter().filter(|account| Some(account.name.as_str()) != now && now.is_some());
        let change = |name: &String| {
            let charged = Drawback::Charged { account: name.clone() };
            self.with_qos(ChangeSet::new(Change::Account(name.clone()), Some(charged)))
        };
        others.map(|account| change(&account.name)).collect()
    }

    fn qualities(&self) -> Vec<ChangeSet> {
        let (snapshot, request) = (self.snapshot, self.request);
        let account = request.account.as_deref().or_else(|| snapshot.own_account());
        let now = request.further.qos.as_deref().unwrap_or_else(|| snapshot.own_qos(account));
        let known = snapshot.accounts.iter().find(|candidate| Some(candidate.name.as_str()) == account);
        let allowed = known.into_iter().flat_map(|account| &account.allowed_qos).filter(|name| *name != now);
        let change = |name: &String| self.with_qos(ChangeSet::new(Change::Qos(name.clone()), None));
        allowed.map(change).collect()
    }

    /// Adds the drawbacks of the QOS to which a change leads.
    fn with_qos(&self, mut set: ChangeSet) -> ChangeSet {
        let changed = set.applied(self.request);
        set.drawbacks.extend(qos_drawbacks(self.snapshot, self.request, &changed));
        set
    }

    /// Returns changes with the drawback that Slurm may preempt other users' running jobs for them, if that
    /// applies. The drawback of a combined change replaces those of its single changes, because Slurm may
    /// preempt different jobs for it.
    pub(super) fn with_others(&self, mut set: ChangeSet) -> ChangeSet {
        let changed = set.applied(self.request);
        set.drawbacks.retain(|drawback| !matches!(drawback, Drawback::PreemptsOthers { .. }));
        set.drawbacks.extend(preempts_others(self.snapshot, self.request, &changed));
        set
    }

    /// Returns whether past runs allow these changes.
    pub(super) fn is_allowed(&self, set: &ChangeSet) -> bool {
        self.past.allow(self.request, &set.applied(self.request))
    }

    /// Returns whether a partition accepts the request with these changes; true if none of its partitions is
    /// known.
    fn is_taken(&self, set: &ChangeSet) -> bool {
        let changed = set.applied(self.request);
        let names = room::partitions(self.snapshot, &changed);
        let mut known = self
            .snapshot
            .partitions
            .iter()
            .filter(|partition| names.contains(&partition.name.as_str()))
            .peekable();
        known.peek().is_none() || known.any(|partition| takes(partition, self.snapshot, &changed))
    }

    /// Returns other GPU types with at least as much memory, in another partition if the request does not fit
    /// into its own with them.
    fn gpu_types(&self) -> Vec<ChangeSet> {
        let (snapshot, request) = (self.snapshot, self.request);
        let Some(from) = room::gpu_type(request) else { return Vec::new() };
        let all: BTreeSet<&GpuType> =
            snapshot.nodes.iter().flat_map(|node| &node.gpus).map(|gpu| &gpu.gpu_type).collect();
        let others = all.into_iter().filter(|to| *to != from && has_the_memory_of(to, from));
        let mut list = Vec::new();
        for to in others {
            let drawback = Drawback::OtherType { from: from.clone(), to: to.clone() };
            let set = ChangeSet::new(Change::GpuType(to.clone()), Some(drawback));
            let changed = set.applied(request);
            if room::fits(snapshot, &changed) {
                list.push(set);
                continue;
            }
            let elsewhere = snapshot.partitions.iter().filter(|partition| {
                let there = Request { partition: Some(partition.name.clone()), ..changed.clone() };
                takes(partition, snapshot, &there) && room::fits(snapshot, &there)
            });
            list.extend(elsewhere.filter_map(|partition| {
                let change = Change::Partition(partition.name.clone());
                set.and(&self.preempting(change, partition, &changed))
            }));
        }
        list
    }

    /// Returns the same GPUs on fewer or more nodes.
    fn splits(&self) -> Vec<ChangeSet> {
        let (nodes, per_node) = (self.request.asks.nodes, room::gpus_per_node(self.request));
        let is_slice = room::gpu_type(self.request).is_some_and(GpuType::is_mig_slice);
        if self.request.asks.gpus.len() != 1 || self.request.asks.exclusive || is_slice {
            return Vec::new();
        }
        let all = nodes.saturating_mul(per_node);
        let there = u32::try_from(self.snapshot.nodes.len()).unwrap_or(u32::MAX);
        let numbers = (1..=all.min(there)).filter(|number| all % number == 0 && *number != nodes);
        let set = |nodes: u32| {
            let change = Change::Gpus { nodes, per_node: all / nodes };
            ChangeSet::new(change, Some(Drawback::Nodes(nodes)))
        };
        numbers.map(set).filter(|set| self.is_taken_and_fits(set)).take(SPLITS).collect()
    }

    /// Returns half of the GPUs (half per node, or half of the nodes), and the most per node that enough
    /// nodes have if they have fewer than requested; with the limit that they need, if it is known and
    /// longer.
    fn fewer_gpus(&self) -> Vec<ChangeSet> {
        let (nodes, per_node) = (self.request.asks.nodes, room::gpus_per_node(self.request));
        if self.request.asks.gpus.len() != 1 || self.request.asks.exclusive {
            return Vec::new();
        }
        let all = |nodes: u32, per_node: u32| u64::from(nodes) * u64::from(per_node);
        let before = to_f64(all(nodes, per_node));
        let mut fewer = vec![(nodes, per_node / 2), (nodes / 2, per_node)];
        let most = self.most_gpus_per_node().map(|most| (nodes, most));
        fewer.extend(most.filter(|most| !fewer.contains(most)));
        let set = |(nodes, per_node): (u32, u32)| {
            let factor = before / to_f64(all(nodes, per_node));
            let change = Change::Gpus { nodes, per_node };
            let set = ChangeSet::new(change, Some(Drawback::RunsLonger(factor)));
            let need = self.past.need(&set.applied(self.request));
            let longer = need.map(|need| need.least_limit).filter(|least| least.0 > self.request.limit.0);
            longer.and_then(|limit| set.and(&ChangeSet::new(Change::Limit(limit), None))).unwrap_or(set)
        };
        let some = fewer.into_iter().filter(|(nodes, per_node)| all(*nodes, *per_node) > 0);
        some.map(set).filter(|set| self.is_taken_and_fits(set)).collect()
    }

    /// Returns the most GPUs per node that enough nodes have; `None` if the request fits as it is, or if they
    /// have far fewer.
    fn most_gpus_per_node(&self) -> Option<u32> {
        let (nodes, per_node) = (self.request.asks.nodes, room::gpus_per_node(self.request));
        let counts = self.snapshot.nodes.iter().flat_map(|node| room::stock(node).into_values());
        let is_small =
            |count: &u32| *count < per_node && u64::from(*count) * LEAST_PART >= u64::from(per_node);
        let counts: BTreeSet<u32> = counts.filter(is_small).collect();
        let fits = |per_node: &u32| {
            let change = Change::Gpus { nodes, per_node: *per_node };
            room::fits(self.snapshot, &ChangeSet::new(change, None).applied(self.request))
        };
        counts.into_iter().rev().find(fits).filter(|_| !room::fits(self.snapshot, self.request))
    }

    fn is_taken_and_fits(&self, set: &ChangeSet) -> bool {
        self.is_taken(set) && room::fits(self.snapshot, &set.applied(self.request))
    }

    /// Returns fewer CPUs and less memory: the share of a node that corresponds to the GPUs, and the amount
    /// that is left on nodes with free GPUs.
    fn hosts(&self) -> Vec<ChangeSet> {
        let request = self.request;
        if room::gpus_per_node(request) == 0 || request.asks.exclusive {
            return Vec::new();
        }
        let share = room::share(self.snapshot, request);
        let free = room::free(self.snapshot, request);
        let mut list: Vec<ChangeSet> = Vec::new();
        for set in std::iter::once(share).chain(free).filter_map(|host| self.host(host)) {
            if !list.contains(&set) {
                list.push(set);
            }
        }
        // Changes that leave the job the most resources come first.
        let left = |set: &ChangeSet| {
            let asks = set.applied(request).asks;
            (asks.cpus, asks.memory_mib)
        };
        list.sort_by_key(|set| std::cmp::Reverse(left(set)));
        list.truncate(SPLITS);
        list
    }

    /// Returns the changes that limit a request to a node's available CPUs and memory; `None` if there are
    /// none, or if they leave too little.
    fn host(&self, there: FreeHost) -> Option<ChangeSet> {
        let (asks, gpus) = (&self.request.asks, u64::from(room::gpus_per_node(self.request)));
        let known = self.past.memory();
        let mut set = ChangeSet::default();
        if let Some((from, to)) = asks.cpus.zip(there.cpus).filter(|(from, to)| to < from) {
            if to < gpus.max(from.div_ceil(LEAST_PART)) {
                return None;
            }
            set.changes.push(Change::Cpus(to));
            set.drawbacks.push(Drawback::FewerCpus { from, to });
        }
        if let Some((from, to)) = asks.memory_mib.zip(there.memory).filter(|(from, to)| to < from) {
            let to = if to > 1024 { to / 1024 * 1024 } else { to };
            let least = known.map_or(from.div_ceil(LEAST_PART), |(_, least)| least);
            if to == 0 || to < least {
                return None;
            }
            set.changes.push(Change::Memory(to));
            set.drawbacks.push(Drawback::LessMemory { from, to, used: known.map(|(used, _)| used) });
        }
        (!set.changes.is_empty()).then_some(set)
    }
}

/// Returns whether a partition accepts a request: its account, QOS, limit and number of nodes.
pub(super) fn takes(partition: &QueuePartition, snapshot: &Snapshot, request: &Request) -> bool {
    let account = request.account.as_deref().or_else(|| snapshot.own_account());
    let qos = request.further.qos.as_deref().unwrap_or_else(|| snapshot.own_qos(account));
    partition.allows_account(account)
        && partition.allows_qos(Some(qos))
        && partition.max_time_s.is_none_or(|most| request.limit.0 <= most.0)
        && partition.max_nodes.is_none_or(|most| request.asks.nodes <= most)
}

fn preemption(partition: &QueuePartition) -> Option<Drawback> {
    partition.preemptible.then(|| Drawback::MayBePreempted { of: partition.name.clone() })
}

/// Returns whether a GPU certainly has at least the memory of another, according to the table of GPUs.
fn has_the_memory_of(to: &GpuType, from: &GpuType) -> bool {
    let sizes = |gpu_type: &GpuType| -> Vec<u32> {
        let Some(known) = recognise(gpu_type.as_str()) else { return Vec::new() };
        match known.memory_gb() {
            Some(size) => vec![size],
            None => known.gpus.iter().map(|gpu| gpu.memory.gb).collect(),
        }
    };
    let least = sizes(to).into_iter().min();
    least.zip(sizes(from).into_iter().max()).is_some_and(|(to, from)| to >= from)
}
