//! GPUs by node and type: what an attempt was planned on, and what it holds.

use std::collections::BTreeMap;
use std::fmt;

use crate::model::{GpuType, NodeName, Offer, PlacedRank};

/// Numbers of GPUs by node and type, all above zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpus(pub BTreeMap<NodeName, BTreeMap<GpuType, u32>>);

impl Gpus {
    /// Returns the GPUs of these ranks, one each.
    #[must_use]
    pub fn of(ranks: &[PlacedRank]) -> Self {
        let mut gpus = Self::default();
        for rank in ranks {
            gpus.add(&rank.node, &rank.gpu_type, 1);
        }
        gpus
    }

    /// Adds some GPUs.
    pub fn add(&mut self, node: &NodeName, gpu_type: &GpuType, count: u32) {
        if count > 0 {
            *self.0.entry(node.clone()).or_default().entry(gpu_type.clone()).or_default() += count;
        }
    }

    /// Returns each node's GPUs of each type.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeName, &GpuType, u32)> {
        self.0
            .iter()
            .flat_map(|(node, own)| own.iter().map(move |(gpu_type, &count)| (node, gpu_type, count)))
    }

    /// Returns the number of GPUs by type.
    #[must_use]
    pub fn by_type(&self) -> BTreeMap<GpuType, u32> {
        let mut sum = BTreeMap::new();
        for (_, gpu_type, count) in self.iter() {
            *sum.entry(gpu_type.clone()).or_default() += count;
        }
        sum
    }

    /// Returns the number of GPUs.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.iter().map(|(_, _, count)| count).sum()
    }

    /// Returns whether an offer has these GPUs, by type.
    pub(super) fn fit_in(&self, offer: &Offer) -> bool {
        let offered = |gpu_type: &GpuType| offer.nodes.iter().map(|node| node.count(gpu_type)).sum::<u32>();
        self.by_type().iter().all(|(gpu_type, &count)| offered(gpu_type) >= count)
    }

    /// Takes these GPUs out of an offer: from their own nodes, else from others that they may be on, for Slurm gives
    /// an attempt that still waits any nodes of the right kind.
    pub(super) fn take_from(&self, offer: &mut Offer, may_be_on: &dyn Fn(&NodeName) -> bool) {
        let mut missing: BTreeMap<&GpuType, u32> = BTreeMap::new();
        for (name, gpu_type, count) in self.iter() {
            let own = offer.nodes.iter_mut().find(|node| node.name == *name);
            let stock = own.and_then(|node| node.gpus.iter_mut().find(|(own, _)| own == gpu_type));
            let taken = stock.map_or(0, |(_, free)| take(free, count));
            *missing.entry(gpu_type).or_default() += count - taken;
        }
        for node in offer.nodes.iter_mut().filter(|node| may_be_on(&node.name)) {
            for (gpu_type, free) in &mut node.gpus {
                if let Some(left) = missing.get_mut(gpu_type) {
                    *left -= take(free, *left);
                }
            }
        }
        for node in &mut offer.nodes {
            node.gpus.retain(|(_, count)| *count > 0);
        }
        offer.nodes.retain(|node| !node.gpus.is_empty());
    }
}

fn take(free: &mut u32, wanted: u32) -> u32 {
    let taken = wanted.min(*free);
    *free -= taken;
    taken
}

impl fmt::Display for Gpus {
    /// Writes the numbers by type: `2 t4 + 3 v100`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<String> =
            self.by_type().iter().map(|(gpu_type, count)| format!("{count} {gpu_type}")).collect();
        f.pad(&types.join(" + "))
    }
}
