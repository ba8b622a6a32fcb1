//! The policy `exhaustive`: every assignment of workers to jobs, by node and type, for small clusters.
//!
//! As in the paper (8b, 8c), every job gets a worker and every usable worker is used. A plan with idle
//! workers may be better, so the result is not a lower bound for such plans.

use crate::admission::{self, Admission};
use crate::{
    Assignment, Dues, Entry, Knowledge, Make, Objective, Placement, Placer, PolicyError, Problem, Sharing,
    Slot, Verdict, cost,
};

/// The registry entry of exhaustive enumeration.
pub(super) const EXHAUSTIVE: Entry = Entry {
    name: "exhaustive",
    make: Make::Placer(|_| Ok(Box::new(Exhaustive))),
    objectives: &Objective::ALL,
    flags: &[],
    knows: &[Knowledge::Lengths, Knowledge::Speeds],
    knows_replicas: false,
};

/// Exhaustive enumeration.
#[derive(Clone, Copy, Debug, Default)]
struct Exhaustive;

/// Maximum number of assignments; more would take minutes.
const LIMIT: u64 = 200_000_000;

/// Number of assignments examined between two calls to `stop`.
const PATIENCE: u64 = 4096;

impl Placer for Exhaustive {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn place(&self, problem: &Problem, stop: &dyn Fn() -> bool) -> Result<Assignment, PolicyError> {
        let (mut looked_at, mut stopped) = (0, false);
        let verdicts = admission::place(problem, Sharing::Balanced, stop, |admission| {
            let mut search = CellSearch::new(problem, admission, stop);
            let assignments = search.assignments();
            if assignments > u128::from(LIMIT) {
                let count = assignments.to_string();
                return Err(PolicyError::too_large(self.name(), "assignments", &count, LIMIT, "optimal"));
            }
            search.assign(0);
            looked_at += search.looked_at;
            stopped |= search.stopped;
            let placed = search.best.as_ref().and_then(|(_, slots)| {
                let place = |(&job, slots): (&usize, &Vec<Slot>)| {
                    Placement::new(problem, job, slots, Sharing::Balanced)
                };
                admission.jobs.iter().zip(slots).map(|pair| place(pair).map(Verdict::Place)).collect()
            });
            Ok(placed)
        })?;
        Ok(Assignment { verdicts, categories: Some(looked_at), stopped, bound: None })
    }
}

/// Depth-first enumeration, cell by cell: each cell's GPUs are given to the jobs in turn, and the remaining
/// ones stay idle.
struct CellSearch<'a> {
    problem: &'a Problem,
    admission: &'a Admission,
    stop: &'a dyn Fn() -> bool,
    dues: Dues,
    /// Node, type and GPUs of each cell; cells of a node are adjacent.
    cells: Vec<Slot>,
    /// For each cell, the same type's cell in the previous equal node. Shares must not increase between them,
    /// so that only one of the assignments that differ by swapping equal nodes is examined.
    twins: Vec<Option<usize>>,
    /// GPUs by cell and job.
    shares: Vec<Vec<u32>>,
    /// Number of workers that must stay idle in the remaining cells.
    idle: u32,
    best: Option<(f64, Vec<Vec<Slot>>)>,
    looked_at: u64,
    stopped: bool,
}

impl<'a> CellSearch<'a> {
    fn new(problem: &'a Problem, admission: &'a Admission, stop: &'a dyn Fn() -> bool) -> Self {
        let mut order: Vec<usize> = (0..problem.nodes.len()).collect();
        let shape = |node: usize| (&problem.nodes[node].gpus, problem.nodes[node].intra_node);
        order.sort_by(|&a, &b| {
            let (a, b) = (shape(a), shape(b));
            a.0.cmp(b.0).then(a.1.bytes_per_second().total_cmp(&b.1.bytes_per_second()))
        });
        let mut cells: Vec<Slot> = Vec::new();
        let mut twins = Vec::new();
        for (place, &node) in order.iter().enumerate() {
            let width = problem.nodes[node].gpus.iter().filter(|&&count| count > 0).count();
            let twin = place > 0 && shape(order[place - 1]) == shape(node);
            for (gpu_type, &count) in problem.nodes[node].gpus.iter().enumerate().filter(|(_, c)| **c > 0) {
                twins.push(twin.then(|| cells.len() - width));
                cells.push(Slot { node, gpu_type, count });
            }
        }
        let total: u32 = cells.iter().map(|cell| cell.count).sum();
        Self {
            problem,
            admission,
            stop,
            dues: Dues::of(problem),
            shares: vec![vec![0; admission.jobs.len()]; cells.len()],
            cells,
            twins,
            idle: total - admission.workers,
            best: None,
            looked_at: 0,
            stopped: false,
        }
    }

