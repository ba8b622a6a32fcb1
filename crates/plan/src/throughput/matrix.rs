//! The matrix of speeds: one row per job and one column per GPU type, each cell with its source or a reason.

use std::borrow::Borrow;
use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::fmt;

use super::cache::{Cache, MeasuredSpeed};
use super::estimate::{SpeedEstimate, SpeedTables};
use super::record::batch_size;
use super::sample::SpeedKey;
use hsched_model::catalogue::recognise;
use hsched_model::{ByType, Estimates, GpuType, Job, Precision, Speed};

/// The speeds of every job on every GPU type.
#[derive(Clone, Debug, PartialEq)]
pub struct ThroughputMatrix {
    columns: Vec<GpuType>,
    rows: Vec<Vec<SpeedCell>>,
}

/// The speed of one job on one GPU type.
#[derive(Clone, Debug, PartialEq)]
pub enum SpeedCell {
    /// The job may use the type, and its speed there is known.
    Known(SourcedSpeed),
    /// The planner cannot use the type for the job.
    Unusable(UnusableType),
}

/// A speed with its source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcedSpeed {
    pub speed: Speed,
    pub source: SpeedOrigin,
    /// Number of samples that fit into the GPU's memory; `None` if no limit is known.
    pub max_batch: Option<u64>,
    /// The number of GPUs per replica; the speed and the maximum batch refer to a replica.
    pub gpus: u32,
    /// Whether the job's file lists the type, possibly under another name.
    pub is_listed: bool,
    /// Remarks for the user, one sentence each.
    pub remarks: Vec<String>,
}

/// The source of a speed.
#[derive(Clone, Debug, PartialEq)]
pub enum SpeedOrigin {
    /// The job file lists the speed for this type.
    JobFile,
    /// The job file lists the speed for the same GPU model under another name.
    OtherName(GpuType),
    /// The cache of measured speeds contains the speed.
    Measured(MeasuredSpeed),
    /// The speed was not measured, but estimated from other speeds.
    Estimated(SpeedEstimate),
}

/// Minimum relative difference between job file and measurement that is reported.
const NOTABLE: f64 = 0.1;

/// Why the planner cannot use a GPU type for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnusableType {
    /// The job's `gpu_types` exclude the type.
    NotAllowed,
    /// The job's speed on the type is unknown.
    NoThroughput,
    /// The job file does not list the type, and the job's first run there failed.
    FailedThere,
    /// The type cannot compute in the job's precision.
    Precision(Precision),
    /// The job defines no replica size for the type.
    NoReplicaSize,
    /// A replica would consist of several slices.
    SliceOfReplica,
}

impl ThroughputMatrix {
    /// Returns the speeds of `jobs` on `gpu_types`, the types of a cluster.
    ///
    /// A measurement in the cache has precedence over the job file, followed in the same order by their
    /// entries under another name. A name that exists in the cluster stands for that type only. Another name
    /// stands for all types that the catalogue considers possibly equal: `a100` matches
    /// `nvidia_a100_80gb_pcie`, whereas `a100-40gb` does not. Of several such names, the most specific one
    /// counts, then the first by name.
    ///
    /// Without any entry, an estimate is used if the job allows it; `estimate` is the default for jobs that
    /// do not set it.
    pub fn new(jobs: &[impl Borrow<Job>], gpu_types: &[GpuType], cache: &Cache, estimate: Estimates) -> Self {
        // Learning ratios reads the whole cache, so it is done only if it is needed and can help.
        let tables = LazyCell::new(|| SpeedTables::new(jobs, cache));
        let row = |job: &Job| {
            let job = &*job.with_speeds_of_replicas();
            let which = job.estimate.unwrap_or(estimate);
            let possible =
                which == Estimates::All || (which == Estimates::Learnt && *cache != Cache::default());
            let measured: BTreeMap<&GpuType, MeasuredSpeed> = cache.of_job(job).collect();
            let estimate = |gpu_type: &GpuType| {
                // The dependence of a replica's speed on its number of GPUs is unknown.
                if possible && !job.has_replicas() {
                    tables.estimate(job, &measured, gpu_type, which)
                } else {
                    None
                }
            };
            let known = SpeedKnowledge { job, measured: &measured, cluster: gpu_types, estimate: &estimate };
            gpu_types.iter().map(|gpu_type| known.cell(gpu_type)).collect()
        };
        Self { columns: gpu_types.to_vec(), rows: jobs.iter().map(Borrow::borrow).map(row).collect() }
    }

    /// Excludes a GPU type on which a job's first run failed.
    pub fn leave_out(&mut self, job: usize, gpu_type: &GpuType) {
        let column = self.columns.iter().position(|candidate| candidate == gpu_type);
        if let Some(cell) = column.and_then(|column| self.rows.get_mut(job)?.get_mut(column)) {
            *cell = SpeedCell::Unusable(UnusableType::FailedThere);
        }
    }

