//! Who holds which GPUs, kept up to date with the problem, and where new counts go.

use std::collections::BTreeSet;

use crate::policy::pack_counts::pool::Pool;
use crate::policy::pricing::Rings;
use crate::policy::{Basis, Changed, JobModel, Problem, Slot};

/// The jobs' slots and the GPUs that are free.
#[derive(Clone, Debug, Default)]
pub(in crate::policy) struct Layout {
    pub(super) pool: Pool,
    /// Slots by job; empty for jobs that hold nothing.
    pub(super) held: Vec<Vec<Slot>>,
    /// Jobs by node.
    pub(super) residents: Vec<BTreeSet<usize>>,
    /// Jobs on several nodes.
    pub(super) spread: BTreeSet<usize>,
    /// Nodes on which something changed since jobs last came together.
    pub(super) touched: BTreeSet<usize>,
    pub(super) rings: Option<Rings>,
}

/// What becomes of jobs.
#[derive(Clone, Debug, Default)]
pub(in crate::policy) struct Packing {
    /// Jobs that are to hold nothing.
    pub stop: Vec<usize>,
    /// Jobs that are to hold other GPUs than now, by type.
    pub place: Vec<(usize, Vec<u32>)>,
    /// Whether jobs that are spread over nodes may come together, and others make room for them.
    pub repack: bool,
    /// What a move costs beside its restart, in seconds.
    pub move_cost: f64,
}

impl Layout {
    /// Takes up what the problem says: all of it, or what changed. Returns whether all was taken up anew.
    pub(in crate::policy) fn follow(&mut self, problem: &Problem) -> bool {
        let hosts = problem.nodes.iter().any(|node| node.host.is_some());
        match &problem.changed {
            Changed::Since { came, left, other } if !hosts && problem.limits.is_empty() => {
                left.iter().for_each(|&job| self.put(job, Vec::new()));
                let slots = |&job: &usize| (job, slots(&problem.jobs[job]));
                came.iter().chain(other).map(slots).for_each(|(job, slots)| self.put(job, slots));
                false
            }
            _ => {
                self.take_up(problem);
                true
            }
        }
    }

    fn take_up(&mut self, problem: &Problem) {
        let own: Vec<usize> = problem.present().filter(|&job| is_decided_on(&problem.jobs[job])).collect();
        *self = Self {
            pool: Pool::new(problem, &problem.offered_to(&own, Basis::Free)),
            residents: vec![BTreeSet::new(); problem.nodes.len()],
            rings: Some(Rings::new(problem)),
            ..Self::default()
        };
        self.touched.extend(0..problem.nodes.len());
        for job in own {
            self.put(job, slots(&problem.jobs[job]));
        }
    }

    /// Returns the free GPUs by type; below 0 where more is held than is on offer.
    pub(in crate::policy) fn free(&self) -> &[i64] {
        self.pool.totals()
    }

    /// Returns the GPUs by type that the jobs have or may get.
    pub(in crate::policy) fn offered(&self) -> Vec<u32> {
        let mut offered = self.pool.totals().to_vec();
        for slot in self.held.iter().flatten() {
            offered[slot.gpu_type] += i64::from(slot.count);
        }
        offered.into_iter().map(|count| u32::try_from(count).unwrap_or(0)).collect()
    }

    /// Takes from a job what it has.
    pub(in crate::policy) fn release(&mut self, job: usize) {
        self.put(job, Vec::new());
    }

    /// Gives a job these slots for those that it has.
    pub(super) fn put(&mut self, job: usize, slots: Vec<Slot>) {
        if self.held.len() <= job {
            self.held.resize(job + 1, Vec::new());
        }
        if self.held[job] == slots {
            return;
        }
        let before = std::mem::replace(&mut self.held[job], slots);
        self.pool.give_back(&before);
        for slot in before {
            self.residents[slot.node].remove(&job);
            self.touched.insert(slot.node);
        }
        let after = &self.held[job];
        self.pool.take(after);
        for slot in after {
            self.residents[slot.node].insert(job);
            self.touched.insert(slot.node);
        }
        if is_spread(after) {
            self.spread.insert(job)
        } else {
            self.spread.remove(&job)
        };
    }

    /// Carries out decisions; returns the jobs whose GPUs change and the slots that they get, in order.
    ///
    /// A job for whose GPUs there is no room gets none.
    pub(in crate::policy) fn pack(&mut self, problem: &Problem, packing: Packing) -> Vec<(usize, Vec<Slot>)> {
        let Packing { stop, mut place, repack, move_cost } = packing;
        let leaving = place.iter().map(|own| own.0).chain(stop);
        leaving.for_each(|job| self.put(job, Vec::new()));
        place.sort_by_key(|(job, counts)| (std::cmp::Reverse(counts.iter().sum::<u32>()), *job));
        for (job, counts) in &place {
            let slots = self.pool.place(counts).unwrap_or_default();
            // The pool has taken them already.
            self.pool.give_back(&slots);
            self.put(*job, slots);
        }
        let mut changed: Vec<usize> = place.iter().map(|own| own.0).collect();
        if repack {
            self.come_together(problem, &mut changed, move_cost);
        }
        changed.into_iter().map(|job| (job, self.held[job].clone())).collect()
    }
}

/// Returns whether it is for a policy to say what the job holds: it has one placement, or may get one.
pub(in crate::policy) fn is_decided_on(job: &JobModel) -> bool {
    match job.standing.holds.as_slice() {
        [] => job.standing.is_ready(),
        [hold] => hold.is_running(),
        _ => false,
    }
}

/// Returns what a job holds, where that is for a policy to say.
fn slots(job: &JobModel) -> Vec<Slot> {
    let own = job.standing.holds.first().filter(|_| is_decided_on(job));
    own.map(|hold| hold.slots.clone()).unwrap_or_default()
}

pub(super) fn is_spread(slots: &[Slot]) -> bool {
    slots.iter().any(|slot| slot.node != slots[0].node)
}
