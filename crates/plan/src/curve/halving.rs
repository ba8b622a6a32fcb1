//! Asynchronous successive halving over the jobs of a sweep: a job that reaches a rung continues if it is
//! among the best third of the jobs that have reached it.

use crate::curve::CurvePoint;
use hsched_model::GoalMode;

/// The factor between rungs, and the inverse of the fraction of jobs that continue at each.
const FACTOR: u64 = 3;

/// The rank of a job that is not among the best at a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RungRank {
    /// The epoch of the rung.
    pub rung: u64,
    /// Rank of the job among the jobs that have reached the rung, from 1.
    pub place: usize,
    pub of: usize,
    /// Number of jobs that continue.
    pub kept: usize,
}

/// Returns the job's place at the last rung that it has reached, if it falls behind there; `others` are the
/// curves of the other jobs of its bracket, including ended ones.
///
/// Rungs are at a third of all epochs, a ninth, and so on, but not before `not_before`. Fewer than three jobs
/// are not compared.
pub fn behind(
    reports: &[CurvePoint],
    others: &[&[CurvePoint]],
    mode: GoalMode,
    (epochs, not_before): (u64, u64),
) -> Option<RungRank> {
    let last = reports.last()?.epoch;
    let rung = rungs(epochs, not_before).find(|rung| *rung <= last)?;
    let value = best_until(reports, rung, mode)?;
    let there: Vec<f64> = others.iter().filter_map(|curve| best_until(curve, rung, mode)).collect();
    let is_better = |other: &&f64| match mode {
        GoalMode::Min => **other < value,
        GoalMode::Max => **other > value,
    };
    let (place, of) = (there.iter().filter(is_better).count() + 1, there.len() + 1);
    let factor = usize::try_from(FACTOR).unwrap_or(usize::MAX);
    let kept = of.div_ceil(factor);
    (of >= factor && place > kept).then_some(RungRank { rung, place, of, kept })
}

/// Returns the rungs, the last one first.
fn rungs(epochs: u64, not_before: u64) -> impl Iterator<Item = u64> {
    let rungs = std::iter::successors(Some(epochs / FACTOR), |rung| Some(rung / FACTOR));
    rungs.take_while(move |rung| *rung >= not_before.max(1))
}

/// Returns the bracket, from 0, of the job with this place in its sweep, from 0. Each bracket has a third of
/// the jobs of the previous one and is first judged one rung later.
pub fn bracket(place: u64, brackets: u32) -> u32 {
    let sizes: Vec<u64> = (0..brackets).rev().map(|bracket| FACTOR.pow(bracket)).collect();
    let mut place = place % sizes.iter().sum::<u64>().max(1);
    for (bracket, size) in (0..).zip(sizes) {
        if place < size {
            return bracket;
        }
        place -= size;
    }
    0
}

/// Returns the epoch at which jobs of a bracket are first judged. If there are more brackets than rungs, the
/// surplus ones use the last rung. If there are no rungs, returns `not_before`.
pub fn first_rung(epochs: u64, not_before: u64, bracket: u32) -> u64 {
    let mut rungs: Vec<u64> = rungs(epochs, not_before).collect();
    rungs.reverse();
    let place = usize::try_from(bracket).unwrap_or(usize::MAX).min(rungs.len().saturating_sub(1));
    rungs.get(place).copied().unwrap_or(not_before)
}

/// Returns the best value of a curve up to a rung, if the curve has reached it.
fn best_until(curve: &[CurvePoint], rung: u64, mode: GoalMode) -> Option<f64> {
    curve.last().filter(|last| last.epoch >= rung)?;
    let values = curve.iter().filter(|report| report.epoch <= rung).map(|report| report.value);
    match mode {
        GoalMode::Min => values.min_by(f64::total_cmp),
        GoalMode::Max => values.max_by(f64::total_cmp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(last: u64, value: f64) -> Vec<CurvePoint> {
        (1..=last).map(|epoch| CurvePoint { epoch, value }).collect()
    }

    #[test]
    fn the_best_third_goes_on() {
        let others: Vec<Vec<CurvePoint>> = (1..=8).map(|slope| curve(10, f64::from(slope))).collect();
        let others: Vec<&[CurvePoint]> = others.iter().map(Vec::as_slice).collect();
        let behind_with = |last, value| behind(&curve(last, value), &others, GoalMode::Min, (30, 0));
        assert_eq!(behind_with(10, 2.5), None);
        assert_eq!(behind_with(10, 3.5), Some(RungRank { rung: 10, place: 4, of: 9, kept: 3 }));
        // All other jobs also count at an earlier rung, and no job is judged before the first rung.
        assert_eq!(behind_with(3, 9.0), Some(RungRank { rung: 3, place: 9, of: 9, kept: 3 }));
        let late = |last| behind(&curve(last, 9.0), &others, GoalMode::Min, (30, 5));
        assert_eq!((late(9), late(10).map(|behind| behind.rung)), (None, Some(10)));
    }

    #[test]
    fn each_bracket_is_a_third_of_the_one_before_and_is_judged_a_rung_later() {
        let brackets = |count: u32| (0..26).map(|place| bracket(place, count)).collect::<Vec<_>>();
        assert_eq!(brackets(1), [0; 26]);
        let three = brackets(3);
        let size = |bracket| three.iter().filter(|candidate| **candidate == bracket).count();
        assert_eq!([size(0), size(1), size(2)], [18, 6, 2]);
        assert_eq!(three[..13], three[13..]);
        assert_eq!([0, 1, 2, 3].map(|bracket| first_rung(27, 0, bracket)), [1, 3, 9, 9]);
        assert_eq!([0, 1].map(|bracket| first_rung(27, 2, bracket)), [3, 9]);
        assert_eq!(first_rung(2, 0, 1), 0);
    }

    #[test]
    fn two_are_no_comparison() {
        let other = curve(10, 1.0);
        assert_eq!(behind(&curve(10, 2.0), &[&other], GoalMode::Min, (30, 0)), None);
    }
}
