//! The matrix of speeds: one row per job, one column per GPU type, each cell with its source or a reason.

use std::fmt;

use crate::model::{GpuType, Job, Speed};

/// What is known of every job on every GPU type.
#[derive(Clone, Debug, PartialEq)]
pub struct ThroughputMatrix {
    columns: Vec<GpuType>,
    rows: Vec<Vec<Cell>>,
}

/// What is known of one job on one GPU type.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// The job may use the type, and its speed there is known.
    Known(Known),
    /// The type cannot be planned for the job.
    Unusable(Unusable),
}

/// One speed and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    pub speed: Speed,
    pub source: Source,
    /// Samples that fit the GPU's memory at once.
    pub max_batch: Option<u64>,
}

/// Where a speed comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The job file says it of this type.
    JobFile,
}

/// Why a GPU type cannot be planned for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// The job's `gpu_types` leave it out.
    NotAllowed,
    /// Nobody has said how fast the job is there.
    NoThroughput,
}

impl ThroughputMatrix {
    /// Returns what the job files say about `gpu_types`.
    #[must_use]
    pub fn from_job_files(jobs: &[Job], gpu_types: &[GpuType]) -> Self {
        let row = |job: &Job| gpu_types.iter().map(|gpu_type| Cell::of(job, gpu_type)).collect();
        Self { columns: gpu_types.to_vec(), rows: jobs.iter().map(row).collect() }
    }

    /// Returns the GPU types of the columns.
    #[must_use]
    pub fn columns(&self) -> &[GpuType] {
        &self.columns
    }

    /// Returns the cells of one job, a column each.
    ///
    /// # Panics
    /// When there are not so many jobs.
    #[must_use]
    pub fn row(&self, job: usize) -> &[Cell] {
        &self.rows[job]
    }
}

impl Cell {
    fn of(job: &Job, gpu_type: &GpuType) -> Self {
        if job.gpu_types.as_ref().is_some_and(|allowed| !allowed.contains(gpu_type)) {
            return Self::Unusable(Unusable::NotAllowed);
        }
        let Some(&speed) = job.throughput.get(gpu_type) else {
            return Self::Unusable(Unusable::NoThroughput);
        };
        let max_batch = job.max_batch.get(gpu_type).copied();
        Self::Known(Known { speed, source: Source::JobFile, max_batch })
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAllowed => "not among the job's gpu_types",
            Self::NoThroughput => "no throughput known",
        })
    }
}
