//! Building blocks of policies: GPUs by node, pending jobs in order, turns of whole epochs, and jobs as tasks
//! on single GPUs.
//!
//! A policy that gives jobs their requested number of GPUs starts from a [`SchedulingState`]; one that
//! allocates GPUs itself, from a [`Floor`]. [`Turns`] keep a job on its GPUs for some epochs. [`Tasks`] model
//! papers in which each task of a job computes alone.

mod floor;
mod lasting_order;
mod line;
mod scheduling_state;
mod tasks;
mod turns;

pub use crate::cost::{SHARE_TOLERANCE, comm_time};

pub use self::floor::{Floor, Repacking, Want};
pub use self::lasting_order::LastingOrder;
pub use self::line::{Line, Merge, NextJob, OrderKey, by_arrival, order};
pub use self::scheduling_state::{Rates, SchedulingState, Seat, fastest};
pub use self::tasks::{TIE, TaskGpu, TaskJob, TaskRun, Tasks};
pub use self::turns::{Turns, held, in_words, placed, slots, whole_left, within_reach};
