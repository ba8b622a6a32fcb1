//! Replays a trace under a policy: jobs arrive and leave on a cluster that follows the cost model exactly.
//!
//! Hours of a cluster take milliseconds here. The replay calls policies through the same interface as the
//! engine ([`Policy::decide`](hsched_plan::Policy::decide), [`verify_change`](hsched_plan::verify_change)),
//! but without queues, submissions and retries of requests, which are part of the engine.

mod chance;
mod early;
mod event;
mod figures;
mod options;
mod present;
mod queue;
mod run;
mod tasks;
mod trace;
mod world;

pub use self::early::EarlyRule;
pub use self::event::{EventKind, ReplayEvent};
pub use self::figures::{Figures, ReplayRecord, ReplayedJob, TaskFacts};
pub use self::options::{Incidents, Loses, Options, Outage};
pub use self::run::{Hooks, ReplayError, replay};
pub use self::tasks::{TaskHistory, TaskPolicy, replay_tasks};
pub use self::trace::{Trace, TraceJob};
pub(super) use self::world::NO_TYPE;
