//! The highest point under some planes: the maximum over a box of the minimum of several affine functions.
//!
//! This is a linear program with one row per plane, a variable for the height and one variable per dimension;
//! there are few dimensions. Its dual has as many rows as variables and starts at a single plane, so that a
//! dense simplex tableau solves it in a few microseconds.

/// The function `value + slope · (x − at)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    pub at: Vec<f64>,
    pub value: f64,
    pub slope: Vec<f64>,
}

/// The highest point under some planes.
#[derive(Clone, Debug, PartialEq)]
pub struct Highest {
    pub place: Vec<f64>,
    pub height: f64,
    /// The weight of each plane, in order: they sum to one, and the weighted slope is zero at this point,
    /// except at sides of the box.
    pub weights: Vec<f64>,
}

impl Cut {
    /// Returns the height of the plane at a point.
    pub fn height(&self, point: &[f64]) -> f64 {
        let sides = self.slope.iter().zip(point).zip(&self.at);
        self.value + sides.map(|((slope, x), at)| slope * (x - at)).sum::<f64>()
    }
}

/// A column enters the basis if it lowers the cost by more than this.
const GAIN: f64 = 1e-11;

/// Minimum size of a pivot.
const PIVOT: f64 = 1e-10;

/// After this many pivots per row and plane, columns enter in order, which prevents cycles; after ten times
/// as many, the problem counts as numerically unstable.
const PATIENCE: usize = 20;

/// Returns the point in the box at which the minimum of the cuts is greatest, and its height.
///
/// `None` if there are no cuts, the box is empty, or the problem is numerically unstable. If no cut has a
/// slope within the box, the result may also be `None`.
pub fn highest_under(cuts: &[&Cut], box_: &[(f64, f64)]) -> Option<Highest> {
    let center = cuts.last()?;
    box_.iter().all(|(low, high)| low <= high).then_some(())?;
    // The tolerances assume numbers near one.
    let widths: Vec<f64> = box_.iter().map(|(low, high)| (high - low).max(f64::MIN_POSITIVE)).collect();
    let reach = |cut: &&Cut| cut.slope.iter().zip(&widths).map(|(s, w)| (s * w).abs()).sum::<f64>();
    let unit = cuts.iter().map(reach).fold(0.0, f64::max).max(center.value.abs() * 1e-12);
    if unit <= 0.0 || !unit.is_finite() {
        return None;
    }
    let mut starts = Vec::with_capacity(cuts.len());
    let mut slopes = Vec::with_capacity(cuts.len() * box_.len());
    for cut in cuts {
        let low = cut.slope.iter().zip(box_).zip(&cut.at).map(|((s, (low, _)), at)| s * (low - at));
        starts.push((cut.value - center.value + low.sum::<f64>()) / unit);
        slopes.extend(cut.slope.iter().zip(&widths).map(|(slope, width)| slope * width / unit));
    }
    let mut tableau = Tableau::new(&starts, &slopes, box_.len());
    tableau.solve()?;
    let (solved, top) = tableau.highest();
    let place = solved.iter().zip(&widths).zip(box_);
    let place = place.map(|((x, width), (low, high))| (low + x * width).clamp(*low, *high)).collect();
    Some(Highest { place, height: center.value + top * unit, weights: tableau.weights() })
}

/// The dual of the program: maximise `t` with `t − slope · x ≤ start` for each plane and `0 ≤ x ≤ 1`.
///
/// The dual is: minimise `Σ start λ + Σ μ` with `Σ λ = 1` and `μ − ν = Σ slope λ` in each dimension, all
/// variables at least 0. Its columns are a λ for each plane, then μ and ν for each dimension, then the right
/// side.
struct Tableau {
    planes: usize,
    dimensions: usize,
    /// The rows one after the other, followed by the reduced costs, whose right side is the negated cost.
    cells: Vec<f64>,
    /// The column in the basis, by row.
    basis: Vec<usize>,
}

