//! Bundles at given prices: a job's cheapest bundle of GPUs, and all that are nearly as cheap.
//!
//! A bundle is counts by type. It costs its job's completion time, with the fastest ring that any placement of
//! it could have, and the prices of its GPUs, which are in seconds of that job. Nodes are known by their
//! shapes alone.

mod across;
mod pricer;
mod rings;
mod stock;

pub(super) use self::across::StepTimes;
pub(super) use self::pricer::{Bundle, Pricer, price};
pub(super) use self::rings::{Rings, holds};
pub(super) use self::stock::Stock;
