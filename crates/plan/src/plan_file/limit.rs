//! The time limit of the partitions in a plan file.

use crate::plan_file::PlanFile;
use crate::plan_file::node::PlanPartition;
use hsched_model::{Cluster, Job, JobDefaults, Partition, Seconds};

impl PlanFile {
    /// Returns the shortest time limit among a job's partitions, if any is known.
    pub fn time_limit(&self, job: &Job, defaults: &JobDefaults) -> Option<Seconds> {
        let partition = |partition: &PlanPartition| Partition {
            name: partition.name.clone(),
            default: partition.default,
            max_time: partition.max_time_s.map(Seconds),
        };
        let partitions = self.partitions.iter().map(partition).collect();
        Cluster { partitions, ..Cluster::default() }.time_limit(job, defaults)
    }
}
