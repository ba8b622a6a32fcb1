//! The bundles of a class by ascending speed, with their rents at some prices, laid out for fast scans.

use std::ops::Range;

use crate::classes::Bundles;

/// Bundles by ascending speed, with rents.
#[derive(Clone, Debug)]
pub(crate) struct RisingBundles {
    /// The numbers of the bundles.
    bundles: Vec<usize>,
    /// The place of each bundle in this order, by its number.
    places: Vec<usize>,
    /// In steps per second.
    speeds: Vec<f64>,
    /// GPUs by type, and for each type by bundle.
    gpus: Vec<f64>,
    /// The rent of each bundle.
    rents: Vec<f64>,
}

impl RisingBundles {
    /// Returns the bundles with rents of 0.
    pub(crate) fn new(bundles: &Bundles) -> Self {
        let order = bundles.rising().to_vec();
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, &bundle)| places[bundle] = place);
        let speeds = order.iter().map(|&bundle| bundles.speed(bundle)).collect();
        let of_type = |ty: usize| order.iter().map(move |&bundle| f64::from(bundles.counts(bundle)[ty]));
        let gpus = (0..bundles.types()).flat_map(of_type).collect();
        Self { rents: vec![0.0; order.len()], speeds, gpus, places, bundles: order }
    }

    /// Computes the rents at prices by type.
    pub(crate) fn price(&mut self, prices: &[f64]) {
        self.rents.fill(0.0);
        for (counts, price) in self.gpus.chunks(self.rents.len().max(1)).zip(prices) {
            for (rent, count) in self.rents.iter_mut().zip(counts) {
                *rent += count * price;
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bundles.len()
    }

    /// Returns the place of a bundle.
    pub(super) fn place(&self, bundle: usize) -> usize {
        self.places[bundle]
    }

    /// Returns the number, speed and rent of the bundles at some places.
    pub(super) fn at(&self, places: Range<usize>) -> impl Iterator<Item = (usize, f64, f64)> {
        let points = self.speeds[places.clone()].iter().zip(&self.rents[places.clone()]);
        self.bundles[places].iter().zip(points).map(|(&bundle, (&speed, &rent))| (bundle, speed, rent))
    }
}
