//! The highest point under planes, compared with another solver of linear programs.

use hsched_plan::solve::{Cut, Highest, highest_under};
use microlp::{ComparisonOp, OptimizationDirection, Problem};
use proptest::prelude::*;

/// Returns planes over a few dimensions, many of them through the same point or with equal slopes, and the
/// sides of a box.
fn planes() -> impl Strategy<Value = (Vec<Cut>, Vec<(f64, f64)>)> {
    (1_usize..6).prop_flat_map(|dimensions| {
        let number = prop_oneof![(-4_i32..5).prop_map(f64::from), -100.0..100.0];
        let vector = prop::collection::vec(number.clone(), dimensions);
        let cut = (vector.clone(), number, vector).prop_map(|(at, value, slope)| Cut { at, value, slope });
        let side = (-10.0..10.0, 0.0..20.0).prop_map(|(low, width)| (low, low + width));
        (prop::collection::vec(cut, 1..30), prop::collection::vec(side, dimensions))
    })
}

/// Returns the minimum of the cuts at a point.
fn least(cuts: &[Cut], point: &[f64]) -> f64 {
    cuts.iter().map(|cut| cut.height(point)).fold(f64::INFINITY, f64::min)
}

fn by_others(cuts: &[Cut], box_: &[(f64, f64)]) -> f64 {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let top = problem.add_var(1.0, (f64::NEG_INFINITY, f64::INFINITY));
    let point: Vec<_> = box_.iter().map(|&side| problem.add_var(0.0, side)).collect();
    for cut in cuts {
        let value = point.iter().zip(&cut.slope).map(|(variable, slope)| (*variable, -slope));
        let start = cut.value - cut.slope.iter().zip(&cut.at).map(|(s, at)| s * at).sum::<f64>();
        let terms: Vec<_> = std::iter::once((top, 1.0)).chain(value).collect();
        problem.add_constraint(&terms, ComparisonOp::Le, start);
    }
    problem.solve().expect("solvable").into_solution().expect("solved").objective()
}

proptest! {
    #[test]
    fn the_highest_point_is_the_highest((cuts, box_) in planes()) {
        let all: Vec<&Cut> = cuts.iter().collect();
        let Some(Highest { place: point, height, weights }) = highest_under(&all, &box_) else {
            // The solver may fail only if no plane has a slope.
            prop_assert!(cuts.iter().all(|cut| cut.slope.iter().zip(&box_).all(|(s, (l, h))| s * (h - l) == 0.0)));
            return Ok(());
        };
        let known = by_others(&cuts, &box_);
        let close = 1e-7 * (1.0 + known.abs().max(1e4));
        prop_assert!((height - known).abs() <= close, "{height} for {known}");
        prop_assert!((least(&cuts, &point) - height).abs() <= close);
        prop_assert!((weights.iter().sum::<f64>() - 1.0).abs() <= 1e-7 && weights.iter().all(|weight| *weight >= 0.0));
        for (dimension, (x, (low, high))) in point.iter().zip(&box_).enumerate() {
            let slope: f64 = cuts.iter().zip(&weights).map(|(cut, weight)| weight * cut.slope[dimension]).sum();
            let is_level = slope.abs() <= close || (slope > 0.0 && *x >= high - close) || (slope < 0.0 && *x <= low + close);
            prop_assert!(is_level, "{slope} at {x}");
        }
        prop_assert!(point.iter().zip(&box_).all(|(x, (low, high))| (low..=high).contains(&x)));
    }
}
