//! Of equally good placements of a job, prefers GPUs of a single type: an ordinary Slurm job instead of a
//! heterogeneous one.

use crate::alternative::one_type;
use crate::{Problem, Sharing, Slot, cost, packing};

/// Relative difference of epoch times below which placements are equally good.
const EQUAL: f64 = 1e-12;

/// Replaces placements of several types by equally good ones of one type, on GPUs that are free or the job's
/// own; `slots` has the placements of `jobs`. If `all` is set, the number of each job's GPUs stays.
pub(super) fn unmix(problem: &Problem, jobs: &[usize], slots: &mut [Vec<Slot>], all: bool) {
    if slots.iter().all(|slots| types(slots) < 2) {
        return;
    }
    let mut free: Vec<Vec<u32>> = problem.nodes.iter().map(|node| node.gpus.clone()).collect();
    slots.iter().flatten().for_each(|slot| free[slot.node][slot.gpu_type] -= slot.count);
    for (&job, slots) in jobs.iter().zip(slots) {
        if types(slots) < 2 || problem.jobs[job].replica.is_some() {
            continue;
        }
        for slot in &*slots {
            free[slot.node][slot.gpu_type] += slot.count;
        }
        if let Some(plain) = of_one_type(problem, job, slots, &free, all) {
            *slots = plain;
        }
        for slot in &*slots {
            free[slot.node][slot.gpu_type] -= slot.count;
        }
    }
}

/// Returns the slots of one type in `room` on which an epoch of the job takes no longer than on `slots`.
fn of_one_type(
    problem: &Problem,
    job: usize,
    slots: &[Slot],
    room: &[Vec<u32>],
    all: bool,
) -> Option<Vec<Slot>> {
    let model = &problem.jobs[job];
    let epoch = |slots: &[Slot]| Some(cost::epoch_time(problem, model, slots, Sharing::Balanced)?.total());
    let count = |slots: &[Slot]| -> u32 { slots.iter().map(|slot| slot.count).sum() };
    let longest = epoch(slots)? * (1.0 + EQUAL);
    (0..problem.gpu_types.len()).find_map(|gpu_type| {
        // The time of the best nodes, which need not be free.
        let found = one_type(problem, model, gpu_type, room)
            .filter(|found| found.jct <= model.completion_time(longest))?;
        let plain = packing::place(problem, &mut room.to_vec(), &found.counts);
        let is_as_good = epoch(&plain)? <= longest && (!all || count(&plain) == count(slots));
        is_as_good.then_some(plain)
    })
}

/// Returns the number of GPU types of some slots.
fn types(slots: &[Slot]) -> usize {
    let mut types: Vec<usize> = slots.iter().map(|slot| slot.gpu_type).collect();
    types.sort_unstable();
    types.dedup();
    types.len()
}
