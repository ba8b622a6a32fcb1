//! A simulated site: its nodes, the true speeds of its GPUs, and how long operations take.

use std::collections::BTreeMap;

use hsched_model::{BitRate, Cluster, GpuType, Seconds, Speed};

/// A simulated site.
#[derive(Clone, Debug)]
pub struct SimulatedSite {
    /// Its nodes; GPUs that are in use there are other people's, for good. CPUs and memory are never scarce.
    pub cluster: Cluster,
    /// Rate between nodes where the cluster does not say.
    pub network: BitRate,
    /// Rate between GPUs of a node where the cluster does not say.
    pub intra_node: BitRate,
    /// How fast models really are, by model and GPU type; a job on a GPU without a speed fails.
    pub speeds: BTreeMap<String, BTreeMap<GpuType, Speed>>,
    /// The most by which the computing times of a rank's epochs differ from the true speed, as a part of them.
    pub noise: f64,
    /// Seed of that noise.
    pub seed: u64,
    pub delays: Delays,
    pub saving: Saving,
    /// Whether jobs run on the very nodes of their plan.
    pub pinned: bool,
    /// Longest walltime of a job that asks for no shorter one.
    pub walltime: Option<Seconds>,
    /// Time between the signal and the end of a job at its walltime, where the job does not say.
    pub grace: Seconds,
}

impl SimulatedSite {
    /// Returns a site that ends its jobs as they finish: no delays, no noise and no limits.
    pub fn new(
        cluster: Cluster,
        [network, intra_node]: [BitRate; 2],
        speeds: BTreeMap<String, BTreeMap<GpuType, Speed>>,
    ) -> Self {
        Self {
            cluster,
            network,
            intra_node,
            speeds,
            noise: 0.0,
            seed: 0,
            delays: Delays::default(),
            saving: Saving::AfterStep,
            pinned: false,
            walltime: None,
            grace: Seconds(10.0),
        }
    }
}

/// How long things take that are no training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delays {
    /// Time from a submission, or from when GPUs become free, to the start of a job.
    pub start: Seconds,
    /// From the start of a job to the first step of its ranks.
    pub setup: Seconds,
    /// From the end of the ranks to the end of the job: until then it holds its GPUs.
    pub end: Seconds,
    /// From the death of a node to the moment when its controller knows.
    pub node_down: Seconds,
}

/// What jobs do when they are asked to save and end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Saving {
    /// They save after the step that they are in, and go on from there.
    #[default]
    AfterStep,
    /// They save after the epoch that they are in.
    AfterEpoch,
    /// They do not heed it.
    Never,
}
