//! What waits in Slurm's queue and when it starts: a snapshot of the queue, and a model of what becomes of it.
//!
//! Pure: no Slurm, no files, no clock. Times, seeds and budgets are arguments.

mod snapshot;

pub use self::snapshot::{
    AccountStanding, Asks, Billing, Ended, GpuAsk, GpuCount, Held, NodeUse, QueueJob, QueueNode,
    QueuePartition, Reservation, Running, Scheduling, Snapshot, SnapshotError, Weigh,
};
