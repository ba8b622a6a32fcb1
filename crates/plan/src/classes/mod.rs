//! Classes of equal jobs, and the bundles of GPUs that they may choose from: shared by `horizon` and the trace bound.
//!
//! Jobs of one model, batch and limits form a [`Class`]. Its speeds are in steps (global batches) per second, so that jobs
//! with longer and shorter epochs are in one class.

mod candidates;
mod class;
mod envelope;
mod list;

pub(super) use self::class::{Class, Classes, steps_per_epoch};
pub(super) use self::envelope::{Envelope, Vertex};
pub(super) use self::list::Bundles;
