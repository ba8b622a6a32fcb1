//! The concave envelope of a class's bundles at given prices: the highest speed for every rent.

use crate::classes::Bundles;

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

impl Envelope {
    /// Recomputes the envelope for bundles with these rents, reusing its memory.
    pub(crate) fn renew(&mut self, bundles: &Bundles, rents: &[f64]) {
        self.vertices.clear();
        for &bundle in bundles.rising() {
            self.add(bundle, bundles.speed(bundle), rents[bundle]);
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
        }
    }
}
