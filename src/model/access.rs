//! Which nodes jobs may use, by their partitions, and what their ranks need there.

use crate::model::{Cluster, Job, JobDefaults, Node, RankNeeds};

/// The nodes that each of some jobs may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The partitions that the jobs go to, each once.
    groups: Vec<Group>,
    /// The place in `groups` of each job's.
    of_job: Vec<usize>,
    /// Whether the cluster says which nodes are in which partition.
    is_known: bool,
}

/// The jobs that go to the same partitions.
#[derive(Clone, Debug, PartialEq)]
struct Group {
    /// One partition, or several with commas; `None` where nobody names one.
    partitions: Option<String>,
    /// The most that a rank of any of the jobs needs.
    needs: RankNeeds,
}

impl Access {
    /// Returns the access of jobs to a cluster; jobs that name no partition go to that of `defaults`, else to
    /// the cluster's default.
    #[must_use]
    pub fn new<'a>(
        cluster: &Cluster,
        jobs: impl IntoIterator<Item = &'a Job>,
        defaults: &JobDefaults,
    ) -> Self {
        let is_known = cluster.nodes.iter().any(|node| !node.partitions.is_empty());
        let mut access = Self { groups: Vec::new(), of_job: Vec::new(), is_known };
        for job in jobs {
            let partitions = cluster.partition_of(job, defaults);
            let needs = defaults.rank_needs(job);
            let known = access.groups.iter().position(|group| group.partitions.as_deref() == partitions);
            let number = known.unwrap_or(access.groups.len());
            match access.groups.get_mut(number) {
                Some(group) => group.needs = group.needs.max(needs),
                None => access.groups.push(Group { partitions: partitions.map(str::to_owned), needs }),
            }
            access.of_job.push(number);
        }
        access
    }

    /// Returns the access of jobs that may run on any node, each rank beside what it needs.
    #[must_use]
    pub fn everywhere(needs: RankNeeds) -> Self {
        Self { groups: vec![Group { partitions: None, needs }], of_job: Vec::new(), is_known: false }
    }

    /// Returns whether a job, by its number, may run on nodes with this [`reach`](Self::reach).
    #[must_use]
    pub fn allows(&self, job: usize, reach: &[bool]) -> bool {
        self.of_job.get(job).is_none_or(|&group| reach[group])
    }

    /// Returns which groups of jobs may run on a node: nodes with equal reach serve the same jobs.
    #[must_use]
    pub fn reach(&self, node: &Node) -> Vec<bool> {
        self.groups.iter().map(|group| !self.is_known || group.has(node)).collect()
    }

    /// Returns what a rank needs on a node, whichever of the jobs it is of; `None` where no job may run there.
    #[must_use]
    pub fn needs(&self, node: &Node) -> Option<RankNeeds> {
        let groups = self.groups.iter().filter(|group| !self.is_known || group.has(node));
        groups.map(|group| group.needs).reduce(RankNeeds::max)
    }

    /// Returns the partitions of the jobs that may run on nodes with this reach, for people.
    #[must_use]
    pub fn name(&self, reach: &[bool]) -> String {
        let groups = self.groups.iter().zip(reach).filter(|(_, allowed)| **allowed);
        groups.filter_map(|(group, _)| group.partitions.as_deref()).collect::<Vec<_>>().join("+")
    }

    /// Returns the partition that a job goes to, or several with commas, where that is known.
    #[must_use]
    pub fn partition(&self, job: usize) -> Option<&str> {
        self.of_job.get(job).and_then(|&group| self.groups[group].partitions.as_deref())
    }

    /// Returns the partitions that jobs go to, each once, in the order of the jobs.
    pub fn partitions(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().filter_map(|group| group.partitions.as_deref())
    }
}

impl Group {
    fn has(&self, node: &Node) -> bool {
        let Some(names) = &self.partitions else { return true };
        names.split(',').any(|name| node.partitions.contains(name.trim()))
    }
}

impl RankNeeds {
    /// Returns what suffices for either.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { cpus: self.cpus.max(other.cpus), memory: self.memory.max(other.memory) }
    }
}
