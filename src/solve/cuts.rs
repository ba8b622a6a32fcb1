//! The highest point under some planes: max over a box of the least of several affine functions.

use microlp::{ComparisonOp, OptimizationDirection, Problem};

/// The function `value + slope · (x − at)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    pub at: Vec<f64>,
    pub value: f64,
    pub slope: Vec<f64>,
}

/// Returns where in the box the least of the cuts is greatest, and how great it is there.
///
/// `None` when there are no cuts, the box is empty, or the numbers are too wild for the solver.
#[must_use]
pub fn highest_under(cuts: &[Cut], box_: &[(f64, f64)]) -> Option<(Vec<f64>, f64)> {
    let center = cuts.last()?;
    // Numbers near one are what the solver's tolerances are made for.
    let scale: Vec<f64> = box_.iter().map(|(low, high)| (high - low).max(f64::MIN_POSITIVE)).collect();
    let reach = |cut: &Cut| cut.slope.iter().zip(&scale).map(|(s, w)| (s * w).abs()).sum::<f64>();
    let unit = cuts.iter().map(reach).fold(0.0, f64::max).max(center.value.abs() * 1e-12);
    if unit <= 0.0 || !unit.is_finite() {
        return None;
    }
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let top = problem.add_var(1.0, (f64::NEG_INFINITY, f64::INFINITY));
    let point: Vec<_> = box_.iter().map(|_| problem.add_var(0.0, (0.0, 1.0))).collect();
    for cut in cuts {
        let start = cut.value - center.value
            + cut.slope.iter().zip(box_).zip(&cut.at).map(|((s, (low, _)), at)| s * (low - at)).sum::<f64>();
        let terms = cut.slope.iter().zip(&scale).zip(&point);
        let terms = terms.map(|((slope, width), variable)| (*variable, -slope * width / unit));
        let terms: Vec<_> = std::iter::once((top, 1.0)).chain(terms).collect();
        problem.add_constraint(&terms, ComparisonOp::Le, start / unit);
    }
    let solution = problem.solve().ok()?.into_solution().ok()?;
    let solved: Vec<f64> = point.iter().map(|variable| solution[*variable]).collect();
    let place = solved.iter().zip(&scale).zip(box_);
    let place = place.map(|((x, width), (low, high))| (low + x * width).clamp(*low, *high)).collect();
    Some((place, center.value + solution[top] * unit))
}
