//! Fills nodes with blocks of GPUs of one type so that few GPUs are left over.

use std::collections::BTreeMap;

use crate::Slot;
use crate::optimal::fit::merge;
use crate::optimal::layout::RingPlacement;
use crate::optimal::many::nodes::OnNodes;

impl OnNodes<'_, '_> {
    /// Places these jobs. If all replicas of a job's bundle, or its ring inside a node, are blocks of GPUs of
    /// one type, the job is placed as tightly as possible, after the others. Jobs that do not fit stay
    /// without GPUs.
    pub(super) fn fill(&mut self, jobs: &[usize], bundle_of: &[usize]) {
        let is_of_blocks = |job: &usize| self.is_of_blocks(*job, bundle_of[*job]);
        let (mut jobs, others): (Vec<usize>, Vec<usize>) = jobs.iter().copied().partition(is_of_blocks);
        for job in others {
            if let Some(place) = self.place(job, bundle_of[job]) {
                self.put(job, place);
            }
        }
        // If the nodes cannot hold all blocks of a size, those of the jobs with the highest cost come first.
        let cost = |job: usize| self.scale(job) * self.list(job).costs[bundle_of[job]];
        jobs.sort_by(|&a, &b| cost(b).total_cmp(&cost(a)).then(a.cmp(&b)));
        // Nodes and sizes of the blocks by job.
        let mut found: BTreeMap<usize, Option<Vec<Slot>>> = BTreeMap::new();
        for gpu_type in 0..self.layout.room.len() {
            let mut blocks: Vec<(usize, u32)> = Vec::new();
            for &job in &jobs {
                blocks.extend(self.blocks(job, bundle_of[job], gpu_type).map(|size| (job, size)));
            }
            let free: Vec<u32> = self.layout.nodes().iter().map(|node| node[gpu_type]).collect();
            let sizes: Vec<u32> = blocks.iter().map(|(_, size)| *size).collect();
            for (node, (job, count)) in fill(&free, &sizes).into_iter().zip(blocks) {
                let slots = found.entry(job).or_insert_with(|| Some(Vec::new()));
                if let (Some(node), Some(slots)) = (node, slots.as_mut()) {
                    slots.push(Slot { node, gpu_type, count });
                } else {
                    *slots = None;
                }
            }
        }
        for (job, slots) in found {
            let Some(mut slots) = slots else { continue };
            merge(&mut slots);
            let list = self.list(job);
            let number = list.bundles[bundle_of[job]];
            let gpus = self.pricers[job].job.gpus(self.kinds.catalogue.counts(number));
            let cost = self.scale(job) / self.weights[job] * list.costs[bundle_of[job]];
            let node = self.kinds.catalogue.is_inside(number).then(|| slots[0].node);
            let blocks = if node.is_some() { Vec::new() } else { slots };
            self.put(job, RingPlacement { gpus, node, blocks, cost });
        }
    }

    /// Returns whether a bundle needs only blocks of GPUs of one type each, on any nodes. A ring inside a
    /// node may need several types, or a node with fast links.
    fn is_of_blocks(&self, job: usize, bundle: usize) -> bool {
        let number = self.list(job).bundles[bundle];
        let types = self.kinds.catalogue.counts(number).iter().filter(|count| **count > 0).count();
        !self.kinds.catalogue.is_inside(number) || types == 1 && self.layout.is_uniform()
    }

    /// Returns the sizes of the blocks of a type that a bundle of blocks needs.
    fn blocks(&self, job: usize, bundle: usize, gpu_type: usize) -> impl Iterator<Item = u32> + use<> {
        let number = self.list(job).bundles[bundle];
        let (count, size) =
            (self.kinds.catalogue.counts(number)[gpu_type], self.pricers[job].job.size(gpu_type));
        let is_one = self.kinds.catalogue.is_inside(number) && count > 0;
        let (number, size) = if is_one { (1, count * size) } else { (count, size) };
        std::iter::repeat_n(size, number as usize)
    }
}

