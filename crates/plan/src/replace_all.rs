//! A policy that uses a placer to place all jobs again whenever one arrives or ends.

use hsched_model::number::{to_f64, to_u64};
use std::collections::BTreeSet;

use crate::alternative::one_type;
use crate::due_order::{self, DueJob};
use crate::kit::{Floor, Want};
use crate::{
    Budget, Extract, Objective, Placement, Placer, Plan, Policy, PolicyError, Problem, Repacking, Sharing,
};
use hsched_model::Time;

/// Number of parts of an epoch in which placers count remaining work. Only the ratios between jobs matter to
/// placers.
const PARTS: f64 = 1e6;

/// A placer that places all jobs again after every change.
pub(super) struct ReplaceAll {
    placer: Box<dyn Placer>,
    floor: Floor,
    repacking: Repacking,
}

/// A job on the best number of GPUs of a single type.
#[derive(Clone, Copy)]
struct BestAlone {
    job: usize,
    /// Seconds for the remaining work.
    time: f64,
    gpus: u32,
}

impl BestAlone {
    /// Returns the job as part of the work of a single machine, the whole cluster.
    fn piece(self, problem: &Problem, all: u32) -> DueJob {
        let time = self.time * f64::from(self.gpus) / f64::from(all.max(1));
        let deadline = problem.jobs[self.job].aims.deadline;
        let within = deadline.map_or(f64::INFINITY, |deadline| deadline.0 - problem.now.0);
        DueJob { time, within: within - (self.time - time) }
    }
}

impl ReplaceAll {
    pub(super) fn new(placer: Box<dyn Placer>, repacking: Repacking) -> Self {
        let floor = Floor::new(placer.sharing());
        Self { placer, floor, repacking }
    }

    /// Returns the jobs that take part, by ascending time alone or, with deadlines, in due order: all jobs
    /// that can run, or the first ones whose minimum GPUs fit together.
    fn chosen(&self, problem: &Problem) -> Vec<usize> {
        let takes_part = |job: &usize| {
            let progress = &problem.jobs[*job].progress;
            progress.is_ready() || progress.running().next().is_some()
        };
        let alone = problem.present().filter(takes_part).filter_map(|job| self.alone(problem, job));
        let mut jobs: Vec<BestAlone> = alone.collect();
        let all: u32 = self.floor.total.iter().sum();
        if problem.objective == Objective::Deadlines {
            let pieces: Vec<DueJob> = jobs.iter().map(|alone| alone.piece(problem, all)).collect();
            jobs = due_order::order(&pieces).into_iter().map(|number| jobs[number]).collect();
        } else {
            jobs.sort_by(|a, b| a.time.total_cmp(&b.time).then(a.job.cmp(&b.job)));
        }
        let mut needed = 0_u32;
        let fits = |alone: &BestAlone| {
            needed = needed.saturating_add(problem.jobs[alone.job].least_gpus());
            needed <= all
        };
        jobs.into_iter().take_while(fits).map(|alone| alone.job).collect()
    }

    /// Returns how a job performs alone; `None` if it can run on no type.
    fn alone(&self, problem: &Problem, job: usize) -> Option<BestAlone> {
        let model = &problem.jobs[job];
        let types = 0..problem.gpu_types.len();
        let found = types.filter_map(|ty| one_type(problem, model, ty, self.floor.sizes()));
        let best =
            found.min_by(|a, b| a.jct.total_cmp(&b.jct)).filter(|alternative| alternative.jct.is_finite())?;
        let epochs = to_f64(model.epochs);
        let time = best.jct / epochs * model.progress.left(problem.now);
        Some(BestAlone { job, time, gpus: best.counts.iter().sum() })
    }

    /// Returns the problem of placing these jobs as if none of them were running.
    fn extract(&self, problem: &Problem, jobs: &[usize]) -> Extract {
        let mut extract = problem.extract_on(jobs, self.floor.sizes());
        for (model, &job) in extract.problem.jobs.iter_mut().zip(jobs) {
            let left = problem.jobs[job].progress.left(problem.now);
            let parts = to_u64((left * PARTS).ceil());
            model.epochs = parts.max(1);
            // One unit of work takes as long as an epoch in the extract, so deadlines are scaled likewise.
            let now = problem.now;
            let later = |deadline: Time| Time(now.0 + (deadline.0 - now.0) * PARTS);
            model.aims.deadline = model.aims.deadline.map(later);
        }
        // The cost of a late job is computed from these times.
        extract.problem.late = 0.0;
        extract
    }
}

impl Policy for ReplaceAll {
    fn name(&self) -> &'static str {
        self.placer.name()
    }

    fn parameters(&self) -> String {
        self.placer.parameters()
    }

    fn needs_budget(&self) -> bool {
        self.placer.needs_budget()
    }

    fn sharing(&self) -> Sharing {
        self.placer.sharing()
    }

    fn decide(&mut self, problem: &Problem, budget: &Budget<'_>) -> Result<Plan, PolicyError> {
        self.floor.sync(problem);
        let mut jobs = self.chosen(problem);
        let mut stopped = false;
        let mut placed: Vec<(usize, Placement)> = Vec::new();
        // A placer that finds no plan for all jobs within its budget may find one for fewer jobs.
        while placed.is_empty() && !jobs.is_empty() {
            let extract = self.extract(problem, &jobs);
            (budget.begin)();
            let assignment = self.placer.place(&extract.problem, budget.stop)?;
            stopped |= assignment.stopped;
            let judged = jobs.iter().zip(&assignment.verdicts);
            placed.extend(
                judged.filter_map(|(&job, verdict)| {
                    Some((job, extract.to_whole(problem, verdict.placement()?)))
                }),
            );
            jobs.pop();
        }
        let mut wants: Vec<Want> = Vec::new();
        for (job, placement) in &placed {
            let mut counts = vec![0; problem.gpu_types.len()];
            for slot in &placement.slots {
                counts[slot.gpu_type] += slot.count;
            }
            if counts != self.floor.counts(*job) {
                wants.push(Want::place(*job, counts));
            }
        }
        let is_placed: BTreeSet<usize> = placed.iter().map(|(job, _)| *job).collect();
        let stops = |job: &usize| !self.floor.held(*job).is_empty() && !is_placed.contains(job);
        wants.extend(problem.present().filter(stops).map(Want::wait));
        let changes = self.floor.carry_out(problem, wants, self.repacking);
        Ok(Plan { changes, stopped, ..Plan::default() })
    }
}
