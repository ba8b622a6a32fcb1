//! Classes of equal jobs and their candidate bundles, shared by `horizon` and the trace bound.
//!
//! Jobs with the same model, batch and limits form a [`Class`]. Its speeds are in steps (global batches) per
//! second, so that jobs with longer and shorter epochs belong to one class.

mod candidates;
mod class;
mod envelope;
mod list;
mod rising;

pub(super) use self::class::{Class, Classes, steps_per_epoch};
pub(super) use self::envelope::{Envelope, Vertex};
pub(super) use self::list::Bundles;
pub(super) use self::rising::RisingBundles;
