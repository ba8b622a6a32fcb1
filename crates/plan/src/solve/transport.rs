//! The transportation problem with few columns: rows ship all their supply, and columns take at most their
//! capacity.
//!
//! Maximises the total value. Every row starts with its best column, which is optimal without capacities.
//! Overfull columns then push units to columns with room along the cheapest paths through the columns. Each
//! push keeps the shipment optimal for its column loads, so the last one is optimal.

/// A solver that keeps its working memory between calls.
#[derive(Clone, Debug, Default)]
pub struct Transport {
    rows: usize,
    columns: usize,
    values: Vec<f64>,
    /// Units by row and column, row by row.
    shipped: Vec<u32>,
    load: Vec<u32>,
    /// Smallest loss of moving one unit between two columns, and the row that moves it.
    exchange: Vec<(f64, usize)>,
    /// By maximum number of moves and by column: the smallest loss of reaching the column, and the preceding
    /// column.
    reach: Vec<(f64, usize)>,
}

/// Losses with a smaller relative difference count as equal, so that rounding errors do not cause cycles.
const TOLERANCE: f64 = 1e-12;

impl Transport {
    /// Returns a solver for `values` per unit, row by row with `columns` columns; −∞ forbids a pair.
    pub fn new(values: Vec<f64>, columns: usize) -> Self {
        let rows = values.len().checked_div(columns).unwrap_or(0);
        Self {
            rows,
            columns,
            shipped: vec![0; rows * columns],
            load: vec![0; columns],
            exchange: vec![(f64::INFINITY, 0); columns * columns],
            reach: vec![(f64::INFINITY, 0); columns * columns],
            values,
        }
    }

