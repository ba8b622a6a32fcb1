//! MLF-H of "Job Scheduling for Large-Scale Machine Learning Clusters" (2020): tasks in the order of a priority that knows
//! what machine learning gains from them, on servers that are not overloaded.
//!
//! `mlf-h` orders whole jobs, and for `mlf-rl` a net does; task graphs and their placement are for `graphs`. Equation numbers are the paper's.

mod graphs;
mod learnt;
mod mlf;
mod net;
mod net_file;
mod place;
mod priority;
mod servers;

pub use self::graphs::{GraphOptions, GraphRecord, replay_graphs};
pub use self::learnt::Chooser;
pub(super) use self::learnt::MLF_RL;
pub(super) use self::learnt::{FEATURES, MlfRl, RecordedChoice};
pub(super) use self::mlf::MLF_H;
pub use self::net::Net;
pub(super) use self::net::{Adam, discounted};
use self::net_file::net_of;
pub use self::net_file::text_of;
use self::place::round as graph_round;
pub use self::place::{GraphRound, Placed, TaskName};
pub use self::priority::Priority;
use self::priority::{PriorityInputs, whole};

/// What users may tune. Limits are parts of what a server has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MlfsParameters {
    /// α, the share of what the training gains in a priority; the rest is what the computation needs.
    pub alpha: f64,
    /// γ, how much what waits for a task counts.
    pub gamma: f64,
    /// γ of the deadline, of the time left, and of the time waited.
    pub terms: [f64; 3],
    /// The seconds in which these times are counted.
    pub unit: f64,
    /// From what use on a server is overloaded.
    pub server_limit: f64,
    /// The same of a GPU.
    pub gpu_limit: f64,
    /// From what mean degree of use on the cluster is busy.
    pub cluster_limit: f64,
    /// The part of the tasks of overloaded GPUs that may be moved away.
    pub part: f64,
    /// Whether all tasks of a job get places, or none.
    pub gang: bool,
    /// Whether a task has its GPU for itself.
    pub exclusive: bool,
    /// Seconds that a task loses when it is moved.
    pub restart: f64,
}

impl Default for MlfsParameters {
    fn default() -> Self {
        Self {
            alpha: 0.3,
            gamma: 0.8,
            terms: [0.3, 0.3, 0.35],
            unit: 3600.0,
            server_limit: 0.9,
            gpu_limit: 0.9,
            cluster_limit: 0.9,
            part: 0.1,
            gang: false,
            exclusive: false,
            restart: 30.0,
        }
    }
}
