//! The model of a site's waits: several sets of boosted trees, and the codes of their features.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::coding::Coding;
use crate::density::{BINS, WaitDensity};
use crate::hazard_trees::{HazardTrees, STEPS, TrainingRows, TreeGrowth};
use hsched_model::number::{to_f64, to_u64, to_usize};

/// Sets of trees whose densities are averaged.
const MEMBERS: [TreeGrowth; 3] = [
    TreeGrowth { rounds: 100, features: 0.25, random_thresholds: false },
    TreeGrowth { rounds: 150, features: 0.25, random_thresholds: true },
    TreeGrowth { rounds: 100, features: 0.15, random_thresholds: false },
];

/// Upper end of the first bin of the hazard and width of the others, in decimal logarithms of seconds.
const FIRST_END: f64 = 2.0;
const STEP: f64 = 0.2;

/// Number of density bins before the first end, and in each step after it except the last, which has more.
const BINS_BEFORE: usize = 10;
const BINS_OF_STEP: usize = 2;

/// A training example.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Example<'a> {
    pub features: &'a [f32],
    /// The logarithm of the wait, and whether it has ended.
    pub wait: (f64, bool),
    pub weight: f64,
}

/// A model of a site's waits, trained on data up to a given time.
#[derive(Clone, Debug)]
pub struct HazardModel {
    codings: Vec<Coding>,
    members: Vec<HazardTrees>,
}

impl HazardModel {
    /// Trains on examples; `None` if none has started.
    pub(crate) fn learn(examples: &[Example], seed: u64) -> Option<Self> {
        let examples: Vec<&Example> = examples.iter().filter(|example| steps_of(example.wait) > 0).collect();
        examples.iter().find(|example| example.wait.1)?;
        let features = examples.first()?.features.len();
        let mut rows = TrainingRows::default();
        for example in &examples {
            rows.steps.push(steps_of(example.wait));
            rows.started.push(example.wait.1);
            rows.weights.push(narrow(example.weight));
        }
        let mut codings = Vec::with_capacity(features);
        for feature in 0..features {
            let value = |example: &&Example| example.features[feature];
            let coding = Coding::of(examples.iter().map(value));
            rows.codes.push(examples.iter().map(|example| coding.code(value(example))).collect());
            codings.push(coding);
        }
        let members = MEMBERS
            .iter()
            .zip(seed..)
            .map(|(growth, seed)| HazardTrees::learn(&rows, *growth, &mut Pcg64Mcg::seed_from_u64(seed)));
        Some(Self { codings, members: members.collect() })
    }

    /// Returns the density of the wait of a request with these features.
    pub(crate) fn density(&self, features: &[f32]) -> WaitDensity {
        let codes: Vec<u8> =
            self.codings.iter().zip(features).map(|(coding, value)| coding.code(*value)).collect();
        let densities: Vec<WaitDensity> =
            self.members.iter().map(|member| density(&member.hazards(&codes))).collect();
        WaitDensity::mean(&densities)
    }
}

/// Returns the number of bins at whose end a job was still pending, plus one for the bin of its start if it
/// has started.
fn steps_of((log_wait, has_started): (f64, bool)) -> u8 {
    let bin = to_usize((log_wait - FIRST_END) / STEP + 1.0).min(STEPS - 1);
    u8::try_from(to_u64(to_f64(bin + usize::from(has_started)))).unwrap_or(u8::MAX)
}

/// Returns the density of a wait with these hazards; the remaining probability belongs to the last bin.
fn density(hazards: &[f64; STEPS]) -> WaitDensity {
    let mut survival = 1.0;
    let mut bins = [0.0; BINS];
    for (step, hazard) in hazards.iter().enumerate() {
        let range = match step {
            0 => 0..BINS_BEFORE,
            _ if step + 1 == STEPS => BINS_BEFORE + BINS_OF_STEP * (step - 1)..BINS,
            _ => {
                let begin = BINS_BEFORE + BINS_OF_STEP * (step - 1);
                begin..begin + BINS_OF_STEP
            }
        };
        let part = if step + 1 == STEPS { survival } else { survival * hazard };
        let share = part / to_f64(range.len());
        bins[range].iter_mut().for_each(|bin| *bin = share);
        survival -= part;
    }
    WaitDensity(bins)
}

#[expect(clippy::cast_possible_truncation, reason = "weights need no more digits")]
fn narrow(number: f64) -> f32 {
    number as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first feature decides whether the wait is 10^3.1 or 10^5.1 s; the second has no effect.
    fn examples(features: &[[f32; 2]], censored_at: f64) -> Vec<Example<'_>> {
        let wait = |kind: f32| if kind > 0.5 { 5.1 } else { 3.1 };
        let seen = |wait: f64| (wait.min(censored_at), wait <= censored_at);
        let example = |features| Example { features, wait: seen(wait(features[0])), weight: 1.0 };
        features.iter().map(|features: &[f32; 2]| example(features)).collect()
    }

    fn features() -> Vec<[f32; 2]> {
        (0..400_u16).map(|number| [f32::from(number % 2), f32::from(number % 7)]).collect()
    }

    #[test]
    fn waits_are_told_apart_by_the_feature_that_matters() {
        let features = features();
        let model = HazardModel::learn(&examples(&features, 9.0), 1).expect("starts");
        let median = |kind: f32| model.density(&[kind, 3.0]).log_quantile(0.5);
        assert!((median(0.0) - 3.1).abs() < 0.15, "{}", median(0.0));
        assert!((median(1.0) - 5.1).abs() < 0.15, "{}", median(1.0));
        let sum: f64 = model.density(&[1.0, 3.0]).0.iter().sum();
        assert!((sum - 1.0).abs() < 1e-9);
    }

    #[test]
    fn jobs_that_have_not_started_wait_longer_than_they_have() {
        let features = features();
        let model = HazardModel::learn(&examples(&features, 4.0), 1).expect("starts");
        let below = model.density(&[1.0, 3.0]).below(4.0);
        assert!(below < 0.1, "{below}");
    }

    #[test]
    fn the_same_seed_gives_the_same_model() {
        let features = features();
        let learn =
            |seed| HazardModel::learn(&examples(&features, 4.0), seed).expect("starts").density(&[1.0, 3.0]);
        assert_eq!(learn(1), learn(1));
        assert!(HazardModel::learn(&examples(&features, 2.5), 1).is_none());
    }
}
