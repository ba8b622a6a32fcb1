//! Why a job is pending: its reason with the numbers behind it, the jobs before it, and the available room.

mod advice;
mod ahead;
mod explanation;
mod partition;
mod pending;
mod remedy;
mod room;
mod tried;
mod words;
mod worth;

pub use self::advice::{Advice, Futures, StartAdvice};
pub use self::ahead::{Ahead, AheadJob, Cause};
pub use self::explanation::{JobFacts, StateKind, WaitExplanation};
pub use self::pending::{explain, is_component, update_id};
pub use self::remedy::Remedy;
pub use self::words::{asked, span};
