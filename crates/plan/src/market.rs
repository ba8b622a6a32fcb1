//! The paper's auction P3 for one category: the highest total throughput for given worker counts, and the
//! resulting objective.

use crate::fairness::EqualShare;
use crate::pricing::Rings;
use crate::replica_market::ReplicaMarket;
use crate::solve::Transport;
use crate::stowing::least_replicas;
use crate::{
    Dues, JobModel, Placement, Problem, Sharing, Slot, Verdict, cost, packing, replica_descent,
    replica_market,
};

/// The jobs of an admission and the offered GPUs, ready to be solved for each category.
pub(super) struct CategoryMarket<'a> {
    problem: &'a Problem,
    /// Jobs in the order of categories.
    jobs: &'a [usize],
    offered: Vec<u32>,
    share: EqualShare<'a>,
    transport: Transport,
    /// Whether a row's MIG slices are available; this requires that the row has a single worker.
    slices_open: Vec<bool>,
    rings: Rings,
    /// By row, for jobs with replicas of several GPUs.
    rings_of_replicas: Vec<Option<Rings>>,
    dues: Dues,
    /// Present if replicas have several GPUs: categories then count GPUs, and this search finds replicas.
    replicas: Option<ReplicaMarket>,
}

/// Maximum number of (job, GPU type) pairs excluded while searching for a legal solution of one category.
const PATIENCE: u32 = 32;

/// A solved, packed and priced category.
#[derive(Clone, Debug)]
pub(super) struct ClearedCategory {
    /// Objective over the jobs, in seconds.
    pub objective: f64,
    /// Slots by job, in the market's order.
    pub slots: Vec<Vec<Slot>>,
    /// Completion times by job, in the market's order.
    pub times: Vec<f64>,
}

impl<'a> CategoryMarket<'a> {
    pub(super) fn new(problem: &'a Problem, jobs: &'a [usize]) -> Self {
        let types = problem.gpu_types.len();
        let rings = Rings::new(problem);
        let of_replicas = |model: &JobModel| model.has_several_gpus().then(|| rings.of_replicas(model));
        let share = EqualShare::new(problem, jobs.len());
        let value = |job, ty| share.rate(job, ty).unwrap_or(f64::NEG_INFINITY);
        let values = jobs.iter().flat_map(|&job| (0..types).map(move |ty| (job, ty)));
        let values = values.map(|(job, ty)| value(job, ty)).collect();
        Self {
            problem,
            jobs,
            offered: problem.offered(),
            transport: Transport::new(values, types),
            share,
            slices_open: vec![true; jobs.len()],
            rings_of_replicas: jobs.iter().map(|&job| of_replicas(&problem.jobs[job])).collect(),
            rings,
            dues: Dues::of(problem),
            replicas: ReplicaMarket::new(problem, jobs),
        }
    }

    /// Solves P3 for a category; returns whether it is allowed and has a legal solution for every job.
    pub(super) fn clear(&mut self, category: &[u32]) -> bool {
        let allowed = |(&job, count): (&usize, &u32)| {
            (self.problem.jobs[job].least_gpus()..=self.problem.jobs[job].most_gpus()).contains(count)
        };
        if !self.jobs.iter().zip(category).all(allowed) {
            return false;
        }
        for (row, &count) in category.iter().enumerate() {
            self.open_slices(row, count == 1);
        }
        self.solve(category) && self.mend(category, &mut { PATIENCE })
    }

    fn solve(&mut self, category: &[u32]) -> bool {
        let Self { problem, jobs, offered, transport, replicas, .. } = self;
        match replicas {
            None => transport.solve(category, offered),
            Some(market) => market.solve(problem, jobs, category, &|row, ty| transport.value(row, ty)),
        }
    }

    /// Returns the replicas of a row by type.
    fn row(&self, row: usize) -> &[u32] {
        self.replicas.as_ref().map_or_else(|| self.transport.row(row), |market| &market.bundles[row])
    }

    /// Solves P3 again without the pairs that make bundles illegal, until every job's bundle is legal on its
    /// own.
    ///
    /// Excludes the types of a bundle in turn, at most `patience` in total; returns whether it succeeded.
    fn mend(&mut self, category: &[u32], patience: &mut u32) -> bool {
        let Some((row, types)) = self.troublemaker() else { return true };
        for ty in types {
            if *patience == 0 {
                return false;
            }
            *patience -= 1;
            let value = std::mem::replace(self.transport.value_mut(row, ty), f64::NEG_INFINITY);
            let mended = self.solve(category) && self.mend(category, patience);
            *self.transport.value_mut(row, ty) = value;
            if mended {
                return true;
            }
        }
        false
    }

