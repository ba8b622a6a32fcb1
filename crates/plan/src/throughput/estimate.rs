//! Speeds that have not been measured: a model's speed on another GPU type, and the ratio between the two types.
//!
//! The ratio is that of other models that ran on both, drawn towards what the table of GPUs says by a prior of the
//! weight of [`PRIOR_MODELS`] models. Held-out cells of published tables chose the numbers: see the test `cold_start`.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;

use super::cache::{Cache, Measured};
use super::record::batch_size;
use hsched_model::catalogue::recognise;
use hsched_model::number::to_f64;
use hsched_model::{Estimates, GpuType, Job, Precision, Speed};

/// A speed that has not been measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The type of which the job's speed is known best for this.
    pub from: GpuType,
    pub method: Method,
    /// Relative error, one standard deviation.
    pub error: f64,
}

/// How the ratio between two GPU types is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By so many other models that ran on both.
    Ratios { models: usize },
    /// By the table of GPUs alone.
    GpuTable,
}

/// The speeds of all models, from which ratios are learnt.
pub(super) struct Tables {
    /// By model and precision, then by GPU model; those that ran on several.
    rows: BTreeMap<(String, Option<Precision>), Row>,
}

#[derive(Default)]
struct Row {
    /// Natural logarithm of the rate at the row's own batch size, and whether the cache has it.
    rates: BTreeMap<String, (f64, bool)>,
}

/// A known speed of the job, with what it tells of the type in question.
struct KnownSpeed<'a> {
    from: &'a GpuType,
    speed: Speed,
    /// Natural logarithm of the ratio of the unknown rate to this.
    ratio: f64,
    variance: f64,
    models: usize,
}

/// Models that the table of GPUs weighs as much as.
const PRIOR_MODELS: f64 = 2.0;

/// Variance of the logarithm of a ratio by the table of GPUs: a factor of about 1.5.
const PRIOR_VARIANCE: f64 = 0.16;

/// Models that must have run on both types before a ratio is learnt.
const FEWEST_MODELS: usize = 2;

/// Batch size at which speeds are compared where none is known.
const USUAL_BATCH: f64 = 64.0;

impl Tables {
    pub(super) fn new(jobs: &[impl Borrow<Job>], cache: &Cache) -> Self {
        let mut rows = BTreeMap::<_, Row>::new();
        let mut names = BTreeMap::new();
        let mut measured = BTreeMap::<_, Vec<(GpuType, Measured)>>::new();
        // Replicas of several GPUs say nothing of single GPUs.
        for (key, estimate) in cache.estimates().filter(|(key, _)| key.gpus == 1) {
            measured.entry((key.model, key.precision)).or_default().push((key.gpu_type, estimate));
        }
        for (key, cells) in measured {
            let batch =
                cells.iter().filter_map(|(_, measured)| measured.batch).max().map_or(USUAL_BATCH, batch_size);
            let row = rows.entry(key).or_default();
            for (gpu_type, measured) in cells {
                let name = names.entry(gpu_type).or_insert_with_key(canonical);
                row.rates.insert(name.clone(), (measured.speed.rate_at(batch).ln(), true));
            }
        }
        for job in jobs.iter().map(Borrow::borrow).filter(|job| !job.has_replicas()) {
            let row = rows.entry((job.model.clone(), job.precision)).or_default();
            for (gpu_type, speed) in &job.throughput {
                let rate = (speed.rate_at(batch_size(job.global_batch)).ln(), false);
                row.rates.entry(canonical(gpu_type)).or_insert(rate);
            }
        }
        // One speed tells no ratio, and a trace may have a hundred thousand models with one.
        rows.retain(|_, row| row.rates.len() > 1);
        Self { rows }
    }

