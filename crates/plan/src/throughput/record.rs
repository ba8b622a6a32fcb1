//! One contributor's record of one speed: step times at some batch sizes, and the effect of samples on them.

use super::sample::{Sample, SampleSource, is_duration};
use hsched_model::Speed;
use hsched_model::number::to_f64;

/// One contributor's record of one speed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpeedRecord {
    /// Number of samples so far, including those set aside, and of other changes. Of two records of a
    /// contributor, the one with the larger number is later.
    pub observations: u64,
    /// A stated speed, until a sample counts.
    pub stated: Option<StatedSpeed>,
    /// Measured step times, by batch.
    pub points: Vec<BatchPoint>,
    /// Samples too far from the points, the oldest first.
    pub aside: Vec<Aside>,
}

/// A speed stated by a user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StatedSpeed {
    pub speed: Speed,
    /// Time of the statement, in Unix seconds.
    pub at: f64,
}

/// The step time at one batch size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchPoint {
    pub batch: u64,
    /// Moving average of a step's seconds.
    pub seconds: f64,
    /// Moving variance of the logarithm of a sample's seconds: the square of its relative error.
    pub variance: f64,
    /// Number of counted samples.
    pub count: u64,
    /// Number of steps in these samples.
    pub steps: u64,
    /// [`SpeedRecord::observations`] at the last of these samples.
    pub seen: u64,
    /// Time of the last of these samples, in Unix seconds.
    pub at: f64,
    pub source: SampleSource,
}

/// A sample that does not count unless others agree with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aside {
    pub batch: u64,
    pub seconds: f64,
    pub steps: u64,
    /// [`SpeedRecord::observations`] when the sample was added.
    pub seen: u64,
    /// Time of the sample, in Unix seconds.
    pub at: f64,
    pub source: SampleSource,
}

/// Maximum number of batch sizes kept; two define a line.
const MOST_POINTS: usize = 8;

/// Relative error of a single sample without further data.
const FIRST_ERROR: f64 = 0.1;

/// Distance from the average in standard deviations beyond which a sample is set aside.
const FAR: f64 = 4.0;

/// Bounds of the distance [`FAR`] as natural logarithms: samples nearer than the first bound are always
/// accepted, and samples farther than the second never.
const DISTANCE: (f64, f64) = (0.2, 1.0);

/// Maximum distance as a natural logarithm from an expectation based on other batch sizes or a stated speed:
/// a factor of 2.
const DISTANCE_OF_OTHERS: f64 = std::f64::consts::LN_2;

/// Number of samples set aside that indicate a change of speed if they agree.
const RUN: usize = 3;

/// Logarithmic distance within which such samples agree.
const AGREEMENT: f64 = 0.2;

/// Number of observations after which a sample set aside is dropped.
const MEMORY: u64 = 32;

/// Maximum number of observations, far above any real record, so that files cannot cause an overflow.
const MOST_OBSERVATIONS: u64 = 1 << 53;

/// The expected step time, and the maximum logarithmic deviation of a sample.
struct StepExpectation {
    seconds: f64,
    distance: f64,
}

impl SpeedRecord {
    /// Adds a valid sample, or sets it aside and returns the expected seconds.
    pub(super) fn learn(&mut self, sample: &Sample, weight: f64) -> Result<(), f64> {
        self.observations += 1;
        if sample.source != SampleSource::Epoch {
            // Inferences from whole epochs are dropped once there is a measurement.
            self.points.retain(|point| point.source != SampleSource::Epoch);
            self.aside.retain(|aside| aside.source != SampleSource::Epoch);
        }
        let now = self.observations;
        let Sample { batch, seconds, steps, at, source, .. } = *sample;
        let new = Aside { batch, seconds, steps, seen: now, at, source };
        match self.expected(&new) {
            Some(expected) if (seconds / expected.seconds).ln().abs() > expected.distance => {
                self.aside.retain(|aside| aside.seen + MEMORY > now);
                self.aside.push(new);
                if !self.follow_change(weight) {
                    return Err(expected.seconds);
                }
            }
            _ => {
                self.aside.retain(|aside| aside.batch != batch && aside.seen + MEMORY > now);
                self.take(&new, weight);
            }
        }
        self.stated = None;
        self.drop_surplus();
        Ok(())
    }

    /// Replaces the record with a stated speed.
    pub(super) fn state(&mut self, speed: Speed, at: f64) {
        let observations = self.observations + 1;
        *self = Self { observations, stated: Some(StatedSpeed { speed, at }), ..Self::default() };
    }

    /// Removes speeds inferred from whole epochs or runs at `since` or later; returns whether there were any.
    pub(super) fn forget_inferred(&mut self, since: f64) -> bool {
        let before = self.points.len() + self.aside.len();
        self.points.retain(|point| point.source != SampleSource::Epoch || point.at < since);
        self.aside.retain(|aside| aside.source != SampleSource::Epoch || aside.at < since);
        let is_less = self.points.len() + self.aside.len() < before;
        // The record without these speeds must count as later when caches are merged.
        self.observations += u64::from(is_less);
        is_less
    }

    /// Returns all numbers of the record as a sort key: in every merge, the greater of two records wins.
    pub(super) fn order(&self) -> Vec<u64> {
        let stated =
            self.stated.iter().flat_map(|stated| [stated.speed.alpha(), stated.speed.beta(), stated.at]);
        let points = self.points.iter().flat_map(|p| {
            [p.batch, p.seconds.to_bits(), p.variance.to_bits(), p.count, p.steps, p.seen, p.at.to_bits()]
        });
        let aside =
            self.aside.iter().flat_map(|a| [a.batch, a.seconds.to_bits(), a.steps, a.seen, a.at.to_bits()]);
        let lengths = [self.points.len() as u64, self.aside.len() as u64];
        let sources = self.points.iter().map(|p| p.source).chain(self.aside.iter().map(|a| a.source));
        let sources = sources.map(|source| source as u64);
        let numbers = stated.map(f64::to_bits).chain(points).chain(aside).chain(sources);
        [self.observations].into_iter().chain(lengths).chain(numbers).collect()
    }

