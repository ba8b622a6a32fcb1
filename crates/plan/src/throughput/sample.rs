//! One observation of a speed, and its key.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::cache::MeasuredSpeed;
use super::matrix::replica_size;
use hsched_model::{GpuType, Job, Precision};

/// The key of a speed: a model on a GPU type, in a precision, with a number of GPUs per replica.
///
/// A job without a precision has a separate speed, because its actual precision is unknown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpeedKey {
    pub model: String,
    pub gpu_type: GpuType,
    pub precision: Option<Precision>,
    /// The GPUs of a replica; 1 if each GPU is a replica.
    pub gpus: u32,
}

impl SpeedKey {
    /// Returns the key of a job's speed on a GPU type.
    pub fn of(job: &Job, gpu_type: &GpuType) -> Self {
        let sizes = job.replica.as_ref().map(|replica| &replica.gpus);
        let size = sizes.and_then(|sizes| replica_size(sizes, gpu_type, std::slice::from_ref(gpu_type)));
        Self {
            model: job.model.clone(),
            gpu_type: gpu_type.clone(),
            precision: job.precision,
            gpus: size.unwrap_or(1),
        }
    }

    /// Returns the GPU type, with the number of GPUs if a replica has several.
    pub fn place(&self) -> String {
        if self.gpus > 1 { format!("{} {}", self.gpus, self.gpu_type) } else { self.gpu_type.to_string() }
    }
}

/// The time of one (micro-)step at a local batch, averaged over some steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub key: SpeedKey,
    /// Samples of the (micro-)step, at least 1.
    pub batch: u64,
    /// Mean seconds of a step without waiting for other ranks, above 0.
    pub seconds: f64,
    /// Number of averaged steps, at least 1.
    pub steps: u64,
    /// Time of the observation, in Unix seconds.
    pub at: f64,
    pub source: SampleSource,
}

/// The origin of a speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleSource {
    /// A rank reported its compute time.
    Report,
    /// Inferred from the time of whole epochs, including waits.
    Epoch,
    /// A short run for the measurement.
    Probe,
    /// Stated by a user.
    User,
}

impl SampleSource {
    /// All sources with their names in files.
    pub const NAMES: [(&'static str, Self); 4] =
        [("report", Self::Report), ("epoch", Self::Epoch), ("probe", Self::Probe), ("user", Self::User)];

    /// Returns the source's name in files.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, source)| *source == self).map_or("", |(name, _)| name)
    }
}

/// The parameters by which samples change a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearnRule<'a> {
    /// Weight of the newest sample in the moving average, in (0, 1].
    pub weight: f64,
    /// The contributor's id, unique for each cache, so that records stay separate in merged caches.
    pub contributor: &'a str,
}

/// The effect of a sample on a cache.
#[derive(Clone, Debug, PartialEq)]
pub enum Lesson {
    /// The sample counts.
    Learnt { before: Option<MeasuredSpeed>, after: MeasuredSpeed },
    /// The sample's seconds are too far from the expected ones. The sample is set aside, and counts if more
    /// samples agree.
    Outlier { expected: f64, seconds: f64 },
    /// The sample is rejected.
    Refused(SampleRefusal),
}

/// Why a sample is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SampleRefusal {
    #[error("its numbers are invalid: batch and steps must be at least 1, seconds above 0, all finite")]
    Nonsense,
    #[error("ranks have reported this speed, which is more exact than whole epochs")]
    LessExact,
}

impl Sample {
    /// Returns whether the sample's numbers can be a measurement.
    pub fn is_possible(&self) -> bool {
        is_duration(self.seconds) && self.batch >= 1 && self.steps >= 1 && self.at.is_finite()
    }
}

/// Maximum plausible step time, in seconds: a year.
const LONGEST: f64 = 3.2e7;

/// Minimum plausible step time, in seconds.
const SHORTEST: f64 = 1e-9;

/// Returns whether this number of seconds is a plausible step time.
pub(super) fn is_duration(seconds: f64) -> bool {
    (SHORTEST..=LONGEST).contains(&seconds)
}
