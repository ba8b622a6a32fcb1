//! The free GPUs of nodes and the GPUs that each job holds, updated from one decision to the next.

mod packer;
mod repack;

use std::collections::{BTreeMap, BTreeSet};

use crate::{Basis, Problem, ProblemChanges, Sharing, Slot};
use hsched_model::RankNeeds;

pub use self::packer::Want;
pub use self::repack::Repacking;

/// The GPUs of a problem, as a policy allocates them.
///
/// Nodes are indexed by the number of their free GPUs of each type, so that finding room does not visit all
/// nodes.
#[derive(Default)]
pub struct Floor {
    /// Free GPUs by node and type.
    free: Vec<Vec<u32>>,
    /// Nodes by type and number of free GPUs.
    by_free: Vec<Vec<BTreeSet<usize>>>,
    /// Free GPUs by type.
    pub idle: Vec<u32>,
    /// GPUs by type, free or held.
    pub total: Vec<u32>,
    /// GPUs by node and type, free or held.
    size: Vec<Vec<u32>>,
    /// The largest number of GPUs of each type on one node.
    pub largest: Vec<u32>,
    /// The GPUs held by each job.
    held: Vec<Vec<Slot>>,
    /// Jobs with GPUs on each node.
    on_node: Vec<BTreeSet<usize>>,
    /// Jobs on several nodes that would fit on one, by type, with the saving per epoch in seconds if it was
    /// computed.
    spread: Vec<BTreeMap<usize, Option<f64>>>,
    /// Types with GPUs freed since the last repacking.
    freed: Vec<bool>,
    /// The largest needs besides a GPU among the ranks of all jobs so far, including jobs that have left.
    needs: RankNeeds,
    /// How the batches of jobs are divided.
    sharing: Sharing,
}

impl Floor {
    /// Returns an empty floor for a policy that divides batches in this way.
    pub fn new(sharing: Sharing) -> Self {
        Self { sharing, ..Self::default() }
    }

    /// Updates the changed jobs and nodes; returns whether everything may have changed, so that earlier data
    /// about types and jobs are invalid.
    pub fn sync(&mut self, problem: &Problem) -> bool {
        let ProblemChanges::Since { came, left, other } = &problem.changed else {
            self.rebuild(problem);
            return true;
        };
        let needs = came.iter().map(|&job| problem.jobs[job].needs).fold(self.needs, RankNeeds::max);
        if needs != self.needs || self.size.len() != problem.nodes.len() {
            self.rebuild(problem);
            return false;
        }
        self.held.resize(problem.jobs.len().max(self.held.len()), Vec::new());
        for &job in left.iter().chain(other).chain(came) {
            self.release(job);
        }
        for &job in other.iter().chain(came) {
            self.take_held(problem, job);
        }
        false
    }

    /// Recomputes everything.
    fn rebuild(&mut self, problem: &Problem) {
        let jobs: Vec<usize> = problem.present().collect();
        self.needs = jobs.iter().map(|&job| problem.jobs[job].needs).fold(self.needs, RankNeeds::max);
        let is_decided = |job: &usize| problem.jobs[*job].progress.is_decided_on();
        let decided: Vec<usize> = jobs.iter().copied().filter(is_decided).collect();
        let mut size = problem.offered_to(&decided, Basis::Free);
        for (gpus, node) in size.iter_mut().zip(&problem.nodes) {
            // The host's CPUs and memory limit the number of ranks, which are assigned to the types in order.
            let mut ranks = node.host.map_or(u64::MAX, |host| host.ranks(self.needs));
            for count in gpus {
                *count = u32::try_from(ranks.min(u64::from(*count))).unwrap_or(*count);
                ranks -= u64::from(*count);
            }
        }
        let types = problem.gpu_types.len();
        self.free.clone_from(&size);
        self.by_free = (0..types)
            .map(|ty| {
                let most = size.iter().map(|node| node[ty]).max().unwrap_or(0);
                let mut nodes = vec![BTreeSet::new(); most as usize + 1];
                for (number, node) in size.iter().enumerate().filter(|(_, node)| node[ty] > 0) {
                    nodes[node[ty] as usize].insert(number);
                }
                nodes
            })
            .collect();
        self.total = (0..types).map(|ty| size.iter().map(|node| node[ty]).sum()).collect();
        self.largest = (0..types).map(|ty| size.iter().map(|node| node[ty]).max().unwrap_or(0)).collect();
        self.idle.clone_from(&self.total);
        self.on_node = vec![BTreeSet::new(); size.len()];
        self.size = size;
        self.held = vec![Vec::new(); problem.jobs.len()];
        self.spread = vec![BTreeMap::new(); types];
        self.freed = vec![true; types];
        for job in decided {
            self.take_held(problem, job);
        }
    }

    fn take_held(&mut self, problem: &Problem, job: usize) {
        let slots: Vec<Slot> =
            problem.jobs[job].progress.running().flat_map(|hold| hold.slots.clone()).collect();
        self.hold(job, slots);
    }

    /// Returns the GPUs of a job.
    pub fn held(&self, job: usize) -> &[Slot] {
        self.held.get(job).map_or(&[], Vec::as_slice)
    }

    /// Returns the GPUs by type that a job holds.
    pub fn counts(&self, job: usize) -> Vec<u32> {
        let mut counts = vec![0; self.total.len()];
        self.held(job).iter().for_each(|slot| counts[slot.gpu_type] += slot.count);
        counts
    }

    /// Returns the GPUs by node and type, free or held.
    pub fn sizes(&self) -> &[Vec<u32>] {
        &self.size
    }

    /// Marks these GPUs as held by the job.
    fn hold(&mut self, job: usize, slots: Vec<Slot>) {
        for slot in &slots {
            let free = self.free[slot.node][slot.gpu_type];
            self.set_free(slot, free.saturating_sub(slot.count));
            self.on_node[slot.node].insert(job);
        }
        if slots.iter().any(|slot| slot.node != slots[0].node)
            && let Some((gpu_type, _)) = self.one_type(&slots)
        {
            self.spread[gpu_type].insert(job, None);
        }
        if self.held.len() <= job {
            self.held.resize(job + 1, Vec::new());
        }
        self.held[job] = slots;
    }

    /// Marks the job's GPUs as free.
    pub fn release(&mut self, job: usize) {
        let Some(slots) = self.held.get_mut(job).map(std::mem::take) else { return };
        for slot in &slots {
            let free = self.free[slot.node][slot.gpu_type] + slot.count;
            self.set_free(slot, free.min(self.size[slot.node][slot.gpu_type]));
            self.on_node[slot.node].remove(&job);
            self.freed[slot.gpu_type] = true;
            self.spread[slot.gpu_type].remove(&job);
        }
    }

    fn set_free(&mut self, slot: &Slot, count: u32) {
        let free = &mut self.free[slot.node][slot.gpu_type];
        let nodes = &mut self.by_free[slot.gpu_type];
        nodes[*free as usize].remove(&slot.node);
        nodes[count as usize].insert(slot.node);
        self.idle[slot.gpu_type] = self.idle[slot.gpu_type] + count - *free;
        *free = count;
    }

    /// Returns the node with the fewest GPUs of a type left over after taking this many.
    fn best_fit(&self, gpu_type: usize, count: u32) -> Option<usize> {
        self.by_free[gpu_type].get(count as usize..)?.iter().find_map(|nodes| nodes.first()).copied()
    }
}
