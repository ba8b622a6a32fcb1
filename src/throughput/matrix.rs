//! The matrix of speeds: one row per job, one column per GPU type, each cell with its source.

use crate::model::{GpuType, Job, Speed};

/// Speeds of every job on every GPU type; a missing cell means that the type cannot be planned for that job.
#[derive(Clone, Debug, PartialEq)]
pub struct ThroughputMatrix {
    columns: Vec<GpuType>,
    rows: Vec<Vec<Option<Cell>>>,
}

/// One speed and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    pub speed: Speed,
    pub source: Source,
}

/// Where a speed comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The job file says it.
    JobFile,
}

impl ThroughputMatrix {
    /// Returns what the job files say about `gpu_types`.
    #[must_use]
    pub fn from_job_files(jobs: &[Job], gpu_types: &[GpuType]) -> Self {
        let cell = |speed: &Speed| Cell { speed: *speed, source: Source::JobFile };
        let row = |job: &Job| gpu_types.iter().map(|ty| job.throughput.get(ty).map(cell)).collect();
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
    pub fn row(&self, job: usize) -> &[Option<Cell>] {
        &self.rows[job]
    }
}
