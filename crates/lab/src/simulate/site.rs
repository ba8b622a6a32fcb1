//! A simulated site: its nodes, the true speeds of its GPUs, and the durations of operations.

use std::collections::BTreeMap;

use hsched_model::{BitRate, Cluster, GpuType, NodeName, Seconds, Speed};

/// A simulated site.
#[derive(Clone, Debug)]
pub struct SimulatedSite {
    /// The nodes; GPUs in use belong to other users forever. CPUs and memory are unlimited.
    pub cluster: Cluster,
    /// Default rate between nodes.
    pub network: BitRate,
    /// Default rate between GPUs of a node.
    pub intra_node: BitRate,
    /// The true speeds by model and GPU type; a job on a GPU without a speed fails.
    pub speeds: BTreeMap<String, BTreeMap<GpuType, Speed>>,
    /// Maximum relative deviation of a rank's epoch computing time from the true speed.
    pub noise: f64,
    /// Factor on the computing time of ranks, for slow nodes.
    pub slow: BTreeMap<NodeName, f64>,
    /// Seed of the noise.
    pub seed: u64,
    pub delays: Delays,
    pub saving: SaveReaction,
    /// Whether jobs run exactly on the nodes of their plan.
    pub pinned: bool,
    /// Maximum time limit; a job with a shorter limit keeps its own.
    pub walltime: Option<Seconds>,
    /// Default time between the signal and the end of a job at its time limit.
    pub grace: Seconds,
}

impl SimulatedSite {
    /// Returns a site without delays, noise and limits.
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
            slow: BTreeMap::new(),
            seed: 0,
            delays: Delays::default(),
            saving: SaveReaction::AfterStep,
            pinned: false,
            walltime: None,
            grace: Seconds(10.0),
        }
    }
}

/// Durations of everything but training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delays {
    /// Time from a submission, or from the release of GPUs, to the start of a job.
    pub start: Seconds,
    /// Time from the start of a job to the first step of its ranks.
    pub setup: Seconds,
    /// Time from the end of the ranks to the end of the job, which holds its GPUs until then.
    pub end: Seconds,
    /// Time from the death of a node until its controller notices.
    pub node_down: Seconds,
}

/// Reaction of jobs that are asked to save and end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SaveReaction {
    /// The jobs save after the current step and resume from there.
    #[default]
    AfterStep,
    /// The jobs save after the current epoch.
    AfterEpoch,
    /// The jobs ignore the request.
    Never,
}
