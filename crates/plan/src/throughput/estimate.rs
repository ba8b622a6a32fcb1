//! Estimates of unmeasured speeds: a model's speed on another GPU type, and the ratio between the two types.
//!
//! The ratio comes from other models whose speeds on both types are known, combined with a prior from the
//! table of GPUs with the weight of [`PRIOR_MODELS`] models. The parameters were chosen on held-out cells of
//! published tables; see the test `cold_start`.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;

use super::cache::{Cache, MeasuredSpeed};
use super::record::batch_size;
use hsched_model::catalogue::recognise;
use hsched_model::number::to_f64;
use hsched_model::{Estimates, GpuType, Job, Precision, Speed};

/// An estimate of an unmeasured speed.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeedEstimate {
    /// The type from whose speed the estimate is most accurate.
    pub from: GpuType,
    pub method: Method,
    /// Relative error, as one standard deviation.
    pub error: f64,
}

/// The source of the ratio between two GPU types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// This many other models whose speeds on both types are known.
    Ratios { models: usize },
    /// The table of GPUs alone.
    GpuTable,
}

/// The speeds of all models, from which ratios are learnt.
pub(super) struct SpeedTables {
    /// By model and precision; only models whose speeds on several GPU models are known.
    rows: BTreeMap<(String, Option<Precision>), ModelRates>,
}

/// The rates of a model by GPU model, all at one batch: the natural logarithm of the rate, and whether the
/// speed is from the cache.
type ModelRates = BTreeMap<String, (f64, bool)>;

/// The known speeds of a model.
#[derive(Default)]
struct SpeedRow {
    /// By GPU model: the speed, and whether it is from the cache.
    speeds: BTreeMap<String, (Speed, bool)>,
    /// The largest batch among the last samples on these GPU models.
    measured: Option<u64>,
    /// The largest batch of a job.
    of_jobs: Option<u64>,
}

/// A known speed of the job, used to estimate the speed on another type.
struct KnownSpeed<'a> {
    from: &'a GpuType,
    speed: Speed,
    /// Natural logarithm of the ratio of the unknown rate to the known one.
    ratio: f64,
    variance: f64,
    models: usize,
}

/// Weight of the table of GPUs, in models.
const PRIOR_MODELS: f64 = 2.0;

/// Variance of the logarithm of a ratio from the table of GPUs: a factor of about 1.5.
const PRIOR_VARIANCE: f64 = 0.16;

/// Minimum number of models that were measured on both types for an estimate with [`Estimates::Learnt`].
const FEWEST_MODELS: usize = 2;

/// Batch size at which speeds are compared if none is known.
const USUAL_BATCH: f64 = 64.0;

impl SpeedTables {
    pub(super) fn new(jobs: &[impl Borrow<Job>], cache: &Cache) -> Self {
        let mut rows = BTreeMap::<_, SpeedRow>::new();
        let mut names = BTreeMap::new();
        // Speeds of replicas with several GPUs say nothing about the speeds of single GPUs.
        for (key, measured) in cache.estimates().filter(|(key, _)| key.gpus == 1) {
            let row = rows.entry((key.model, key.precision)).or_default();
            let name = names.entry(key.gpu_type).or_insert_with_key(canonical);
            row.speeds.insert(name.clone(), (measured.speed, true));
            row.measured = row.measured.max(measured.batch);
        }
        for job in jobs.iter().map(Borrow::borrow).filter(|job| !job.has_replicas()) {
            let row = rows.entry((job.model.clone(), job.precision)).or_default();
            for (gpu_type, &speed) in &job.throughput {
                row.speeds.entry(canonical(gpu_type)).or_insert((speed, false));
            }
            row.of_jobs = row.of_jobs.max(Some(job.global_batch));
        }
        // A single speed gives no ratio, and a trace may have 100,000 models with one.
        rows.retain(|_, row| row.speeds.len() > 1);
        Self { rows: rows.into_iter().map(|(key, row)| (key, row.rates())).collect() }
    }