    /// Returns the GPU types of the columns.
    pub fn columns(&self) -> &[GpuType] {
        &self.columns
    }

    /// Returns the cells of one job, one per column.
    ///
    /// # Panics
    /// If the index is out of range.
    pub fn row(&self, job: usize) -> &[SpeedCell] {
        &self.rows[job]
    }
}

/// The sources for one job's speeds.
struct SpeedKnowledge<'a> {
    job: &'a Job,
    measured: &'a BTreeMap<&'a GpuType, MeasuredSpeed>,
    cluster: &'a [GpuType],
    /// Estimates a type's speed if no other source has it.
    estimate: &'a dyn Fn(&GpuType) -> Option<(Speed, SpeedEstimate)>,
}

impl SpeedKnowledge<'_> {
    fn cell(&self, gpu_type: &GpuType) -> SpeedCell {
        let Self { job, cluster, .. } = *self;
        let is = |name: &GpuType| name == gpu_type || !other_names([name], gpu_type, cluster).is_empty();
        if job.gpu_types.as_ref().is_some_and(|allowed| !allowed.iter().any(is)) {
            return SpeedCell::Unusable(UnusableType::NotAllowed);
        }
        let mut remarks = Vec::new();
        if let Some(precision) = job.precision {
            let known = recognise(gpu_type.as_str());
            match known
                .map_or_else(|| precision.is_everywhere().then_some(true), |known| known.has(precision))
            {
                Some(true) => {}
                Some(false) => return SpeedCell::Unusable(UnusableType::Precision(precision)),
                None => remarks.push(format!("hsched does not know whether {gpu_type} supports {precision}")),
            }
        }
        let gpus = match &job.replica {
            Some(replica) => match replica_size(&replica.gpus, gpu_type, cluster) {
                Some(size) if size > 1 && gpu_type.is_mig_slice() => {
                    return SpeedCell::Unusable(UnusableType::SliceOfReplica);
                }
                Some(size) => size,
                None => return SpeedCell::Unusable(UnusableType::NoReplicaSize),
            },
            None => 1,
        };
        let Some((speed, source)) = self.speed(gpu_type, gpus, &mut remarks) else {
            return SpeedCell::Unusable(UnusableType::NoThroughput);
        };
        let max_batch = max_batch(job, gpu_type, cluster, &mut remarks);
        let is_listed = source == SpeedOrigin::JobFile
            || job.throughput.keys().chain(job.gpu_types.iter().flatten()).any(is);
        SpeedCell::Known(SourcedSpeed { speed, source, max_batch, gpus, is_listed, remarks })
    }

    /// Returns the job's speed on a GPU type, in replicas of this many GPUs, with its source; adds remarks on
    /// unexpected differences.
    fn speed(
        &self,
        gpu_type: &GpuType,
        gpus: u32,
        remarks: &mut Vec<String>,
    ) -> Option<(Speed, SpeedOrigin)> {
        let Self { job, measured, cluster, .. } = *self;
        let said = job.throughput.get(gpu_type).copied();
        if let Some(&record) = measured.get(gpu_type) {
            remarks.extend(said.and_then(|said| contradiction(gpu_type, said, &record)));
            let scaled = said.and_then(|said| through_the_one_batch(said, &record));
            return Some((scaled.unwrap_or(record.speed), SpeedOrigin::Measured(record)));
        }
        if let Some(said) = said {
            return Some((said, SpeedOrigin::JobFile));
        }
        let same = |name: &GpuType| format!("the speed of {name} is used for {gpu_type}: same model");
        // A replica may have another size under another name.
        let is_measured = |name: &&GpuType| SpeedKey::of(job, name).gpus == gpus;
        let names = measured.keys().copied().filter(is_measured);
        if let Some(&name) = other_names(names, gpu_type, cluster).first() {
            remarks.push(same(name));
            return measured.get(name).map(|&measured| (measured.speed, SpeedOrigin::Measured(measured)));
        }
        let sizes = job.replica.as_ref().map(|replica| &replica.gpus);
        let is_same =
            |name: &&GpuType| sizes.and_then(|sizes| sizes.of(name)).is_none_or(|size| size == gpus);
        if let Some(&name) = other_names(job.throughput.keys().filter(is_same), gpu_type, cluster).first() {
            remarks.push(same(name));
            return job.throughput.get(name).map(|&speed| (speed, SpeedOrigin::OtherName(name.clone())));
        }
        let (speed, estimate) = (self.estimate)(gpu_type)?;
        let source = SpeedOrigin::Estimated(estimate);
        remarks.push(format!("{gpu_type}: {speed} {source}"));
        Some((speed, source))
    }
}

