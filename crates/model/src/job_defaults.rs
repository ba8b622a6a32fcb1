//! Defaults of a site or user for keys that a job does not set.

use crate::walltime::USUAL_MARGIN;
use crate::{Bytes, Estimates, Job, RankNeeds, Seconds};

/// What jobs are started with beside what they say themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct JobDefaults {
    pub account: Option<String>,
    /// One partition, or several with commas.
    pub partition: Option<String>,
    pub qos: Option<String>,
    /// Shell lines run once per job, before its own.
    pub setup: Vec<String>,
    /// Shell lines run once per node of a job, before its own.
    pub node_setup: Vec<String>,
    /// Words for `sbatch` before the job's own.
    pub sbatch: Vec<String>,
    /// Shell text that starts a command in an image, before both.
    pub container_command: String,
    /// At least 1.
    pub cpus_per_gpu: u32,
    pub memory_per_gpu: Option<Bytes>,
    /// The walltime asked for as a multiple of the predicted time, at least 1; more where that is estimated.
    pub time_margin: f64,
    /// Time between the stop signal and the end.
    pub grace: Seconds,
    /// Which estimated speeds may decide where jobs run.
    pub estimate: Estimates,
    /// Whether the site takes job steps over heterogeneous components.
    pub het_steps: bool,
}

impl Default for JobDefaults {
    /// Nothing beside what jobs say themselves, and no time to save before the end.
    fn default() -> Self {
        Self {
            account: None,
            partition: None,
            qos: None,
            setup: Vec::new(),
            node_setup: Vec::new(),
            sbatch: Vec::new(),
            container_command: String::new(),
            cpus_per_gpu: 1,
            memory_per_gpu: None,
            time_margin: USUAL_MARGIN,
            grace: Seconds(0.0),
            estimate: Estimates::Off,
            het_steps: false,
        }
    }
}

impl JobDefaults {
    /// Returns what a rank of a job needs beside its GPU.
    #[must_use]
    pub fn rank_needs(&self, job: &Job) -> RankNeeds {
        let memory = job.launch.memory_per_gpu.or(self.memory_per_gpu);
        RankNeeds {
            cpus: job.launch.cpus_per_gpu.unwrap_or(self.cpus_per_gpu).into(),
            memory: memory.map_or(0, |memory| memory.0),
        }
    }
}
