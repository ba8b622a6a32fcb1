//! Improves a plan of whole replicas step by step, after the paper's auction.
//!
//! The auction maximises the throughput of all GPUs. Replicas rarely fill them, and a slow, remote or
//! additional replica may make its job slower. Replicas are therefore removed, moved, added and exchanged
//! between two jobs as long as the objective falls.

use crate::Problem;
use crate::market::{CategoryMarket, ClearedCategory};

/// Maximum number of changes examined in one descent.
const PATIENCE: u32 = 20_000;

/// Relative gains below this are rounding errors.
const ROUNDING: f64 = 1e-12;

/// Replicas by job and type.
type ReplicaCounts = Vec<Vec<u32>>;

/// Replicas of one job that are removed from or added to a type.
#[derive(Clone, Copy)]
struct ReplicaChange {
    row: usize,
    gpu_type: usize,
    by: i64,
}

/// Returns the plan at the end of a descent from this one; it examines a limited number of changes and ends
/// when `stop` returns true.
pub(super) fn descend(
    problem: &Problem,
    jobs: &[usize],
    market: &CategoryMarket<'_>,
    start: ClearedCategory,
    stop: &dyn Fn() -> bool,
) -> ClearedCategory {
    let by_type = |(&job, slots): (&usize, &Vec<_>)| problem.jobs[job].replicas_by_type(slots);
    let Some(mut bundles) = jobs.iter().zip(&start.slots).map(by_type).collect::<Option<ReplicaCounts>>()
    else {
        return start;
    };
    let (mut best, mut looks) = (start, 0);
    loop {
        let mut better = None;
        visit(problem, jobs, &bundles, &mut |changes| {
            looks += 1;
            better = changed(problem, jobs, &bundles, changes).and_then(|other| {
                let found = market.price(&other, best.objective * (1.0 - ROUNDING))?;
                Some((other, found))
            });
            better.is_none() && looks < PATIENCE && !stop()
        });
        let Some((other, found)) = better else { return best };
        (bundles, best) = (other, found);
        if looks >= PATIENCE || stop() {
            return best;
        }
    }
}

/// Calls `look` for changes, the simple ones first, until `look` returns false.
fn visit(
    problem: &Problem,
    jobs: &[usize],
    bundles: &ReplicaCounts,
    look: &mut dyn FnMut(&[ReplicaChange]) -> bool,
) {
    let go_on = (0..jobs.len()).all(|row| {
        let holder = Holder { problem, jobs, bundles, row };
        holder.leavings(None).iter().all(|left| {
            holder.comings().iter().all(|come| look(&[left.as_slice(), come.as_slice()].concat()))
        })
    });
    let pairs = (0..jobs.len()).flat_map(|a| (0..jobs.len()).map(move |b| (a, b))).filter(|(a, b)| a != b);
    let mut changes = Vec::new();
    for (a, b) in pairs.filter(|_| go_on) {
        let (giver, taker) =
            (Holder { problem, jobs, bundles, row: a }, Holder { problem, jobs, bundles, row: b });
        for ty in giver.held().filter(|&ty| taker.may_use(ty)) {
            // The number of the giver's replicas with at least as many GPUs as one of the taker's.
            let given = taker.size(ty).div_ceil(giver.size(ty));
            let taken = given * giver.size(ty) / taker.size(ty);
            for count in [taken, 1].into_iter().take(if taken > 1 { 2 } else { 1 }) {
                for come in giver.comings() {
                    for left in taker.leavings(Some(ty)) {
                        changes.clear();
                        changes.extend([
                            giver.change(ty, -i64::from(given)),
                            taker.change(ty, i64::from(count)),
                        ]);
                        changes.extend(come.iter().chain(&left));
                        if !look(&changes) {
                            return;
                        }
                    }
                }
            }
        }
    }
}

/// A job with its replicas.
#[derive(Clone, Copy)]
struct Holder<'a> {
    problem: &'a Problem,
    jobs: &'a [usize],
    bundles: &'a ReplicaCounts,
    row: usize,
}

impl<'a> Holder<'a> {
    fn size(self, gpu_type: usize) -> u32 {
        self.problem.jobs[self.jobs[self.row]].size(gpu_type)
    }

    fn may_use(self, gpu_type: usize) -> bool {
        self.problem.jobs[self.jobs[self.row]].types[gpu_type].is_some()
    }

    fn change(self, gpu_type: usize, by: i64) -> ReplicaChange {
        ReplicaChange { row: self.row, gpu_type, by }
    }

    /// Returns the types on which the job has replicas.
    fn held(self) -> impl Iterator<Item = usize> + 'a {
        let bundle = &self.bundles[self.row];
        (0..bundle.len()).filter(|&ty| bundle[ty] > 0)
    }

    /// Returns the possible removals: nothing, one replica, or all replicas; none from the type `but`.
    fn leavings(self, but: Option<usize>) -> Vec<Vec<ReplicaChange>> {
        let held = || self.held().filter(|&ty| Some(ty) != but);
        let one = held().map(|ty| vec![self.change(ty, -1)]);
        let mut leavings: Vec<Vec<ReplicaChange>> = std::iter::once(Vec::new()).chain(one).collect();
        if held().map(|ty| self.bundles[self.row][ty]).sum::<u32>() > 1 {
            leavings.push(held().map(|ty| self.change(ty, -i64::from(self.bundles[self.row][ty]))).collect());
        }
        leavings
    }

    /// Returns the possible additions: nothing, or one replica.
    fn comings(self) -> Vec<Vec<ReplicaChange>> {
        let one = (0..self.bundles[self.row].len()).filter(|&ty| self.may_use(ty));
        std::iter::once(Vec::new()).chain(one.map(|ty| vec![self.change(ty, 1)])).collect()
    }
}

/// Returns the bundles after some changes; `None` if they are illegal for a job or there are too few GPUs.
fn changed(
    problem: &Problem,
    jobs: &[usize],
    bundles: &ReplicaCounts,
    changes: &[ReplicaChange],
) -> Option<ReplicaCounts> {
    let mut other = bundles.clone();
    for change in changes {
        let count = &mut other[change.row][change.gpu_type];
        *count = u32::try_from(i64::from(*count) + change.by).ok()?;
    }
    for change in changes {
        let model = &problem.jobs[jobs[change.row]];
        let replicas: u32 = other[change.row].iter().sum();
        if !(model.min_gpus.max(1)..=model.max_gpus).contains(&replicas) {
            return None;
        }
        let ty = change.gpu_type;
        let taken: u32 =
            other.iter().zip(jobs).map(|(bundle, &job)| bundle[ty] * problem.jobs[job].size(ty)).sum();
        let offered: u32 = problem.nodes.iter().map(|node| node.gpus[ty]).sum();
        if taken > offered {
            return None;
        }
    }
    Some(other)
}
