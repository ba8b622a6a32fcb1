//! Prices and a plan for very many jobs, using lists of bundles shared by equal jobs.
//!
//! Prices are first optimised over the lists only, which is fast. Then each kind of job searches for its
//! cheapest bundle at these prices, which is added to the list with its neighbours, until no kind finds a
//! cheaper one (`prices`). The best proven value belongs to a mix of a few choices: it is rounded job by job
//! (`rounding`), adjusted to the offered GPUs (`switching`) and placed on nodes
//! (`nodes`; blocks of GPUs by `filling`), where they exchange GPUs (`exchange`).

mod catalogue;
mod exchange;
mod filling;
mod kinds;
mod leaving;
mod nodes;
mod prices;
mod rounding;
mod rules;
mod switching;

pub(super) use self::kinds::JobKinds;
pub(super) use self::nodes::on_nodes;
pub(super) use self::prices::{BalancedPrices, ClimbPeak, Mix, clear};
pub(super) use self::rounding::round;
pub(super) use self::rules::{NodeRule, broken, most_broken};
pub(super) use self::switching::switch;
