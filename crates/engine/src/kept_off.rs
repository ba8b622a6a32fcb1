//! Nodes that a job avoids for now: slow ones if its rule says so, and nodes on which its check failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::pool::MemberId;
use crate::{JobState, SlowNode, State};
use hsched_model::{Access, Availability, Cluster, Job, JobDefaults, NodeName, Seconds, Time};

/// How long a job avoids a node on which its check failed.
const UNFIT: Seconds = Seconds(86_400.0);

/// Knowledge about nodes to avoid at one moment.
pub struct KeptOff<'a> {
    slow: Vec<SlowNode>,
    cluster: &'a Cluster,
    /// For each node of the cluster, the name that jobs and their reports use: in a pool, Slurm's name.
    plain: Vec<NodeName>,
    defaults: &'a JobDefaults,
    at: Time,
}

impl<'a> KeptOff<'a> {
    /// Returns the knowledge at one moment about the nodes of a cluster.
    pub fn new(state: &State, cluster: &'a Cluster, defaults: &'a JobDefaults, at: Time) -> Self {
        let plain = cluster.nodes.iter().map(|node| MemberId::plain(&node.name)).collect();
        Self { slow: state.node_times.slow(at), cluster, plain, defaults, at }
    }

    /// Returns the job as it is planned, with the nodes that it must avoid.
    pub(super) fn planned(&self, tracked: &JobState) -> Arc<Job> {
        let mut avoided = self.nodes(&tracked.job, &tracked.unfit);
        // A job stays on the nodes that it already has.
        let submissions = tracked.phase.submissions().iter();
        submissions.for_each(|submission| {
            avoided.retain(|node| !submission.attempt.gpus.0.contains_key(node));
        });
        if avoided.is_empty() {
            return Arc::clone(&tracked.job);
        }
        Arc::new(Job { avoided, ..Job::clone(&tracked.job) })
    }

    /// Returns the nodes that a job must avoid; `unfit` are those on which its check failed, with the time.
    /// Empty if the other nodes have too few GPUs for the job.
    pub fn nodes(&self, job: &Job, unfit: &BTreeMap<NodeName, Time>) -> BTreeSet<NodeName> {
        let slow = self.slow.iter().filter(|_| job.avoid_slow).map(|slow| slow.node.clone());
        let unfit =
            unfit.iter().filter(|(_, at)| self.at.since(**at).0 < UNFIT.0).map(|(node, _)| node.clone());
        let names: BTreeSet<NodeName> = slow.chain(unfit).collect();
        if names.is_empty() {
            return names;
        }
        let nodes = self.cluster.nodes.iter().zip(&self.plain);
        let nodes = nodes.filter(|(_, plain)| names.contains(*plain));
        let nodes: BTreeSet<NodeName> = nodes.map(|(node, _)| node.name.clone()).collect();
        if nodes.is_empty() || self.leaves_room(job, &nodes) { nodes } else { BTreeSet::new() }
    }

    /// Returns whether a job can run without some nodes after other jobs have ended.
    fn leaves_room(&self, job: &Job, without: &BTreeSet<NodeName>) -> bool {
        let access = Access::new(self.cluster, [job], self.defaults);
        let is_usable = |gpu_type| job.gpu_types.as_ref().is_none_or(|types| types.contains(gpu_type));
        let nodes = self.cluster.nodes.iter().filter(|node| {
            !without.contains(&node.name)
                && node.state.availability() == Availability::Up
                && access.refusal(0, node).is_none()
        });
        let stocks = nodes.flat_map(|node| &node.gpus).filter(|stock| is_usable(&stock.gpu_type));
        stocks.map(|stock| u64::from(stock.total)).sum::<u64>() >= u64::from(job.least_gpus())
    }
}
