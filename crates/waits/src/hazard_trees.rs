//! Boosted trees for the probability that a job starts in each bin of its wait, given that it is still
//! pending.
//!
//! A row stands for several training examples, its lines: one per bin in which the job was observed. A node
//! of a tree covers rows and a range of bins. The sum over a row's lines costs one subtraction, so the
//! histogram of a feature costs one step per row. Existing libraries would need one row per line.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use hsched_model::number::{to_f64, to_u32, to_usize};

use crate::grower::{Grower, Tree};

/// Bins of the hazard: the first contains all waits below its end, the last all waits above.
pub(crate) const STEPS: usize = 24;

/// Training rows, with coded features.
#[derive(Debug, Default)]
pub(crate) struct TrainingRows {
    /// By feature, then by row.
    pub codes: Vec<Vec<u8>>,
    /// Number of lines of each row: one per bin at whose end its job was still pending, and one for the bin
    /// of its start.
    pub steps: Vec<u8>,
    /// Whether the row's job started in the last of these bins.
    pub started: Vec<bool>,
    pub weights: Vec<f32>,
}

/// Parameters for growing trees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeGrowth {
    pub rounds: usize,
    /// Fraction of the features that each tree uses.
    pub features: f64,
    /// Whether thresholds are random instead of searched.
    pub random_thresholds: bool,
}

/// Fraction of the rows that each tree uses.
const ROWS: f64 = 0.7;

/// Learning rate of the trees.
const RATE: f32 = 0.08;

/// The sum of the trees and the logit of each bin's mean hazard.
#[derive(Clone, Debug)]
pub(crate) struct HazardTrees {
    base: [f32; STEPS],
    trees: Vec<Tree>,
}

impl HazardTrees {
    pub(crate) fn learn(rows: &TrainingRows, growth: TreeGrowth, random: &mut Pcg64Mcg) -> Self {
        let base = base(rows);
        let mut boosting = Boosting::new(rows, &base);
        let mut trees = Vec::with_capacity(growth.rounds);
        for _ in 0..growth.rounds {
            boosting.differentiate();
            let is_seen: Vec<bool> = (0..rows.steps.len()).map(|_| random.random::<f64>() < ROWS).collect();
            let features = some(rows.codes.len(), growth.features, random);
            let random = growth.random_thresholds.then_some(&mut *random);
            let grower = Grower { rows, sums: &boosting.sums, offsets: &boosting.offsets };
            let tree = grower.grow(&is_seen, &features, RATE, random);
            boosting.add(&tree);
            trees.push(tree);
        }
        Self { base, trees }
    }

    /// Returns the hazards of a request with these codes.
    pub(crate) fn hazards(&self, codes: &[u8]) -> [f64; STEPS] {
        let mut scores = self.base;
        for tree in &self.trees {
            tree.visit(
                |feature| codes[feature],
                STEPS,
                |from, until, value| {
                    scores[from..until].iter_mut().for_each(|score| *score += value);
                },
            );
        }
        scores.map(|score| 1.0 / (1.0 + (-f64::from(score)).exp()))
    }
}

/// Returns a random subset of the features, in order.
fn some(count: usize, part: f64, random: &mut Pcg64Mcg) -> Vec<usize> {
    let mut all: Vec<usize> = (0..count).collect();
    let kept = to_usize((part * to_f64(count)).ceil()).clamp(1, count.max(1));
    for place in 0..kept.min(count) {
        let other = random.random_range(place..count);
        all.swap(place, other);
    }
    all.truncate(kept);
    all.sort_unstable();
    all
}

/// Returns the logit of the mean hazard of each bin.
fn base(rows: &TrainingRows) -> [f32; STEPS] {
    let (mut starts, mut at_risk) = ([0.01_f32; STEPS], [0.1_f32; STEPS]);
    for ((&steps, &started), &weight) in rows.steps.iter().zip(&rows.started).zip(&rows.weights) {
        let steps = usize::from(steps);
        at_risk[..steps].iter_mut().for_each(|sum| *sum += weight);
        if started {
            starts[steps - 1] += weight;
        }
    }
    let mut base = [0.0; STEPS];
    for (logit, (starts, at_risk)) in base.iter_mut().zip(starts.iter().zip(at_risk)) {
        let hazard = (starts / at_risk).clamp(1e-4, 0.9);
        *logit = (hazard / (1.0 - hazard)).ln();
    }
    base
}

/// First and second derivatives of the loss, summed over the preceding lines of a row.
pub(crate) type Sums = [f32; 2];

/// The state of each line while trees are added.
struct Boosting<'a> {
    rows: &'a TrainingRows,
    scores: Vec<f32>,
    /// First line of each row; `sums` has one more entry per row.
    offsets: Vec<u32>,
    sums: Vec<Sums>,
}

impl<'a> Boosting<'a> {
    fn new(rows: &'a TrainingRows, base: &[f32; STEPS]) -> Self {
        let (mut scores, mut offsets) = (Vec::new(), Vec::new());
        for &steps in &rows.steps {
            offsets.push(to_u32(to_f64(scores.len())));
            scores.extend(&base[..usize::from(steps)]);
        }
        let sums = vec![[0.0; 2]; scores.len() + rows.steps.len()];
        Self { rows, scores, offsets, sums }
    }

    fn differentiate(&mut self) {
        let rows = self.rows;
        for (row, &offset) in self.offsets.iter().enumerate() {
            let (steps, weight) = (usize::from(rows.steps[row]), rows.weights[row]);
            let offset = offset as usize;
            let scores = &self.scores[offset..offset + steps];
            let sums = &mut self.sums[offset + row..=offset + row + steps];
            let mut sum = [0.0; 2];
            for (step, score) in scores.iter().enumerate() {
                let hazard = 1.0 / (1.0 + (-score).exp());
                let label = f32::from(u8::from(rows.started[row] && step + 1 == steps));
                sum[0] += weight * (hazard - label);
                sum[1] += weight * hazard * (1.0 - hazard);
                sums[step + 1] = sum;
            }
        }
    }

    fn add(&mut self, tree: &Tree) {
        for (row, &offset) in self.offsets.iter().enumerate() {
            let steps = usize::from(self.rows.steps[row]);
            let scores = &mut self.scores[offset as usize..offset as usize + steps];
            tree.visit(
                |feature| self.rows.codes[feature][row],
                steps,
                |from, until, value| {
                    scores[from..until].iter_mut().for_each(|score| *score += value);
                },
            );
        }
    }
}
