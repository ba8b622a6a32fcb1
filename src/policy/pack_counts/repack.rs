//! Jobs that are spread over nodes, though one could hold them, come together; others make room where that pays.

use crate::policy::pack_counts::layout::{Layout, is_decided_on};
use crate::policy::pack_counts::pool::slots_on;
use crate::policy::{Problem, Slot, Stage, cost};

/// One node for a spread job, and the jobs that leave it.
struct Gathering {
    slots: Vec<Slot>,
    /// Jobs that go elsewhere, and where.
    out: Moves,
    /// Running jobs that must restart, the spread one among them.
    moves: u32,
}

/// Jobs and the slots that they get.
type Moves = Vec<(usize, Vec<Slot>)>;

/// A saving that takes moves must be more than twice their restarts and this, in seconds.
const LEAST_SAVING: f64 = 1.0;

/// Clusters of up to so many nodes are searched whole each time; of larger ones, the nodes where something changed.
const FEW_NODES: usize = 64;

impl Layout {
    /// Brings spread jobs together, those that save most first. `changed` are the jobs that start anew at any rate.
    pub(super) fn come_together(&mut self, problem: &Problem, changed: &mut Vec<usize>, move_cost: f64) {
        let mut savings: Vec<(f64, usize)> =
            self.spread.iter().map(|&job| (self.saving(problem, job), job)).collect();
        savings.retain(|own| own.0 > LEAST_SAVING);
        savings.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (saving, job) in savings {
            let costs = Costs { problem, changed, move_cost };
            let Some(found) = self.best_gathering(&costs, job, saving) else { continue };
            let moved: Vec<usize> = found.out.iter().map(|own| own.0).chain([job]).collect();
            moved.iter().for_each(|&other| self.put(other, Vec::new()));
            found.out.into_iter().for_each(|(other, slots)| self.put(other, slots));
            self.put(job, found.slots);
            let new: Vec<usize> = moved.into_iter().filter(|job| !changed.contains(job)).collect();
            changed.extend(new);
        }
        self.touched.clear();
    }

    /// Returns how much sooner a spread job would end on the best node that could hold it, in seconds.
    fn saving(&self, problem: &Problem, job: usize) -> f64 {
        let (model, slots) = (&problem.jobs[job], &self.held[job]);
        let (Some(rings), true) = (&self.rings, is_decided_on(model)) else { return 0.0 };
        let counts = counts(problem, slots);
        let comm = |ring: f64| cost::comm_time(model, counts.iter().sum(), ring);
        let gain = comm(cost::ring_rate(problem, slots)) - comm(rings.fastest(&counts));
        model.standing.left(problem.now) * gain
    }

    /// Returns the gathering of a spread job with the fewest moves, where it saves more than that costs.
    fn best_gathering(&self, costs: &Costs<'_>, job: usize, saving: f64) -> Option<Gathering> {
        let problem = costs.problem;
        let own = costs.of(job)?;
        let pays = |(moves, restarts): (u32, f64)| moves == 0 || saving >= 2.0 * restarts + LEAST_SAVING;
        if !pays(own) {
            return None;
        }
        let counts = counts(problem, &self.held[job]);
        let is_tried =
            |node: &usize| problem.nodes.len() <= FEW_NODES || own.0 == 0 || self.touched.contains(node);
        let holds =
            |node: &usize| counts.iter().zip(&problem.nodes[*node].gpus).all(|(own, gpus)| own <= gpus);
        let mut best: Option<Gathering> = None;
        for node in (0..problem.nodes.len()).filter(is_tried).filter(holds) {
            let Some(out) = self.room_on(node, job, &counts, costs) else { continue };
            let others = out.iter().filter_map(|(other, _)| costs.of(*other));
            let (moves, restarts) = others.fold(own, |sum, cost| (sum.0 + cost.0, sum.1 + cost.1));
            if pays((moves, restarts)) && best.as_ref().is_none_or(|best| moves < best.moves) {
                best = Some(Gathering { slots: slots_on(node, &counts), out, moves });
            }
        }
        best
    }

    /// Returns which one-node jobs must leave a node, and where they go, for `job` to find room there.
    fn room_on(&self, node: usize, job: usize, wanted: &[u32], costs: &Costs<'_>) -> Option<Moves> {
        let free = |on: usize, ty: usize| -> i64 {
            let own = self.held[job].iter().filter(|slot| slot.node == on && slot.gpu_type == ty);
            self.pool.free(on, ty) + own.map(|slot| i64::from(slot.count)).sum::<i64>()
        };
        let missing = |ty: &usize| wanted[*ty] > 0 && free(node, *ty) < i64::from(wanted[*ty]);
        let mut short = (0..wanted.len()).filter(missing);
        let Some(gpu_type) = short.next() else { return Some(Vec::new()) };
        if short.next().is_some() {
            return None;
        }
        let rate = |node: usize| costs.problem.nodes[node].intra_node.bytes_per_second();
        let is_alone = |&other: &usize| {
            other != job && self.held[other].len() == 1 && self.held[other][0].gpu_type == gpu_type
        };
        let may_leave = self.residents[node].iter().copied().filter(is_alone);
        let may_leave = may_leave.filter(|&other| costs.of(other).is_some());
        let mut here: Vec<(u32, usize)> = may_leave.map(|other| (self.held[other][0].count, other)).collect();
        here.sort_unstable();
        let mut need = i64::from(wanted[gpu_type]) - free(node, gpu_type);
        let mut out: Moves = Vec::new();
        while need > 0 && !here.is_empty() {
            // The smallest that makes enough room, else the largest.
            let enough =
                here.iter().position(|&(count, _)| i64::from(count) >= need).unwrap_or(here.len() - 1);
            let (count, other) = here.remove(enough);
            let left = |to: usize| {
                let taken = out.iter().flat_map(|(_, slots)| slots).filter(|slot| slot.node == to);
                free(to, gpu_type) - taken.map(|slot| i64::from(slot.count)).sum::<i64>()
            };
            let able = |&to: &usize| {
                to != node && left(to) >= i64::from(count) && (count == 1 || rate(to) >= rate(node))
            };
            let best_fit = (0..self.residents.len()).filter(able).min_by_key(|&to| (left(to), to));
            let Some(to) = best_fit else { continue };
            need -= i64::from(count);
            out.push((other, vec![Slot { node: to, gpu_type, count }]));
        }
        (need <= 0).then_some(out)
    }
}

/// What a move of each job costs.
struct Costs<'a> {
    problem: &'a Problem,
    /// Jobs that start anew at any rate.
    changed: &'a [usize],
    /// What a move costs beside its restart, in seconds.
    move_cost: f64,
}

impl Costs<'_> {
    /// Returns how many moves it counts for, and the seconds that they cost; `None` where the job must not move.
    fn of(&self, job: usize) -> Option<(u32, f64)> {
        let standing = &self.problem.jobs[job].standing;
        if standing.holds.is_empty() || self.changed.contains(&job) {
            return Some((0, 0.0));
        }
        let mut running = standing.running();
        let movable = running.all(|hold| matches!(hold.stage, Stage::Running { movable: true, .. }));
        movable.then_some((1, standing.restart_cost.0 + self.move_cost))
    }
}

/// Returns GPUs by type.
fn counts(problem: &Problem, slots: &[Slot]) -> Vec<u32> {
    let mut counts = vec![0; problem.gpu_types.len()];
    slots.iter().for_each(|slot| counts[slot.gpu_type] += slot.count);
    counts
}
