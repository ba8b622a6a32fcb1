//! The policy `optimus`: repeatedly gives one more GPU to the job that gains most.
//!
//! Plain Optimus divides batches equally, so a slow GPU delays the fast ones; Optimus-LB balances them.

use std::convert::Infallible;

use crate::fairness::EqualShare;
use crate::{
    Assignment, Entry, JobModel, Knowledge, Make, Objective, Placement, Placer, PolicyError, Problem,
    Sharing, Slot, Verdict, admission, cost,
};

/// The registry entry of Optimus as published, with equal batches.
pub(super) const OPTIMUS: Entry = Entry {
    name: "optimus",
    make: Make::Placer(|_| Ok(Box::new(Optimus { name: "optimus", sharing: Sharing::Equal }))),
    objectives: &Objective::ALL,
    flags: &[],
    knows: &[Knowledge::Lengths, Knowledge::Speeds],
    knows_replicas: false,
};

/// The registry entry with batches in proportion to speed.
pub(super) const LOAD_BALANCED: Entry = Entry {
    name: "optimus-lb",
    make: Make::Placer(|_| Ok(Box::new(Optimus { name: "optimus-lb", sharing: Sharing::Balanced }))),
    ..OPTIMUS
};

/// Optimus, or Optimus-LB with balanced batches.
#[derive(Clone, Copy, Debug)]
struct Optimus {
    name: &'static str,
    sharing: Sharing,
}

impl Placer for Optimus {
    fn name(&self) -> &'static str {
        self.name
    }

    fn sharing(&self) -> Sharing {
        self.sharing
    }

    fn place(&self, problem: &Problem, stop: &dyn Fn() -> bool) -> Result<Assignment, PolicyError> {
        let mut stopped = false;
        let placed = admission::place::<Infallible>(problem, self.sharing, stop, |admission| {
            let mut greedy = Greedy::new(problem, &admission.jobs, self.sharing);
            if !greedy.give_least() {
                return Ok(None);
            }
            while !stopped && greedy.give_best() {
                stopped = stop();
            }
            let place = |(&job, slots): (&usize, &Vec<Slot>)| {
                Placement::new(problem, job, slots, self.sharing).map(Verdict::Place)
            };
            Ok(admission.jobs.iter().zip(&greedy.slots).map(place).collect())
        });
        let Ok(verdicts) = placed;
        Ok(Assignment { verdicts, categories: None, stopped, bound: None })
    }
}

/// The GPUs assigned so far.
struct Greedy<'a> {
    problem: &'a Problem,
    jobs: &'a [usize],
    sharing: Sharing,
    /// GPU types by descending speed for each job, with equally fast ones grouped.
    preference: Vec<Vec<Vec<usize>>>,
    /// Unassigned GPUs, by node and type.
    free: Vec<Vec<u32>>,
    slots: Vec<Vec<Slot>>,
    /// Completion time of each job with its GPUs; infinite until they are legal.
    times: Vec<f64>,
}

impl<'a> Greedy<'a> {
    fn new(problem: &'a Problem, jobs: &'a [usize], sharing: Sharing) -> Self {
        let share = EqualShare::new(problem, jobs.len());
        let by_speed = |&job: &usize| {
            let rated = (0..problem.gpu_types.len()).filter_map(|ty| Some((share.rate(job, ty)?, ty)));
            let mut rated: Vec<(f64, usize)> = rated.collect();
            rated.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            let alike = rated.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq());
            alike.map(|alike| alike.iter().map(|&(_, ty)| ty).collect()).collect()
        };
        Self {
            problem,
            jobs,
            sharing,
            preference: jobs.iter().map(by_speed).collect(),
            free: problem.nodes.iter().map(|node| node.gpus.clone()).collect(),
            slots: vec![Vec::new(); jobs.len()],
            times: vec![f64::INFINITY; jobs.len()],
        }
    }

    /// Gives every job its minimum number of GPUs; returns whether all jobs then have legal GPUs.
    fn give_least(&mut self) -> bool {
        for row in 0..self.jobs.len() {
            while ranks(&self.slots[row]) < self.model(row).min_gpus {
                let Some((node, gpu_type)) = self.fastest_free(row, false) else { return false };
                self.give(row, node, gpu_type);
            }
        }
        self.times.iter().all(|time| time.is_finite())
    }

    /// Gives one GPU to the job whose completion time falls most or rises least; returns whether a job could
    /// take one.
    fn give_best(&mut self) -> bool {
        let mut best: Option<(f64, usize, usize, usize)> = None;
        for row in 0..self.jobs.len() {
            if ranks(&self.slots[row]) >= self.model(row).max_gpus {
                continue;
            }
            let Some((node, gpu_type)) = self.fastest_free(row, true) else { continue };
            let gain = self.times[row] - self.time(row, &with(&self.slots[row], node, gpu_type));
            if best.is_none_or(|(most, ..)| gain > most) {
                best = Some((gain, row, node, gpu_type));
            }
        }
        let Some((_, row, node, gpu_type)) = best else { return false };
        self.give(row, node, gpu_type);
        true
    }

    /// Returns the job's fastest free GPU, on the first node that has one; with `legal`, only a GPU with
    /// which the job is legal.
    fn fastest_free(&self, row: usize, legal: bool) -> Option<(usize, usize)> {
        self.preference[row].iter().find_map(|alike| {
            let first = |&ty: &usize| Some((self.free.iter().position(|node| node[ty] > 0)?, ty));
            let may_run =
                |&(node, ty): &(usize, usize)| self.time(row, &with(&self.slots[row], node, ty)).is_finite();
            alike.iter().filter_map(first).filter(|candidate| !legal || may_run(candidate)).min()
        })
    }

    fn give(&mut self, row: usize, node: usize, gpu_type: usize) {
        self.free[node][gpu_type] -= 1;
        self.slots[row] = with(&self.slots[row], node, gpu_type);
        self.times[row] = self.time(row, &self.slots[row]);
    }

    fn time(&self, row: usize, slots: &[Slot]) -> f64 {
        let model = self.model(row);
        let epoch = cost::epoch_time(self.problem, model, slots, self.sharing);
        epoch.map_or(f64::INFINITY, |epoch| model.completion_time(epoch.total()))
    }

    fn model(&self, row: usize) -> &'a JobModel {
        &self.problem.jobs[self.jobs[row]]
    }
}

fn ranks(slots: &[Slot]) -> u32 {
    slots.iter().map(|slot| slot.count).sum()
}

/// Returns the slots with one more GPU.
fn with(slots: &[Slot], node: usize, gpu_type: usize) -> Vec<Slot> {
    let mut more = slots.to_vec();
    match more.iter_mut().find(|slot| (slot.node, slot.gpu_type) == (node, gpu_type)) {
        Some(slot) => slot.count += 1,
        None => more.push(Slot { node, gpu_type, count: 1 }),
    }
    more
}