    /// Returns a job's speed on a type, by those that are known of it; `None` where nothing tells.
    pub(super) fn estimate(
        &self,
        job: &Job,
        measured: &BTreeMap<&GpuType, Measured>,
        gpu_type: &GpuType,
        which: Estimates,
    ) -> Option<(Speed, Estimate)> {
        let said = job.throughput.iter().filter(|(gpu_type, _)| !measured.contains_key(gpu_type));
        let known = said.map(|(gpu_type, &speed)| (gpu_type, speed));
        let known = known.chain(measured.iter().map(|(gpu_type, measured)| (*gpu_type, measured.speed)));
        let told: Vec<KnownSpeed<'_>> =
            known.filter_map(|(from, speed)| self.told(job, from, speed, gpu_type, which)).collect();
        let best = told.iter().min_by(|a, b| a.variance.total_cmp(&b.variance))?;
        let batch = batch_size(
            measured.values().filter_map(|measured| measured.batch).max().unwrap_or(job.global_batch),
        );
        let weight: f64 = told.iter().map(|prediction| prediction.variance.recip()).sum();
        let rate = |prediction: &KnownSpeed<'_>| prediction.speed.rate_at(batch).ln() + prediction.ratio;
        let mean = told.iter().map(|prediction| rate(prediction) / prediction.variance).sum::<f64>() / weight;
        // The speeds of one model err together: more of them make the mean no surer than one.
        let deviation = (to_f64(told.len()) / weight).sqrt();
        let method = match best.models {
            0 => Method::GpuTable,
            models => Method::Ratios { models },
        };
        let speed = best.speed.scaled((best.speed.rate_at(batch).ln() - mean).exp())?;
        Some((speed, Estimate { from: best.from.clone(), method, error: deviation.exp_m1() }))
    }

    /// Returns what the job's speed on one type tells of another.
    fn told<'a>(
        &self,
        job: &Job,
        from: &'a GpuType,
        speed: Speed,
        to: &GpuType,
        which: Estimates,
    ) -> Option<KnownSpeed<'a>> {
        let (from_name, other) = (canonical(from), canonical(to));
        let base = table_rate(to).zip(table_rate(from)).map(|(to, from)| to - from);
        let others = self.rows.iter().filter(|((model, _), _)| *model != job.model);
        let seen: Vec<(f64, bool)> = others
            .filter_map(|(_, row)| {
                let ((to, measured), (from, _)) = (row.rates.get(&other)?, row.rates.get(&from_name)?);
                Some((to - from, *measured))
            })
            .collect();
        let learnt = seen.iter().filter(|(_, measured)| *measured).count() >= FEWEST_MODELS;
        let wanted = match which {
            Estimates::Off => false,
            Estimates::Learnt => learnt,
            Estimates::All => base.is_some() || !seen.is_empty(),
        };
        if !wanted {
            return None;
        }
        let count = to_f64(seen.len());
        // A type that the table does not have is drawn towards nothing.
        let pull = if base.is_some() { PRIOR_MODELS } else { 0.0 };
        let sum = seen.iter().map(|(ratio, _)| ratio).sum::<f64>() + pull * base.unwrap_or(0.0);
        let ratio = sum / (count + pull);
        let squares = seen.iter().map(|(observed, _)| (observed - ratio) * (observed - ratio)).sum::<f64>();
        let variance = (squares + PRIOR_MODELS * PRIOR_VARIANCE) / (count + PRIOR_MODELS);
        let variance = variance * (1.0 + 1.0 / (count + PRIOR_MODELS));
        Some(KnownSpeed { from, speed, ratio, variance, models: seen.len() })
    }
}

/// Returns what the table of GPUs says of a type's speed: the natural logarithm of the geometric mean of its FP32
/// rate and its memory's bandwidth, halfway between the two roofs of the roofline.
///
/// Of the peaks of a precision's own units training gets too little: they predicted held-out speeds worse.
fn table_rate(gpu_type: &GpuType) -> Option<f64> {
    let known = recognise(gpu_type.as_str()).filter(|known| known.slice.is_none())?;
    let rates = known.gpus.iter().filter_map(|gpu| Some(0.5 * (gpu.tflops.fp32? * gpu.memory.gb_s).ln()));
    let rates: Vec<f64> = rates.collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / to_f64(rates.len()))
}

/// Returns one name for all names of a GPU model.
fn canonical(gpu_type: &GpuType) -> String {
    let known = recognise(gpu_type.as_str()).filter(|known| known.slice.is_none());
    let model = known.and_then(|known| known.model());
    model.map_or_else(|| gpu_type.as_str().to_ascii_lowercase(), ToOwned::to_owned)
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, percent) = (&self.from, 100.0 * self.error);
        match self.method {
            Method::Ratios { models } => {
                let plural = if models == 1 { "" } else { "s" };
                write!(f, "estimated from {from} and {models} other model{plural}, ±{percent:.0} %")
            }
            Method::GpuTable => write!(f, "estimated from {from} and the table of GPUs, ±{percent:.0} %"),
        }
    }
}
