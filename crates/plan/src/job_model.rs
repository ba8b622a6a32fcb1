//! A job in the form that policies use: sizes and speeds by index, the source of each speed, and the user's
//! goals.

use std::sync::Arc;

use thiserror::Error;

use crate::parts::{Part, Parts};
use crate::throughput::{SpeedCell, SpeedOrigin, UnusableType};
use crate::{Problem, Progress, ReplicaModel};
use hsched_model::number::to_f64;
use hsched_model::{
    Deadline, GpuType, Job, JobName, NodeRefusal, RankNeeds, Sharing, Speed, SpeedBasis, Time,
};

/// The planning data of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobModel {
    pub name: JobName,
    /// |Π|, the number of samples per epoch.
    pub samples_per_epoch: u64,
    /// T, the number of epochs still to train.
    pub epochs: u64,
    /// B, the samples per global batch.
    pub global_batch: u64,
    pub batch_quantum: u64,
    /// D, in bytes.
    pub model_bytes: f64,
    pub syncs_per_epoch: f64,
    /// φ, the hidden part of the communication.
    pub overlap: f64,
    pub weight: f64,
    /// Minimum number of replicas; a replica is one GPU if `replica` is `None`.
    pub min_gpus: u32,
    /// Maximum number of replicas: the smaller of the job's own limit and the number of quanta in a batch.
    pub max_gpus: u32,
    /// The requested number of replicas, from `min_gpus` to `max_gpus`, for policies that do not choose the
    /// number themselves.
    pub asks: u32,
    pub accumulate: bool,
    /// Speed by GPU type; `None` if the job cannot run there or its speed is unknown.
    pub types: Vec<Option<TypeModel>>,
    /// Offered types that the job cannot use, by index, each with the reason; also types that are not offered
    /// because no rank fits on their nodes.
    pub unusable: Vec<(usize, Exclusion)>,
    /// Source of the speeds on offered types, by index, if it is not the job file.
    pub sources: Vec<(usize, SpeedOrigin)>,
    /// Offered types that the job can use but its file does not list, by index.
    pub unlisted: Vec<usize>,
    /// Remarks on the offered types, by index, one sentence each.
    pub remarks: Vec<(usize, String)>,
    /// Data for policies that assign single tasks of a job.
    pub rounds: Arc<Rounds>,
    pub aims: Aims,
    /// By GPU type, whether the job may use the nodes with this type.
    pub may_use: Vec<bool>,
    /// The needs of each rank besides a GPU.
    pub needs: RankNeeds,
    /// The GPUs of a replica; `None` if the job defines no replicas.
    pub replica: Option<ReplicaModel>,
    /// How the batch is divided, for policies that leave this to the job.
    pub sharing: Sharing,
    pub progress: Progress,
}

/// The goals that the user sets for the progress of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aims {
    /// Urgency, from 0 to 10.
    pub urgency: f64,
    pub deadline: Option<Time>,
}

/// A job as rounds of equal tasks, one round per epoch, whose gradients are synchronised together.
#[derive(Clone, Debug, PartialEq)]
pub struct Rounds {
    /// K, the number of tasks per round, at least 1: parts of the global batch.
    pub scale: u64,
    /// Minimum number of epochs that the job is expected to train, 0 if unknown.
    pub predicted: u64,
    /// The loss after each epoch, including future ones. A policy may only use the losses of finished epochs.
    pub losses: Vec<f64>,
    /// The user's name of the training: jobs with the same name are similar.
    pub model: String,
}

/// Why a job cannot use a GPU type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Exclusion {
    #[error("not in the job's partition")]
    Partition,
    /// The needs of a rank, in words.
    #[error("a rank needs {0}, more than such a node has")]
    Needs(String),
    #[error("the job is kept off such nodes for now, which were slow or failed its check")]
    Avoided,
    #[error("{0}")]
    Speed(UnusableType),
}

/// The behaviour of a job on one GPU type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TypeModel {
    pub speed: Speed,
    /// Number of samples that fit into the GPU's memory; `None` if no limit is known.
    pub max_batch: Option<u64>,
    /// Whether the type is a MIG slice, which must be a job's only rank.
    pub single_rank: bool,
}

impl TypeModel {
    /// Appends all inputs of a job's speed on a type to a key; `None` is a type that the job cannot use.
    pub(crate) fn add_key(of: Option<&Self>, key: &mut Vec<u64>) {
        match of {
            Some(model) => key.extend([
                model.speed.alpha().to_bits(),
                model.speed.beta().to_bits(),
                model.max_batch.unwrap_or(u64::MAX),
                model.single_rank.into(),
            ]),
            None => key.push(u64::MAX),
        }
    }
}

impl Default for Aims {
    /// Returns equal urgency and no deadline.
    fn default() -> Self {
        Self { urgency: 1.0, deadline: None }
    }
}

impl Aims {
    /// Returns the goals of a job: durations count from time 0, the start of a plan or trace. Dates are left
    /// out; callers for which they have a meaning set the deadline later.
    fn of(job: &Job) -> Self {
        let deadline = match job.deadline {
            Some(Deadline::Within(time)) => Some(Time(time.0)),
            Some(Deadline::At(_)) | None => None,
        };
        Self { urgency: job.urgency, deadline }
    }
}

impl Default for Rounds {
    /// Returns the rounds of a job that defines none: the whole batch is one task.
    fn default() -> Self {
        Self { scale: 1, predicted: 0, losses: Vec::new(), model: String::new() }
    }
}

