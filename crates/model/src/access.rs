//! The nodes that each job may use, determined by its partitions, the needs of its ranks, and the nodes that
//! it must avoid.

use std::collections::BTreeSet;

use crate::{Bytes, Cluster, Job, JobDefaults, Node, NodeName, RankNeeds};

/// The nodes that some jobs may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// Groups of jobs with the same partitions, needs and avoided nodes.
    groups: Vec<JobGroup>,
    /// Index in `groups` for each job.
    of_job: Vec<usize>,
    /// Whether the cluster lists the nodes of each partition.
    is_known: bool,
}

/// Jobs that may use the same nodes.
#[derive(Clone, Debug, PartialEq)]
struct JobGroup {
    /// One partition, or several separated by commas; `None` if none is named.
    partitions: Option<String>,
    /// The needs of a rank.
    needs: RankNeeds,
    /// Nodes that the jobs must avoid for now.
    avoided: BTreeSet<NodeName>,
}

/// Why a job may not use a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeRefusal {
    /// The node is in none of the job's partitions.
    Partition,
    /// The node lacks CPUs or memory for one of the job's ranks, in words.
    Needs(String),
    /// The job must avoid the node for now.
    Avoided,
}

impl Access {
    /// Returns the access of jobs to a cluster. Jobs that name no partition use that of `defaults`, or else
    /// the cluster's default.
    pub fn new<'a>(
        cluster: &Cluster,
        jobs: impl IntoIterator<Item = &'a Job>,
        defaults: &JobDefaults,
    ) -> Self {
        let is_known = cluster.nodes.iter().any(|node| !node.partitions.is_empty());
        let mut access = Self { groups: Vec::new(), of_job: Vec::new(), is_known };
        for job in jobs {
            let (partitions, needs) = (cluster.partition_of(job, defaults), defaults.rank_needs(job));
            let is_same = |group: &JobGroup| {
                group.partitions.as_deref() == partitions
                    && group.needs == needs
                    && group.avoided == job.avoided
            };
            let number = access.groups.iter().position(is_same).unwrap_or_else(|| {
                let (partitions, avoided) = (partitions.map(str::to_owned), job.avoided.clone());
                access.groups.push(JobGroup { partitions, needs, avoided });
                access.groups.len() - 1
            });
            access.of_job.push(number);
        }
        access
    }

    /// Returns the access of jobs that may run on any node with room for a rank's `needs`, according to
    /// [`Self::reach`]; [`Self::refusal`] refuses no node.
    pub fn everywhere(needs: RankNeeds) -> Self {
        let group = JobGroup { partitions: None, needs, avoided: BTreeSet::new() };
        Self { groups: vec![group], of_job: Vec::new(), is_known: false }
    }

    /// Returns why a job, given by index, may not use a node; `None` if it may.
    pub fn refusal(&self, job: usize, node: &Node) -> Option<NodeRefusal> {
        let group = &self.groups[*self.of_job.get(job)?];
        if self.is_known && !group.has(node) {
            return Some(NodeRefusal::Partition);
        }
        if group.avoided.contains(&node.name) {
            return Some(NodeRefusal::Avoided);
        }
        group.needs.missing_on(node).map(NodeRefusal::Needs)
    }

    /// Returns, for each group of jobs, whether its jobs may run on a node: nodes with equal reach serve the
    /// same jobs. `None` if the node is in no partition of these jobs.
    pub fn reach(&self, node: &Node) -> Option<Vec<bool>> {
        let is_in = |group: &JobGroup| !self.is_known || group.has(node);
        let is_avoided = |group: &JobGroup| group.avoided.contains(&node.name);
        let reach =
            |group: &JobGroup| is_in(group) && !is_avoided(group) && group.needs.missing_on(node).is_none();
        self.groups.iter().any(is_in).then(|| self.groups.iter().map(reach).collect())
    }

    /// Returns the needs of each rank of a job, given by index, besides its GPU.
    pub fn needs(&self, job: usize) -> RankNeeds {
        let group = self.of_job.get(job).copied().unwrap_or_default();
        self.groups.get(group).map(|group| group.needs).unwrap_or_default()
    }

    /// Returns the display name of the partitions whose jobs may use nodes with this reach.
    pub fn name(&self, reach: &[bool]) -> String {
        let groups = self.groups.iter().zip(reach).filter(|(_, allowed)| **allowed);
        each_once(groups.filter_map(|(group, _)| group.partitions.as_deref())).join("+")
    }

    /// Returns the partition of a job, or several separated by commas, if known.
    pub fn partition(&self, job: usize) -> Option<&str> {
        self.of_job.get(job).and_then(|&group| self.groups[group].partitions.as_deref())
    }

    /// Returns the partitions of all jobs, each once, in job order.
    pub fn partitions(&self) -> Vec<&str> {
        each_once(self.groups.iter().filter_map(|group| group.partitions.as_deref()))
    }
}

fn each_once<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut known = Vec::new();
    for name in names {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    known
}

impl JobGroup {
    fn has(&self, node: &Node) -> bool {
        let Some(names) = &self.partitions else { return true };
        names.split(',').any(|name| node.partitions.contains(name.trim()))
    }
}

impl RankNeeds {
    /// Returns the need of a rank that a node cannot meet even if it is idle, in words.
    fn missing_on(self, node: &Node) -> Option<String> {
        if node.cpus.is_some_and(|usage| usage.total < self.cpus) {
            return Some(format!("{} CPUs", self.cpus));
        }
        let is_short = node.memory.is_some_and(|usage| usage.total < self.memory);
        is_short.then(|| format!("{} of memory", Bytes(self.memory)))
    }
}
