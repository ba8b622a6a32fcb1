//! The measured speeds, by model, GPU type, precision and size of replicas, and by the user who measured
//! them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use super::fit::{SPREAD, WeightedTime, fit};
use super::record::{BatchPoint, SpeedRecord, batch_size};
use super::sample::{LearnRule, Lesson, Sample, SampleRefusal, SampleSource, SpeedKey};
use hsched_model::number::to_f64;
use hsched_model::{GpuType, Job, Precision, Speed};

/// All measured speeds.
///
/// A set of records, one for each speed and contributor. A contributor's samples change only its own records,
/// so caches can be merged without loss in any order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cache {
    models: BTreeMap<String, BTreeMap<SpeedPlace, SpeedRecords>>,
}

/// The conditions of a model's speed: a GPU type, a precision, and the GPUs of a replica.
type SpeedPlace = (GpuType, Option<Precision>, u32);

/// Records by contributor.
type SpeedRecords = BTreeMap<String, SpeedRecord>;

/// A measured speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredSpeed {
    pub speed: Speed,
    /// Relative error of step times, as one standard deviation.
    pub error: f64,
    /// Number of counted samples; 0 if a user stated the speed.
    pub count: u64,
    /// Number of clearly different batch sizes; with a single one, only the line through it and the origin is
    /// known.
    pub batches: usize,
    /// Batch size of the last sample; `None` if a user stated the speed.
    pub batch: Option<u64>,
    /// Time of the last sample in Unix seconds.
    pub last_seen: f64,
    /// Source of the last sample.
    pub source: SampleSource,
}

/// Minimum relative error of a speed, because runs vary by that much.
const LEAST_ERROR: f64 = 0.01;

/// Relative error of a stated speed.
const STATED_ERROR: f64 = 0.1;

/// Number of samples of one batch size up to which the weight increases; more do not count, because the
/// moving average forgets older ones.
const MOST_SAMPLES: u64 = 10;

/// Number of later observations that halve the weight of a point, and the minimum factor.
const HALF_LIFE: f64 = 8.0;
const LEAST_AGE_WEIGHT: f64 = 1e-3;

impl Cache {
    /// Adds a sample.
    ///
    /// A sample far from the known speed is set aside, because a stalled file system says nothing about a
    /// GPU. If three such samples agree, the speed has changed, and they replace the known one. An inference
    /// from whole epochs is refused if there is a measurement.
    pub fn learn(&mut self, sample: &Sample, rule: LearnRule<'_>) -> Lesson {
        if !sample.is_possible() {
            return Lesson::Refused(SampleRefusal::Nonsense);
        }
        let records = self.records_mut(&sample.key);
        let measured =
            |point: &BatchPoint| matches!(point.source, SampleSource::Report | SampleSource::Probe);
        let mut points = records.values().flat_map(|record| &record.points);
        if sample.source == SampleSource::Epoch && points.any(measured) {
            return Lesson::Refused(SampleRefusal::LessExact);
        }
        let before = pooled(records);
        let record = records.entry(rule.contributor.to_owned()).or_default();
        let weight = if rule.weight > 0.0 { rule.weight.min(1.0) } else { 1.0 };
        if let Err(expected) = record.learn(sample, weight) {
            return Lesson::Outlier { expected, seconds: sample.seconds };
        }
        match pooled(records) {
            Some(after) => Lesson::Learnt { before, after },
            None => Lesson::Refused(SampleRefusal::Nonsense),
        }
    }

    /// Returns the estimate of a speed, combined over all contributors.
    pub fn estimate(&self, key: &SpeedKey) -> Option<MeasuredSpeed> {
        let place = (key.gpu_type.clone(), key.precision, key.gpus);
        self.models.get(&key.model).and_then(|places| places.get(&place)).and_then(pooled)
    }

    /// Returns the known speeds of a job by GPU type: the speeds of its model in its precision, on replicas
    /// of its size.
    pub fn of_job<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = (&'a GpuType, MeasuredSpeed)> {
        let places = self.models.get(&job.model).into_iter().flatten();
        places
            .filter(|((gpu_type, precision, gpus), _)| {
                *precision == job.precision && *gpus == SpeedKey::of(job, gpu_type).gpus
            })
            .filter_map(|((gpu_type, ..), records)| Some((gpu_type, pooled(records)?)))
    }

    /// Returns all known speeds by model, GPU type, precision and size of replicas.
    pub fn estimates(&self) -> impl Iterator<Item = (SpeedKey, MeasuredSpeed)> {
        self.all_records().filter_map(|(key, records)| Some((key, pooled(records)?)))
    }

    /// Returns every contributor's record of every speed.
    pub fn records(&self) -> impl Iterator<Item = (SpeedKey, &str, &SpeedRecord)> {
        self.all_records().flat_map(|(key, records)| {
            records.iter().map(move |(contributor, record)| (key.clone(), contributor.as_str(), record))
        })
    }

    /// Returns whether the cache has a speed of replicas of several GPUs.
    pub fn has_replicas(&self) -> bool {
        self.all_records().any(|(key, _)| key.gpus > 1)
    }

    /// Stores a contributor's record unless a later one exists; returns whether its numbers are valid.
    pub fn restore(&mut self, key: &SpeedKey, contributor: &str, record: SpeedRecord) -> bool {
        if !record.is_possible() {
            return false;
        }
        match self.records_mut(key).entry(contributor.to_owned()) {
            Entry::Vacant(place) => {
                place.insert(record);
            }
            Entry::Occupied(mut entry) if record.order() > entry.get().order() => {
                entry.insert(record);
            }
            Entry::Occupied(_) => {}
        }
        true
    }

