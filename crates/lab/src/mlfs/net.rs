//! The network of MLF-RL: scores candidates one by one; a softmax over the scores gives the probabilities.
//! Forward pass, backward pass and Adam are implemented here.
//!
//! It is single-threaded, sums in a fixed order, and takes `tanh` and `exp` from `libm`, so the results are
//! identical on all machines.

use libm::{exp, log, sqrt, tanh};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use hsched_model::number::to_f64;

/// A fully connected network with `tanh` between the layers and a single output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Net {
    /// Sizes of the layers, inputs first; the last is 1.
    sizes: Vec<usize>,
    /// Layer by layer: the weights of the inputs for each output, then the biases of the outputs.
    weights: Vec<f64>,
}

/// The state of Adam.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Adam {
    rate: f64,
    steps: i32,
    first: Vec<f64>,
    second: Vec<f64>,
}

/// The decay rates of Adam, and the constant that avoids a division by zero.
const FIRST: f64 = 0.9;
const SECOND: f64 = 0.999;
const LEAST: f64 = 1e-8;

impl Net {
    /// Returns a network with weights drawn from `±√(6 / (inputs + outputs))` of each layer.
    pub fn random(sizes: &[usize], seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut weights = Vec::new();
        for pair in sizes.windows(2) {
            let reach = sqrt(6.0 / to_f64(pair[0] + pair[1]));
            weights.extend((0..pair[0] * pair[1]).map(|_| reach * (2.0 * random.random::<f64>() - 1.0)));
            weights.extend(std::iter::repeat_n(0.0, pair[1]));
        }
        Self { sizes: sizes.to_vec(), weights }
    }

    /// Returns whether the network has this number of inputs, one output, no empty layer, and the right number
    /// of finite weights.
    pub fn takes(&self, inputs: usize) -> bool {
        let count = |pair: &[usize]| pair[0].saturating_add(1).saturating_mul(pair[1]);
        let needed = self.sizes.windows(2).map(count).fold(0, usize::saturating_add);
        self.sizes.first() == Some(&inputs)
            && self.sizes.len() > 1
            && self.sizes.last() == Some(&1)
            && self.sizes.iter().all(|size| *size > 0)
            && self.weights.len() == needed
            && self.weights.iter().all(|weight| weight.is_finite())
    }

    /// Returns the probability of each candidate.
    pub(crate) fn probabilities(&self, candidates: &[Vec<f64>]) -> Vec<f64> {
        let scores: Vec<f64> = candidates.iter().map(|candidate| self.score(candidate)).collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let parts: Vec<f64> = scores.iter().map(|score| exp(score - most)).collect();
        let sum: f64 = parts.iter().sum();
        parts.into_iter().map(|part| part / sum).collect()
    }

    fn score(&self, candidate: &[f64]) -> f64 {
        self.layers(candidate).last().and_then(|last| last.first()).copied().unwrap_or(0.0)
    }

    /// Returns the values of all layers, the candidate first.
    fn layers(&self, candidate: &[f64]) -> Vec<Vec<f64>> {
        let mut layers = vec![candidate.to_vec()];
        let mut at = 0;
        for (depth, pair) in self.sizes.windows(2).enumerate() {
            let (inputs, outputs) = (pair[0], pair[1]);
            let (factors, rest) = self.weights[at..].split_at(inputs * outputs);
            let before = &layers[depth];
            let sum = |row: &[f64]| row.iter().zip(before).map(|(factor, input)| factor * input).sum::<f64>();
            let sums = factors.chunks_exact(inputs).zip(rest).map(|(row, constant)| sum(row) + constant);
            let is_last = depth + 2 == self.sizes.len();
            let numbers: Vec<f64> = sums.map(|sum| if is_last { sum } else { tanh(sum) }).collect();
            layers.push(numbers);
            at += (inputs + 1) * outputs;
        }
        layers
    }

    /// Adds the gradient of `-advantage · ln p(chosen) - bonus · entropy`.
    pub(crate) fn add_gradient(
        &self,
        candidates: &[Vec<f64>],
        chosen: usize,
        (advantage, bonus): (f64, f64),
        gradient: &mut [f64],
    ) {
        let parts = self.probabilities(candidates);
        let logs: Vec<f64> = parts.iter().map(|part| log(part.max(f64::MIN_POSITIVE))).collect();
        let entropy = -parts.iter().zip(&logs).map(|(part, log)| part * log).sum::<f64>();
        for (place, candidate) in candidates.iter().enumerate() {
            let target = f64::from(u8::from(place == chosen));
            let slope = advantage * (parts[place] - target) + bonus * parts[place] * (logs[place] + entropy);
            self.add_slope(candidate, slope, gradient);
        }
    }

    /// Adds the gradient of `slope` times one candidate's score.
    fn add_slope(&self, candidate: &[f64], slope: f64, gradient: &mut [f64]) {
        let layers = self.layers(candidate);
        let mut slopes = vec![slope];
        let mut end = self.weights.len();
        for depth in (0..self.sizes.len() - 1).rev() {
            let (inputs, outputs) = (self.sizes[depth], self.sizes[depth + 1]);
            let begin = end - (inputs + 1) * outputs;
            let mut below = vec![0.0; inputs];
            for (output, slope) in slopes.iter().enumerate() {
                for (input, below) in below.iter_mut().enumerate() {
                    let place = begin + output * inputs + input;
                    gradient[place] += slope * layers[depth][input];
                    *below += slope * self.weights[place];
                }
                gradient[begin + inputs * outputs + output] += slope;
            }
            // The derivative of tanh, from its value.
            slopes = below
                .iter()
                .zip(&layers[depth])
                .map(|(below, value)| below * (1.0 - value * value))
                .collect();
            end = begin;
        }
    }

