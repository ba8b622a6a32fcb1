//! How much to ask for, by what past runs used and by which of them were stopped for it.

use crate::review::quantiles::quantile;
use hsched_model::number::{to_f64, to_usize};

/// With fewer runs of a name, nothing is recommended.
pub const ENOUGH: usize = 10;

/// The part of the past runs that a recommendation may have cut.
const CUT: f64 = 0.02;

/// What a recommendation asks for at most, as a part of what was asked: less is no gain.
pub(super) const GAIN: f64 = 0.9;

/// The part of the gap between what was asked and the [`USUAL`] use that a recommendation gives back at least. Less is not
/// worth a change.
const GIVEN_BACK: f64 = 0.6;
/// The same where a few runs used far more than the rest, and the recommendation has room for them.
const GIVEN_BACK_FAR: f64 = 0.3;
/// How many times the usual use is far more.
const FAR: f64 = 1.5;
/// The quantile of use that is called usual: by any definition of a quantile, no more than the one at 98 %.
pub(super) const USUAL: f64 = 0.97;

/// The part of the room above the largest use that a recommendation must have.
const LEAST_ROOM: f64 = 0.3;

/// What to multiply what was asked with where hardly any run was stopped.
const SLIGHTLY: f64 = 1.1;

/// And what to multiply it with at most.
const MOST_RAISED: f64 = 3.0;

/// Runs that stopped at the limit although the usual run takes less than this part of it hung.
const HANGS: f64 = 0.6;

/// What past runs needed of one resource.
pub(super) struct ResourceNeeds {
    pub asked: f64,
    /// What each run needed, in ascending order. Of runs that were stopped at less than what is asked for now, slightly more
    /// than that.
    pub uses: Vec<f64>,
    /// Runs that were stopped because they needed more than what is asked for now.
    pub stopped: usize,
}

/// How a recommendation is rounded: up to a step that depends on its size, or down to the smallest one.
#[derive(Clone, Copy)]
pub(super) struct Rounding {
    pub up: fn(f64) -> f64,
    pub down: fn(f64) -> f64,
}

/// Returns how many of so many runs a recommendation may have cut.
pub(super) fn may_cut(runs: usize) -> usize {
    to_usize(CUT * to_f64(runs))
}

/// Returns what to ask for, which would have cut at most `may_cut` of the runs; `None` where nothing should change.
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

/// Returns less than what was asked: the largest use and some room, after leaving out at most `may_cut` of the largest uses.
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

/// Returns the most that is worth asking for instead of what was asked, where runs usually use so much.
pub(super) fn worth_it(asked: f64, usual: f64) -> f64 {
    most(asked, usual, GIVEN_BACK)
}

fn most(asked: f64, usual: f64, given_back: f64) -> f64 {
    (asked - given_back * (asked - usual)).min(GAIN * asked)
}

/// Returns what to multiply the largest of so many uses with: the fewer they are, the more the next runs may exceed them.
fn room(runs: usize) -> f64 {
    1.1 + 1.0 / to_f64(runs).sqrt() + 7.0 / to_f64(runs)
}

/// Returns more than what was asked. Nobody knows how much more the stopped runs needed: the more of them there are, the
/// further below the usual need was what they got.
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
