//! Converts GPUs by type to GPUs on nodes: large jobs first, and each type's GPUs on one node if possible.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::kit::floor::{Floor, Repacking};
use crate::{Decision, JobModel, Placement, Problem, Slot};

/// A policy's choice for a job: GPUs by type, or to wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Want {
    pub job: usize,
    /// `None` makes the job wait.
    pub counts: Option<Vec<u32>>,
}

impl Want {
    /// Returns the choice that a job gets these GPUs.
    pub fn place(job: usize, counts: Vec<u32>) -> Self {
        Self { job, counts: Some(counts) }
    }

    /// Returns the choice that makes a job wait.
    pub fn wait(job: usize) -> Self {
        Self { job, counts: None }
    }
}

impl Floor {
    /// Allocates the GPUs of `wants`, and returns the changes; all other jobs keep their nodes. A job without
    /// room waits, or keeps its GPUs if its replicas must each fit on one node.
    ///
    /// Unless `repacking` is off, running jobs may move to other nodes of the same type if that brings spread
    /// jobs together.
    pub fn carry_out(
        &mut self,
        problem: &Problem,
        wants: Vec<Want>,
        repacking: Repacking,
    ) -> Vec<(usize, Decision)> {
        let before: BTreeMap<usize, Vec<Slot>> = self.release_all(problem, &wants);
        let (mut placed, waiting): (Vec<Want>, Vec<Want>) =
            wants.into_iter().partition(|want| want.counts.is_some());
        let mut changes: Vec<(usize, Decision)> = Vec::with_capacity(placed.len() + waiting.len());
        let wait = |job| (job, Decision::Defer { why: "other jobs have priority".to_owned() });
        changes.extend(waiting.into_iter().map(|want| wait(want.job)));
        placed.sort_by_key(|want| Reverse(want.counts.iter().flatten().sum::<u32>()));
        let mut chosen: Vec<(usize, Placement)> = Vec::with_capacity(placed.len());
        for want in placed {
            let counts = want.counts.unwrap_or_default();
            let model = &problem.jobs[want.job];
            let slots = self.find_room(model, &counts);
            if let Some(earlier) =
                before.get(&want.job).filter(|earlier| !all_there(&counts, &slots) && self.has(earlier))
            {
                // The nodes have no room for the job's new GPUs.
                self.hold(want.job, earlier.clone());
                continue;
            }
            let is_enough = all_there(&counts, &slots) || is_enough(model, &slots);
            let placement = Placement::new(problem, want.job, &slots, self.sharing)
                .filter(|_| !slots.is_empty() && is_enough);
            match placement {
                Some(placement) => {
                    self.hold(want.job, slots);
                    chosen.push((want.job, placement));
                }
                None => changes.push(wait(want.job)),
            }
        }
        if repacking != Repacking::Off {
            self.repack(problem, &mut chosen, repacking);
        }
        let place = |(job, placement)| {
            let why = "it is next in the order of the policy".to_owned();
            (job, Decision::Place { placements: vec![placement], queued: false, why })
        };
        changes.extend(chosen.into_iter().map(place));
        changes
    }

    /// Marks the GPUs of these jobs as free; returns the former GPUs of jobs whose replicas may not find a
    /// node.
    fn release_all(&mut self, problem: &Problem, wants: &[Want]) -> BTreeMap<usize, Vec<Slot>> {
        let mut before = BTreeMap::new();
        for want in wants {
            if problem.jobs[want.job].needs_blocks() && !self.held(want.job).is_empty() {
                before.insert(want.job, self.held(want.job).to_vec());
            }
            self.release(want.job);
        }
        before
    }

    /// Returns whether all of these GPUs are free.
    fn has(&self, slots: &[Slot]) -> bool {
        slots.iter().all(|slot| self.free[slot.node][slot.gpu_type] >= slot.count)
    }

    /// Returns free GPUs on nodes: on one node that has all types, otherwise for each type on the node with
    /// the fewest left over, otherwise on the nodes with the most free GPUs. If replicas must each be on one
    /// node, only GPUs of whole replicas. Returns fewer GPUs than requested if the nodes have too few.
    fn find_room(&self, job: &JobModel, counts: &[u32]) -> Vec<Slot> {
        let used = || counts.iter().enumerate().filter(|(_, count)| **count > 0);
        if let Some(node) = self.mixed_node(counts) {
            return used().map(|(gpu_type, &count)| Slot { node, gpu_type, count }).collect();
        }
        let mut slots: Vec<Slot> = Vec::new();
        for (gpu_type, &count) in used() {
            if let Some(node) = self.best_fit(gpu_type, count) {
                slots.push(Slot { node, gpu_type, count });
                continue;
            }
            let mut left = count;
            for &node in self.by_free[gpu_type].iter().rev().flatten() {
                let count = whole(self.free[node][gpu_type].min(left), job.block(gpu_type));
                if count == 0 {
                    break;
                }
                slots.push(Slot { node, gpu_type, count });
                left -= count;
            }
        }
        slots
    }
}

impl Floor {
    /// Returns a node on which all GPUs of a bundle of several types are free; `None` for a bundle of one
    /// type.
    fn mixed_node(&self, counts: &[u32]) -> Option<usize> {
        let mut used = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let ((first, &most), _) = (used.next()?, used.next()?);
        let fits = |node: &usize| self.free[*node].iter().zip(counts).all(|(free, count)| free >= count);
        let nodes = self.by_free[first].get(most as usize..)?.iter().flatten();
        nodes.copied().find(fits)
    }
}

/// Rounds a number of GPUs down to whole blocks.
fn whole(gpus: u32, block: u32) -> u32 {
    gpus / block * block
}

/// Returns whether these GPUs form as many replicas as a job needs, if its replicas must each fit on one
/// node; false for other jobs.
fn is_enough(job: &JobModel, slots: &[Slot]) -> bool {
    let replicas = job.needs_blocks().then(|| job.replicas_by_type(slots)).flatten();
    replicas.is_some_and(|replica| replica.iter().sum::<u32>() >= job.min_gpus.max(1))
}

fn all_there(counts: &[u32], slots: &[Slot]) -> bool {
    counts.iter().sum::<u32>() == slots.iter().map(|slot| slot.count).sum::<u32>()
}
