//! The policy `optimal`: minimises the objective and proves a lower bound.
//!
//! Prices give a lower bound of the objective, and the jobs' choices at these prices give a good plan. For
//! small problems, a search over all bundles that could improve it closes the gap.

mod exact;
mod fit;
mod layout;
mod many;
mod memory;
mod plain;
mod policy;
mod primal;

pub(super) use self::fit::merge;
pub(super) use self::layout::inside;
pub(super) use self::policy::OPTIMAL;
pub use self::policy::bound;