/// Returns the GPUs per replica on a type of a cluster, which the job may list under another name.
pub fn replica_size(sizes: &ByType<u32>, gpu_type: &GpuType, cluster: &[GpuType]) -> Option<u32> {
    let ByType::Each(by_name) = sizes else { return sizes.of(gpu_type) };
    let other = || other_names(by_name.keys(), gpu_type, cluster).first().and_then(|name| sizes.of(name));
    sizes.of(gpu_type).or_else(other)
}

/// Returns the job file's speed, scaled to a measurement at a single batch size; `None` if several batch
/// sizes were measured, or none.
///
/// A line through the origin and the measured point would lack the constant part of a step, which the job
/// file states.
fn through_the_one_batch(said: Speed, measured: &MeasuredSpeed) -> Option<Speed> {
    let batch = batch_size(measured.batch.filter(|_| measured.batches == 1)?);
    said.scaled(said.rate_at(batch) / measured.speed.rate_at(batch))
}

/// Returns a remark if the job file differs much from the measurement at the last batch size.
fn contradiction(gpu_type: &GpuType, said: Speed, measured: &MeasuredSpeed) -> Option<String> {
    let batch = batch_size(measured.batch.unwrap_or(1));
    let (rate, other) = (measured.speed.rate_at(batch), said.rate_at(batch));
    let differs = (rate / other - 1.0).abs() > NOTABLE;
    let how = if measured.batch.is_some() { "measured" } else { "set by hand" };
    let (speed, other) = (Speed::rate(rate)?, Speed::rate(other)?);
    differs.then(|| format!("{gpu_type}: {speed} {how}, used instead of the job file's {other}"))
}

/// Returns the maximum batch; under another name only if both names imply the same memory.
fn max_batch(job: &Job, gpu_type: &GpuType, cluster: &[GpuType], remarks: &mut Vec<String>) -> Option<u64> {
    if let Some(&batch) = job.max_batch.get(gpu_type) {
        return Some(batch);
    }
    let names = other_names(job.max_batch.keys(), gpu_type, cluster);
    if names.is_empty() {
        return None;
    }
    let memory = |name: &GpuType| recognise(name.as_str()).map(|known| known.memory_gb());
    // Types that differ only in case and are unknown to the catalogue are the same.
    let bytes = memory(gpu_type);
    let same = |name: &&&GpuType| memory(name) == bytes && bytes != Some(None);
    if let Some(&name) = names.iter().find(same) {
        remarks.push(format!("the max_batch of {name} is used for {gpu_type}: same model and memory"));
        return job.max_batch.get(name).copied();
    }
    if let Some(name) = names.first() {
        remarks.push(format!("the max_batch of {name} is not used for {gpu_type}: their memory may differ"));
    }
    None
}

/// Returns the `names` that are other names of `gpu_type`, the most specific one first.
fn other_names<'a>(
    names: impl IntoIterator<Item = &'a GpuType>,
    gpu_type: &GpuType,
    cluster: &[GpuType],
) -> Vec<&'a GpuType> {
    let others: Vec<&GpuType> = names.into_iter().filter(|name| !cluster.contains(name)).collect();
    if others.is_empty() {
        // This is the usual case; recognising a name is slow compared with the rest of the work for a job.
        return others;
    }
    let recognised = recognise(gpu_type.as_str());
    let open = |name: &'a GpuType| {
        let known = recognise(name.as_str());
        match (&recognised, known) {
            (Some(recognised), Some(known)) => recognised.may_be(&known).then_some((known.gpus.len(), name)),
            _ => name.as_str().eq_ignore_ascii_case(gpu_type.as_str()).then_some((0, name)),
        }
    };
    let mut found: Vec<(usize, &GpuType)> = others.into_iter().filter_map(open).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, name)| name).collect()
}

/// Shows the accuracy and the origin of the speed in parentheses.
impl fmt::Display for SpeedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JobFile => f.write_str("(from the job file)"),
            Self::OtherName(name) => write!(f, "(that of {name}, the same model)"),
            Self::Measured(measured) => write!(f, "({measured})"),
            Self::Estimated(estimate) => write!(f, "({estimate})"),
        }
    }
}

impl fmt::Display for UnusableType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAllowed => f.write_str("not among the job's gpu_types"),
            Self::NoThroughput => f.write_str("no throughput known"),
            Self::NoReplicaSize => f.write_str("not among the sizes of the job's replica"),
            Self::SliceOfReplica => f.write_str("a replica on MIG slices has one GPU"),
            Self::FailedThere => f.write_str("its first run there failed"),
            Self::Precision(precision) => write!(f, "{precision} needs Ampere or newer"),
        }
    }
}
