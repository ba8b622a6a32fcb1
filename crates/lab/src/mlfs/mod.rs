//! MLF-H from "Job Scheduling for Large-Scale Machine Learning Clusters" (2020): tasks in the order of a
//! priority that considers the progress of training, on servers that are not overloaded.
//!
//! `mlf-h` orders whole jobs by this priority, and `mlf-rl` lets a network choose; `graphs` replays task
//! graphs and their placement. Equation numbers are those of the paper.

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
pub use self::place::{GraphPlacement, GraphRound, TaskName};
pub use self::priority::Priority;
use self::priority::{PriorityInputs, whole};

/// User-defined parameters. Limits are fractions of a server's resources.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MlfsParameters {
    /// α, the weight of the training's progress in a priority; the rest is the weight of computation.
    pub alpha: f64,
    /// γ, the weight of dependent tasks.
    pub gamma: f64,
    /// The weights γ of the deadline, the remaining time and the waiting time.
    pub terms: [f64; 3],
    /// The unit of these three times, in seconds.
    pub unit: f64,
    /// Use above which a server is overloaded.
    pub server_limit: f64,
    /// Use above which a GPU is overloaded.
    pub gpu_limit: f64,
    /// Mean degree of use above which the cluster is busy.
    pub cluster_limit: f64,
    /// Fraction of the tasks on a server's overloaded GPUs that may be moved next: those with the lowest
    /// priorities, at least one.
    pub part: f64,
    /// Whether either all tasks of a job are placed, or none.
    pub gang: bool,
    /// Whether a task has its GPU exclusively.
    pub exclusive: bool,
    /// Seconds that a moved task loses.
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
