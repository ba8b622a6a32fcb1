//! The types shared by all crates: jobs, GPUs, nodes, time and units, with invariants checked in
//! constructors, and the files that contain them.

pub mod catalogue;
pub mod formats;

mod access;
mod choice;
mod cluster;
mod error_id;
mod estimates;
mod gpu_type;
mod graph;
pub mod hostlist;
mod job;
mod job_defaults;
mod job_id;
mod job_types;
mod name;
mod node_state;
pub mod number;
mod offer;
mod placed_rank;
mod replica;
mod request;
pub mod serde_defaults;
mod speed;
mod stop;
mod stuck;
mod summary;
mod unit;
mod walltime;

pub use self::access::{Access, NodeRefusal};
pub use self::choice::{Candidate, Choice, ChoiceReason, choose, worth_a_look};
pub use self::cluster::{Cluster, GpuStock, Node, Partition, Selector, Usage};
pub use self::error_id::ErrorId;
pub use self::estimates::Estimates;
pub use self::gpu_type::{GpuType, split_mig};
pub use self::graph::{GraphJob, GraphTask, RESOURCES, Server};
pub use self::job::{
    Checkpoint, Command, Copies, CopyOptimizer, Deadline, GoalMode, Job, Launch, Precision, Target, Variant,
};
pub use self::job_defaults::JobDefaults;
pub use self::job_id::JobId;
pub use self::name::{JobName, NameError, NodeName};
pub use self::node_state::{Availability, NodeState};
pub use self::offer::{HeldResources, Holdings, OfferedNode, RankNeeds, keep_to_ranks};
pub use self::placed_rank::PlacedRank;
pub use self::replica::{ByType, Replica, Sharing};
pub use self::request::{
    Asks, Cost, FurtherOptions, GpuAsk, Request, RequestId, RequestOption, SbatchOptions, Unit,
};
pub use self::speed::Speed;
pub use self::stop::{Stop, StopRule};
pub use self::stuck::StuckRule;
pub use self::summary::TypeSummary;
pub use self::unit::{BitRate, Bytes, Seconds, Time};
pub use self::walltime::{QueueChoice, SpeedBasis, Walltime};
