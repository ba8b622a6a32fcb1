//! The probability of each wait, over bins of equal width in the logarithm of seconds.

use hsched_model::number::{to_f64, to_usize};

/// Bins of a density.
pub(crate) const BINS: usize = 60;

/// Width of a bin and lower end of the first one, in decimal logarithms of seconds.
const WIDTH: f64 = 0.1;
const FIRST: f64 = 1.0;

/// Number of bins on each side over which a density is spread.
const REACH: usize = 20;

/// Returns the lower end of a bin.
pub(crate) fn edge(bin: usize) -> f64 {
    FIRST + WIDTH * to_f64(bin)
}

/// Returns the bin of a wait, given as its logarithm.
pub(crate) fn bin_of(log_wait: f64) -> usize {
    to_usize((log_wait - FIRST) / WIDTH).min(BINS - 1)
}

/// Probabilities of waits by bin; their sum is 1.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitDensity(pub(crate) [f64; BINS]);

impl WaitDensity {
    /// Returns the assumption for a site without any known wait: a median of about 3 h, and an 80 % interval
    /// from about 20 min to 30 h.
    pub fn unknown() -> Self {
        let mut bins = [0.0; BINS];
        bins[bin_of(4.0)] = 1.0;
        Self(bins).spread(0.8)
    }

    /// Returns the mean of some densities.
    pub(crate) fn mean(list: &[Self]) -> Self {
        let share = 1.0 / to_f64(list.len().max(1));
        let mut bins = [0.0; BINS];
        for density in list {
            bins.iter_mut().zip(&density.0).for_each(|(sum, part)| *sum += share * part);
        }
        Self(bins)
    }

    /// Returns the density of the wait multiplied by a random factor, whose logarithm is normal with this
    /// deviation.
    pub fn spread(&self, deviation: f64) -> Self {
        if deviation < WIDTH / 5.0 {
            return self.clone();
        }
        let kernel: Vec<f64> = (0..=REACH)
            .map(|distance| (-0.5 * (to_f64(distance) * WIDTH / deviation).powi(2)).exp())
            .collect();
        let mut bins = [0.0; BINS];
        for (from, part) in self.0.iter().enumerate().filter(|(_, part)| **part > 0.0) {
            for to in from.saturating_sub(REACH)..(from + REACH + 1).min(BINS) {
                bins[to] += part * kernel[from.abs_diff(to)];
            }
        }
        let total: f64 = bins.iter().sum();
        Self(bins.map(|part| part / total))
    }

    /// Returns the logarithm of the wait at this quantile.
    pub(crate) fn log_quantile(&self, part: f64) -> f64 {
        let mut below = 0.0;
        for (bin, share) in self.0.iter().enumerate() {
            if below + share >= part {
                return edge(bin) + WIDTH * ((part - below) / share.max(1e-9)).clamp(0.0, 1.0);
            }
            below += share;
        }
        edge(BINS)
    }

    /// Returns the wait in seconds at this quantile.
    pub fn quantile(&self, part: f64) -> f64 {
        10f64.powf(self.log_quantile(part))
    }

    /// Returns the mean wait in seconds.
    pub fn mean_s(&self) -> f64 {
        let middle = |bin: usize| 10f64.powf(edge(bin) + WIDTH / 2.0);
        self.0.iter().enumerate().map(|(bin, part)| part * middle(bin)).sum()
    }

    /// Returns the probability of waits shorter than the one whose logarithm is given.
    pub(crate) fn below(&self, log_wait: f64) -> f64 {
        let place = ((log_wait - FIRST) / WIDTH).clamp(0.0, to_f64(BINS));
        let whole = to_usize(place).min(BINS - 1);
        self.0[..whole].iter().sum::<f64>() + self.0[whole] * (place - to_f64(whole))
    }

    /// Returns the density of the wait from submission, given that the job has already waited this many
    /// seconds.
    pub fn after(&self, waited_s: f64) -> Self {
        let waited = waited_s.max(1.0).log10();
        let mut bins = self.0;
        for (bin, part) in bins.iter_mut().enumerate() {
            *part *= ((edge(bin + 1) - waited) / WIDTH).clamp(0.0, 1.0);
        }
        let total: f64 = bins.iter().sum();
        if total <= 0.0 {
            bins = [0.0; BINS];
            bins[BINS - 1] = 1.0;
            return Self(bins);
        }
        Self(bins.map(|part| part / total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_bin(bin: usize) -> WaitDensity {
        let mut bins = [0.0; BINS];
        bins[bin] = 1.0;
        WaitDensity(bins)
    }

    #[test]
    fn quantiles_lie_where_the_probability_is() {
        let density = WaitDensity::mean(&[in_bin(20), in_bin(40)]);
        assert!((density.log_quantile(0.25) - 3.05).abs() < 1e-9);
        assert!((density.log_quantile(0.75) - 5.05).abs() < 1e-9);
        assert!((density.below(4.0) - 0.5).abs() < 1e-9);
        assert!((density.below(99.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_spread_widens_and_keeps_the_middle() {
        let spread = in_bin(30).spread(0.3);
        let width = spread.log_quantile(0.9) - spread.log_quantile(0.1);
        assert!((spread.log_quantile(0.5) - 4.05).abs() < 0.01);
        assert!((width - 2.0 * 1.2816 * 0.3).abs() < 0.03, "{width}");
        assert_eq!(in_bin(30).spread(0.0), in_bin(30));
    }

    #[test]
    fn what_has_waited_waits_longer() {
        let density = WaitDensity::mean(&[in_bin(20), in_bin(40)]);
        let after = density.after(1e4);
        assert!((after.below(5.0)).abs() < 1e-9 && after.quantile(0.5) > 1e5);
        assert!(after.after(1e9).quantile(0.1) > 5e6);
    }
}