    /// Returns whether the record's numbers can result from samples.
    pub(super) fn is_possible(&self) -> bool {
        let point = |p: &BatchPoint| {
            let variance = p.variance.is_finite() && p.variance >= 0.0;
            let counted = (1..=self.observations).contains(&p.count) && p.seen <= self.observations;
            let counts = counted && p.batch >= 1 && p.steps >= 1;
            is_duration(p.seconds) && variance && counts && p.at.is_finite()
        };
        let aside = |a: &Aside| {
            let counts = a.batch >= 1 && a.steps >= 1 && a.seen <= self.observations;
            is_duration(a.seconds) && counts && a.at.is_finite()
        };
        let counts = self.observations <= MOST_OBSERVATIONS;
        let sorted = self.points.is_sorted_by(|a, b| a.batch < b.batch);
        let stated = self.stated.is_none_or(|stated| stated.at.is_finite());
        counts && sorted && stated && self.points.iter().all(point) && self.aside.iter().all(aside)
    }

    /// Returns the expected step time of a sample, from its own batch size, the nearest one or the stated
    /// speed; `None` if nothing is known.
    fn expected(&self, sample: &Aside) -> Option<StepExpectation> {
        if let Some(point) = self.points.iter().find(|point| point.batch == sample.batch) {
            let distance = (FAR * point.variance.sqrt()).clamp(DISTANCE.0, DISTANCE.1);
            return Some(StepExpectation { seconds: point.seconds, distance });
        }
        let size = batch_size(sample.batch);
        let away = |point: &&BatchPoint| (batch_size(point.batch) / size).ln().abs();
        let nearest = self.points.iter().min_by(|a, b| away(a).total_cmp(&away(b)));
        let seconds = match nearest {
            Some(point) => {
                // Between a step of constant length and one proportional to the batch.
                let (constant, linear) = (point.seconds, point.seconds * size / batch_size(point.batch));
                sample.seconds.clamp(constant.min(linear), constant.max(linear))
            }
            None => self.stated?.speed.step(sample.batch, None),
        };
        Some(StepExpectation { seconds, distance: DISTANCE_OF_OTHERS })
    }

    /// Uses the samples set aside that agree with the newest of them, if there are enough to indicate a
    /// change of speed; returns whether there are.
    fn follow_change(&mut self, weight: f64) -> bool {
        let Some(&newest) = self.aside.last() else { return false };
        let change =
            |aside: &Aside| self.expected(aside).map(|expected| (aside.seconds / expected.seconds).ln());
        // A sample counted in the meantime shows that other batch sizes are unchanged.
        let last = self.points.iter().map(|point| point.seen).max();
        let agrees = |aside: &&Aside| {
            let in_row = aside.batch == newest.batch || Some(aside.seen) > last;
            let near = |(old, new): (f64, f64)| (old - new).abs() <= AGREEMENT;
            in_row && change(aside).zip(change(&newest)).is_some_and(near)
        };
        let run: Vec<Aside> = self.aside.iter().filter(agrees).copied().collect();
        if run.len() < RUN {
            return false;
        }
        let is_replaced = |point: &BatchPoint| run.iter().any(|aside| aside.batch == point.batch);
        // A GPU that no longer reaches a frequently observed time has changed at other batch sizes as well.
        let was_sure = |point: &BatchPoint| point.count >= RUN as u64;
        if self.points.iter().any(|point| is_replaced(point) && was_sure(point)) {
            self.points.clear();
        } else {
            self.points.retain(|point| !is_replaced(point));
        }
        self.aside.clear();
        for sample in &run {
            self.take(sample, weight);
        }
        true
    }

    /// Moves the average of the sample's batch size towards the sample.
    ///
    /// The first samples count equally; later the newest has the weight of the rule. A sample with fewer
    /// steps than the others counts less.
    fn take(&mut self, sample: &Aside, weight: f64) {
        let Aside { batch, seconds, steps, seen, at, source } = *sample;
        let place = match self.points.binary_search_by_key(&batch, |point| point.batch) {
            Ok(place) => place,
            Err(place) => {
                let variance = FIRST_ERROR * FIRST_ERROR;
                let point = BatchPoint { batch, seconds, variance, count: 1, steps, seen, at, source };
                self.points.insert(place, point);
                return;
            }
        };
        let point = &mut self.points[place];
        point.count += 1;
        point.steps = point.steps.saturating_add(steps);
        let (count, added, all) = (to_f64(point.count), to_f64(steps), to_f64(point.steps));
        let gain = weight.max(1.0 / count) * (added * count / all).min(1.0);
        let away = (seconds / point.seconds).ln();
        point.seconds *= (gain * away).exp();
        point.variance = (1.0 - gain) * (point.variance + gain * away * away);
        (point.seen, point.at, point.source) = (seen, point.at.max(at), source);
    }

    /// Drops the batch size seen longest ago if there are too many, but never the smallest or largest,
    /// because they determine the line best.
    fn drop_surplus(&mut self) {
        while self.points.len() > MOST_POINTS {
            let inner = 1..self.points.len() - 1;
            let oldest = inner.min_by_key(|&place| self.points[place].seen);
            let Some(oldest) = oldest else { return };
            self.points.remove(oldest);
        }
    }
}

/// Returns a batch size as a float.
pub(super) fn batch_size(batch: u64) -> f64 {
    to_f64(batch)
}
