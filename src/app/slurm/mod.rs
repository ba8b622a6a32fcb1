//! Slurm as the batch system of commands: its world, the user's queue and rights, the snapshot of all jobs,
//! and batch scripts. Another batch system would need a folder like this one, and a crate with its world.
//!
//! Of the program, only this folder and the modules that `tests/it/layers.rs` lists use `hsched_slurm`.

mod allocation;
pub(crate) mod cached_query;
pub(crate) mod client;
mod cluster;
pub(crate) mod expected_starts;
pub(crate) mod new_job;
pub(crate) mod permissions;
mod pool_arrays;
pub(crate) mod queue_look;
mod saved_cluster;
pub(crate) mod sbatch_options;
pub(crate) mod script;
pub(crate) mod script_files;
pub(crate) mod script_moves;
pub(crate) mod script_outlook;
pub(crate) mod script_refusal;
pub(crate) mod script_speeds;
pub(crate) mod script_submission;
pub(crate) mod shown_advice;
pub(crate) mod why;
mod world;

pub(crate) use self::allocation::{
    AllocatedDevices, NotSubmitted, PoolAllocation, allocated_nodes, allocation_end, cancel_pending,
    devices_of, is_over, mark_dead, mark_dead_soon, pool_allocations, submit,
};
pub(crate) use self::cluster::{cluster, cluster_if_present, completed, printed_cluster};
pub(crate) use self::pool_arrays::{pool_arrays, submit_array, throttle};
pub(crate) use self::saved_cluster::SavedClusterArgs;
pub(crate) use self::world::{NAME, QueueWorld, held, held_by, tagged_jobs, world};
