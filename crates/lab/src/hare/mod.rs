//! `hare`: tasks of all jobs in the order of their middle times, each on the GPU on which it ends first
//! ("Hare: Exploiting Inter-job and Intra-job Parallelism of Distributed Machine Learning on Heterogeneous
//! GPUs", HPDC 2022).
//!
//! Instead of the mixed-integer quadratic program of the paper's first step, `order` uses prices and one
//! sort.

mod entry;
mod gangs;
mod gaps;
mod list;
mod order;
mod tasks;

pub(super) use self::entry::HARE;
use self::gangs::Hare;
pub use self::list::{Assign, schedule};
pub use self::order::{RoundOrder, order};
use self::tasks::TasksOfHare;
