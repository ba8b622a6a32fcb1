//! The paper's auction for replicas of several GPUs: a category gives each job some GPUs, which are converted
//! to whole replicas.
//!
//! Every job starts with the type on which its GPUs are most effective. Replicas then leave overfull types,
//! first those with the smallest loss per freed GPU. With single GPUs this is a transportation problem; with
//! replicas it is a knapsack problem, for which this is a good but not always optimal heuristic.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::optimal::{inside, merge};
use crate::stacking::{StackingResult, stack};
use crate::{JobModel, Problem, Slot, cost, packing};

/// Replicas of jobs by type, and the capacity of nodes.
#[derive(Clone, Debug)]
pub(super) struct ReplicaMarket {
    /// Replicas by job and type.
    pub bundles: Vec<Vec<u32>>,
    /// By type: the number of blocks of each used size that nodes hold.
    room: Vec<BTreeMap<u32, u32>>,
    /// By type: occupied blocks by size.
    taken: Vec<BTreeMap<u32, u32>>,
}

/// A replica that leaves a type, and the type and number of the replicas of another type that replace it, if
/// any.
struct ReplicaMove {
    row: usize,
    from: usize,
    to: Option<(usize, u32)>,
}

impl ReplicaMarket {
    /// Returns the market of some jobs; `None` if all replicas are single GPUs.
    pub(super) fn new(problem: &Problem, jobs: &[usize]) -> Option<Self> {
        if !jobs.iter().any(|&job| problem.jobs[job].has_several_gpus()) {
            return None;
        }
        let types = problem.gpu_types.len();
        let mut room = vec![BTreeMap::from([(1, 0)]); types];
        for (ty, room) in room.iter_mut().enumerate() {
            room.extend(jobs.iter().map(|&job| (problem.jobs[job].block(ty), 0)));
            for (&size, count) in room {
                *count = problem.nodes.iter().map(|node| node.gpus[ty] / size).sum();
            }
        }
        Some(Self { bundles: Vec::new(), room, taken: Vec::new() })
    }

    /// Gives each job replicas, at first on at most this many GPUs; `value` is the value of a replica by row
    /// and type. Returns whether all jobs have their minimum number.
    pub(super) fn solve(
        &mut self,
        problem: &Problem,
        jobs: &[usize],
        category: &[u32],
        value: &dyn Fn(usize, usize) -> f64,
    ) -> bool {
        self.taken = vec![BTreeMap::new(); self.room.len()];
        self.bundles.clear();
        for (row, (&job, &gpus)) in jobs.iter().zip(category).enumerate() {
            let Some(bundle) = self.first(&problem.jobs[job], gpus, &|ty| value(row, ty)) else {
                return false;
            };
            for (ty, &count) in bundle.iter().enumerate() {
                self.take(&problem.jobs[job], ty, count);
            }
            self.bundles.push(bundle);
        }
        // A job returns to a type that it has left only if the type has room.
        let mut left = vec![vec![false; self.room.len()]; jobs.len()];
        while let Some(full) = (0..self.room.len()).find(|&ty| !self.fits(ty)) {
            let move_away = self.least_loss(problem, jobs, full, value, &|market, _, to| market.fits(to));
            let move_away = move_away.or_else(|| {
                // Another job may free a place there by leaving.
                self.least_loss(problem, jobs, full, value, &|_, row, to| !left[row][to])
            });
            let Some(move_away) = move_away else { return false };
            let model = &problem.jobs[jobs[move_away.row]];
            left[move_away.row][move_away.from] = true;
            self.bundles[move_away.row][move_away.from] -= 1;
            self.give_back(model, move_away.from, 1);
            if let Some((to, count)) = move_away.to {
                self.bundles[move_away.row][to] += count;
                self.take(model, to, count);
            }
        }
        true
    }

    /// Returns the maximum number of replicas of a job on a type, if it were alone.
    fn alone(&self, job: &JobModel, ty: usize) -> u32 {
        self.room[ty][&job.block(ty)] / (job.size(ty) / job.block(ty))
    }

