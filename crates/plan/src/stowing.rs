//! Checks exactly whether all jobs can have their minimum number of replicas at the same time: a search over
//! their types, which also checks the nodes.

use std::collections::{BTreeMap, HashMap};

use crate::Problem;
use crate::stacking::{StackingResult, stack};

/// Maximum number of type choices in a search.
const PATIENCE: u32 = 20_000;

/// Requested blocks of GPUs of one type, by size: the number of GPUs that must be on one node.
type ReplicaBlocks = BTreeMap<u32, u32>;

struct StowSearch<'a> {
    problem: &'a Problem,
    jobs: &'a [usize],
    /// Job indices, those hardest to place first.
    order: Vec<usize>,
    /// Replicas by job and type.
    chosen: Vec<Vec<u32>>,
    /// Free GPUs by type, then node.
    free: Vec<Vec<u32>>,
    taken: Vec<ReplicaBlocks>,
    known: HashMap<(usize, ReplicaBlocks), bool>,
    steps: u32,
}

/// Returns replicas by job and type with which all these jobs have their minimum number at the same time;
/// `None` if that is impossible or takes too long to determine.
pub(super) fn least_replicas(problem: &Problem, jobs: &[usize]) -> Option<Vec<Vec<u32>>> {
    let types = problem.gpu_types.len();
    let of_type =
        |ty: usize| problem.nodes.iter().map(|node| node.gpus[ty]).filter(|&count| count > 0).collect();
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    let hardest = |row: &usize| {
        let model = &problem.jobs[jobs[*row]];
        let usable = (0..types).filter(|&ty| model.types[ty].is_some());
        let (count, block) =
            usable.fold((0, 0), |(count, block), ty| (count + 1, block.max(model.block(ty))));
        (std::cmp::Reverse(block), count, std::cmp::Reverse(model.min_gpus))
    };
    order.sort_by_key(hardest);
    let mut search = StowSearch {
        problem,
        jobs,
        order,
        chosen: vec![vec![0; types]; jobs.len()],
        free: (0..types).map(of_type).collect(),
        taken: vec![ReplicaBlocks::new(); types],
        known: HashMap::new(),
        steps: 0,
    };
    search.place(0).then_some(search.chosen)
}

impl StowSearch<'_> {
    /// Places the jobs from index `at` of the order on; returns whether it finds a way.
    fn place(&mut self, at: usize) -> bool {
        let Some(&row) = self.order.get(at) else { return true };
        self.share(at, 0, self.problem.jobs[self.jobs[row]].min_gpus)
    }

    /// Gives a job this many replicas on the types from `ty` on, preferring the first type, then places the
    /// other jobs; returns whether it finds a way.
    fn share(&mut self, at: usize, ty: usize, left: u32) -> bool {
        self.steps += 1;
        if self.steps > PATIENCE {
            return false;
        }
        if left == 0 {
            return self.place(at + 1);
        }
        let row = self.order[at];
        let model = &self.problem.jobs[self.jobs[row]];
        let Some(type_model) = model.types.get(ty) else { return false };
        let usable = type_model.is_some_and(|type_model| !type_model.single_rank || model.min_gpus == 1);
        let most = if usable { left } else { 0 };
        let (block, size) = (model.block(ty), model.size(ty));
        let blocks = |count: u32| if block == size { count } else { count * size };
        for count in (0..=most).rev() {
            let more = blocks(count);
            if more > 0 {
                *self.taken[ty].entry(block).or_default() += more;
            }
            let fits = more == 0 || self.fits(ty);
            self.chosen[row][ty] = count;
            if fits && self.share(at, ty + 1, left - count) {
                return true;
            }
            if more > 0
                && let Some(count) = self.taken[ty].get_mut(&block)
            {
                *count -= more;
                if *count == 0 {
                    self.taken[ty].remove(&block);
                }
            }
        }
        self.chosen[row][ty] = 0;
        false
    }

    /// Returns whether the occupied GPUs of a type fit on its nodes.
    fn fits(&mut self, ty: usize) -> bool {
        let key = (ty, self.taken[ty].clone());
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let (free, taken) = (&self.free[ty], &key.1);
        let all: u64 = free.iter().map(|&count| u64::from(count)).sum();
        let need: u64 = taken.iter().map(|(&block, &count)| u64::from(block) * u64::from(count)).sum();
        // Single GPUs fit wherever there are enough.
        let blocks = taken.iter().filter(|(block, _)| **block > 1);
        let blocks: Vec<u32> =
            blocks.flat_map(|(&block, &count)| std::iter::repeat_n(block, count as usize)).collect();
        let fits = need <= all && matches!(stack(free, &blocks), StackingResult::On(_));
        self.known.insert(key, fits);
        fits
    }
}
