//! Recommended requests, from the use of past runs and from the runs that a limit stopped.

use crate::review::quantiles::quantile;
use hsched_model::number::{to_f64, to_usize};

/// The minimum number of runs of a name for a recommendation.
pub const ENOUGH: usize = 10;

/// Maximum fraction of the past runs that a recommendation may cut.
const CUT: f64 = 0.02;

/// A lower recommendation must be at most this fraction of the request; a smaller reduction is no gain.
pub(super) const GAIN: f64 = 0.9;

/// Minimum fraction of the gap between the request and the [`USUAL`] use that a recommendation releases. A
/// smaller change is not worthwhile.
const GIVEN_BACK: f64 = 0.6;
/// The minimum fraction if a few runs used far more than the rest, and the recommendation includes them.
const GIVEN_BACK_FAR: f64 = 0.3;
/// A use of more than this many times the usual use counts as far more.
const FAR: f64 = 1.5;
/// The quantile of use that counts as usual: for 100 or more runs, no more than the 98 % quantile by any
/// definition of quantiles.
pub(super) const USUAL: f64 = 0.97;

/// Minimum fraction of the usual margin above the largest use that a recommendation must keep.
const LEAST_ROOM: f64 = 0.3;

/// Factor for raising a request if hardly any run was stopped.
const SLIGHTLY: f64 = 1.1;

/// Maximum factor for raising a request.
const MOST_RAISED: f64 = 3.0;

/// Runs that were stopped at the limit count as hung if they are few enough for a recommendation to cut them,
/// and the usual run takes less than this fraction of the limit.
const HANGS: f64 = 0.6;

/// The needs of past runs for one resource.
pub(super) struct ResourceNeeds {
    pub asked: f64,
    /// The needs of the runs that are not in `stopped`, in ascending order. For a run that was stopped at
    /// less than the present request, the need is slightly more than its own request.
    pub uses: Vec<f64>,
    /// Number of runs stopped because they needed more than the present request.
    pub stopped: usize,
}

/// Rounding of a recommendation: up to a step that depends on its size, or down to a whole minute or MiB.
#[derive(Clone, Copy)]
pub(super) struct Rounding {
    pub up: fn(f64) -> f64,
    pub down: fn(f64) -> f64,
}

/// Returns how many of `runs` a recommendation may cut.
pub(super) fn may_cut(runs: usize) -> usize {
    to_usize(CUT * to_f64(runs))
}

/// Returns the recommended request, which would have cut at most `may_cut` of the runs; `None` if no change
/// is recommended.
pub(super) fn recommended(needs: &ResourceNeeds, may_cut: usize, rounding: Rounding) -> Option<f64> {
    if needs.uses.len() + needs.stopped < ENOUGH {
        return None;
    }
    let usual = quantile(&needs.uses, USUAL);
    let hang = usual.is_some_and(|usual| usual < HANGS * needs.asked) && needs.stopped <= may_cut;
    if needs.stopped == 0 || hang {
        lowered(needs, usual?, may_cut - needs.stopped.min(may_cut), rounding)
    } else {
        Some(raised(needs, may_cut, rounding))
    }
}

/// Returns a lower request: the largest use plus a margin, after dropping up to `may_cut` of the largest
/// uses; `None` if no such request is a worthwhile reduction.
fn lowered(needs: &ResourceNeeds, usual: f64, may_cut: usize, rounding: Rounding) -> Option<f64> {
    let ResourceNeeds { asked, uses, .. } = needs;
    let largest_first = uses.iter().rev().take(may_cut + 1);
    largest_first.zip(0..).find_map(|(largest, left_out)| {
        let far = (left_out == 0 && *largest > FAR * usual).then_some(GIVEN_BACK_FAR);
        [GIVEN_BACK].into_iter().chain(far).find_map(|given_back| {
            let most = (rounding.down)(most(*asked, usual, given_back));
            let room = room(uses.len());
            let wanted = (rounding.up)(largest * room).min(most);
            (wanted >= largest * (1.0 + LEAST_ROOM * (room - 1.0)) && wanted > 0.0).then_some(wanted)
        })
    })
}

/// Returns the largest request that is a worthwhile reduction, given the usual use.
pub(super) fn worth_it(asked: f64, usual: f64) -> f64 {
    most(asked, usual, GIVEN_BACK)
}

fn most(asked: f64, usual: f64, given_back: f64) -> f64 {
    (asked - given_back * (asked - usual)).min(GAIN * asked)
}

/// Returns the factor for the largest of `runs` uses: with fewer runs, later runs may exceed it more.
fn room(runs: usize) -> f64 {
    1.1 + 1.0 / to_f64(runs).sqrt() + 7.0 / to_f64(runs)
}

/// Returns a higher request. The need of the stopped runs is unknown: the more runs were stopped, the further
/// their limit was below the usual need.
fn raised(needs: &ResourceNeeds, may_cut: usize, rounding: Rounding) -> f64 {
    let ResourceNeeds { asked, uses, stopped } = needs;
    if *stopped <= may_cut {
        return (rounding.down)(SLIGHTLY * asked);
    }
    let part = to_f64(*stopped) / to_f64(stopped + uses.len());
    let factor = match part {
        part if part <= 0.05 => 1.25,
        part if part <= 0.25 => 1.5,
        _ => 2.0,
    };
    let largest = uses.last().copied().unwrap_or(0.0);
    (rounding.up)(largest.max(factor * asked)).min((rounding.down)(MOST_RAISED * asked))
}
