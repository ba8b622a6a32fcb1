//! Small changes of a request that bring its start forward: which there are, what they cost, and how much sooner it starts with them.
//!
//! It knows neither scripts nor commands: whoever asks says which changes can be made, and with what place in the queue.

mod candidates;
mod change;
mod choice;
mod drawback;
mod estimates;
mod obstacle;
mod past_runs;
mod room;

pub use self::change::{Change, ChangeSet};
pub use self::drawback::Drawback;
pub use self::estimates::{ChangeEstimate, ChangeEstimates, ChangeQuestion, estimate_changes};
pub use self::obstacle::obstacle;
pub use self::past_runs::{Need, PastRun, PastRuns, RunEnd};