    /// Returns the value per unit of a row in a column.
    pub fn value(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.columns + column]
    }

    /// Returns a mutable reference to the value per unit of a row in a column, for changes between two calls
    /// of [`Self::solve`].
    pub(crate) fn value_mut(&mut self, row: usize, column: usize) -> &mut f64 {
        &mut self.values[row * self.columns + column]
    }

    /// Solves for these supplies and capacities; returns whether they can be met.
    ///
    /// Afterwards [`Self::row`] returns the shipment.
    pub fn solve(&mut self, supply: &[u32], capacity: &[u32]) -> bool {
        if !self.ship_to_best(supply) {
            return false;
        }
        while let Some(from) = (0..self.columns).find(|&column| self.load[column] > capacity[column]) {
            self.find_exchanges();
            let Some((to, moves)) = self.cheapest_path(from, capacity) else { return false };
            self.push(from, to, moves, capacity);
        }
        true
    }

    /// Returns the units that a row ships, by column.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.shipped[row * self.columns..(row + 1) * self.columns]
    }

    fn ship_to_best(&mut self, supply: &[u32]) -> bool {
        self.shipped.fill(0);
        self.load.fill(0);
        for (row, &units) in supply.iter().enumerate().filter(|&(_, &units)| units > 0) {
            let values = &self.values[row * self.columns..(row + 1) * self.columns];
            let mut best: Option<usize> = None;
            for (column, &value) in values.iter().enumerate() {
                if value > best.map_or(f64::NEG_INFINITY, |b| values[b]) {
                    best = Some(column);
                }
            }
            let Some(best) = best else { return false };
            self.shipped[row * self.columns + best] = units;
            self.load[best] += units;
        }
        true
    }

    fn find_exchanges(&mut self) {
        self.exchange.fill((f64::INFINITY, 0));
        for row in 0..self.rows {
            let base = row * self.columns;
            for from in (0..self.columns).filter(|&from| self.shipped[base + from] > 0) {
                for to in (0..self.columns).filter(|&to| to != from) {
                    let loss = self.values[base + from] - self.values[base + to];
                    let best = &mut self.exchange[from * self.columns + to];
                    if loss < best.0 {
                        *best = (loss, row);
                    }
                }
            }
        }
    }

    /// Returns the column with room that is reachable from `from` with the smallest loss, and the number of
    /// steps of the path, some of which may stay in a column.
    ///
    /// Uses Bellman and Ford's algorithm by number of moves, so that equal losses never create a cycle.
    fn cheapest_path(&mut self, from: usize, capacity: &[u32]) -> Option<(usize, usize)> {
        let n = self.columns;
        self.reach.fill((f64::INFINITY, 0));
        self.reach[from] = (0.0, from);
        for moves in 1..n {
            for to in 0..n {
                let stay = self.reach[(moves - 1) * n + to];
                let mut best = (stay.0, to);
                for via in (0..n).filter(|&via| via != to) {
                    let loss = self.reach[(moves - 1) * n + via].0 + self.exchange[via * n + to].0;
                    let margin = TOLERANCE * (loss.abs() + 1.0);
                    if loss < best.0 - margin || (best.0 == f64::INFINITY && loss < f64::INFINITY) {
                        best = (loss, via);
                    }
                }
                self.reach[moves * n + to] = best;
            }
        }
        let last = (n - 1) * n;
        let with_room = (0..n).filter(|&column| self.load[column] < capacity[column]);
        let to = with_room.min_by(|&a, &b| self.reach[last + a].0.total_cmp(&self.reach[last + b].0))?;
        (self.reach[last + to].0 < f64::INFINITY).then_some((to, n - 1))
    }

    /// Moves as many units as possible along the path from `from` to `to`.
    fn push(&mut self, from: usize, to: usize, moves: usize, capacity: &[u32]) {
        let n = self.columns;
        let mut units = (self.load[from] - capacity[from]).min(capacity[to] - self.load[to]);
        let mut path = Vec::with_capacity(n);
        let mut column = to;
        for step in (1..=moves).rev() {
            let before = self.reach[step * n + column].1;
            if before != column {
                let row = self.exchange[before * n + column].1;
                units = units.min(self.shipped[row * n + before]);
                path.push((row, before, column));
            }
            column = before;
        }
        for (row, before, column) in path {
            self.shipped[row * n + before] -= units;
            self.shipped[row * n + column] += units;
        }
        self.load[from] -= units;
        self.load[to] += units;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(values: &[f64], shipped: impl Fn(usize, usize) -> u32, rows: usize, columns: usize) -> f64 {
        let pairs = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        pairs
            .filter(|&(row, column)| shipped(row, column) > 0)
            .map(|(row, column)| values[row * columns + column] * f64::from(shipped(row, column)))
            .sum()
    }

    /// Returns the best total value by trying every column for every unit.
    fn brute_force(values: &[f64], columns: usize, supply: &[u32], room: &mut [u32]) -> f64 {
        let Some(row) = supply.iter().position(|&units| units > 0) else { return 0.0 };
        let mut rest = supply.to_vec();
        rest[row] -= 1;
        let mut best = f64::NEG_INFINITY;
        for column in 0..columns {
            if room[column] > 0 && values[row * columns + column] > f64::NEG_INFINITY {
                room[column] -= 1;
                let total = values[row * columns + column] + brute_force(values, columns, &rest, room);
                best = best.max(total);
                room[column] += 1;
            }
        }
        best
    }

    #[test]
    fn the_example_of_the_planner_sends_the_fast_gpus_where_they_add_most() {
        // Rows ResNet-18 and VGG-19, columns T4 and V100; category 3,1.
        let mut transport = Transport::new(vec![275.0, 644.0, 884.0, 1754.0], 2);
        assert!(transport.solve(&[3, 1], &[2, 2]));
        assert_eq!((transport.row(0), transport.row(1)), (&[2, 1][..], &[0, 1][..]));
        assert!(transport.solve(&[2, 2], &[2, 2]));
        assert_eq!((transport.row(0), transport.row(1)), (&[2, 0][..], &[0, 2][..]));
        assert!(!transport.solve(&[3, 2], &[2, 2]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn equals_brute_force(
            (columns, cells, supply, capacity) in (1_usize..4, 1_usize..4).prop_flat_map(|(columns, rows)| (
                Just(columns),
                proptest::collection::vec(proptest::option::weighted(0.85, 1_u32..30), rows * columns),
                proptest::collection::vec(0_u32..4, rows),
                proptest::collection::vec(0_u32..5, columns),
            ))
        ) {
            let values: Vec<f64> = cells.iter().map(|c| c.map_or(f64::NEG_INFINITY, f64::from)).collect();
            let mut transport = Transport::new(values.clone(), columns);
            let feasible = transport.solve(&supply, &capacity);
            let best = brute_force(&values, columns, &supply, &mut capacity.clone());
            prop_assert_eq!(feasible, best > f64::NEG_INFINITY);
            if feasible {
                let rows = supply.len();
                for (column, &room) in capacity.iter().enumerate() {
                    let load: u32 = (0..rows).map(|row| transport.row(row)[column]).sum();
                    prop_assert!(load <= room);
                }
                for (row, &units) in supply.iter().enumerate() {
                    prop_assert_eq!(transport.row(row).iter().sum::<u32>(), units);
                }
                let reached = value(&values, |row, column| transport.row(row)[column], rows, columns);
                prop_assert!((reached - best).abs() < 1e-9, "{} against {}", reached, best);
            }
        }
    }
}
