//! Prices and a plan for very many jobs, from lists of bundles that equal jobs share.
//!
//! Prices are looked for over the lists alone, which takes little time; then each kind of job is asked for its cheapest
//! bundle of all at these prices, which joins the list with its neighbours, until no kind of job knows a cheaper one
//! (`prices`). What the lists prove most with is a mix of a few choices: it is rounded job by job (`rounding`), switched
//! towards what is on offer (`switching`) and put on nodes (`nodes`).

mod catalogue;
mod kinds;
mod nodes;
mod prices;
mod rounding;
mod rules;
mod switching;

pub(super) use self::kinds::JobKinds;
pub(super) use self::nodes::on_nodes;
pub(super) use self::prices::{BalancedPrices, clear};
pub(super) use self::rounding::round;
pub(super) use self::rules::{NodeRule, broken};
pub(super) use self::switching::switch;
