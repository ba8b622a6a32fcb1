//! Bundles at given prices: a job's cheapest bundle of GPUs, and all bundles that are almost as cheap.
//!
//! A bundle is a list of counts by type. Its cost is the job's completion time with the fastest ring of any
//! placement, plus the cost of being late. Its value is the cost plus the prices of its GPUs, in seconds of
//! that job. Nodes are represented only by their shapes.

mod across;
mod pricer;
mod rings;
mod stock;

pub(super) use self::across::StepTimes;
pub(super) use self::pricer::{Bundle, Pricer, price};
pub(super) use self::rings::{Rings, holds};
pub(super) use self::stock::Stock;
