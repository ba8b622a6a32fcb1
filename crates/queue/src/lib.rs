//! What waits in Slurm's queue and when it starts: a snapshot of the queue, and a model of what becomes of it.
//!
//! Pure: no Slurm, no files, no clock. Times, seeds and budgets are arguments.

mod arrivals;
mod chance;
mod choice;
mod estimate;
mod floor;
mod forecast;
mod future;
mod hidden;
mod history;
mod hopes;
mod limits;
mod line;
mod moment;
mod others;
mod parts;
mod play;
mod race;
mod request;
mod scene;
mod score;
mod shape;
mod shares;
mod snapshot;
mod snapshot_file;
mod together;
mod whose;

pub use self::choice::{Candidate, Choice, Reason, choose, worth_a_look};
pub use self::estimate::{Calibration, Estimate, point_of};
pub use self::forecast::{Forecast, Outlook, Question, forecast, forecast_at};
pub use self::limits::{Limit, Refusal, is_limit_reason};
pub use self::race::race;
pub use self::request::{Place, Request, Standing, StandingSource};
pub use self::score::{Prediction, Score};
pub use self::shares::{Branch, Shares};
pub use self::snapshot::{
    AccountStanding, AgeWeight, Asks, Billing, Ended, GpuAsk, GpuCount, Held, NodeUse, QueueJob, QueueNode,
    QueuePartition, Reservation, Running, Scheduling, Snapshot, Weigh,
};
pub use self::snapshot_file::SnapshotError;
pub use self::together::{Chosen, Jobs, Offer, choose_together};
