//! The number of allocations that a pool can use, and the queue request of each.

use std::collections::BTreeSet;

use crate::app::cluster_queue::ClusterQueue;
use crate::app::context::Context;
use crate::app::planning::{PlanningArgs, USUAL_BUDGET};
use crate::app::slurm::queue_look::{self, Freshness};
use crate::app::start_estimates::{OptionEstimate, SearchArgs};
use crate::app::through_queue;
use hsched_model::{GpuType, Job, JobName, Seconds, Speed};
use hsched_ui::{Exit, Failure};

/// Samples per epoch of a job that represents an allocation.
const SAMPLES: u32 = 1_000_000;

/// The resources of each allocation of a pool.
pub(crate) struct PoolShape<'a> {
    pub gpus: u32,
    /// The only allowed type, if the command line names one.
    pub wanted: Option<&'a GpuType>,
    /// Returns whether an allocation may have GPUs of a type, given all types of the cluster.
    pub may_have: &'a dyn Fn(&GpuType, &[GpuType]) -> bool,
    pub time: Seconds,
    pub sbatch: &'a [String],
}

/// The queue request of an allocation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PoolRequest {
    pub gpu_type: Option<GpuType>,
    pub partition: Option<String>,
    pub account: Option<String>,
}

/// Returns how many allocations of `capacity` devices a pool can use at the same time, from 1 to `at_most`:
/// those that are `busy`, and those that the waiting jobs need. A job runs in one allocation, and on one device if
/// the devices are slots.
pub(crate) fn needed(busy: u32, waiting: &[&Job], capacity: u32, slots: u32, at_most: u32) -> u32 {
    let capacity = u64::from(capacity.max(1));
    let each = if slots > 1 { 1 } else { capacity };
    let wants = |job: &Job| job.most_gpus().map_or(each, |most| u64::from(most).min(each));
    let devices: u64 = waiting.iter().copied().map(wants).sum();
    let more = u32::try_from(devices.div_ceil(capacity)).unwrap_or(u32::MAX);
    busy.saturating_add(more).clamp(1, at_most.max(1))
}

/// Chooses the requests of some allocations as `when` does: those with the earliest starts while all
/// allocations wait in one queue.
///
/// # Errors
/// If Slurm does not answer, or no GPU type of the cluster is allowed for the allocations.
pub(crate) fn choose(
    context: &Context,
    planning: &PlanningArgs,
    search: SearchArgs,
    shape: &PoolShape<'_>,
    count: u32,
) -> Result<Vec<Option<PoolRequest>>, Failure> {
    let looked = queue_look::look_at_nodes_at_least(context, Freshness::of(search.refresh))?;
    let queue = ClusterQueue::live(context, looked).with_site(context);
    let stocks = queue.snapshot.nodes.iter().flat_map(|node| &node.gpus);
    let all: BTreeSet<GpuType> = stocks.map(|stock| stock.gpu_type.clone()).collect();
    let all: Vec<GpuType> = all.into_iter().collect();
    let types: Vec<&GpuType> = all.iter().filter(|gpu_type| (shape.may_have)(gpu_type, &all)).collect();
    if types.is_empty() && !all.is_empty() {
        return Err(Failure::new(Exit::Failed, unsuitable(shape.wanted, &all)));
    }
    let job = |number: u32| stand_in(context, shape, &types, number);
    let jobs: Vec<Job> = (1..=count).filter_map(job).collect();
    let stop = planning.stop(context, Some(USUAL_BUDGET));
    let jobs: Vec<&Job> = jobs.iter().collect();
    let seed = planning.policy.seed();
    let found = through_queue::choose(context, &planning.speeds, &jobs, &queue, search, seed, &stop)?;
    Ok(found.together().into_iter().map(|chosen| chosen.as_ref().map(request)).collect())
}

/// Returns why none of the cluster's types is allowed.
fn unsuitable(wanted: Option<&GpuType>, all: &[GpuType]) -> String {
    let all = all.iter().map(GpuType::as_str).collect::<Vec<_>>().join(", ");
    match wanted {
        Some(wanted) => format!("the cluster has no {wanted} GPUs; it has {all}"),
        None => format!("no GPU type of the cluster ({all}) suits all jobs"),
    }
}

/// Returns a job that requests the resources of an allocation for its duration.
fn stand_in(context: &Context, shape: &PoolShape<'_>, types: &[&GpuType], number: u32) -> Option<Job> {
    let name = JobName::new(&format!("allocation-{number}")).ok()?;
    let mut job = Job::only_planned(name, SAMPLES.into(), 1, SAMPLES.into());
    // The job's run time is the allocation's time limit divided by the setting `time_margin`.
    let run_s = shape.time.0 / context.settings.jobs.time_margin;
    let speed = Speed::rate(f64::from(SAMPLES) / run_s / f64::from(shape.gpus))?;
    job.throughput = types.iter().map(|gpu_type| ((*gpu_type).clone(), speed)).collect();
    (job.min_gpus, job.max_gpus) = (shape.gpus, Some(shape.gpus));
    job.launch.time = Some(shape.time);
    job.launch.sbatch = shape.sbatch.to_vec();
    Some(job)
}

fn request(chosen: &OptionEstimate) -> PoolRequest {
    let request = &chosen.option.request;
    PoolRequest {
        gpu_type: request.asks.gpus.first().and_then(|ask| ask.gpu_type.clone()),
        partition: request.partition.clone(),
        account: request.account.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_the_cluster_lacks_is_named() {
        let types = ["a100", "t4"].map(|name| GpuType::new(name).expect("a type"));
        let h100 = GpuType::new("h100");
        assert_eq!(unsuitable(h100.as_ref(), &types), "the cluster has no h100 GPUs; it has a100, t4");
        assert_eq!(unsuitable(None, &types), "no GPU type of the cluster (a100, t4) suits all jobs");
    }

    #[test]
    fn a_pool_has_no_more_allocations_than_jobs_can_use() {
        let check_slots = |slots: u32, busy: u32, jobs: &[Option<u32>], expected: u32| {
            let job = |most: &Option<u32>| {
                let mut job = Job::only_planned(JobName::new("a").expect("a name"), 1, 1, 1);
                job.max_gpus = *most;
                job
            };
            let jobs: Vec<Job> = jobs.iter().map(job).collect();
            let waiting: Vec<&Job> = jobs.iter().collect();
            assert_eq!(needed(busy, &waiting, 4, slots, 3), expected, "{busy} {jobs:?}");
        };
        let check = |busy: u32, jobs: &[Option<u32>], expected: u32| check_slots(1, busy, jobs, expected);
        check(0, &[], 1);
        check(0, &[Some(1); 4], 1);
        check(0, &[Some(1); 5], 2);
        check(0, &[Some(1); 1000], 3);
        // Without a limit, each job takes a whole allocation.
        check(0, &[None, None], 2);
        check(0, &[Some(8)], 1);
        // Running jobs need only their present allocations, even if they could use more.
        check(1, &[], 1);
        check(1, &[Some(1)], 2);
        check(2, &[None, None], 3);
        // A job has one slot.
        check_slots(2, 0, &[None; 5], 2);
    }
}