impl Tableau {
    /// Returns the tableau of the basis that contains only the last plane; `slopes` has the slopes of each
    /// plane.
    fn new(starts: &[f64], slopes: &[f64], dimensions: usize) -> Self {
        let count = starts.len();
        let width = count + 2 * dimensions + 1;
        let right = width - 1;
        let (start, last) = (starts[count - 1], &slopes[(count - 1) * dimensions..]);
        let mut cells = vec![0.0; width * (dimensions + 2)];
        let mut basis = vec![count - 1];
        let (above, costs) = cells.split_at_mut(width * (dimensions + 1));
        let (sum, rows) = above.split_at_mut(width);
        sum[..count].fill(1.0);
        sum[right] = 1.0;
        for (cost, plane_cost) in costs.iter_mut().zip(starts) {
            *cost = plane_cost - start;
        }
        costs[count..count + dimensions].fill(1.0);
        costs[right] = -start;
        for ((dimension, &slope), row) in last.iter().enumerate().zip(rows.chunks_exact_mut(width)) {
            let (above, below) = (count + dimension, count + dimensions + dimension);
            let sign = if slope >= 0.0 { 1.0 } else { -1.0 };
            for (cell, coefficients) in row.iter_mut().zip(slopes.chunks_exact(dimensions)) {
                *cell = sign * (slope - coefficients[dimension]);
            }
            (row[above], row[below], row[right]) = (sign, -sign, sign * slope);
            if slope >= 0.0 {
                costs.iter_mut().zip(row).for_each(|(cost, cell)| *cost -= *cell);
            }
            basis.push(if slope >= 0.0 { above } else { below });
        }
        Self { planes: count, dimensions, cells, basis }
    }

    /// Returns the number of cells of a row.
    fn width(&self) -> usize {
        self.planes + 2 * self.dimensions + 1
    }

    /// Returns a row, or after all rows the reduced costs.
    fn row(&self, row: usize) -> &[f64] {
        &self.cells[row * self.width()..][..self.width()]
    }

    /// Pivots until no column lowers the cost; `None` if that does not end.
    fn solve(&mut self) -> Option<()> {
        let patience = PATIENCE * (self.basis.len() + self.planes);
        for step in 0..10 * patience {
            let Some(column) = self.entering(step > patience) else { return Some(()) };
            let row = self.leaving(column)?;
            self.pivot(row, column);
        }
        None
    }

    /// Returns the column that lowers the cost most, or the first that lowers it.
    fn entering(&self, first: bool) -> Option<usize> {
        let costs = &self.row(self.basis.len())[..self.width() - 1];
        let mut lower = costs.iter().enumerate().filter(|(_, cost)| **cost < -GAIN);
        let column = if first { lower.next() } else { lower.min_by(|a, b| a.1.total_cmp(b.1)) };
        column.map(|(column, _)| column)
    }

    /// Returns the row whose column leaves the basis: the first to reach 0, and of several the one with the
    /// first column.
    fn leaving(&self, column: usize) -> Option<usize> {
        let right = self.width() - 1;
        let rows = self.cells.chunks_exact(self.width()).take(self.basis.len()).enumerate();
        let rows = rows.filter(|(_, row)| row[column] > PIVOT);
        let steps = rows.map(|(row, cells)| (cells[right].max(0.0) / cells[column], self.basis[row], row));
        steps.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))).map(|(_, _, row)| row)
    }

    fn pivot(&mut self, row: usize, column: usize) {
        let width = self.width();
        let (before, rest) = self.cells.split_at_mut(row * width);
        let (pivot, after) = rest.split_at_mut(width);
        let by = pivot[column].recip();
        for cell in &mut *pivot {
            *cell *= by;
        }
        for other in before.chunks_exact_mut(width).chain(after.chunks_exact_mut(width)) {
            let times = other[column];
            if times != 0.0 {
                other.iter_mut().zip(&*pivot).for_each(|(cell, coefficient)| *cell -= times * coefficient);
                other[column] = 0.0;
            }
        }
        pivot[column] = 1.0;
        self.basis[row] = column;
    }

    /// Returns the λ of each plane.
    fn weights(&self) -> Vec<f64> {
        let right = self.width() - 1;
        let mut weights = vec![0.0; self.planes];
        for (row, &column) in self.basis.iter().enumerate().filter(|(_, column)| **column < self.planes) {
            weights[column] = self.row(row)[right].max(0.0);
        }
        weights
    }

    /// Returns the primal variables: the reduced costs of ν, and the cost.
    fn highest(&self) -> (Vec<f64>, f64) {
        let costs = self.row(self.basis.len());
        let below = self.planes + self.dimensions;
        (costs[below..below + self.dimensions].to_vec(), -costs[below + self.dimensions])
    }
}