    /// Returns a job with an illegal bundle, and its types with the most likely cause first: the one with the
    /// least memory if the batch does not fit, else the slowest, whose share is too small.
    fn troublemaker(&self) -> Option<(usize, Vec<usize>)> {
        let illegal = |&(row, &job): &(usize, &usize)| {
            cost::compute_time(&self.problem.jobs[job], self.row(row)).is_none()
        };
        let (row, &job) = self.jobs.iter().enumerate().find(illegal)?;
        let (model, bundle) = (&self.problem.jobs[job], self.row(row));
        let mut used: Vec<usize> = (0..bundle.len()).filter(|&ty| bundle[ty] > 0).collect();
        let rate = |ty: usize| self.share.rate(job, ty).unwrap_or(0.0);
        let holds = |ty: usize| model.types[ty].and_then(|model| model.max_batch).unwrap_or(u64::MAX);
        if cost::holds_batch(model, bundle) {
            used.sort_by(|&a, &b| rate(a).total_cmp(&rate(b)));
        } else {
            used.sort_by_key(|&ty| holds(ty));
        }
        Some((row, used))
    }

    /// Returns a lower bound of the objective of the solved category, for any packing.
    pub(super) fn lower_bound(&self) -> f64 {
        self.least_of(|row| self.row(row))
    }

    /// Returns a lower bound of the objective of the jobs with these replicas by row.
    fn least_of<'b>(&self, bundle: impl Fn(usize) -> &'b [u32]) -> f64 {
        let price =
            |row: usize| (self.problem.jobs[self.jobs[row]].weight, self.least_cost(row, bundle(row)));
        self.problem.objective.value((0..self.jobs.len()).map(price))
    }

    /// Returns a lower bound of the weighted cost of a row with these replicas.
    pub(super) fn least(&self, row: usize, bundle: &[u32]) -> f64 {
        self.problem.jobs[self.jobs[row]].weight * self.least_cost(row, bundle)
    }

    /// Returns a lower bound of the cost of a row with these replicas: infinite if they are illegal.
    fn least_cost(&self, row: usize, bundle: &[u32]) -> f64 {
        let job = self.jobs[row];
        let model = &self.problem.jobs[job];
        let compute = cost::compute_time(model, bundle).unwrap_or(f64::INFINITY);
        let ring = self.rings_of_replicas[row].as_ref().unwrap_or(&self.rings).fastest(bundle);
        let comm = cost::comm_time(model, bundle.iter().sum(), ring);
        self.dues.cost(job, model.completion_time(compute + comm))
    }

    /// Packs the solved category into nodes and prices it; `None` if a job's placement is illegal.
    pub(super) fn pack(&self) -> Option<ClearedCategory> {
        self.packed(&(0..self.jobs.len()).map(|row| self.row(row).to_vec()).collect::<Vec<_>>())
    }

    /// Returns the jobs with these replicas by row and type, packed and priced, if the objective is below
    /// `below`.
    pub(super) fn price(&self, bundles: &[Vec<u32>], below: f64) -> Option<ClearedCategory> {
        if self.least_of(|row| &bundles[row]) >= below {
            return None;
        }
        self.packed(bundles).filter(|found| found.objective < below)
    }

    /// Returns an equal or better plan if replicas have several GPUs; if no category had a solution, the
    /// search starts from a plan with few replicas.
    pub(super) fn improved(
        &self,
        best: Option<ClearedCategory>,
        stop: &dyn Fn() -> bool,
    ) -> Option<ClearedCategory> {
        if self.replicas.is_none() {
            return best;
        }
        let least = || self.price(&least_replicas(self.problem, self.jobs)?, f64::INFINITY);
        Some(replica_descent::descend(self.problem, self.jobs, self, best.or_else(least)?, stop))
    }

    fn packed(&self, bundles: &[Vec<u32>]) -> Option<ClearedCategory> {
        let slots = if self.replicas.is_some() {
            replica_market::pack(self.problem, self.jobs, bundles)?
        } else {
            packing::pack(self.problem, self.jobs, bundles)
        };
        let time = |(&job, slots): (&usize, &Vec<Slot>)| {
            let model = &self.problem.jobs[job];
            let epoch = cost::epoch_time(self.problem, model, slots, Sharing::Balanced)?;
            Some(model.completion_time(epoch.total()))
        };
        let times: Vec<f64> = self.jobs.iter().zip(&slots).map(time).collect::<Option<_>>()?;
        let weighted = self
            .jobs
            .iter()
            .zip(&times)
            .map(|(&job, &time)| (self.problem.jobs[job].weight, self.dues.cost(job, time)));
        Some(ClearedCategory { objective: self.problem.objective.value(weighted), slots, times })
    }

    fn open_slices(&mut self, row: usize, open: bool) {
        if self.slices_open[row] == open {
            return;
        }
        self.slices_open[row] = open;
        let job = self.jobs[row];
        for (ty, model) in self.problem.jobs[job].types.iter().enumerate() {
            if model.is_some_and(|model| model.single_rank) {
                let rate = self.share.rate(job, ty);
                let value = rate.filter(|_| open).unwrap_or(f64::NEG_INFINITY);
                *self.transport.value_mut(row, ty) = value;
            }
        }
    }
}

impl ClearedCategory {
    /// Returns the verdicts of the jobs, in the order of `jobs`; `None` if one of them cannot have integer
    /// shares.
    pub(super) fn verdicts(&self, problem: &Problem, jobs: &[usize]) -> Option<Vec<Verdict>> {
        let place = |(&job, slots): (&usize, &Vec<Slot>)| {
            Placement::new(problem, job, slots, Sharing::Balanced).map(Verdict::Place)
        };
        jobs.iter().zip(&self.slots).map(place).collect()
    }
}