    /// Merges all records of another cache.
    ///
    /// Of two records of a contributor, the later one is kept, so neither the order nor the number of merges
    /// matters.
    pub fn merge(&mut self, other: &Self) {
        for (key, contributor, record) in other.records() {
            self.restore(&key, contributor, record.clone());
        }
    }

    /// Replaces all contributors' records of a speed with a stated speed.
    pub fn set(&mut self, key: &SpeedKey, speed: Speed, at: f64, contributor: &str) {
        let records = self.records_mut(key);
        records.retain(|name, _| name == contributor);
        records.entry(contributor.to_owned()).or_default().state(speed, at);
    }

    /// Removes a model, on one GPU type or on all; returns the number of removed speeds.
    ///
    /// Merging with a cache that still has them restores them.
    pub fn forget(&mut self, model: &str, gpu_type: Option<&GpuType>) -> usize {
        let Some(places) = self.models.get_mut(model) else { return 0 };
        let before = places.len();
        places.retain(|(recorded, ..), _| gpu_type.is_some_and(|gpu_type| gpu_type != recorded));
        let after = places.len();
        if after == 0 {
            self.models.remove(model);
        }
        before - after
    }

    /// Removes a contributor's speeds inferred from whole epochs or runs at `since` (Unix seconds) or later;
    /// returns whether there were any.
    pub fn forget_inferred(&mut self, key: &SpeedKey, contributor: &str, since: f64) -> bool {
        self.records_mut(key).get_mut(contributor).is_some_and(|record| record.forget_inferred(since))
    }

    fn all_records(&self) -> impl Iterator<Item = (SpeedKey, &SpeedRecords)> {
        self.models.iter().flat_map(|(model, places)| {
            places.iter().map(move |((gpu_type, precision, gpus), records)| {
                let (gpu_type, precision, gpus) = (gpu_type.clone(), *precision, *gpus);
                (SpeedKey { model: model.clone(), gpu_type, precision, gpus }, records)
            })
        })
    }

    fn records_mut(&mut self, key: &SpeedKey) -> &mut SpeedRecords {
        let places = self.models.entry(key.model.clone()).or_default();
        places.entry((key.gpu_type.clone(), key.precision, key.gpus)).or_default()
    }
}

/// Returns the combined estimate of all contributors: one line through all their points, or the last stated
/// speed if there are no points.
fn pooled(records: &SpeedRecords) -> Option<MeasuredSpeed> {
    let points =
        || records.values().flat_map(|record| record.points.iter().map(move |point| (record, point)));
    let Some((_, last)) = points().max_by(|(_, a), (_, b)| a.at.total_cmp(&b.at)) else {
        return stated(records);
    };
    let readings: Vec<WeightedTime> = points().map(|(record, point)| reading(record, point)).collect();
    let speed = fit(&readings)?;
    let total: f64 = readings.iter().map(|reading| reading.weight).sum();
    let off = |reading: &WeightedTime| (speed.alpha() + speed.beta() * reading.batch) / reading.seconds - 1.0;
    let misfit =
        readings.iter().map(|reading| reading.weight * off(reading) * off(reading)).sum::<f64>() / total;
    let noise = points().zip(&readings).map(|((_, point), reading)| reading.weight * point.variance);
    // The variance of one sample, and of the mean of all counted samples.
    let noise = noise.sum::<f64>() / total / total.max(1.0);
    Some(MeasuredSpeed {
        speed,
        error: (misfit + noise).sqrt().max(LEAST_ERROR),
        count: points().map(|(_, point)| point.count).sum(),
        batches: apart(readings.iter().map(|reading| reading.batch).collect()),
        batch: Some(last.batch),
        last_seen: last.at,
        source: last.source,
    })
}

/// Returns the number of batch sizes that differ enough to show the constant part of a step.
fn apart(mut batches: Vec<f64>) -> usize {
    batches.sort_by(f64::total_cmp);
    let (mut count, mut next) = (0, 0.0);
    for batch in batches {
        if batch >= next {
            (count, next) = (count + 1, SPREAD * batch);
        }
    }
    count
}

/// Returns the point with its weight: its number of samples, reduced with age.
fn reading(record: &SpeedRecord, point: &BatchPoint) -> WeightedTime {
    let (age, samples) = (to_f64(record.observations - point.seen), to_f64(point.count.min(MOST_SAMPLES)));
    let weight = samples * (-age / HALF_LIFE).exp2().max(LEAST_AGE_WEIGHT);
    WeightedTime { batch: batch_size(point.batch), seconds: point.seconds, weight }
}

fn stated(records: &SpeedRecords) -> Option<MeasuredSpeed> {
    let last = records.values().filter_map(|record| record.stated).max_by(|a, b| a.at.total_cmp(&b.at))?;
    Some(MeasuredSpeed {
        speed: last.speed,
        error: STATED_ERROR,
        count: 0,
        batches: 0,
        batch: None,
        last_seen: last.at,
        source: SampleSource::User,
    })
}

impl fmt::Display for MeasuredSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 0 {
            return f.write_str("set by hand");
        }
        let plural = if self.count == 1 { "" } else { "s" };
        write!(f, "±{:.0} %, {} measurement{plural}", 100.0 * self.error, self.count)?;
        if self.source == SampleSource::Epoch {
            f.write_str(" inferred from whole epochs")?;
        }
        match self.batch {
            Some(batch) if self.batches == 1 => write!(f, " at batch {batch} only"),
            _ => Ok(()),
        }
    }
}
