//! Free GPUs by node and type, sorted so that the best node for some of them is found at once.

use std::collections::BTreeSet;

use crate::policy::{Problem, Slot};

/// The GPUs that nobody holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    /// By node and type; below 0 where more is held than is on offer.
    free: Vec<Vec<i64>>,
    /// The place of each node's link rate among all rates, the fastest first.
    ranks: Vec<usize>,
    /// Nodes by type and number of free GPUs (from 1), by rank of their links.
    by_free: Vec<Vec<BTreeSet<(usize, usize)>>>,
    /// Free GPUs by type on all nodes.
    totals: Vec<i64>,
}

impl Pool {
    /// Returns the pool of these GPUs by node and type.
    pub(super) fn new(problem: &Problem, gpus: &[Vec<u32>]) -> Self {
        let rate = |node: usize| problem.nodes[node].intra_node.bytes_per_second();
        let mut rates: Vec<f64> = (0..gpus.len()).map(rate).collect();
        rates.sort_by(|a, b| b.total_cmp(a));
        rates.dedup();
        let rank = |node: usize| rates.partition_point(|&own| own > rate(node));
        let types = problem.gpu_types.len();
        let mut pool = Self {
            free: vec![vec![0; types]; gpus.len()],
            ranks: (0..gpus.len()).map(rank).collect(),
            by_free: vec![Vec::new(); types],
            totals: vec![0; types],
        };
        for (node, own) in gpus.iter().enumerate() {
            for (gpu_type, &count) in own.iter().enumerate() {
                pool.change(node, gpu_type, count.into());
            }
        }
        pool
    }

    /// Returns the free GPUs by type.
    pub(super) fn totals(&self) -> &[i64] {
        &self.totals
    }

    pub(super) fn free(&self, node: usize, gpu_type: usize) -> i64 {
        self.free[node][gpu_type]
    }

    pub(super) fn take(&mut self, slots: &[Slot]) {
        slots.iter().for_each(|slot| self.change(slot.node, slot.gpu_type, -i64::from(slot.count)));
    }

    pub(super) fn give_back(&mut self, slots: &[Slot]) {
        slots.iter().for_each(|slot| self.change(slot.node, slot.gpu_type, slot.count.into()));
    }

    fn change(&mut self, node: usize, gpu_type: usize, by: i64) {
        let entry = (self.ranks[node], node);
        let free = &mut self.free[node][gpu_type];
        let own = &mut self.by_free[gpu_type];
        if let Ok(before) = usize::try_from(*free)
            && before > 0
        {
            own[before - 1].remove(&entry);
        }
        *free += by;
        self.totals[gpu_type] += by;
        if let Ok(after) = usize::try_from(*free)
            && after > 0
        {
            own.resize(own.len().max(after), BTreeSet::new());
            own[after - 1].insert(entry);
        }
    }

    /// Takes GPUs by type out of the pool: from one node that can hold them all, else each type's from one node where that
    /// can be, else from the emptiest ones. `None` where there are too few.
    pub(super) fn place(&mut self, counts: &[u32]) -> Option<Vec<Slot>> {
        if counts.iter().zip(&self.totals).any(|(&count, &free)| i64::from(count) > free.max(0)) {
            return None;
        }
        let slots = match self.one_node(counts) {
            Some(node) => slots_on(node, counts),
            None => self.several_nodes(counts),
        };
        self.take(&slots);
        Some(slots)
    }

    /// Returns the node that holds them all and that they leave fullest; for several GPUs the one with the fastest links.
    pub(super) fn one_node(&self, counts: &[u32]) -> Option<usize> {
        let (gpu_type, count) = largest(counts)?;
        let ranks: u32 = counts.iter().sum();
        let fits = |node: usize| {
            counts.iter().zip(&self.free[node]).all(|(&count, &free)| count == 0 || i64::from(count) <= free)
        };
        let enough = self.by_free[gpu_type].get(usize::try_from(count).ok()? - 1..)?;
        let first = |nodes: &BTreeSet<(usize, usize)>| nodes.iter().copied().find(|&(_, node)| fits(node));
        let mut found = enough.iter().filter_map(first);
        // Only ranks that talk to each other need fast links.
        if ranks > 1 { found.min_by_key(|&(rank, _)| rank) } else { found.next() }.map(|(_, node)| node)
    }

    /// Returns slots on several nodes; each type's part on one node where that can be.
    fn several_nodes(&self, counts: &[u32]) -> Vec<Slot> {
        let mut slots = Vec::new();
        for (gpu_type, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let mut only = vec![0; counts.len()];
            only[gpu_type] = count;
            match self.one_node(&only) {
                Some(node) => slots.push(Slot { node, gpu_type, count }),
                None => slots.extend(self.emptiest(gpu_type, count)),
            }
        }
        slots
    }

    fn emptiest(&self, gpu_type: usize, count: u32) -> Vec<Slot> {
        let mut left = count;
        let mut slots = Vec::new();
        let by_free = self.by_free[gpu_type].iter().enumerate().rev();
        for (free, node) in by_free.flat_map(|(free, nodes)| nodes.iter().map(move |&(_, node)| (free, node)))
        {
            if left == 0 {
                break;
            }
            let taken = left.min(u32::try_from(free + 1).unwrap_or(left));
            left -= taken;
            slots.push(Slot { node, gpu_type, count: taken });
        }
        slots
    }
}

/// Returns the type with most of these GPUs, and how many.
fn largest(counts: &[u32]) -> Option<(usize, u32)> {
    let own = counts.iter().copied().enumerate().filter(|(_, count)| *count > 0);
    own.max_by_key(|&(gpu_type, count)| (count, std::cmp::Reverse(gpu_type)))
}

pub(super) fn slots_on(node: usize, counts: &[u32]) -> Vec<Slot> {
    let own = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    own.map(|(gpu_type, &count)| Slot { node, gpu_type, count }).collect()
}