    /// Returns a zero gradient.
    pub(crate) fn no_gradient(&self) -> Vec<f64> {
        vec![0.0; self.weights.len()]
    }
}

impl Adam {
    /// Returns the initial state for a network.
    pub(crate) fn new(net: &Net, rate: f64) -> Self {
        let none = net.no_gradient();
        Self { rate, steps: 0, first: none.clone(), second: none }
    }

    /// Takes a step down a gradient.
    pub(crate) fn step(&mut self, net: &mut Net, gradient: &[f64]) {
        self.steps += 1;
        let (first, second) =
            (1.0 - libm::pow(FIRST, self.steps.into()), 1.0 - libm::pow(SECOND, self.steps.into()));
        for (place, slope) in gradient.iter().enumerate() {
            let (mean, square) = (&mut self.first[place], &mut self.second[place]);
            *mean = FIRST * *mean + (1.0 - FIRST) * slope;
            *square = SECOND * *square + (1.0 - SECOND) * slope * slope;
            net.weights[place] -= self.rate * (*mean / first) / (sqrt(*square / second) + LEAST);
        }
    }
}

/// Returns for each reward the discounted sum of it and all later ones.
pub(crate) fn discounted(rewards: &[f64], factor: f64) -> Vec<f64> {
    let mut worth = rewards.to_vec();
    for place in (1..worth.len()).rev() {
        worth[place - 1] += factor * worth[place];
    }
    worth
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlfs::{FEATURES, text_of};

    fn near(actual: &[f64], expected: &[f64], within: f64) {
        assert_eq!(actual.len(), expected.len());
        for (actual, expected) in actual.iter().zip(expected) {
            assert!((actual - expected).abs() < within, "{actual} is not {expected}");
        }
    }

    fn three_two_one() -> (Net, Vec<Vec<f64>>) {
        let weights = vec![0.5, -0.3, 0.1, -0.2, 0.4, 0.3, 0.1, -0.1, 0.7, -0.6, 0.05];
        let candidates = vec![vec![1.0, 0.5, 0.0], vec![0.2, 1.0, 1.0], vec![0.0, 0.0, 0.4]];
        (Net { sizes: vec![3, 2, 1], weights }, candidates)
    }

    #[test]
    fn a_network_that_diverged_has_no_file() {
        let mut net = Net::random(&[FEATURES.len(), 2, 1], 1);
        assert!(text_of(&net).is_ok());
        net.weights[0] = f64::NAN;
        assert!(text_of(&net).is_err());
    }

    #[test]
    fn a_net_gives_the_numbers_of_the_page() {
        let (net, candidates) = three_two_one();
        let expected = [0.438_509_116_8, 0.226_662_934_1, 0.334_827_949_1];
        near(&net.probabilities(&candidates), &expected, 1e-9);
        let mut gradient = net.no_gradient();
        net.add_gradient(&candidates, 1, (2.0, 0.0), &mut gradient);
        let expected = [
            0.288_102_667_8,
            -0.830_353_369_1,
            -0.898_795_819_3,
            -0.383_275_472_1,
            0.428_049_351_3,
            0.527_888_062_4,
            -0.118_344_663_7,
            -0.234_075_369_9,
            0.463_157_198_4,
            -0.859_694_871_1,
            0.0,
        ];
        near(&gradient, &expected, 1e-8);
        near(&discounted(&[0.0, 1.0, 0.5], 0.95), &[1.401_25, 1.475, 0.5], 1e-12);
    }

    #[test]
    fn the_gradient_is_that_of_small_steps() {
        let net = Net::random(&[4, 5, 3, 1], 7);
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let candidates: Vec<Vec<f64>> =
            (0..6).map(|_| (0..4).map(|_| random.random::<f64>() * 2.0 - 1.0).collect()).collect();
        let (advantage, bonus) = (-1.7, 0.3);
        let value = |net: &Net| {
            let parts = net.probabilities(&candidates);
            let entropy = -parts.iter().map(|part| part * part.ln()).sum::<f64>();
            -advantage * parts[2].ln() - bonus * entropy
        };
        let mut gradient = net.no_gradient();
        net.add_gradient(&candidates, 2, (advantage, bonus), &mut gradient);
        for (place, slope) in gradient.iter().enumerate() {
            let about = |step: f64| {
                let mut other = net.clone();
                other.weights[place] += step;
                value(&other)
            };
            let expected = (about(1e-5) - about(-1e-5)) / 2e-5;
            assert!((slope - expected).abs() < 1e-8, "weight {place}: {slope} is not {expected}");
        }
    }

    #[test]
    fn adam_learns_a_choice() {
        let mut net = Net::random(&[2, 4, 1], 3);
        let mut adam = Adam::new(&net, 0.05);
        let candidates = [vec![0.0, 1.0], vec![1.0, 0.0]];
        for _ in 0..200 {
            let mut gradient = net.no_gradient();
            net.add_gradient(&candidates, 1, (1.0, 0.0), &mut gradient);
            adam.step(&mut net, &gradient);
        }
        assert!(net.probabilities(&candidates)[1] > 0.99);
        assert!(net.takes(2) && !net.takes(3));
    }
}