    /// Estimates a job's speed on a type from its known speeds; `None` without data.
    pub(super) fn estimate(
        &self,
        job: &Job,
        measured: &BTreeMap<&GpuType, MeasuredSpeed>,
        gpu_type: &GpuType,
        which: Estimates,
    ) -> Option<(Speed, SpeedEstimate)> {
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
        // The errors of one model's speeds are correlated, so more of them do not make the mean more
        // accurate.
        let deviation = (to_f64(told.len()) / weight).sqrt();
        let method = match best.models {
            0 => Method::GpuTable,
            models => Method::Ratios { models },
        };
        let speed = best.speed.scaled((best.speed.rate_at(batch).ln() - mean).exp())?;
        Some((speed, SpeedEstimate { from: best.from.clone(), method, error: deviation.exp_m1() }))
    }

    /// Returns the estimate for another type from one of the job's known speeds.
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
        let ratios: Vec<f64> = others
            .filter_map(|(_, row)| {
                let ((to, to_measured), (from, from_measured)) = (row.get(&other)?, row.get(&from_name)?);
                let is_measured = *to_measured && *from_measured;
                (is_measured || which == Estimates::All).then_some(to - from)
            })
            .collect();
        let wanted = match which {
            Estimates::Off => false,
            Estimates::Learnt => ratios.len() >= FEWEST_MODELS,
            Estimates::All => base.is_some() || !ratios.is_empty(),
        };
        if !wanted {
            return None;
        }
        let count = to_f64(ratios.len());
        // Without an entry in the table, the prior does not change the ratio, only its variance.
        let pull = if base.is_some() { PRIOR_MODELS } else { 0.0 };
        let sum = ratios.iter().sum::<f64>() + pull * base.unwrap_or(0.0);
        let ratio = sum / (count + pull);
        let squares = ratios.iter().map(|observed| (observed - ratio) * (observed - ratio)).sum::<f64>();
        let variance = (squares + PRIOR_MODELS * PRIOR_VARIANCE) / (count + PRIOR_MODELS);
        let variance = variance * (1.0 + 1.0 / (count + PRIOR_MODELS));
        Some(KnownSpeed { from, speed, ratio, variance, models: ratios.len() })
    }
}

impl SpeedRow {
    /// Returns the natural logarithms of all rates at the same batch: the rate grows with the batch.
    fn rates(self) -> ModelRates {
        let batch = self.measured.or(self.of_jobs).map_or(USUAL_BATCH, batch_size);
        let rate = |(speed, measured): (Speed, bool)| (speed.rate_at(batch).ln(), measured);
        self.speeds.into_iter().map(|(name, speed)| (name, rate(speed))).collect()
    }
}

/// Returns the speed of a type according to the table of GPUs: the natural logarithm of the geometric mean of
/// its FP32 rate and its memory bandwidth, halfway between the two roofs of the roofline model.
///
/// Training reaches too little of the peak rates of precision-specific units: they predicted held-out speeds
/// worse.
fn table_rate(gpu_type: &GpuType) -> Option<f64> {
    let known = recognise(gpu_type.as_str()).filter(|known| known.slice.is_none())?;
    let rates = known.gpus.iter().filter_map(|gpu| Some(0.5 * (gpu.tflops.fp32? * gpu.memory.gb_s).ln()));
    let rates: Vec<f64> = rates.collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / to_f64(rates.len()))
}

/// Returns a common name for all names of a GPU model.
fn canonical(gpu_type: &GpuType) -> String {
    let known = recognise(gpu_type.as_str()).filter(|known| known.slice.is_none());
    let model = known.and_then(|known| known.model());
    model.map_or_else(|| gpu_type.as_str().to_ascii_lowercase(), ToOwned::to_owned)
}

impl fmt::Display for SpeedEstimate {
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