/// Returns the node of each block on nodes with these numbers of free GPUs; `None` for blocks that do not
/// fit.
///
/// One node after the other takes the largest remaining block and those others that leave the fewest GPUs
/// over: the minimum bin slack heuristic of Gupta and Ho (1999).
fn fill(free: &[u32], blocks: &[u32]) -> Vec<Option<usize>> {
    let mut waiting: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (block, &size) in blocks.iter().enumerate().rev() {
        waiting.entry(size).or_default().push(block);
    }
    let mut nodes: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (node, &free) in free.iter().enumerate().rev() {
        nodes.entry(free).or_default().push(node);
    }
    let mut on = vec![None; blocks.len()];
    while let Some((&largest, of_size)) = waiting.last_key_value() {
        if of_size.is_empty() {
            waiting.pop_last();
            continue;
        }
        let table = FillTable::new(&waiting, nodes.last_key_value().map_or(0, |(&free, _)| free));
        let able = nodes.range(largest..);
        let Some((_, free)) = able.map(|(&free, _)| (table.left_over(free), free)).min() else {
            waiting.pop_last();
            continue;
        };
        let Some(node) = nodes.get_mut(&free).and_then(Vec::pop) else { continue };
        if nodes[&free].is_empty() {
            nodes.remove(&free);
        }
        for size in table.sizes(free) {
            if let Some(block) = waiting.get_mut(&size).and_then(Vec::pop) {
                on[block] = Some(node);
            }
        }
    }
    on
}

/// The best fillings of a node that takes the largest block.
struct FillTable {
    /// Block sizes, the largest first, each with its number of remaining blocks; the largest block, which the
    /// node takes in any case, is not counted.
    sizes: Vec<(usize, usize)>,
    /// The most GPUs filled by blocks from an index of `sizes` on, by free GPUs.
    most: Vec<Vec<usize>>,
}

impl FillTable {
    fn new(waiting: &BTreeMap<u32, Vec<usize>>, free: u32) -> Self {
        let mut sizes: Vec<(usize, usize)> =
            waiting.iter().rev().map(|(&size, blocks)| (size as usize, blocks.len())).collect();
        sizes[0].1 -= 1;
        let room = (free as usize).saturating_sub(sizes[0].0);
        let mut most = vec![vec![0; room + 1]; sizes.len() + 1];
        for (at, &(size, count)) in sizes.iter().enumerate().rev() {
            for free in 0..=room {
                let filled = |taken: usize| taken * size + most[at + 1][free - taken * size];
                most[at][free] = (0..=count.min(free / size)).map(filled).max().unwrap_or(0);
            }
        }
        Self { sizes, most }
    }

    /// Returns the number of GPUs left over on a node with this many free.
    fn left_over(&self, free: u32) -> usize {
        let room = free as usize - self.sizes[0].0;
        room - self.most[0][room]
    }

    /// Returns the sizes of the blocks that best fill a node with this many free GPUs, as few and large ones
    /// as possible.
    fn sizes(&self, free: u32) -> Vec<u32> {
        let mut room = free as usize - self.sizes[0].0;
        let mut taken = vec![self.sizes[0].0];
        for (at, &(size, count)) in self.sizes.iter().enumerate() {
            let is_best =
                |&count: &usize| count * size + self.most[at + 1][room - count * size] == self.most[at][room];
            let count = (0..=count.min(room / size)).rev().find(is_best).unwrap_or(0);
            taken.extend(std::iter::repeat_n(size, count));
            room -= count * size;
        }
        taken.into_iter().filter_map(|size| u32::try_from(size).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nodes_are_filled_completely_where_the_largest_first_would_fail() {
        // The largest first would put both blocks of 4 on one node, and leave a block of 3 without a node.
        let on = fill(&[10, 10], &[4, 4, 3, 3, 3, 3]);
        assert!(on.iter().all(Option::is_some), "{on:?}");
        assert_eq!(fill(&[4, 3], &[5, 3, 4, 1]), [None, Some(1), Some(0), None]);
    }

    proptest! {
        #[test]
        fn no_node_is_overfull_and_no_block_is_left_that_fits(
            free in proptest::collection::vec(0_u32..17, 1..6),
            blocks in proptest::collection::vec(1_u32..17, 0..20),
        ) {
            let mut left = free.clone();
            let on = fill(&free, &blocks);
            for (node, size) in on.iter().zip(&blocks) {
                if let Some(node) = *node {
                    prop_assert!(left[node] >= *size);
                    left[node] -= size;
                }
            }
            for (_, size) in on.iter().zip(&blocks).filter(|(node, _)| node.is_none()) {
                prop_assert!(left.iter().all(|left| left < size), "{free:?} {blocks:?} {on:?}");
            }
        }
    }
}
