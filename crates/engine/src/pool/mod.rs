//! The protocol of a pool: several allocations that work on one state directory.
//!
//! A *member* is one `hsched run` in one allocation. The member that holds the lock of the state directory is
//! the *leader*: it alone writes the state and orders the other members to start submissions. A member claims
//! a submission before it starts it: it creates a file, which only one process can create.
//! docs/design/pool.md explains why that is safe.

mod array;
mod files;
mod leader;
mod member;
mod worker;

pub use self::array::{ArrayChange, QueuedArray, another_waits, array_changes};
pub use self::files::PoolFiles;
pub(crate) use self::files::{parse, write};
pub use self::leader::{Leader, PoolSighting};
pub(crate) use self::member::Orders;
pub use self::member::{
    ArrayPlan, Demand, MemberDevice, MemberId, MemberNode, Order, PoolPlan, PoolReport, StartedSubmission,
    SubmissionStart,
};
pub use self::worker::{Duty, Worker};

use crate::SubmissionKey;

/// The folder of the pool in a state directory.
pub const POOL: &str = "pool";

/// The file in which a member reports.
pub const REPORT: &str = "report";

/// The file in which the leader gives a member its orders.
pub const ORDERS: &str = "orders";

/// The folder of the claims in a pool's folder.
const CLAIMS: &str = "claims";

/// The folder that contains a folder for each member.
const MEMBERS: &str = "members";

/// Content of a claim that the leader made to take an order back.
const WITHDRAWN: &str = "withdrawn";

/// Returns the path of a submission's claim.
fn claim_path(of: &SubmissionKey) -> String {
    // Names contain no colon.
    format!("{CLAIMS}/{}:{}", of.run, of.name())
}

fn report_path(member: &MemberId) -> String {
    format!("{MEMBERS}/{member}/{REPORT}")
}

fn orders_path(member: &MemberId) -> String {
    format!("{MEMBERS}/{member}/{ORDERS}")
}

fn over_path(member: &MemberId) -> String {
    format!("{MEMBERS}/{member}/over")
}
