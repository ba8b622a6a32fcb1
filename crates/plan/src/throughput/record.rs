//! What one contributor knows of one speed: step times at some batch sizes, and how samples change them.

use super::sample::{Sample, SampleSource, is_duration};
use hsched_model::Speed;
use hsched_model::number::to_f64;

/// One contributor's knowledge of one speed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Samples seen so far, those kept aside too. Of two records of a contributor, the one with more is later.
    pub observations: u64,
    /// What somebody said, until a sample counts.
    pub stated: Option<Stated>,
    /// What samples told, by batch.
    pub points: Vec<Point>,
    /// Samples too far from the points, oldest first.
    pub aside: Vec<Aside>,
}

/// A speed that somebody said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stated {
    pub speed: Speed,
    /// When, in Unix seconds.
    pub at: f64,
}

/// The step time at one batch size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub batch: u64,
    /// Moving average of the seconds of a step.
    pub seconds: f64,
    /// Moving variance of the logarithm of a sample's seconds: the square of its relative error.
    pub variance: f64,
    /// Samples that counted.
    pub count: u64,
    /// Steps of these samples.
    pub steps: u64,
    /// [`Record::observations`] when the last of them came.
    pub seen: u64,
    /// When the last of them came, in Unix seconds.
    pub at: f64,
    pub source: SampleSource,
}

/// A sample that does not count, unless others agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aside {
    pub batch: u64,
    pub seconds: f64,
    pub steps: u64,
    /// [`Record::observations`] when it came.
    pub seen: u64,
    /// When it came, in Unix seconds.
    pub at: f64,
    pub source: SampleSource,
}

/// Batch sizes that are remembered; two make a line.
const MOST_POINTS: usize = 8;

/// Relative error of a single sample before any other tells.
const FIRST_ERROR: f64 = 0.1;

/// Standard deviations from the average beyond which a sample is kept aside.
const FAR: f64 = 4.0;

/// Bounds of that distance, as natural logarithms: noise within the first is always taken, a factor
/// beyond the second never.
const DISTANCE: (f64, f64) = (0.2, 1.0);

/// Distance, as a natural logarithm, from what other batch sizes let expect: a factor of 2.
const DISTANCE_OF_OTHERS: f64 = std::f64::consts::LN_2;

/// Samples kept aside that make a change of speed when they agree.
const RUN: usize = 3;

/// Logarithm within which such samples agree.
const AGREEMENT: f64 = 0.2;

/// Observations after which a sample kept aside is forgotten.
const MEMORY: u64 = 32;

/// Observations that no record comes near: files cannot make counts overflow.
const MOST_OBSERVATIONS: u64 = 1 << 53;

/// What is expected of a step, and the logarithm up to which a sample may differ from it.
struct Expected {
    seconds: f64,
    distance: f64,
}

impl Record {
    /// Adds a possible sample, or keeps it aside and returns the seconds that were expected.
    pub(super) fn learn(&mut self, sample: &Sample, weight: f64) -> Result<(), f64> {
        self.observations += 1;
        if sample.source != SampleSource::Epoch {
            // What whole epochs told is worth nothing beside a measurement.
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

    /// Replaces what is known by what somebody says.
    pub(super) fn state(&mut self, speed: Speed, at: f64) {
        let observations = self.observations + 1;
        *self = Self { observations, stated: Some(Stated { speed, at }), ..Self::default() };
    }

    /// Drops what was inferred from whole epochs or runs at `since` or later; returns whether that was anything.
    pub(super) fn forget_inferred(&mut self, since: f64) -> bool {
        let before = self.points.len() + self.aside.len();
        self.points.retain(|point| point.source != SampleSource::Epoch || point.at < since);
        self.aside.retain(|aside| aside.source != SampleSource::Epoch || aside.at < since);
        let is_less = self.points.len() + self.aside.len() < before;
        // The record without them is the later one when caches are merged.
        self.observations += u64::from(is_less);
        is_less
    }

    /// Returns all its numbers in one order: of two records the greater wins, whoever merges them.
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

    /// Returns whether its numbers can have been learnt.
    pub(super) fn is_possible(&self) -> bool {
        let point = |p: &Point| {
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

    /// Returns what a sample's step should have taken, by its own batch size, else by the nearest one.
    fn expected(&self, sample: &Aside) -> Option<Expected> {
        if let Some(point) = self.points.iter().find(|point| point.batch == sample.batch) {
            let distance = (FAR * point.variance.sqrt()).clamp(DISTANCE.0, DISTANCE.1);
            return Some(Expected { seconds: point.seconds, distance });
        }
        let size = batch_size(sample.batch);
        let away = |point: &&Point| (batch_size(point.batch) / size).ln().abs();
        let nearest = self.points.iter().min_by(|a, b| away(a).total_cmp(&away(b)));
        let seconds = match nearest {
            Some(point) => {
                // Between a step that is all overhead and one that has none.
                let (constant, linear) = (point.seconds, point.seconds * size / batch_size(point.batch));
                sample.seconds.clamp(constant.min(linear), constant.max(linear))
            }
            None => self.stated?.speed.step(sample.batch, None),
        };
        Some(Expected { seconds, distance: DISTANCE_OF_OTHERS })
    }

    /// Adds the samples kept aside that agree with the newest of them, where they are enough to be a change of
    /// the speed; returns whether they are.
    fn follow_change(&mut self, weight: f64) -> bool {
        let Some(&newest) = self.aside.last() else { return false };
        let change =
            |aside: &Aside| self.expected(aside).map(|expected| (aside.seconds / expected.seconds).ln());
        // A sample that counted in between says that other batch sizes are as they were.
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
        let is_replaced = |point: &Point| run.iter().any(|aside| aside.batch == point.batch);
        // A GPU that no longer does what was seen often has changed at other batch sizes too.
        let was_sure = |point: &Point| point.count >= RUN as u64;
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

    /// Moves the average of the sample's batch size towards it.
    ///
    /// The first samples count equally; later the newest has the weight of the rule. One of fewer steps than the
    /// others have counts less.
    fn take(&mut self, sample: &Aside, weight: f64) {
        let Aside { batch, seconds, steps, seen, at, source } = *sample;
        let place = match self.points.binary_search_by_key(&batch, |point| point.batch) {
            Ok(place) => place,
            Err(place) => {
                let variance = FIRST_ERROR * FIRST_ERROR;
                let point = Point { batch, seconds, variance, count: 1, steps, seen, at, source };
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

    /// Forgets the batch size seen longest ago where there are too many, never the least or the greatest: they
    /// tell most about the line.
    fn drop_surplus(&mut self) {
        while self.points.len() > MOST_POINTS {
            let inner = 1..self.points.len() - 1;
            let oldest = inner.min_by_key(|&place| self.points[place].seen);
            let Some(oldest) = oldest else { return };
            self.points.remove(oldest);
        }
    }
}

/// Returns a batch as a number of samples.
pub(super) fn batch_size(batch: u64) -> f64 {
    to_f64(batch)
}
