//! Shapes: the needs of jobs, numbered; equal needs share one shape.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::constraint::{may_use, meets};
use crate::{Asks, NodeUse, QueueNode, Snapshot};
use hsched_model::GpuType;

/// Amounts by resource index.
pub(super) type Amounts = Arc<[(u16, u64)]>;

/// The needs of a job, and its possible nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    /// Number of nodes needed.
    pub nodes: u32,
    /// Amounts needed on each node.
    pub demand: Amounts,
    /// GPUs of any type needed on each node.
    pub untyped: u64,
    /// Whether a node must be empty and is then completely used.
    pub whole: bool,
    /// Indices of node sets; a job of this shape may use one of them.
    pub places: Vec<usize>,
    /// Index of the jobs' reservation.
    pub reservation: Option<usize>,
}

/// The shapes of a snapshot, collected as they occur.
pub(super) struct Shapes<'a> {
    snapshot: &'a Snapshot,
    pub gpu_types: Vec<GpuType>,
    pub sets: Vec<Vec<u32>>,
    pub list: Vec<Shape>,
    number_of_set: BTreeMap<Vec<u32>, usize>,
    number_of_shape: BTreeMap<Shape, usize>,
    known: BTreeMap<(Asks, Vec<String>, Option<String>), Option<usize>>,
}

/// Value for an unknown amount; sums of it do not overflow.
const PLENTY: u64 = u64::MAX >> 16;

impl<'a> Shapes<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let stocks = snapshot.nodes.iter().flat_map(|node| &node.gpus);
        let gpu_types: BTreeSet<GpuType> = stocks.map(|gpu| gpu.gpu_type.clone()).collect();
        Self {
            snapshot,
            gpu_types: gpu_types.into_iter().collect(),
            sets: Vec::new(),
            list: Vec::new(),
            number_of_set: BTreeMap::new(),
            number_of_shape: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }

    /// Returns the number of resources: GPU types, CPUs, memory.
    pub(super) fn resources(&self) -> usize {
        self.gpu_types.len() + 2
    }

    /// Returns the index of a GPU type.
    pub(super) fn gpu(&self, gpu_type: &GpuType) -> Option<u16> {
        let place = self.gpu_types.binary_search(gpu_type).ok()?;
        u16::try_from(place).ok()
    }

    /// Returns the indices of CPUs and of memory.
    pub(super) fn host(&self) -> (u16, u16) {
        let cpus = u16::try_from(self.gpu_types.len()).unwrap_or(u16::MAX - 1);
        (cpus, cpus + 1)
    }

    /// Returns a node's total resources.
    pub(super) fn total(&self, node: &QueueNode) -> Vec<u64> {
        let mut total = vec![0; self.resources()];
        for stock in &node.gpus {
            if let Some(number) = self.gpu(&stock.gpu_type) {
                total[usize::from(number)] += u64::from(stock.count);
            }
        }
        let (cpus, memory) = self.host();
        total[usize::from(cpus)] = node.cpus.map_or(PLENTY, |count| count.min(PLENTY));
        total[usize::from(memory)] = node.memory_mib.map_or(PLENTY, |amount| amount.min(PLENTY));
        total
    }

    /// Returns the index of a job's shape in these partitions; `None` if too few nodes could ever hold it, or
    /// if its reservation is unknown.
    pub(super) fn of(
        &mut self,
        asks: &Asks,
        partitions: &[String],
        reservation: Option<&str>,
    ) -> Option<usize> {
        let key = (asks.clone(), partitions.to_vec(), reservation.map(str::to_owned));
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let shape = self.make(asks, partitions, reservation);
        let number = shape.map(|shape| {
            let next = self.list.len();
            let number = *self.number_of_shape.entry(shape.clone()).or_insert(next);
            if number == next {
                self.list.push(shape);
            }
            number
        });
        self.known.insert(key, number);
        number
    }

    fn make(&mut self, asks: &Asks, partitions: &[String], reservation: Option<&str>) -> Option<Shape> {
        let mut demand: BTreeMap<u16, u64> = BTreeMap::new();
        let mut untyped = 0;
        for ask in &asks.gpus {
            match &ask.gpu_type {
                Some(gpu_type) => *demand.entry(self.gpu(gpu_type)?).or_default() += u64::from(ask.count),
                None => untyped += u64::from(ask.count),
            }
        }
        let (cpus, memory) = self.host();
        for (number, amount) in [(cpus, asks.cpus), (memory, asks.memory_mib)] {
            demand.extend(amount.filter(|amount| *amount > 0).map(|amount| (number, amount)));
        }
        demand.retain(|_, amount| *amount > 0);
        let number = match reservation {
            Some(name) => {
                Some(self.snapshot.reservations.iter().position(|reservation| reservation.name == name)?)
            }
            None => None,
        };
        let named: Vec<Option<&str>> = match partitions {
            [] => vec![self.snapshot.default_partition()],
            names => names.iter().map(|name| Some(name.as_str())).collect(),
        };
        let whole = asks.exclusive || self.snapshot.scheduling.whole_nodes || self.is_exclusive(&named);
        let mut shape = Shape {
            nodes: asks.nodes.max(1),
            demand: demand.into_iter().collect(),
            untyped,
            whole,
            places: Vec::new(),
            reservation: number,
        };
        for partition in named {
            let set = self.set(&shape, partition, asks);
            if set.len() >= usize::try_from(shape.nodes).unwrap_or(usize::MAX) {
                let place = self.number_of(set);
                shape.places.push(place);
            }
        }
        shape.places.sort_unstable();
        shape.places.dedup();
        (!shape.places.is_empty()).then_some(shape)
    }

    fn is_exclusive(&self, partitions: &[Option<&str>]) -> bool {
        let mut known = self.snapshot.partitions.iter();
        known.any(|partition| partition.exclusive && partitions.contains(&Some(partition.name.as_str())))
    }

    /// Returns the nodes of a partition that could be one of the shape's nodes if they were empty; none if the
    /// partition starts no jobs.
    fn set(&self, shape: &Shape, partition: Option<&str>, asks: &Asks) -> Vec<u32> {
        let is_kept = |node: &QueueNode| {
            let number = shape.reservation.map(|number| &self.snapshot.reservations[number]);
            number.is_none_or(|reservation| reservation.nodes.contains(&node.name))
        };
        let is_closed = partition.is_some_and(|name| self.snapshot.stopped_partition(name).is_some());
        let could = |node: &QueueNode| {
            let is_in =
                partition.is_none_or(|name| node.partitions.is_empty() || node.partitions.contains(name));
            let total = self.total(node);
            node.usable == NodeUse::Up
                && !is_closed
                && is_in
                && is_kept(node)
                && asks.features.as_deref().is_none_or(|features| meets(features, &node.features))
                && may_use(asks, &node.name)
                && !asks.exclude.contains(&node.name)
                && shape.fits(&total, self.gpu_types.len())
        };
        let numbered = (0..).zip(&self.snapshot.nodes);
        numbered.filter(|(_, node)| could(node)).map(|(number, _)| number).collect()
    }

    fn number_of(&mut self, set: Vec<u32>) -> usize {
        let next = self.sets.len();
        let number = *self.number_of_set.entry(set.clone()).or_insert(next);
        if number == next {
            self.sets.push(set);
        }
        number
    }
}

