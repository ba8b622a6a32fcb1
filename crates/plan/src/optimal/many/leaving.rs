//! Makes room for jobs that no longer fit on the nodes: other jobs release GPUs and are placed again.

use std::cmp::Reverse;

use crate::optimal::layout::RingPlacement;
use crate::optimal::many::nodes::{OnNodes, largest_block};

/// Maximum number of placements while room is made, per job of the market.
const LEAVING: usize = 4;

/// Jobs whose departure leaves room on a node.
struct Departure {
    gpu_type: usize,
    jobs: Vec<usize>,
    /// The largest number of GPUs that one of these jobs needs on one node, and the number of all their GPUs.
    harm: (u32, u32),
}

impl OnNodes<'_, '_> {
    /// Places jobs for which too few GPUs are left, or too few on one node: other jobs release GPUs, and are
    /// placed again. `None` if that takes too many placements, or if no jobs can make room.
    pub(super) fn make_room(&mut self, mut waiting: Vec<usize>) -> Option<()> {
        let patience = LEAVING * self.places.len();
        for _ in 0..=patience {
            let block = |&job: &usize| largest_block(self.pricers[job].job);
            let next = (0..waiting.len()).max_by_key(|&at| (block(&waiting[at]), Reverse(waiting[at])));
            let Some(next) = next else { return Some(()) };
            let job = waiting.swap_remove(next);
            if let Some(place) = self.best_place(job, Some(self.prices)) {
                self.put(job, place);
                continue;
            }
            for leaving in self.leaving_for(job)? {
                let nowhere = RingPlacement::nowhere(self.layout.room.len());
                let place = std::mem::replace(&mut self.places[leaving], nowhere);
                self.layout.give_back(&place);
                waiting.push(leaving);
            }
            let place = self.best_place(job, Some(self.prices))?;
            self.put(job, place);
        }
        None
    }

    /// Returns the jobs that release GPUs for a job; `None` if that is impossible. If its replicas need
    /// several GPUs on one node, these are the jobs on a node that need the fewest GPUs on one node. Jobs
    /// that need at least as many as this one stay, unless they can do with fewer replicas.
    fn leaving_for(&self, job: usize) -> Option<Vec<usize>> {
        let model = self.pricers[job].job;
        if !model.needs_blocks() {
            return self.leaving_anywhere(job);
        }
        let holders = self.holders();
        let mut best: Option<Departure> = None;
        for gpu_type in (0..model.types.len()).filter(|&ty| model.types[ty].is_some()) {
            for (node, holders) in holders.iter().enumerate() {
                let found = self.departure(node, holders, gpu_type, model.block(gpu_type));
                let is_better = |found: &Departure| best.as_ref().is_none_or(|best| found.harm < best.harm);
                best = found.filter(is_better).or(best);
            }
        }
        let Departure { gpu_type, jobs: mut leaving, .. } = best?;
        // Jobs that can use any GPUs of the type have no nodes yet. They release the GPUs that are still
        // missing.
        let is_anywhere = |job: usize| self.places[job].node.is_none() && self.places[job].blocks.is_empty();
        let freed: u32 = leaving.iter().map(|&job| self.places[job].gpus[gpu_type]).sum();
        let need = model.block(gpu_type).saturating_sub(self.layout.room[gpu_type] + freed);
        leaving.extend(self.holders_of(gpu_type, need, is_anywhere)?);
        Some(leaving)
    }

    /// Returns the jobs with GPUs that are bound to a node, by node.
    pub(super) fn holders(&self) -> Vec<Vec<usize>> {
        holders(&self.places, self.layout.nodes().len())
    }

