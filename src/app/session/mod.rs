//! A state directory in use: open, locked, with the deferred commands applied, and the world of its jobs.
//!
//! All changes of jobs use the same steps of a [`Session`]: open, apply deferred commands, observe, decide,
//! store the intents, act, report. The session itself makes no decisions.

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
