//! The policy `jps` (Algorithm 3): examines a random sample of the last categories in the paper's order and
//! keeps the best.

use std::collections::BTreeSet;

use num_bigint::BigUint;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::flag::fraction;
use crate::has::CategorySearch;
use crate::market::{CategoryMarket, ClearedCategory};
use crate::{
    Assignment, Entry, Flag, FlagKind, Knowledge, Make, Objective, Parameters, Placer, PolicyError, Problem,
    Sharing, admission, category, fairness,
};

/// The registry entry of the paper's JPS.
pub(super) const JPS: Entry = Entry {
    name: "jps",
    make: Make::Placer(|parameters| Ok(Box::new(Jps::new(JpsParameters::of(parameters)?)))),
    objectives: &Objective::ALL,
    flags: &[&ALPHA, &BETA, &SAMPLES],
    knows: &[Knowledge::Lengths, Knowledge::Speeds],
    knows_replicas: true,
};

const ALPHA: Flag = Flag {
    name: "alpha",
    value_name: "FRACTION",
    kind: FlagKind::Text(|text| alpha(text).map(drop)),
    usual: Some("0.7"),
    help: "jps: start of the sampled range of categories, as a fraction of all categories, or auto",
};

const BETA: Flag = Flag {
    name: "beta",
    value_name: "FRACTION",
    kind: FlagKind::Text(|text| fraction(text).map(drop)),
    usual: Some("1"),
    help: "jps: weight of speed relative to fairness",
};

const SAMPLES: Flag = Flag {
    name: "samples",
    value_name: "N",
    kind: FlagKind::Text(|text| count(text).map(drop)),
    usual: Some("60"),
    help: "jps: number of categories to sample",
};

/// The parameters of `jps`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct JpsParameters {
    /// Start of the sampled range as a fraction of all categories, in [0, 1]; `None` to search for the best
    /// start.
    pub alpha: Option<f64>,
    /// Weight of speed relative to fairness, in [0, 1].
    pub beta: f64,
    /// Number of categories drawn, at least 1.
    pub samples: u32,
}

impl Default for JpsParameters {
    /// Returns the paper's values.
    fn default() -> Self {
        Self { alpha: Some(0.7), beta: 1.0, samples: 60 }
    }
}

impl JpsParameters {
    fn of(parameters: &Parameters) -> Result<Self, String> {
        Ok(Self {
            alpha: parameters.value(&ALPHA, alpha)?,
            beta: parameters.value(&BETA, fraction)?,
            samples: parameters.value(&SAMPLES, count)?,
        })
    }
}

fn alpha(text: &str) -> Result<Option<f64>, String> {
    if text == "auto" {
        return Ok(None);
    }
    fraction(text).map(Some).map_err(|why| format!("{why}, or auto"))
}

/// Maximum number of samples: all are drawn before the time budget is checked.
const MOST_SAMPLES: u32 = 100_000;

fn count(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|count| (1..=MOST_SAMPLES).contains(count))
        .ok_or_else(|| format!("must be a whole number from 1 to {MOST_SAMPLES}"))
}

/// The paper's JPS.
#[derive(Clone, Copy, Debug)]
struct Jps {
    parameters: JpsParameters,
}

/// Minimum number of categories drawn from the whole list if none of the first sample is legal.
const WHOLE_LIST: u32 = 2000;

impl Jps {
    /// Returns the policy with these parameters.
    fn new(parameters: JpsParameters) -> Self {
        Self { parameters }
    }
}