    /// Returns an upper limit of the number of assignments, where swaps of equal nodes count once.
    fn assignments(&self) -> u128 {
        let receivers = self.admission.jobs.len() as u128 - u128::from(self.idle == 0);
        let ways = |count: u128, receivers: u128| {
            (1..=count).fold(1_u128, |product, i| product.saturating_mul(receivers + i) / i)
        };
        let mut total = 1_u128;
        let mut index = 0;
        while index < self.cells.len() {
            let node = self.cells[index].node;
            let of_node = self.cells[index..].iter().take_while(|cell| cell.node == node);
            let (width, one) = of_node.fold((0, 1_u128), |(n, p), cell| {
                (n + 1, p.saturating_mul(ways(cell.count.into(), receivers)))
            });
            let equal = 1
                + (index + width..self.cells.len())
                    .step_by(width)
                    .take_while(|&next| self.twins[next].is_some())
                    .count();
            total = total.saturating_mul(ways(equal as u128, one - 1));
            index += width * equal;
        }
        total
    }

    /// Fills the cells from `cell` in every possible way.
    fn assign(&mut self, cell: usize) {
        if self.stopped {
            return;
        }
        if self.node_complete(cell) && !self.in_order(cell) {
            return;
        }
        if let Some(&Slot { count, .. }) = self.cells.get(cell) {
            self.share(cell, 0, count);
        } else if self.idle == 0 {
            self.look();
        }
    }

    /// Gives `left` GPUs of a cell to the jobs from `place` in every possible way.
    fn share(&mut self, cell: usize, place: usize, left: u32) {
        if place == self.admission.jobs.len() {
            if left <= self.idle {
                self.idle -= left;
                self.assign(cell + 1);
                self.idle += left;
            }
            return;
        }
        let model = &self.problem.jobs[self.admission.jobs[place]];
        let most = if model.types[self.cells[cell].gpu_type].is_some() { left } else { 0 };
        for count in 0..=most {
            self.shares[cell][place] = count;
            self.share(cell, place + 1, left - count);
        }
        self.shares[cell][place] = 0;
    }

    fn node_complete(&self, cell: usize) -> bool {
        let node = |cell: usize| self.cells.get(cell).map(|slot| slot.node);
        cell > 0 && node(cell) != node(cell - 1)
    }

    /// Returns whether the node before `cell` does not have a larger share than its equal predecessor.
    fn in_order(&self, cell: usize) -> bool {
        let node = self.cells[cell - 1].node;
        let first = self.cells[..cell].iter().position(|other| other.node == node).unwrap_or(0);
        let Some(twin) = self.twins[first] else { return true };
        self.shares[first..cell] <= self.shares[twin..twin + (cell - first)]
    }

    fn look(&mut self) {
        self.looked_at += 1;
        if self.looked_at.is_multiple_of(PATIENCE) {
            self.stopped = (self.stop)();
        }
        let mut times = Vec::with_capacity(self.admission.jobs.len());
        for (place, &job) in self.admission.jobs.iter().enumerate() {
            let model = &self.problem.jobs[job];
            let slots = self.slots(place);
            let ranks: u32 = slots.iter().map(|slot| slot.count).sum();
            if !(model.min_gpus..=model.max_gpus).contains(&ranks) {
                return;
            }
            let Some(time) = cost::epoch_time(self.problem, model, &slots, Sharing::Balanced) else { return };
            times.push((model.weight, self.dues.cost(job, model.completion_time(time.total()))));
        }
        let value = self.problem.objective.value(times);
        if self.best.as_ref().is_none_or(|(best, _)| value < *best) {
            let slots = (0..self.admission.jobs.len()).map(|place| self.slots(place)).collect();
            self.best = Some((value, slots));
        }
    }

    fn slots(&self, place: usize) -> Vec<Slot> {
        let of_node = self.cells.iter().zip(&self.shares).filter(|(_, shares)| shares[place] > 0);
        of_node.map(|(cell, shares)| Slot { count: shares[place], ..*cell }).collect()
    }
}
