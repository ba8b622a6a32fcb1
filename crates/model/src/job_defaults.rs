//! Defaults of a site or user for keys that a job does not set.

use crate::walltime::USUAL_MARGIN;
use crate::{Bytes, Estimates, Job, RankNeeds, Seconds};

/// Launch parameters that jobs get in addition to their own, or if they set none.
#[derive(Clone, Debug, PartialEq)]
pub struct JobDefaults {
    pub account: Option<String>,
    /// One partition, or several separated by commas.
    pub partition: Option<String>,
    pub qos: Option<String>,
    /// Shell lines run once per job, before its own.
    pub setup: Vec<String>,
    /// Shell lines run once per node, before the job's own.
    pub node_setup: Vec<String>,
    /// Options for `sbatch` before the job's own.
    pub sbatch: Vec<String>,
    /// Shell text that starts a command in an image, before the image and the command.
    pub container_command: String,
    /// At least 1.
    pub cpus_per_gpu: u32,
    pub memory_per_gpu: Option<Bytes>,
    /// The requested walltime as a multiple of the predicted time, at least 1; estimated speeds increase it
    /// further.
    pub time_margin: f64,
    /// Time between the stop signal and the end.
    pub grace: Seconds,
    /// Which estimated speeds may be used for jobs.
    pub estimate: Estimates,
    /// Whether the site supports job steps over heterogeneous components.
    pub het_steps: bool,
}

impl Default for JobDefaults {
    /// Returns defaults without additions and without time to save before the end.
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
    /// Returns the needs of a job's rank besides its GPU.
    pub fn rank_needs(&self, job: &Job) -> RankNeeds {
        let memory = job.launch.memory_per_gpu.or(self.memory_per_gpu);
        RankNeeds {
            cpus: job.launch.cpus_per_gpu.unwrap_or(self.cpus_per_gpu).into(),
            memory: memory.map_or(0, |memory| memory.0),
        }
    }
}
