//! Brings jobs on several nodes together on one node if that saves more than the moves cost.

use crate::kit::floor::Floor;
use crate::{HoldStage, Placement, Problem, Slot, cost};

/// Maximum number of nodes tried for one job besides its own: those with the most free GPUs, and for a job
/// that makes room, those with the fewest that suffice.
const NODES_TRIED: usize = 16;

/// Minimum saving of moves beyond twice their restart costs, in seconds.
const LEAST_SAVING: f64 = 1.0;

/// Whether running jobs may move to other nodes so that spread jobs come together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repacking {
    /// Jobs do not move.
    Off,
    /// A spread job moves to a node with room for it.
    Gather,
    /// Other jobs also move to make room for it.
    #[default]
    Full,
}

impl Repacking {
    /// All modes, with their names on the command line.
    pub const NAMES: [(&'static str, Self); 3] =
        [("off", Self::Off), ("gather", Self::Gather), ("full", Self::Full)];
}

/// A way to bring one job together.
struct RepackOption {
    node: usize,
    /// Jobs that make room, with their new nodes.
    evicted: Vec<(usize, usize)>,
    /// The jobs that must stop only for this, including the job itself; jobs that this decision places anyway
    /// do not count.
    stops: Vec<usize>,
}

impl Floor {
    /// Brings spread jobs together. `chosen` are the placements of this decision, which can be moved at no
    /// cost; it grows by the jobs that move.
    pub fn repack(&mut self, problem: &Problem, chosen: &mut Vec<(usize, Placement)>, repacking: Repacking) {
        let mut savings: Vec<(f64, usize)> = Vec::new();
        for gpu_type in 0..self.freed.len() {
            if std::mem::take(&mut self.freed[gpu_type]) {
                self.add_savings(problem, gpu_type, chosen, &mut savings);
            }
        }
        savings.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (saving, job) in savings {
            let is_movable =
                |job: usize| is_movable(problem, job) || chosen.iter().any(|(moved, _)| *moved == job);
            if !is_movable(job) {
                continue;
            }
            let Some(found) = self.gathering(problem, job, chosen, repacking) else { continue };
            if !found.evicted.iter().all(|(other, _)| is_movable(*other)) {
                continue;
            }
            if saving >= needed(problem, &found.stops) {
                self.gather(problem, job, found, chosen);
            }
        }
    }

    /// Adds the seconds that each spread job with GPUs of this type would save on one node, if the saving
    /// pays for a move of the job or the job moves anyway. The savings need not be computed again, because
    /// jobs that `repack` moves end up on one node.
    fn add_savings(
        &mut self,
        problem: &Problem,
        gpu_type: usize,
        chosen: &[(usize, Placement)],
        savings: &mut Vec<(f64, usize)>,
    ) {
        let mut spread = std::mem::take(&mut self.spread[gpu_type]);
        for (&job, gain) in &mut spread {
            let gain = *gain.get_or_insert_with(|| self.gain(problem, job).unwrap_or(0.0));
            if gain <= 0.0 {
                continue;
            }
            let saving = problem.jobs[job].progress.left(problem.now) * gain;
            let is_chosen = || chosen.iter().any(|(moved, _)| *moved == job);
            if saving >= needed(problem, &[job]) || saving >= needed(problem, &[]) && is_chosen() {
                savings.push((saving, job));
            }
        }
        self.spread[gpu_type] = spread;
    }

    /// Returns the type and number of these GPUs, if they are of one type and one node could hold them.
    pub(super) fn one_type(&self, slots: &[Slot]) -> Option<(usize, u32)> {
        let gpu_type = slots.first()?.gpu_type;
        let count = slots.iter().map(|slot| slot.count).sum();
        let fits = slots.iter().all(|slot| slot.gpu_type == gpu_type) && count <= self.largest[gpu_type];
        fits.then_some((gpu_type, count))
    }

    /// Returns the number of seconds by which an epoch of a job would be shorter on one node.
    fn gain(&self, problem: &Problem, job: usize) -> Option<f64> {
        let (gpu_type, count) = self.one_type(self.held(job))?;
        let node = self.size.iter().position(|node| node[gpu_type] >= count)?;
        let together = [Slot { node, gpu_type, count }];
        let model = &problem.jobs[job];
        let epoch = |slots: &[Slot]| Some(cost::epoch_time(problem, model, slots, self.sharing)?.total());
        Some(epoch(self.held(job))? - epoch(&together)?)
    }

    /// Returns the option whose stops cost least; of equal ones, the one with the fewest stops.
    fn gathering(
        &self,
        problem: &Problem,
        job: usize,
        chosen: &[(usize, Placement)],
        repacking: Repacking,
    ) -> Option<RepackOption> {
        let (gpu_type, count) = self.one_type(self.held(job))?;
        let count_on = |node: usize| -> u32 {
            self.held(job).iter().filter(|slot| slot.node == node).map(|slot| slot.count).sum()
        };
        let is_placed = |job: usize| chosen.iter().any(|(moved, _)| *moved == job);
        let emptiest = self.by_free[gpu_type].iter().rev().flatten().copied().take(NODES_TRIED);
        let price = |stops: &[usize]| (needed(problem, stops), stops.len());
        let mut best: Option<RepackOption> = None;
        for node in self.held(job).iter().map(|slot| slot.node).chain(emptiest) {
            if self.size[node][gpu_type] < count {
                continue;
            }
            let missing = count.saturating_sub(self.free[node][gpu_type] + count_on(node));
            if missing > 0 && repacking != Repacking::Full {
                continue;
            }
            let Some(evicted) = self.evictions(job, node, gpu_type, missing) else { continue };
            let moved = std::iter::once(job).chain(evicted.iter().map(|(other, _)| *other));
            let stops: Vec<usize> = moved.filter(|job| !is_placed(*job)).collect();
            if best.as_ref().is_none_or(|best| price(&stops) < price(&best.stops)) {
                best = Some(RepackOption { node, evicted, stops });
            }
        }
        best
    }

    /// Returns the jobs that must leave a node to free `missing` more GPUs, with the nodes on which they fit
    /// after `job` has released its GPUs; `None` if that is impossible.
    fn evictions(
        &self,
        job: usize,
        node: usize,
        gpu_type: usize,
        mut missing: u32,
    ) -> Option<Vec<(usize, usize)>> {
        let mut evicted: Vec<(usize, usize, u32)> = Vec::new();
        let is_whole = |other: &usize| matches!(self.held(*other), [slot] if slot.gpu_type == gpu_type);
        let mut others: Vec<(u32, usize)> = if missing == 0 {
            Vec::new()
        } else {
            let others = self.on_node[node].iter().copied().filter(|other| *other != job && is_whole(other));
            others.map(|other| (self.held(other)[0].count, other)).collect()
        };
        others.sort_unstable();
        while missing > 0 {
            let enough = others.iter().position(|(count, _)| *count >= missing);
            let (count, other) = others.remove(enough.or(others.len().checked_sub(1))?);
            let room = |other: usize| -> u32 {
                let on_node = self.held(job).iter().filter(|slot| slot.node == other);
                let taken = evicted.iter().filter(|(_, to, _)| *to == other);
                (self.free[other][gpu_type] + on_node.map(|slot| slot.count).sum::<u32>())
                    .saturating_sub(taken.map(|(_, _, count)| count).sum())
            };
            let held_nodes = self.held(job).iter().map(|slot| slot.node);
            let fitting = self.by_free[gpu_type].get(count as usize..).unwrap_or(&[]);
            let nodes = fitting.iter().flatten().copied().take(NODES_TRIED).chain(held_nodes);
            let to = nodes.filter(|&to| to != node && room(to) >= count).min_by_key(|&to| (room(to), to))?;
            evicted.push((other, to, count));
            missing = missing.saturating_sub(count);
        }
        Some(evicted.into_iter().map(|(other, to, _)| (other, to)).collect())
    }

    fn gather(
        &mut self,
        problem: &Problem,
        job: usize,
        found: RepackOption,
        chosen: &mut Vec<(usize, Placement)>,
    ) {
        let Some((gpu_type, count)) = self.one_type(self.held(job)) else { return };
        let mut places = vec![(job, Slot { node: found.node, gpu_type, count })];
        for (other, node) in found.evicted {
            places.push((other, Slot { node, ..self.held(other)[0] }));
        }
        let placements: Option<Vec<(usize, Placement)>> = places
            .iter()
            .map(|(job, slot)| Some((*job, Placement::new(problem, *job, &[*slot], self.sharing)?)))
            .collect();
        let Some(placements) = placements else { return };
        for (job, _) in &places {
            self.release(*job);
        }
        for ((job, placement), (_, slot)) in placements.into_iter().zip(places) {
            self.hold(job, vec![slot]);
            match chosen.iter_mut().find(|(moved, _)| *moved == job) {
                Some((_, known)) => *known = placement,
                None => chosen.push((job, placement)),
            }
        }
    }
}

/// Returns the minimum saving in seconds if these jobs must stop for it.
fn needed(problem: &Problem, stops: &[usize]) -> f64 {
    let least = if stops.is_empty() { 0.0 } else { LEAST_SAVING };
    let restart = |job: &usize| problem.jobs[*job].progress.restart_cost.0;
    2.0 * stops.iter().map(restart).sum::<f64>() + least
}

/// Returns whether a job may be stopped and moved.
fn is_movable(problem: &Problem, job: usize) -> bool {
    let mut running = problem.jobs[job].progress.running();
    running.all(|hold| matches!(hold.stage, HoldStage::Running { movable: true, .. }))
}
