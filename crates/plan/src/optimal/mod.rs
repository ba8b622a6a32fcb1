//! The policy `optimal`: minimises the objective and proves a lower bound.
//!
//! Prices bound the objective from below; jobs that answer to these prices make a good plan; for small
//! problems a search over all bundles that could still beat it closes the gap.

mod exact;
mod fit;
mod layout;
mod many;
mod memory;
mod policy;
mod primal;

pub(super) use self::fit::merge;
pub(super) use self::layout::inside;
pub(super) use self::policy::OPTIMAL;
pub use self::policy::bound;