    /// Returns the replicas with the highest value per GPU within this many GPUs; `None` if they are fewer
    /// than the minimum number.
    fn first(&self, job: &JobModel, gpus: u32, value: &dyn Fn(usize) -> f64) -> Option<Vec<u32>> {
        let mut types: Vec<usize> = (0..job.types.len()).filter(|&ty| value(ty).is_finite()).collect();
        let worth = |ty: usize| value(ty) / f64::from(job.size(ty));
        types.sort_by(|&a, &b| worth(b).total_cmp(&worth(a)).then(a.cmp(&b)));
        let mut bundle = vec![0; job.types.len()];
        let (mut gpus, mut most) = (gpus, job.max_gpus);
        for ty in types {
            bundle[ty] = (gpus / job.size(ty)).min(self.alone(job, ty)).min(most);
            gpus -= bundle[ty] * job.size(ty);
            most -= bundle[ty];
        }
        (bundle.iter().sum::<u32>() >= job.min_gpus.max(1)).then_some(bundle)
    }

    fn take(&mut self, job: &JobModel, ty: usize, replicas: u32) {
        let (block, size) = (job.block(ty), job.size(ty));
        *self.taken[ty].entry(block).or_default() += replicas * (size / block);
    }

    fn give_back(&mut self, job: &JobModel, ty: usize, replicas: u32) {
        let (block, size) = (job.block(ty), job.size(ty));
        *self.taken[ty].entry(block).or_default() -= replicas * (size / block);
    }

    /// Returns whether the occupied blocks of a type fit by all counts; this is certain only if block sizes
    /// divide one another.
    fn fits(&self, ty: usize) -> bool {
        let is_enough = |(&size, &room): (&u32, &u32)| {
            self.taken[ty].iter().map(|(&block, &count)| block / size * count).sum::<u32>() <= room
        };
        self.room[ty].iter().all(is_enough)
    }

    /// Returns the replica that leaves a full type with the smallest loss per freed GPU, among those that the
    /// job does not need and those that fit elsewhere under the condition `may`.
    fn least_loss(
        &mut self,
        problem: &Problem,
        jobs: &[usize],
        full: usize,
        value: &dyn Fn(usize, usize) -> f64,
        may: &dyn Fn(&Self, usize, usize) -> bool,
    ) -> Option<ReplicaMove> {
        let mut best: Option<(f64, ReplicaMove)> = None;
        for (row, &job) in jobs.iter().enumerate() {
            let model = &problem.jobs[job];
            let others = self.bundles[row].iter().sum::<u32>().saturating_sub(1);
            if self.bundles[row][full] == 0 {
                continue;
            }
            let freed = model.size(full);
            let mut consider = |to: Option<(usize, u32)>| {
                let gained = to.map_or(0.0, |(ty, count)| f64::from(count) * value(row, ty));
                let loss = (value(row, full) - gained) / f64::from(freed);
                if best.as_ref().is_none_or(|(least, _)| loss < *least) {
                    best = Some((loss, ReplicaMove { row, from: full, to }));
                }
            };
            if others >= model.min_gpus.max(1) {
                consider(None);
            }
            for to in (0..self.room.len()).filter(|&ty| ty != full && value(row, ty).is_finite()) {
                // A replica that the job needs may take more GPUs than it releases.
                let least = u32::from(others < model.min_gpus.max(1));
                let room = self.alone(model, to) - self.bundles[row][to];
                let moved =
                    (freed / model.size(to)).max(least).min(room).min(model.max_gpus.saturating_sub(others));
                if moved == 0 || others + moved < model.min_gpus {
                    continue;
                }
                self.take(model, to, moved);
                let is_able = may(self, row, to);
                self.give_back(model, to, moved);
                if is_able {
                    consider(Some((to, moved)));
                }
            }
        }
        best.map(|(_, least)| least)
    }
}

