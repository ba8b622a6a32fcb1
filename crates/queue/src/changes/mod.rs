//! Small changes of a request that make it start sooner: the possible ones, their drawbacks and their gains.
//!
//! This module does not depend on scripts or commands: the caller determines which changes are possible, and
//! the job's position in the queue after each.

mod candidates;
mod change;
mod choice;
mod drawback;
mod estimates;
mod obstacle;
mod others_preempted;
mod past_runs;
mod preemption;
mod room;

pub use self::change::{Change, ChangeSet};
pub use self::drawback::{Drawback, jobs_in_words};
pub use self::estimates::{ChangeEstimate, ChangeEstimates, ChangeQuestion, estimate_changes};
pub use self::obstacle::obstacle;
pub use self::others_preempted::others_preempted;
pub(crate) use self::others_preempted::preempts_others;
pub use self::past_runs::{Need, PastRun, PastRuns, RunEnd};
pub use self::preemption::own_preempted;
pub(crate) use self::preemption::{preempted, preempts_own, qos_drawbacks};
