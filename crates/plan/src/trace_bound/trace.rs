//! A trace as plain numbers.

use crate::Problem;
use crate::classes::{Bundles, Classes, steps_per_epoch};
use crate::horizon::TraceArrival;
use hsched_model::number::to_f64;

/// The jobs of a trace by arrival, their classes, and the GPUs.
pub(super) struct BoundTrace {
    pub classes: Classes,
    pub jobs: Vec<TraceArrival>,
    /// GPUs by type, on nodes in any state.
    pub offered: Vec<u32>,
}

impl BoundTrace {
    /// Returns the trace of a problem's jobs; `None` if there are none or one can never run.
    pub(super) fn new(problem: &Problem) -> Option<Self> {
        let types = problem.gpu_types.len();
        let up = |ty: usize| problem.nodes.iter().map(|node| node.gpus[ty].max(node.up[ty])).sum::<u32>();
        let offered: Vec<u32> = (0..types).map(|ty| up(ty).max(problem.ceiling[ty])).collect();
        let mut classes = Classes::default();
        classes.look_at(problem, &offered);
        let mut jobs = Vec::new();
        for model in &problem.jobs {
            let steps = to_f64(model.epochs) * steps_per_epoch(model);
            jobs.push(TraceArrival { at: model.progress.arrival.0, class: classes.number(model), steps });
        }
        jobs.sort_by(|a, b| a.at.total_cmp(&b.at));
        let can_run = |job: &TraceArrival| classes.list()[job.class].fastest > 0.0;
        (!jobs.is_empty() && jobs.iter().all(can_run)).then_some(Self { classes, jobs, offered })
    }

    /// Returns the number of jobs.
    pub(super) fn count(&self) -> f64 {
        to_f64(self.jobs.len())
    }

    /// Returns the candidate bundles, by class.
    pub(super) fn listed(&self) -> Vec<Bundles> {
        self.classes.list().iter().map(|class| class.bundles.undominated()).collect()
    }

    /// Returns every bundle, by class, if they can be listed.
    pub(super) fn all(&self) -> Option<Vec<Bundles>> {
        (0..self.classes.list().len()).map(|class| self.classes.all_bundles(class)).collect()
    }
}