/// Places each job's replicas on nodes: jobs that save most by staying on one node choose first. If that
/// leaves replicas without a node, all replicas are placed by descending size. `None` if they do not fit.
pub(super) fn pack(problem: &Problem, jobs: &[usize], bundles: &[Vec<u32>]) -> Option<Vec<Vec<Slot>>> {
    let all = || problem.nodes.iter().map(|node| node.gpus.clone()).collect::<Vec<_>>();
    let saving = |row: usize| {
        let model = &problem.jobs[jobs[row]];
        let gpus = model.gpus(&bundles[row]);
        let able = problem.nodes.iter().filter(|node| packing::holds(&node.gpus, &gpus));
        let inside = able.map(|node| node.intra_node.bytes_per_second()).max_by(f64::total_cmp)?;
        let comm = |rate: f64| cost::comm_time(model, bundles[row].iter().sum(), rate);
        let gain = comm(problem.network.bytes_per_second()) - comm(inside);
        Some(model.weight * model.completion_time(gain))
    };
    let savings: Vec<f64> = (0..jobs.len()).map(|row| saving(row).unwrap_or(0.0)).collect();
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by(|&a, &b| savings[b].total_cmp(&savings[a]).then(a.cmp(&b)));
    let mut free = all();
    let mut slots = vec![Vec::new(); jobs.len()];
    let in_turn = order.iter().all(|&row| {
        let found = one_by_one(&problem.jobs[jobs[row]], &mut free, &bundles[row]);
        found.map(|placed| slots[row] = placed).is_some()
    });
    if in_turn { Some(slots) } else { largest_first(problem, jobs, bundles, &all()) }
}

/// Places a job's replicas together on the node with the fewest GPUs left over, or else each on the node with
/// the fewest left over.
fn one_by_one(job: &JobModel, free: &mut [Vec<u32>], bundle: &[u32]) -> Option<Vec<Slot>> {
    let gpus = job.gpus(bundle);
    let fullest = |node: &usize| free[*node].iter().sum::<u32>();
    let whole = (0..free.len()).filter(|&node| packing::holds(&free[node], &gpus)).min_by_key(fullest);
    if let Some(node) = whole {
        free[node].iter_mut().zip(&gpus).for_each(|(free, count)| *free -= count);
        return Some(inside(node, &gpus));
    }
    let mut slots = Vec::new();
    for (gpu_type, &count) in bundle.iter().enumerate() {
        let block = job.block(gpu_type);
        for _ in 0..count * (job.size(gpu_type) / block) {
            let able = (0..free.len()).filter(|&node| free[node][gpu_type] >= block);
            let node = able.min_by_key(|&node| (free[node][gpu_type], node))?;
            free[node][gpu_type] -= block;
            slots.push(Slot { node, gpu_type, count: block });
        }
    }
    merge(&mut slots);
    Some(slots)
}

/// Places the blocks of all jobs on nodes, type by type; `None` if they do not fit, or if the check takes too
/// long.
fn largest_first(
    problem: &Problem,
    jobs: &[usize],
    bundles: &[Vec<u32>],
    free: &[Vec<u32>],
) -> Option<Vec<Vec<Slot>>> {
    let mut slots = vec![Vec::new(); jobs.len()];
    for gpu_type in 0..problem.gpu_types.len() {
        let mut blocks = Vec::new();
        for (row, (&job, bundle)) in jobs.iter().zip(bundles).enumerate() {
            let model = &problem.jobs[job];
            let block = model.block(gpu_type);
            let count = bundle[gpu_type] * (model.size(gpu_type) / block);
            blocks.extend((0..count).map(|_| (block, row)));
        }
        blocks.sort_by_key(|&(block, row)| (Reverse(block), row));
        let free: Vec<u32> = free.iter().map(|node| node[gpu_type]).collect();
        let sizes: Vec<u32> = blocks.iter().map(|&(block, _)| block).collect();
        let StackingResult::On(nodes) = stack(&free, &sizes) else { return None };
        for (node, (count, row)) in nodes.into_iter().zip(blocks) {
            slots[row].push(Slot { node, gpu_type, count });
        }
    }
    slots.iter_mut().for_each(merge);
    Some(slots)
}
