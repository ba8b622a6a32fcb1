//! Measured speeds as a table for spreadsheets: a row for each batch size of a record.
//!
//! The table holds all learnt speeds; samples that were set aside are only in the JSON file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::file::{SpeedFile, SpeedFileError};
use super::row::{PointRow, RecordRow, SourceWord, StatedRow};
use hsched_plan::throughput::{Cache, SpeedKey, SpeedRecord};

/// One batch size, or a stated speed if `batch` is empty.
#[derive(Debug, Default, Serialize, Deserialize)]
struct TableRow {
    model: String,
    gpu_type: String,
    precision: Option<String>,
    contributor: String,
    observations: u64,
    batch: Option<u64>,
    seconds: Option<f64>,
    variance: Option<f64>,
    count: Option<u64>,
    steps: Option<u64>,
    seen: Option<u64>,
    at: f64,
    source: Option<SourceWord>,
    samples_per_s: Option<f64>,
    alpha_s: Option<f64>,
    beta_s: Option<f64>,
    /// The GPUs of a replica: a column that is present only if some replica has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gpus: Option<u32>,
}

impl SpeedFile {
    /// Returns all learnt speeds as CSV.
    ///
    /// # Errors
    /// If the CSV writer fails; no cache causes that.
    pub fn to_csv(&self) -> Result<String, SpeedFileError> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let wrong = |source| SpeedFileError::Csv { source };
        let has_replicas = self.cache.has_replicas();
        let row_of = |(key, contributor, record): (SpeedKey, &str, &SpeedRecord)| {
            rows(&key, has_replicas.then_some(key.gpus), contributor, record)
        };
        for row in self.cache.records().flat_map(row_of) {
            writer.serialize(row).map_err(wrong)?;
        }
        let bytes = writer.into_inner().map_err(|error| wrong(error.into_error().into()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads the speeds of a table that [`Self::to_csv`] made; extra columns are ignored.
    ///
    /// # Errors
    /// If the text is not such a table or contains impossible numbers.
    pub fn parse_csv(text: &str) -> Result<Cache, SpeedFileError> {
        let mut records = BTreeMap::<_, RecordRow>::new();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().map_err(|source| SpeedFileError::Csv { source })?;
        if ["model", "gpu_type"].iter().any(|key| !header.iter().any(|column| column == *key)) {
            let what =
                "needs the columns model and gpu_type, as hsched cache export --format csv writes them";
            return Err(SpeedFileError::Content { place: "the first line".into(), what: what.into() });
        }
        for (index, row) in reader.deserialize().enumerate() {
            let row: TableRow = row.map_err(|source| SpeedFileError::Csv { source })?;
            let name = [&row.model, &row.gpu_type, &row.contributor].map(Clone::clone);
            let kind = (name, row.precision.clone(), row.gpus.unwrap_or(1));
            let record = records.entry(kind).or_insert_with(|| row.record());
            if !row.add_to(record) {
                let place = format!("row {} ({} on {})", index + 1, row.model, row.gpu_type);
                let what = "has neither a complete measurement nor a speed set by hand".to_owned();
                return Err(SpeedFileError::Content { place, what });
            }
        }
        let mut cache = Cache::default();
        records.into_values().try_for_each(|row| row.restore(&mut cache))?;
        Ok(cache)
    }
}

fn rows(key: &SpeedKey, gpus: Option<u32>, contributor: &str, record: &SpeedRecord) -> Vec<TableRow> {
    let blank = || TableRow {
        model: key.model.clone(),
        gpu_type: key.gpu_type.to_string(),
        precision: key.precision.map(|precision| precision.to_string()),
        contributor: contributor.to_owned(),
        observations: record.observations,
        gpus,
        ..TableRow::default()
    };
    let stated = record.stated.iter().map(|stated| {
        let StatedRow { samples_per_s, alpha_s, beta_s, at } = StatedRow::new(stated);
        TableRow { at, samples_per_s, alpha_s, beta_s, ..blank() }
    });
    let points = record.points.iter().map(|point| {
        let PointRow { batch, seconds, variance, count, steps, seen, at, source } = PointRow::new(point);
        TableRow {
            batch: Some(batch),
            seconds: Some(seconds),
            variance: Some(variance),
            count: Some(count),
            steps: Some(steps),
            seen: Some(seen),
            at,
            source: Some(source),
            ..blank()
        }
    });
    stated.chain(points).collect()
}

impl TableRow {
    /// Returns a record without the data of this row.
    fn record(&self) -> RecordRow {
        RecordRow {
            model: self.model.clone(),
            gpu_type: self.gpu_type.clone(),
            precision: self.precision.clone(),
            gpus: self.gpus.unwrap_or(1),
            contributor: self.contributor.clone(),
            observations: self.observations,
            stated: None,
            points: Vec::new(),
            aside: Vec::new(),
        }
    }

    /// Adds the row's data to a record; returns whether it has any.
    fn add_to(&self, record: &mut RecordRow) -> bool {
        let Self { samples_per_s, alpha_s, beta_s, at, .. } = *self;
        match self.point() {
            Some(point) => record.points.push(point),
            None if self.batch.is_none() && (samples_per_s.is_some() || alpha_s.is_some()) => {
                record.stated = Some(StatedRow { samples_per_s, alpha_s, beta_s, at });
            }
            None => return false,
        }
        // A spreadsheet may have reordered the rows.
        record.points.sort_by_key(|point| point.batch);
        true
    }

    fn point(&self) -> Option<PointRow> {
        Some(PointRow {
            batch: self.batch?,
            seconds: self.seconds?,
            variance: self.variance?,
            count: self.count?,
            steps: self.steps?,
            seen: self.seen?,
            at: self.at,
            source: self.source?,
        })
    }
}
