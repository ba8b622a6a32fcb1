//! Checks whether the offered GPUs cover the minimum needs of jobs.

use crate::solve::Transport;
use crate::stowing::least_replicas;
use crate::{JobModel, Problem};

/// Returns whether all these jobs can have their minimum number of replicas or GPUs at the same time.
pub(super) fn fits(problem: &Problem, jobs: &[usize]) -> bool {
    if jobs.iter().any(|&job| is_of_blocks(problem, job)) {
        return least_replicas(problem, jobs).is_some();
    }
    GpuNeeds::least(problem, jobs).fit()
}

/// Returns whether a job has replicas of several GPUs; sums of GPUs then do not show whether they fit on
/// nodes.
pub(super) fn is_of_blocks(problem: &Problem, job: usize) -> bool {
    problem.jobs[job].needs_blocks() || problem.jobs[job].is_loose()
}

/// GPUs that jobs need, grouped by the set of types that the jobs may use.
pub(super) struct GpuNeeds {
    groups: Vec<(Vec<bool>, u32)>,
    offered: Vec<u32>,
}

impl GpuNeeds {
    /// Returns the minimum needs of these jobs.
    pub(super) fn least(problem: &Problem, jobs: &[usize]) -> Self {
        let mut needs = Self { groups: Vec::new(), offered: problem.offered() };
        for &job in jobs {
            *needs.of(problem, job) += problem.jobs[job].min_gpus;
        }
        needs
    }

    /// Returns the combined minimum of all jobs that may use the same types as the given job.
    pub(super) fn of(&mut self, problem: &Problem, job: usize) -> &mut u32 {
        let JobModel { min_gpus, types, .. } = &problem.jobs[job];
        let reach =
            || types.iter().map(|model| model.is_some_and(|model| *min_gpus == 1 || !model.single_rank));
        group(&mut self.groups, reach)
    }

    /// Returns whether all needs can be met at the same time.
    pub(super) fn fit(&self) -> bool {
        let supply: Vec<u32> = self.groups.iter().map(|(_, gpus)| *gpus).collect();
        let all: u64 = supply.iter().map(|gpus| u64::from(*gpus)).sum();
        if all > self.offered.iter().map(|count| u64::from(*count)).sum() {
            return false;
        }
        let types = self.groups.iter().flat_map(|(types, _)| types);
        let values = types.map(|may| if *may { 0.0 } else { f64::NEG_INFINITY });
        Transport::new(values.collect(), self.offered.len()).solve(&supply, &self.offered)
    }
}

/// Returns the number of GPUs of the group with these types; creates the group if necessary.
fn group<I: Iterator<Item = bool>>(groups: &mut Vec<(Vec<bool>, u32)>, types: impl Fn() -> I) -> &mut u32 {
    let known = groups.iter().position(|(group, _)| group.iter().copied().eq(types()));
    let place = known.unwrap_or_else(|| {
        groups.push((types().collect(), 0));
        groups.len() - 1
    });
    &mut groups[place].1
}

/// Returns the maximum number of workers that the jobs can use together if each job has at least one. MIG
/// slices, which hold a single rank, count only if a job can use nothing else or if there are fewer whole
/// GPUs than jobs.
pub(super) fn usable_workers(problem: &Problem, jobs: &[usize]) -> u32 {
    let offered = problem.offered();
    if jobs.iter().any(|&job| is_of_blocks(problem, job)) {
        let most = jobs.iter().fold(0_u32, |sum, &job| sum.saturating_add(problem.jobs[job].most_gpus()));
        let least = jobs.iter().map(|&job| problem.jobs[job].least_gpus()).sum();
        return offered.iter().sum::<u32>().min(most).max(least);
    }
    let is_slice: Vec<bool> = problem.gpu_types.iter().map(hsched_model::GpuType::is_mig_slice).collect();
    let total = |slices: bool| -> u32 {
        (0..offered.len()).filter(|&t| is_slice[t] == slices).map(|t| offered[t]).sum()
    };
    let (whole, slices) = (total(false), total(true));
    let mut groups: Vec<(Vec<bool>, u32)> = Vec::new();
    for &job in jobs {
        let JobModel { max_gpus, types, .. } = &problem.jobs[job];
        let usable = || types.iter().zip(&is_slice).map(|(model, slice)| model.is_some() && !slice);
        let gpus = group(&mut groups, usable);
        // Numbers beyond the total have no effect.
        *gpus = gpus.saturating_add(*max_gpus).min(whole);
    }
    // One additional column takes what a group leaves unused.
    let values = groups.iter().flat_map(|(types, _)| {
        types.iter().map(|usable| if *usable { 1.0 } else { f64::NEG_INFINITY }).chain([0.0])
    });
    let columns = offered.len() + 1;
    let capacity: Vec<u32> = offered.iter().copied().chain([u32::MAX]).collect();
    let supply: Vec<u32> = groups.iter().map(|(_, gpus)| *gpus).collect();
    let mut transport = Transport::new(values.collect(), columns);
    let mut used = 0;
    if transport.solve(&supply, &capacity) {
        used = (0..groups.len()).flat_map(|row| &transport.row(row)[..columns - 1]).sum();
    }
    let only_slices = |job: &&usize| {
        let on_offer = problem.jobs[**job].types.iter().zip(&offered).filter(|(_, count)| **count > 0);
        on_offer.filter_map(|(model, _)| *model).all(|model| model.single_rank)
    };
    let slice_jobs = u32::try_from(jobs.iter().filter(only_slices).count()).unwrap_or(u32::MAX);
    let used = used + slice_jobs.min(slices);
    let count = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
    // The admitted jobs fit, even if one of them must use a slice to leave whole GPUs to another.
    let least = jobs.iter().map(|&job| problem.jobs[job].min_gpus).sum();
    used.max(count.min(used + slices)).max(least)
}