impl JobModel {
    /// Returns remarks on the offered types and measured speeds, one sentence each; `problem` is the problem
    /// with this job.
    pub fn notes(&self, problem: &Problem) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        for (_, remark) in &self.remarks {
            // A remark on a type appears once, even if the type has several parts.
            if !notes.contains(remark) {
                notes.push(remark.clone());
            }
        }
        notes.extend(measured(&self.sources, &problem.gpu_types));
        notes
    }

    /// Returns whether the job's speed on an offered type is an estimate without a measurement.
    pub fn is_estimated(&self, gpu_type: usize) -> bool {
        self.basis(gpu_type) == SpeedBasis::Estimated
    }

    /// Returns the source of the job's speed on an offered type.
    pub fn basis(&self, gpu_type: usize) -> SpeedBasis {
        match self.sources.iter().find(|(source, _)| *source == gpu_type) {
            Some((_, SpeedOrigin::Estimated(_))) => SpeedBasis::Estimated,
            // Speeds that were set with `cache set` have no samples.
            Some((_, SpeedOrigin::Measured(measured))) if measured.count > 0 => SpeedBasis::Measured,
            _ => SpeedBasis::Stated,
        }
    }

    /// Returns the completion time of all epochs for an epoch of `epoch` seconds: T (l^p + l^c), eq. 7.
    pub(super) fn completion_time(&self, epoch: f64) -> f64 {
        to_f64(self.epochs) * epoch
    }

    pub(super) fn new(
        job: &Job,
        parts: &Parts,
        refusal: &dyn Fn(&Part) -> Option<NodeRefusal>,
        offered: &[u32],
        row: &[SpeedCell],
    ) -> Self {
        let (mut remarks, mut unusable, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        let mut unlisted = Vec::new();
        let mut may_use = Vec::with_capacity(parts.list.len());
        let types = parts.list.iter().enumerate().map(|(number, part)| {
            let refused = refusal(part);
            may_use.push(refused.is_none());
            match refused {
                Some(NodeRefusal::Partition) => {
                    if offered[number] > 0 {
                        unusable.push((number, Exclusion::Partition));
                    }
                    return None;
                }
                Some(NodeRefusal::Avoided) => {
                    if offered[number] > 0 {
                        unusable.push((number, Exclusion::Avoided));
                    }
                    return None;
                }
                Some(NodeRefusal::Needs(what)) => {
                    unusable.push((number, Exclusion::Needs(what)));
                    return None;
                }
                None => {}
            }
            let ty = &part.gpu_type;
            match &row[part.column] {
                SpeedCell::Known(known) => {
                    if offered[number] > 0 {
                        remarks.extend(known.remarks.iter().map(|remark| (number, remark.clone())));
                    }
                    if offered[number] > 0 && known.source != SpeedOrigin::JobFile {
                        sources.push((number, known.source.clone()));
                    }
                    if offered[number] > 0 && !known.is_listed {
                        unlisted.push(number);
                    }
                    let single_rank = part.is_slice;
                    return Some(TypeModel { speed: known.speed, max_batch: known.max_batch, single_rank });
                }
                SpeedCell::Unusable(reason) if offered[number] > 0 => {
                    unusable.push((number, Exclusion::Speed(*reason)));
                    // Types that the job file itself excludes are not reported.
                    if *reason != UnusableType::NotAllowed {
                        remarks.push((number, format!("{ty} not used: {reason}")));
                    }
                }
                SpeedCell::Unusable(_) => {}
            }
            None
        });
        let types: Vec<Option<TypeModel>> = types.collect();
        let (least, most) = match &job.replica {
            Some(_) => (job.min_replicas, job.max_replicas),
            None => (job.min_gpus, job.max_gpus),
        };
        let replica = job.replica.as_ref().map(|replica| {
            let size = |part: &Part| match &row[part.column] {
                SpeedCell::Known(known) => known.gpus,
                SpeedCell::Unusable(_) => 1,
            };
            let sizes = parts.list.iter().map(size).collect();
            ReplicaModel { sizes, same_node: replica.same_node, ever: 0, largest: Vec::new() }
        });
        let quanta = u32::try_from(job.global_batch / job.batch_quantum).unwrap_or(u32::MAX);
        let (model_bytes, syncs_per_epoch) = (to_f64(job.model_size.0), to_f64(job.syncs_per_epoch));
        Self {
            name: job.name.clone(),
            samples_per_epoch: job.samples_per_epoch,
            epochs: job.epochs,
            global_batch: job.global_batch,
            batch_quantum: job.batch_quantum,
            model_bytes,
            syncs_per_epoch,
            overlap: job.overlap,
            weight: job.weight,
            min_gpus: least,
            max_gpus: most.map_or(quanta, |limit| limit.min(quanta)),
            asks: job.gpus.unwrap_or(least),
            accumulate: job.accumulate,
            types,
            unusable,
            sources,
            unlisted,
            remarks,
            rounds: Arc::new(Rounds {
                scale: job.sync_scale,
                predicted: job.predicted_epochs,
                losses: job.losses.clone(),
                model: job.model.clone(),
            }),
            aims: Aims::of(job),
            may_use,
            needs: RankNeeds::default(),
            replica,
            sharing: job.shares,
            progress: Progress::of_epochs(job.epochs),
        }
    }
}

/// Returns a note that lists the types with measured speeds, and their accuracy.
fn measured(sources: &[(usize, SpeedOrigin)], gpu_types: &[GpuType]) -> Option<String> {
    let measured = sources.iter().filter(|(_, source)| matches!(source, SpeedOrigin::Measured(_)));
    let mut types: Vec<String> =
        measured.map(|(number, source)| format!("{} {source}", gpu_types[*number])).collect();
    types.dedup();
    (!types.is_empty()).then(|| format!("speeds from the cache: {}", types.join(", ")))
}