impl Placer for Jps {
    fn name(&self) -> &'static str {
        "jps"
    }

    fn parameters(&self) -> String {
        let JpsParameters { alpha, beta, samples } = self.parameters;
        let alpha = alpha.map_or("auto".to_owned(), |alpha| alpha.to_string());
        format!("alpha {alpha}, beta {beta}, {samples} samples")
    }

    fn place(&self, problem: &Problem, stop: &dyn Fn() -> bool) -> Result<Assignment, PolicyError> {
        let mut random = Pcg64Mcg::seed_from_u64(problem.seed);
        let (mut looked_at, mut stopped) = (0, false);
        let verdicts = admission::place(problem, Sharing::Balanced, stop, |admission| {
            let jobs = admission::shortest_first(problem, &admission.jobs);
            let JpsParameters { alpha, samples, .. } = self.parameters;
            let alpha = alpha.unwrap_or_else(|| best_alpha(problem, &jobs, admission.workers, samples, stop));
            let mut best = None;
            // If none of the drawn categories is legal, the rest of the list may still contain legal ones.
            for (begin, count) in [(alpha, samples), (0.0, samples.max(WHOLE_LIST))] {
                let categories = draw_legal(problem, &jobs, admission.workers, begin, count, &mut random);
                let mut until_stopped = categories.iter().take_while(|_| {
                    let go_on = !stopped;
                    stopped = stopped || stop();
                    looked_at += u64::from(go_on);
                    go_on
                });
                best = if self.parameters.beta >= 1.0 {
                    best_objective(problem, &jobs, &mut until_stopped, stop)
                } else {
                    self.best_score(problem, &jobs, &mut until_stopped)
                };
                if best.is_some() || stopped {
                    break;
                }
            }
            Ok(best.and_then(|best| best.verdicts(problem, &jobs)).map(|verdicts| {
                let mut in_job_order: Vec<_> = jobs.into_iter().zip(verdicts).collect();
                in_job_order.sort_by_key(|&(job, _)| job);
                in_job_order.into_iter().map(|(_, verdict)| verdict).collect()
            }))
        })?;
        Ok(Assignment { verdicts, categories: Some(looked_at), stopped, bound: None })
    }
}

impl Jps {
    /// Returns the category with the largest β · min(Λ) / Λₙ + (1 − β) · Fₙ (eq. 34).
    fn best_score(
        &self,
        problem: &Problem,
        jobs: &[usize],
        categories: &mut dyn Iterator<Item = &'_ Vec<u32>>,
    ) -> Option<ClearedCategory> {
        let mut market = CategoryMarket::new(problem, jobs);
        let cleared: Vec<ClearedCategory> = categories
            .filter_map(|category| if market.clear(category) { market.pack() } else { None })
            .collect();
        let least = cleared.iter().map(|sample| sample.objective).fold(f64::INFINITY, f64::min);
        let beta = self.parameters.beta;
        let score = |sample: &ClearedCategory| {
            beta * least / sample.objective + (1.0 - beta) * fairness(problem, jobs, &sample.times)
        };
        // The reversal selects the first of several equal ones, because `max_by` keeps the last.
        cleared.into_iter().rev().max_by(|a, b| score(a).total_cmp(&score(b)))
    }
}

/// The start fractions that `auto` tries.
const ALPHAS: [f64; 8] = [0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99];

/// Returns the start fraction with the lowest objective over a few categories, which are drawn with the same
/// seed for each fraction; the paper's fraction if no category has a solution.
fn best_alpha(problem: &Problem, jobs: &[usize], workers: u32, samples: u32, stop: &dyn Fn() -> bool) -> f64 {
    let each = samples.div_ceil(4);
    let mut best = (f64::INFINITY, JpsParameters::default().alpha.unwrap_or(0.0));
    for alpha in ALPHAS {
        if stop() {
            break;
        }
        let mut random = Pcg64Mcg::seed_from_u64(problem.seed);
        let categories = draw_legal(problem, jobs, workers, alpha, each, &mut random);
        let found = best_objective(problem, jobs, &mut categories.iter(), stop);
        let value = found.map_or(f64::INFINITY, |found| found.objective);
        if value < best.0 {
            best = (value, alpha);
        }
    }
    best.1
}

/// Draws categories like [`draw`] for this many workers; if none respects the jobs' limits, all are adjusted
/// to them.
fn draw_legal(
    problem: &Problem,
    jobs: &[usize],
    workers: u32,
    alpha: f64,
    samples: u32,
    random: &mut Pcg64Mcg,
) -> Vec<Vec<u32>> {
    let mut categories = draw(workers, jobs.len(), alpha, samples, random);
    if !categories.iter().any(|category| within_limits(problem, jobs, category)) {
        for category in &mut categories {
            clamp_to_limits(problem, jobs, category);
        }
    }
    categories
}

/// Returns up to N distinct categories, drawn uniformly from numbers ⌊α C⌋ + 1 to C, in ascending order.
fn draw(workers: u32, jobs: usize, alpha: f64, samples: u32, random: &mut Pcg64Mcg) -> Vec<Vec<u32>> {
    let count = category::count(workers, jobs);
    let (numerator, denominator) = decimal_fraction(alpha);
    let begin = &count * numerator / denominator;
    // For α = 1 the range is empty, and the last category is used.
    let begin = if begin == count && count > BigUint::ZERO { &count - 1_u32 } else { begin };
    let range = count - &begin;
    let samples = BigUint::from(samples);
    let mut numbers = BTreeSet::new();
    if samples >= range {
        let mut number = BigUint::ZERO;
        while number < range {
            numbers.insert(number.clone());
            number += 1_u32;
        }
    }
    while BigUint::from(numbers.len()) < samples.clone().min(range.clone()) {
        numbers.insert(below(&range, random));
    }
    numbers.into_iter().map(|number| category::unrank(number + &begin, workers, jobs)).collect()
}

