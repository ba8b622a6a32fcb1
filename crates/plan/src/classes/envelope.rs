//! The concave envelope of a class's bundles at given prices: the highest speed for every rent.

use std::ops::Range;

use crate::classes::{Bundles, RisingBundles};

/// Vertices of the envelope by ascending speed, starting from speed 0 at no cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Envelope {
    vertices: Vec<Vertex>,
}

/// A bundle that is best for some value of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Vertex {
    /// In steps per second.
    pub speed: f64,
    /// Cost of one second.
    pub rent: f64,
    /// Cost of one additional step between the previous vertex and this one; it increases, because the
    /// envelope is concave.
    pub marginal: f64,
    pub bundle: usize,
}

/// Relative distance from a line that counts as a rounding error.
const ROUNDING: f64 = 1e-12;

/// A line of rents by speed.
struct Line {
    /// The rent at speed 0.
    rent: f64,
    slope: f64,
}

impl Line {
    const ABOVE_ALL: Self = Self { rent: f64::INFINITY, slope: 0.0 };

    /// Returns the line between two points, each a speed and a rent.
    fn between(from: (f64, f64), to: (f64, f64)) -> Self {
        if to.0 <= from.0 {
            return Self::ABOVE_ALL;
        }
        let slope = (to.1 - from.1) / (to.0 - from.0);
        // Bundles on the line are not above it: which of them are vertices depends on rounding alone.
        let rounding = ROUNDING * (slope.abs() * to.0 + to.1);
        Self { rent: from.1 - slope * from.0 + rounding, slope }
    }
}

impl Envelope {
    /// Recomputes the envelope for bundles with these rents, reusing its memory.
    pub(crate) fn renew(&mut self, bundles: &Bundles, rents: &[f64]) {
        self.vertices.clear();
        for &bundle in bundles.rising() {
            self.add(bundle, bundles.speed(bundle), rents[bundle]);
        }
    }

    /// Recomputes the envelope from these rents; `near` has the vertices at similar prices.
    ///
    /// Only bundles below the lines between these vertices can be other vertices, and few bundles are.
    pub(crate) fn renew_near(&mut self, rising: &RisingBundles, near: &[usize]) {
        self.vertices.clear();
        let (mut from, mut begin) = ((0.0, 0.0), 0);
        for &bundle in near {
            let end = rising.place(bundle);
            for (bundle, speed, rent) in rising.at(end..end + 1) {
                self.add_below(rising, begin..end, &Line::between(from, (speed, rent)));
                self.add(bundle, speed, rent);
                from = (speed, rent);
            }
            begin = end + 1;
        }
        self.add_below(rising, begin..rising.len(), &Line::ABOVE_ALL);
    }

    /// Adds the bundles at some places whose rents are below a line.
    fn add_below(&mut self, rising: &RisingBundles, places: Range<usize>, line: &Line) {
        for (bundle, speed, rent) in rising.at(places) {
            if rent < line.rent + line.slope * speed {
                self.add(bundle, speed, rent);
            }
        }
    }

    /// Adds a bundle that is at least as fast as all earlier ones.
    fn add(&mut self, bundle: usize, speed: f64, rent: f64) {
        loop {
            let last = self.vertices.last();
            let (from_speed, from_rent, before) =
                last.map_or((0.0, 0.0, f64::NEG_INFINITY), |last| (last.speed, last.rent, last.marginal));
            if last.is_some() && speed <= from_speed && rent >= from_rent {
                return;
            }
            let marginal =
                if speed > from_speed { (rent - from_rent) / (speed - from_speed) } else { before };
            if last.is_some() && marginal <= before {
                self.vertices.pop();
                continue;
            }
            self.vertices.push(Vertex { speed, rent, marginal, bundle });
            return;
        }
    }

    pub(crate) fn vertices(&self) -> &[Vertex] {
        &self.vertices
    }

    /// Returns the vertex with the largest worth · speed − rent; `None` if running nothing is at least as
    /// good.
    pub(crate) fn best(&self, worth: f64) -> Option<&Vertex> {
        let beyond = self.vertices.partition_point(|vertex| vertex.marginal < worth);
        beyond.checked_sub(1).map(|last| &self.vertices[last])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn envelope(bundles: &Bundles, rents: &[f64]) -> Envelope {
        let mut envelope = Envelope::default();
        envelope.renew(bundles, rents);
        envelope
    }

    #[test]
    fn bundles_below_the_line_between_others_are_no_vertices() {
        let bundles = Bundles::new(1, vec![(vec![1], 1.0), (vec![2], 1.2), (vec![3], 2.5), (vec![4], 2.4)]);
        let envelope = envelope(&bundles, &bundles.rents(&[1.0]));
        let points: Vec<(usize, f64)> =
            envelope.vertices().iter().map(|vertex| (vertex.bundle, vertex.marginal)).collect();
        assert_eq!(points, [(0, 1.0), (2, 2.0 / 1.5)]);
        assert_eq!(envelope.best(1.0), None, "it costs what it is worth");
        assert_eq!(envelope.best(1.1).map(|vertex| vertex.bundle), Some(0));
        assert_eq!(envelope.best(9.0).map(|vertex| vertex.bundle), Some(2));
    }

    proptest! {
        #[test]
        fn its_best_vertex_is_the_best_bundle(
            speeds in proptest::collection::vec(1_u32..40, 1..12),
            prices in proptest::collection::vec(0_u32..5, 2),
            before in proptest::collection::vec(0.0..5.0_f64, 2),
            worth in 0_u32..60,
        ) {
            let bundle = |(number, speed): (usize, &u32)| {
                let number = u32::try_from(number).expect("small");
                (vec![number % 4, number / 4 + 1], f64::from(*speed))
            };
            let bundles = Bundles::new(2, speeds.iter().enumerate().map(bundle).collect());
            let prices: Vec<f64> = prices.iter().map(|&price| f64::from(price)).collect();
            let rents = bundles.rents(&prices);
            let worth = f64::from(worth) / 10.0;
            let most = (0..bundles.len())
                .map(|bundle| worth * bundles.speed(bundle) - rents[bundle])
                .fold(0.0, f64::max);
            let found = envelope(&bundles, &rents)
                .best(worth)
                .map_or(0.0, |vertex| worth * vertex.speed - vertex.rent);
            prop_assert!((found - most).abs() < 1e-9, "{found} {most}");
            // The vertices at any other prices lead to the same envelope.
            let mut again = envelope(&bundles, &bundles.rents(&before));
            let near: Vec<usize> = again.vertices().iter().map(|vertex| vertex.bundle).collect();
            let mut rising = RisingBundles::new(&bundles);
            rising.price(&prices);
            again.renew_near(&rising, &near);
            let found = again.best(worth).map_or(0.0, |vertex| worth * vertex.speed - vertex.rent);
            prop_assert!((found - most).abs() < 1e-9, "{found} {most}");
        }
    }
}