    /// Returns the jobs whose departure leaves a block of GPUs of a type free on a node; `None` if all that
    /// may leave hold too few.
    fn departure(&self, node: usize, holders: &[usize], gpu_type: usize, block: u32) -> Option<Departure> {
        let largest = |job: usize| largest_block(self.pricers[job].job);
        let may_leave = |job: &usize| largest(*job) < block || self.has_more(*job);
        let mut others: Vec<(u32, usize, u32)> = holders
            .iter()
            .filter(|job| may_leave(job))
            .map(|&job| (largest(job), job, self.held(job, node, gpu_type)))
            .filter(|&(_, _, held)| held > 0)
            .collect();
        others.sort_unstable();
        let (mut free, mut harm, mut jobs) = (self.layout.nodes()[node][gpu_type], (0, 0), Vec::new());
        for (largest, job, held) in others {
            if free >= block {
                break;
            }
            free += held;
            harm = (largest.max(harm.0), harm.1 + self.places[job].gpus.iter().sum::<u32>());
            jobs.push(job);
        }
        (free >= block).then_some(Departure { gpu_type, jobs, harm })
    }

    /// Returns the jobs that release GPUs for a job that can use GPUs of any node.
    fn leaving_anywhere(&self, job: usize) -> Option<Vec<usize>> {
        let model = self.pricers[job].job;
        let usable = (0..model.types.len()).filter(|&ty| model.types[ty].is_some());
        usable
            .filter_map(|ty| {
                let need = model.size(ty).saturating_sub(self.layout.room[ty]);
                self.holders_of(ty, need, |other| self.has_more(other))
            })
            .min_by_key(Vec::len)
    }

    /// Returns jobs that together hold at least this many GPUs of a type, those with the most first; `None`
    /// if there are too few.
    fn holders_of(&self, gpu_type: usize, need: u32, may: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
        let held = |job: usize| self.places[job].gpus[gpu_type];
        let mut holders: Vec<usize> =
            (0..self.places.len()).filter(|&job| held(job) > 0 && may(job)).collect();
        holders.sort_by_key(|&job| (Reverse(held(job)), job));
        let mut found = 0;
        let is_needed = |job: &usize| {
            let is_needed = found < need;
            found += held(*job);
            is_needed
        };
        let taken: Vec<usize> = holders.into_iter().take_while(is_needed).collect();
        (taken.iter().map(|&job| held(job)).sum::<u32>() >= need).then_some(taken)
    }

    /// Returns whether a job has more replicas than it needs.
    fn has_more(&self, job: usize) -> bool {
        let model = self.pricers[job].job;
        model.replicas_in(&self.places[job].gpus).iter().sum::<u32>() > model.min_gpus
    }

    /// Returns the number of a job's GPUs of a type that are bound to this node.
    pub(super) fn held(&self, job: usize, node: usize, gpu_type: usize) -> u32 {
        let place = &self.places[job];
        let ring = if place.node == Some(node) { place.gpus[gpu_type] } else { 0 };
        let blocks = place.blocks.iter().filter(|slot| (slot.node, slot.gpu_type) == (node, gpu_type));
        ring + blocks.map(|slot| slot.count).sum::<u32>()
    }
}

/// Returns the jobs with GPUs that are bound to a node, by node; each job once.
fn holders(places: &[RingPlacement], nodes: usize) -> Vec<Vec<usize>> {
    let mut holders: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (job, place) in places.iter().enumerate() {
        for node in place.node.into_iter().chain(place.blocks.iter().map(|slot| slot.node)) {
            // A job may have replicas of two types on a node.
            if holders[node].last() != Some(&job) {
                holders[node].push(job);
            }
        }
    }
    holders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Slot;

    #[test]
    fn a_job_with_replicas_of_two_types_on_a_node_holds_it_once() {
        let block = |node, gpu_type| Slot { node, gpu_type, count: 2 };
        let blocks = vec![block(1, 0), block(0, 0), block(1, 1)];
        let across = RingPlacement { gpus: vec![4, 2], blocks, ..RingPlacement::nowhere(2) };
        let inside = RingPlacement { gpus: vec![1, 0], node: Some(1), ..RingPlacement::nowhere(2) };
        assert_eq!(holders(&[across, inside], 3), [vec![0], vec![0, 1], vec![]]);
    }
}