impl Shape {
    /// Returns whether a node's free resources suffice for one of the shape's nodes; the first `gpu_types`
    /// resources are GPUs.
    pub(super) fn fits(&self, free: &[u64], gpu_types: usize) -> bool {
        let typed = self.demand.iter().all(|&(number, amount)| free[usize::from(number)] >= amount);
        typed && (self.untyped == 0 || self.spare(free, gpu_types) >= self.untyped)
    }

    /// Returns the number of a node's free GPUs beyond the GPUs that the shape requests by type.
    fn spare(&self, free: &[u64], gpu_types: usize) -> u64 {
        let all: u64 = free[..gpu_types].iter().sum();
        let gpus = self.demand.iter().filter(|(number, _)| usize::from(*number) < gpu_types);
        all.saturating_sub(gpus.map(|(_, amount)| amount).sum())
    }

    /// Returns the resources that the shape takes from a node with these free resources, if they suffice.
    pub(super) fn takes(&self, free: &[u64], gpu_types: usize) -> Amounts {
        if self.whole {
            let all = (0..).zip(free).filter(|(_, amount)| **amount > 0);
            return all.map(|(number, amount)| (number, *amount)).collect();
        }
        if self.untyped == 0 {
            return Arc::clone(&self.demand);
        }
        let mut taken: BTreeMap<u16, u64> = self.demand.iter().copied().collect();
        let mut left = self.untyped;
        for (number, amount) in (0..).zip(&free[..gpu_types]) {
            let count = taken.entry(number).or_default();
            let more = left.min(amount.saturating_sub(*count));
            (*count, left) = (*count + more, left - more);
        }
        taken.into_iter().filter(|(_, amount)| *amount > 0).collect()
    }
}
