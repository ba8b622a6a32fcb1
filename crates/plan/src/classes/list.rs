//! A list of bundles with their speeds, laid out for fast scans.

/// Bundles of one class, in lexicographic order of their counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Bundles {
    types: usize,
    /// GPUs by bundle and type.
    counts: Vec<u32>,
    /// GPUs by bundle and type, as floating-point numbers.
    gpus: Vec<f64>,
    /// Steps per second, with the best packing.
    speeds: Vec<f64>,
    /// Indices of bundles by ascending speed.
    rising: Vec<usize>,
}

impl Bundles {
    /// Builds the list from bundles: GPUs by type, and steps per second.
    pub(crate) fn new(types: usize, mut bundles: Vec<(Vec<u32>, f64)>) -> Self {
        bundles.sort_by(|a, b| a.0.cmp(&b.0));
        let speeds: Vec<f64> = bundles.iter().map(|bundle| bundle.1).collect();
        let mut rising: Vec<usize> = (0..bundles.len()).collect();
        rising.sort_by(|&a, &b| speeds[a].total_cmp(&speeds[b]));
        let counts: Vec<u32> = bundles.into_iter().flat_map(|bundle| bundle.0).collect();
        let gpus = counts.iter().map(|&count| f64::from(count)).collect();
        Self { types, counts, gpus, speeds, rising }
    }

    /// Returns the bundles that fit this many GPUs by type.
    pub(crate) fn within(&self, most: &[u32]) -> Self {
        let fitting = (0..self.len()).filter(|&bundle| holds(most, self.counts(bundle)));
        Self::new(
            self.types,
            fitting.map(|bundle| (self.counts(bundle).to_vec(), self.speeds[bundle])).collect(),
        )
    }

    /// Returns the bundles that could be best at some prices: those for which no smaller bundle is at least
    /// as fast.
    pub(crate) fn undominated(&self) -> Self {
        let beats = |a: usize, b: usize| {
            self.speeds[a] >= self.speeds[b]
                && holds(self.counts(b), self.counts(a))
                // Of equal bundles, the first is kept.
                && (self.counts(a) != self.counts(b) || a < b)
        };
        let stays = |&bundle: &usize| !(0..self.len()).any(|other| other != bundle && beats(other, bundle));
        let kept = (0..self.len()).filter(stays);
        Self::new(
            self.types,
            kept.map(|bundle| (self.counts(bundle).to_vec(), self.speeds[bundle])).collect(),
        )
    }

    /// Returns the number of GPU types.
    pub(super) fn types(&self) -> usize {
        self.types
    }

    pub(crate) fn len(&self) -> usize {
        self.speeds.len()
    }

    /// Returns a bundle's GPUs by type.
    pub(crate) fn counts(&self, bundle: usize) -> &[u32] {
        &self.counts[bundle * self.types..(bundle + 1) * self.types]
    }

    /// Returns a bundle's speed in steps per second.
    pub(crate) fn speed(&self, bundle: usize) -> f64 {
        self.speeds[bundle]
    }

    pub(crate) fn speeds(&self) -> &[f64] {
        &self.speeds
    }

    /// Returns the index of the bundle with these counts.
    pub(crate) fn find(&self, counts: &[u32]) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.counts(middle).cmp(counts) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Returns the fastest bundle; the last of several equally fast ones.
    pub(crate) fn fastest(&self) -> Option<usize> {
        (0..self.len()).max_by(|&a, &b| self.speeds[a].total_cmp(&self.speeds[b]))
    }

    /// Returns bundles by ascending speed.
    pub(crate) fn rising(&self) -> &[usize] {
        &self.rising
    }

    /// Returns the cost of a bundle's GPUs at these prices by type.
    pub(crate) fn rent(&self, bundle: usize, prices: &[f64]) -> f64 {
        let counts = &self.gpus[bundle * self.types..(bundle + 1) * self.types];
        counts.iter().zip(prices).map(|(count, price)| count * price).sum()
    }

    /// Returns the cost of each bundle at these prices.
    pub(crate) fn rents(&self, prices: &[f64]) -> Vec<f64> {
        let mut rents = Vec::new();
        self.put_rents(prices, &mut rents);
        rents
    }

    /// Overwrites `rents` with the cost of each bundle at these prices.
    pub(crate) fn put_rents(&self, prices: &[f64], rents: &mut Vec<f64>) {
        rents.clear();
        rents.extend((0..self.len()).map(|bundle| self.rent(bundle, prices)));
    }

    /// Returns the lowest cost of a step: the minimum over bundles of (waiting + rent) / speed, where
    /// `waiting` is the cost of a second of the job's time; infinite if there is no bundle.
    pub(crate) fn unit_cost(&self, waiting: f64, prices: &[f64]) -> f64 {
        let cost = |bundle: usize| (waiting + self.rent(bundle, prices)) / self.speeds[bundle];
        (0..self.len()).map(cost).fold(f64::INFINITY, f64::min)
    }
}

/// Returns whether `have` includes at least the wanted GPUs of each type.
pub(crate) fn holds(have: &[u32], wanted: &[u32]) -> bool {
    have.iter().zip(wanted).all(|(have, wanted)| have >= wanted)
}
