//! Improves a plan of whole replicas step by step, after the paper's auction.
//!
//! The auction maximises the throughput of all GPUs. Replicas rarely fill them, and a slow, remote or
//! additional replica may make its job slower. Replicas are therefore removed, moved, added and exchanged
//! between two jobs as long as the objective falls. When no such change helps, other jobs also give up the
//! replicas that would be in the way.

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
        for others_give in [false, true] {
            visit(problem, jobs, &bundles, &mut |changes| {
                looks += 1;
                let others = others_give.then_some(market);
                better = changed(problem, jobs, &bundles, changes, others).and_then(|other| {
                    let found = market.price(&other, best.objective * (1.0 - ROUNDING))?;
                    Some((other, found))
                });
                better.is_none() && looks < PATIENCE && !stop()
            });
            if better.is_some() {
                break;
            }
        }
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
///
/// With a market, jobs that do not change give up replicas of types with too few GPUs.
fn changed(
    problem: &Problem,
    jobs: &[usize],
    bundles: &ReplicaCounts,
    changes: &[ReplicaChange],
    market: Option<&CategoryMarket<'_>>,
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
    }
    for change in changes {
        while spare(problem, jobs, &other, change.gpu_type) < 0 {
            give_up(problem, jobs, market?, &mut other, (change.gpu_type, changes))?;
        }
    }
    Some(other)
}

/// Returns how many GPUs of a type are not used by these replicas; negative if there are too few.
fn spare(problem: &Problem, jobs: &[usize], bundles: &ReplicaCounts, gpu_type: usize) -> i64 {
    let offered: u32 = problem.nodes.iter().map(|node| node.gpus[gpu_type]).sum();
    let size = |job: usize| problem.jobs[job].size(gpu_type);
    let taken: u32 = bundles.iter().zip(jobs).map(|(bundle, &job)| bundle[gpu_type] * size(job)).sum();
    i64::from(offered) - i64::from(taken)
}

/// Removes a replica of a type from a job that does not change, or moves it to another type with enough GPUs:
/// the one with the smallest loss per freed GPU. `None` if no job can give one up.
fn give_up(
    problem: &Problem,
    jobs: &[usize],
    market: &CategoryMarket<'_>,
    bundles: &mut ReplicaCounts,
    (gpu_type, changes): (usize, &[ReplicaChange]),
) -> Option<()> {
    let mut best: Option<(f64, usize, Vec<u32>)> = None;
    for (row, &job) in jobs.iter().enumerate() {
        let model = &problem.jobs[job];
        if bundles[row][gpu_type] == 0 || changes.iter().any(|change| change.row == row) {
            continue;
        }
        let mut fewer = bundles[row].clone();
        fewer[gpu_type] -= 1;
        let has_room = |&to: &usize| {
            let is_other = to != gpu_type && model.types[to].is_some();
            is_other && spare(problem, jobs, bundles, to) >= i64::from(model.size(to))
        };
        let moved = (0..fewer.len()).filter(has_room).map(|to| {
            let mut moved = fewer.clone();
            moved[to] += 1;
            moved
        });
        let removed = (fewer.iter().sum::<u32>() >= model.min_gpus.max(1)).then(|| fewer.clone());
        for bundle in removed.into_iter().chain(moved) {
            let loss = market.least(row, &bundle) - market.least(row, &bundles[row]);
            let loss = loss / f64::from(model.size(gpu_type));
            if best.as_ref().is_none_or(|(least, _, _)| loss < *least) {
                best = Some((loss, row, bundle));
            }
        }
    }
    let (_, row, bundle) = best?;
    bundles[row] = bundle;
    Some(())
}
