//! The user's own running jobs that Slurm may preempt for another job of the user.

use std::collections::BTreeSet;

use super::room;
use crate::{Drawback, QueueJob, QueuePartition, Request, Snapshot};

/// Returns the user's running jobs that Slurm may preempt for a job with this request: those of a preemptible
/// partition with a lower tier, on a node that the request could use.
pub fn own_preempted<'a>(snapshot: &'a Snapshot, request: &Request) -> Vec<&'a QueueJob> {
    let partition_of = |name: &str| snapshot.partitions.iter().find(|partition| partition.name == name);
    let preempts = |name: &str, low: &QueuePartition, job: &QueueJob| {
        let there = Request { partition: Some(name.to_owned()), ..request.clone() };
        partition_of(name).is_some_and(|high| high.tier > low.tier)
            && room::nodes(snapshot, &there).iter().any(|node| {
                job.running.iter().flat_map(|running| &running.holds).any(|held| held.node == node.name)
            })
    };
    let names = room::partitions(snapshot, request);
    let is_preempted = |job: &&QueueJob| {
        let low = job.partitions.iter().filter_map(|name| partition_of(name));
        low.filter(|low| low.preemptible).any(|low| names.iter().any(|name| preempts(name, low, job)))
    };
    snapshot.jobs.iter().filter(|job| job.ours && job.running.is_some()).filter(is_preempted).collect()
}

/// Returns the drawback that Slurm may preempt running jobs of the user for the changed request, but not for
/// the request before.
pub(crate) fn preempts_own(snapshot: &Snapshot, before: &Request, changed: &Request) -> Option<Drawback> {
    let known: BTreeSet<&str> =
        own_preempted(snapshot, before).into_iter().map(|job| job.id.as_str()).collect();
    let added = own_preempted(snapshot, changed).into_iter().filter(|job| !known.contains(job.id.as_str()));
    let jobs: Vec<String> = added.map(|job| job.id.clone()).collect();
    (!jobs.is_empty()).then_some(Drawback::PreemptsOwn { jobs })
}
