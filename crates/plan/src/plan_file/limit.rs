//! The time limit of the partitions in a plan file.

use crate::plan_file::PlanFile;
use hsched_model::{Job, JobDefaults, Seconds};

impl PlanFile {
    /// Returns the least time limit of the partitions that a job may go to, if any is known.
    #[must_use]
    pub fn time_limit(&self, job: &Job, defaults: &JobDefaults) -> Option<Seconds> {
        let partitions = &self.partitions;
        let named = job.launch.partition.as_deref().or(defaults.partition.as_deref());
        let names: Vec<&str> = match named {
            Some(names) => names.split(',').map(str::trim).collect(),
            None => partitions.iter().filter(|own| own.default).map(|own| own.name.as_str()).collect(),
        };
        let limit = |name: &&str| partitions.iter().find(|own| own.name == *name)?.max_time_s;
        names.iter().filter_map(limit).min_by(f64::total_cmp).map(Seconds)
    }
}
