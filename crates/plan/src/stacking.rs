//! Exact placement of blocks of GPUs of one type on nodes: whether they fit, and where.
//!
//! If each size divides the next larger one, placing the largest blocks first succeeds whenever possible,
//! because a larger block takes exactly the room of several smaller ones. Otherwise a search is needed.

use std::collections::BTreeSet;

/// Maximum number of steps of one search.
const PATIENCE: u32 = 50_000;

/// The result: positions of blocks, or unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StackingResult {
    /// The node of each block, in block order.
    On(Vec<usize>),
    Never,
    /// The search took too long.
    Unknown,
}

/// Places blocks of these sizes on nodes with these numbers of free GPUs.
pub(super) fn stack(free: &[u32], blocks: &[u32]) -> StackingResult {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|&block| std::cmp::Reverse(blocks[block]));
    let mut search = StackSearch {
        left: free.to_vec(),
        blocks,
        order,
        on: vec![0; blocks.len()],
        dead: BTreeSet::new(),
        steps: 0,
    };
    if search.fill() {
        return StackingResult::On(search.on);
    }
    let sizes: BTreeSet<u32> = blocks.iter().copied().filter(|&size| size > 0).collect();
    for &size in &sizes {
        let need: u64 = blocks.iter().map(|&block| u64::from(block / size)).sum();
        let room: u64 = free.iter().map(|&free| u64::from(free / size)).sum();
        if need > room {
            return StackingResult::Never;
        }
    }
    let divide = sizes.iter().zip(sizes.iter().skip(1)).all(|(small, large)| large % small == 0);
    if divide {
        return StackingResult::Never;
    }
    search.left = free.to_vec();
    match search.put(0) {
        true => StackingResult::On(search.on),
        false if search.steps > PATIENCE => StackingResult::Unknown,
        false => StackingResult::Never,
    }
}

struct StackSearch<'a> {
    left: Vec<u32>,
    blocks: &'a [u32],
    /// Blocks by descending size.
    order: Vec<usize>,
    on: Vec<usize>,
    /// Sorted free GPUs of all nodes with which the blocks from some index on did not fit.
    dead: BTreeSet<(usize, Vec<u32>)>,
    steps: u32,
}

impl StackSearch<'_> {
    /// Places each block on the node with the fewest GPUs left over; returns whether all fit.
    fn fill(&mut self) -> bool {
        // Nodes in buckets by their number of free GPUs.
        let most = self.left.iter().copied().max().unwrap_or(0) as usize;
        let mut buckets: Vec<Vec<usize>> = vec![Vec::new(); most + 1];
        for (node, &free) in self.left.iter().enumerate().rev() {
            buckets[free as usize].push(node);
        }
        for place in 0..self.order.len() {
            let block = self.order[place];
            let size = self.blocks[block] as usize;
            let Some(bucket) = (size..=most).find(|&free| !buckets[free].is_empty()) else { return false };
            let Some(node) = buckets[bucket].pop() else { return false };
            buckets[bucket - size].push(node);
            self.on[block] = node;
        }
        true
    }

    /// Tries all placements of the blocks from index `place` on; returns whether one was found.
    fn put(&mut self, place: usize) -> bool {
        self.steps += 1;
        if self.steps > PATIENCE {
            return false;
        }
        let Some(&block) = self.order.get(place) else { return true };
        let mut sorted = self.left.clone();
        sorted.sort_unstable();
        let state = (place, sorted);
        if self.dead.contains(&state) {
            return false;
        }
        let size = self.blocks[block];
        let mut tried = BTreeSet::new();
        for node in 0..self.left.len() {
            if self.left[node] < size || !tried.insert(self.left[node]) {
                continue;
            }
            self.left[node] -= size;
            self.on[block] = node;
            if self.put(place + 1) {
                return true;
            }
            self.left[node] += size;
        }
        self.dead.insert(state);
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fits(free: &mut Vec<u32>, blocks: &[u32]) -> bool {
        let Some((&first, rest)) = blocks.split_first() else { return true };
        (0..free.len()).any(|node| {
            if free[node] < first {
                return false;
            }
            free[node] -= first;
            let fits = fits(free, rest);
            free[node] += first;
            fits
        })
    }

    #[test]
    fn the_largest_first_is_not_always_right() {
        assert!(matches!(stack(&[6, 5], &[5, 3, 3]), StackingResult::On(nodes) if nodes == [1, 0, 0]));
        assert_eq!(stack(&[6, 6], &[4, 4, 4]), StackingResult::Never);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn equals_brute_force(
            free in proptest::collection::vec(0_u32..9, 1..4),
            blocks in proptest::collection::vec(1_u32..7, 0..7),
        ) {
            let expected = fits(&mut free.clone(), &blocks);
            match stack(&free, &blocks) {
                StackingResult::On(nodes) => {
                    prop_assert!(expected);
                    let mut left = free.clone();
                    for (&node, &size) in nodes.iter().zip(&blocks) {
                        prop_assert!(left[node] >= size);
                        left[node] -= size;
                    }
                }
                StackingResult::Never => prop_assert!(!expected),
                StackingResult::Unknown => prop_assert!(false, "{free:?} {blocks:?}"),
            }
        }
    }
}
