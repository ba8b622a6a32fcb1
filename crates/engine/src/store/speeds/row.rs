//! One contributor's record of one speed, in the file format.

use serde::{Deserialize, Serialize};

use super::file::SpeedFileError;
use hsched_model::formats;
use hsched_model::{GpuType, Precision, Seconds, Speed};
use hsched_plan::throughput::{Aside, BatchPoint, Cache, SampleSource, SpeedKey, SpeedRecord, StatedSpeed};

/// A record with its key.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordRow {
    pub model: String,
    pub gpu_type: String,
    pub precision: Option<String>,
    /// The GPUs of a replica.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub gpus: u32,
    pub contributor: String,
    pub observations: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stated: Option<StatedRow>,
    #[serde(default)]
    pub points: Vec<PointRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aside: Vec<AsideRow>,
}

/// A stated speed: a rate, or the two parts of a step's time.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StatedRow {
    pub samples_per_s: Option<f64>,
    pub alpha_s: Option<f64>,
    pub beta_s: Option<f64>,
    pub at: f64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PointRow {
    pub batch: u64,
    pub seconds: f64,
    pub variance: f64,
    pub count: u64,
    pub steps: u64,
    pub seen: u64,
    pub at: f64,
    pub source: SourceWord,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AsideRow {
    batch: u64,
    seconds: f64,
    steps: u64,
    seen: u64,
    at: f64,
    source: SourceWord,
}

/// The names of [`SampleSource`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SourceWord {
    Report,
    Epoch,
    Probe,
    User,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_one(gpus: &u32) -> bool {
    *gpus == 1
}

impl RecordRow {
    pub(super) fn new(key: SpeedKey, contributor: &str, record: &SpeedRecord) -> Self {
        Self {
            model: key.model,
            gpu_type: key.gpu_type.to_string(),
            precision: key.precision.map(|precision| precision.to_string()),
            gpus: key.gpus,
            contributor: contributor.to_owned(),
            observations: record.observations,
            stated: record.stated.as_ref().map(StatedRow::new),
            points: record.points.iter().map(PointRow::new).collect(),
            aside: record.aside.iter().map(AsideRow::new).collect(),
        }
    }

    /// Adds the record to a cache.
    ///
    /// # Errors
    /// If a name or number is invalid.
    pub(super) fn restore(self, cache: &mut Cache) -> Result<(), SpeedFileError> {
        let (model, name) = (self.model, self.gpu_type);
        let place = || format!("{} on {name}", model.escape_debug());
        let wrong = |what: &str| SpeedFileError::Content { place: place(), what: what.to_owned() };
        let precision = |word: String| {
            let known = Precision::NAMES.iter().find(|(name, _)| *name == word);
            known.map(|&(_, precision)| precision).ok_or_else(|| wrong("its precision is unknown"))
        };
        let precision = self.precision.map(precision).transpose()?;
        for text in [&model, &self.contributor] {
            formats::jobs::label(text).map_err(|error| wrong(&format!("its name or contributor {error}")))?;
        }
        let gpu_type = GpuType::new(&name).ok_or_else(|| wrong("its GPU type is invalid"))?;
        let stated =
            self.stated.as_ref().map(|row| row.stated().ok_or_else(|| wrong("its speed is invalid")));
        let record = SpeedRecord {
            observations: self.observations,
            stated: stated.transpose()?,
            points: self.points.iter().map(PointRow::point).collect(),
            aside: self.aside.iter().map(AsideRow::aside).collect(),
        };
        if self.gpus == 0 {
            return Err(wrong("its replicas have no GPUs"));
        }
        let key = SpeedKey { model: model.clone(), gpu_type, precision, gpus: self.gpus };
        let possible = cache.restore(&key, &self.contributor, record);
        if possible { Ok(()) } else { Err(wrong("its numbers are invalid")) }
    }
}

impl StatedRow {
    pub(super) fn new(stated: &StatedSpeed) -> Self {
        let (samples_per_s, alpha_s, beta_s) = match stated.speed {
            Speed::Rate { samples_per_second } => (Some(samples_per_second), None, None),
            Speed::Affine { alpha, beta } => (None, Some(alpha.0), Some(beta.0)),
        };
        Self { samples_per_s, alpha_s, beta_s, at: stated.at }
    }

    fn stated(&self) -> Option<StatedSpeed> {
        let speed = match (self.samples_per_s, self.alpha_s.zip(self.beta_s)) {
            (Some(rate), None) => Speed::rate(rate),
            (None, Some((alpha, beta))) => Speed::affine(Seconds(alpha), Seconds(beta)),
            _ => None,
        };
        speed.map(|speed| StatedSpeed { speed, at: self.at })
    }
}

impl PointRow {
    pub(super) fn new(point: &BatchPoint) -> Self {
        let BatchPoint { batch, seconds, variance, count, steps, seen, at, source } = *point;
        Self { batch, seconds, variance, count, steps, seen, at, source: source.into() }
    }

    fn point(&self) -> BatchPoint {
        let Self { batch, seconds, variance, count, steps, seen, at, source } = *self;
        BatchPoint { batch, seconds, variance, count, steps, seen, at, source: source.into() }
    }
}

impl AsideRow {
    fn new(aside: &Aside) -> Self {
        let Aside { batch, seconds, steps, seen, at, source } = *aside;
        Self { batch, seconds, steps, seen, at, source: source.into() }
    }

    fn aside(&self) -> Aside {
        let Self { batch, seconds, steps, seen, at, source } = *self;
        Aside { batch, seconds, steps, seen, at, source: source.into() }
    }
}

impl From<SampleSource> for SourceWord {
    fn from(source: SampleSource) -> Self {
        match source {
            SampleSource::Report => Self::Report,
            SampleSource::Epoch => Self::Epoch,
            SampleSource::Probe => Self::Probe,
            SampleSource::User => Self::User,
        }
    }
}

impl From<SourceWord> for SampleSource {
    fn from(word: SourceWord) -> Self {
        match word {
            SourceWord::Report => Self::Report,
            SourceWord::Epoch => Self::Epoch,
            SourceWord::Probe => Self::Probe,
            SourceWord::User => Self::User,
        }
    }
}
