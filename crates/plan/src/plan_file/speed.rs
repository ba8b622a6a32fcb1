//! The speeds that a plan used but the job file does not contain: measured, estimated, or under another name.

use serde::{Deserialize, Serialize};

use crate::Problem;
use crate::throughput::{MeasuredSpeed, Method, SampleSource, SpeedEstimate, SpeedOrigin};
use hsched_model::{GpuType, Seconds, Speed};

/// A job's speed on a GPU type, and its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanSpeed {
    #[serde(rename = "type")]
    pub gpu_type: GpuType,
    pub source: SpeedSource,
    /// The rate, if the step time has no constant part; otherwise null, and the next two fields are set.
    pub samples_per_s: Option<f64>,
    pub alpha_s: Option<f64>,
    pub beta_s: Option<f64>,
    /// Relative error of step times, as one standard deviation.
    pub error: Option<f64>,
    /// Number of samples from which the speed was learnt; for an estimate, the number of other models.
    pub count: Option<u64>,
    /// Number of batch sizes in these samples.
    pub batches: Option<usize>,
    /// How the last sample was taken.
    pub by: Option<SampleSource>,
    /// The type whose speed this is, or from which it is scaled or guessed.
    pub name: Option<GpuType>,
}

/// The source of a speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpeedSource {
    JobFile,
    /// The job file lists the speed under another name of the type.
    OtherName,
    /// A user set the speed by hand.
    Set,
    Measured,
    /// Scaled from the speeds of other models.
    Scaled,
    /// Guessed from the table of GPUs.
    Guessed,
}

impl PlanSpeed {
    /// Returns the speeds of a job that differ from the job file.
    pub(super) fn of(problem: &Problem, job: usize) -> Vec<Self> {
        let model = &problem.jobs[job];
        let speed = |(column, source): &(usize, SpeedOrigin)| {
            let speed = model.types[*column]?.speed;
            Some(Self::new(&problem.gpu_types[*column], speed, source))
        };
        model.sources.iter().filter_map(speed).collect()
    }

    fn new(gpu_type: &GpuType, speed: Speed, source: &SpeedOrigin) -> Self {
        let (samples_per_s, alpha_s, beta_s) = match speed {
            Speed::Rate { samples_per_second } => (Some(samples_per_second), None, None),
            Speed::Affine { alpha, beta } => (None, Some(alpha.0), Some(beta.0)),
        };
        let measured: Option<&MeasuredSpeed> = match source {
            SpeedOrigin::Measured(measured) => Some(measured),
            SpeedOrigin::JobFile | SpeedOrigin::OtherName(_) | SpeedOrigin::Estimated(_) => None,
        };
        let estimate: Option<&SpeedEstimate> = match source {
            SpeedOrigin::Estimated(estimate) => Some(estimate),
            SpeedOrigin::JobFile | SpeedOrigin::OtherName(_) | SpeedOrigin::Measured(_) => None,
        };
        let (kind, name) = match source {
            SpeedOrigin::JobFile => (SpeedSource::JobFile, None),
            SpeedOrigin::OtherName(name) => (SpeedSource::OtherName, Some(name)),
            SpeedOrigin::Measured(MeasuredSpeed { count: 0, .. }) => (SpeedSource::Set, None),
            SpeedOrigin::Measured(_) => (SpeedSource::Measured, None),
            SpeedOrigin::Estimated(SpeedEstimate { method: Method::Ratios { .. }, from, .. }) => {
                (SpeedSource::Scaled, Some(from))
            }
            SpeedOrigin::Estimated(SpeedEstimate { from, .. }) => (SpeedSource::Guessed, Some(from)),
        };
        let models = estimate.map(|estimate| match estimate.method {
            Method::Ratios { models } => models as u64,
            Method::GpuTable => 0,
        });
        Self {
            gpu_type: gpu_type.clone(),
            source: kind,
            samples_per_s,
            alpha_s,
            beta_s,
            error: measured.map(|measured| measured.error).or(estimate.map(|estimate| estimate.error)),
            count: measured.map(|measured| measured.count).or(models),
            batches: measured.map(|measured| measured.batches),
            by: measured.map(|measured| measured.source),
            name: name.cloned(),
        }
    }

    /// Returns the speed, or `None` if it is invalid.
    pub(super) fn speed(&self) -> Option<Speed> {
        match (self.samples_per_s, self.alpha_s.zip(self.beta_s)) {
            (Some(rate), None) => Speed::rate(rate),
            (None, Some((alpha, beta))) => Speed::affine(Seconds(alpha), Seconds(beta)),
            _ => None,
        }
    }
}