/// Returns the category with the lowest objective; with β = 1 fairness has no influence, and most categories
/// need no packing.
fn best_objective(
    problem: &Problem,
    jobs: &[usize],
    categories: &mut dyn Iterator<Item = &'_ Vec<u32>>,
    stop: &dyn Fn() -> bool,
) -> Option<ClearedCategory> {
    let mut search = CategorySearch::new(problem, jobs);
    categories.for_each(|category| search.look_at(category));
    search.end(stop)
}

fn within_limits(problem: &Problem, jobs: &[usize], category: &[u32]) -> bool {
    let allowed = |(&job, count): (&usize, &u32)| {
        (problem.jobs[job].least_gpus()..=problem.jobs[job].most_gpus()).contains(count)
    };
    jobs.iter().zip(category).all(allowed)
}

/// Clamps the workers of each job to its limits, then adds or removes workers in job order until the total is
/// as before, as far as the limits allow. Under tight limits, a random category is almost never legal.
fn clamp_to_limits(problem: &Problem, jobs: &[usize], category: &mut [u32]) {
    let limits = |place: usize| {
        let model = &problem.jobs[jobs[place]];
        (model.least_gpus(), model.most_gpus())
    };
    let total: u32 = category.iter().sum();
    for (place, count) in category.iter_mut().enumerate() {
        let (least, most) = limits(place);
        *count = (*count).clamp(least, most);
    }
    let mut now: u32 = category.iter().sum();
    for (place, count) in category.iter_mut().enumerate() {
        let (least, most) = limits(place);
        let moved = if now < total { (most - *count).min(total - now) } else { 0 };
        *count += moved;
        now += moved;
        let taken = (*count - least).min(now.saturating_sub(total));
        *count -= taken;
        now -= taken;
    }
}

/// Returns a uniform number below `bound`: random words of its length, drawn again while too large.
fn below(bound: &BigUint, random: &mut Pcg64Mcg) -> BigUint {
    let bits = bound.bits();
    loop {
        let mut words: Vec<u32> = (0..bits.div_ceil(32)).map(|_| random.next_u32()).collect();
        if let Some(last) = words.last_mut() {
            *last >>= (32 - bits % 32) % 32;
        }
        let number = BigUint::new(words);
        if number < *bound {
            return number;
        }
    }
}

/// Returns the exact value of a fraction written in decimal: 0.7 becomes 7/10, which no binary number equals.
fn decimal_fraction(fraction: f64) -> (BigUint, BigUint) {
    let text = fraction.to_string();
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    let digits: BigUint = format!("{whole}{decimals}").parse().unwrap_or_default();
    let places = u32::try_from(decimals.len()).unwrap_or(0);
    (digits, BigUint::from(10_u32).pow(places))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_the_tail_of_the_list() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let drawn = draw(15, 4, 0.7, 1000, &mut random);
        assert_eq!(drawn.len(), 364 - 254);
        assert_eq!(drawn[0], category::unrank(BigUint::from(254_u32), 15, 4));
        // 0.7 · 10 is exactly 7, although the float is slightly less.
        assert_eq!(draw(11, 2, 0.7, 1000, &mut random).len(), 3);
        assert_eq!(draw(11, 2, 1.0, 5, &mut random), [[1, 10]]);
        assert_eq!(draw(1, 1, 0.0, 5, &mut random), [[1]]);
    }

    #[test]
    fn samples_are_distinct_seeded_and_spread() {
        let draw = |seed| draw(300, 100, 0.5, 60, &mut Pcg64Mcg::seed_from_u64(seed));
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_eq!(draw(7).into_iter().collect::<BTreeSet<_>>().len(), 60);
        let half = BigUint::from(1000_u32);
        let mut random = Pcg64Mcg::seed_from_u64(3);
        let mut high = 0;
        for _ in 0..4000 {
            let number = below(&half, &mut random);
            assert!(number < half);
            high += u32::from(number >= BigUint::from(500_u32));
        }
        assert!((1800..2200).contains(&high), "{high}");
    }
}
