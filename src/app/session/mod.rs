//! A state directory at work: open, locked, with the deferred commands applied, and the world in which its jobs run.
//!
//! Whatever changes jobs takes the same steps through a [`Session`]: open, apply deferred commands, look, decide, write
//! down what is meant, act, tell. It decides nothing itself.

mod backend;
mod log;
mod open;
mod steps;
mod turn;

pub(crate) use self::backend::Backend;
pub(crate) use self::log::Log;
pub(crate) use self::open::{LOCAL_CLUSTER, QueueSession, Session, backend_kind};
pub(crate) use self::steps::JobsLook;
pub(crate) use self::turn::PlanOptions;
