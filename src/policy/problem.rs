//! One immutable snapshot of everything that a policy may look at, numbered for fast access.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::model::{Access, BitRate, Cluster, GpuType, Job, JobName, NodeName, Offer, Speed};
use crate::policy::parts::{Part, Parts};
use crate::throughput::{Cell, Known, Source, ThroughputMatrix, Unusable};

/// The jobs, the GPUs that they may get, and what is to be minimised.
///
/// GPU types, nodes and jobs are known by their index in the vectors here.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Types of the cluster, by name. Where some jobs may use some nodes of a type and others not, the type stands
    /// here once for each such part of its nodes: to a policy these are different types.
    pub gpu_types: Vec<GpuType>,
    /// The name of each entry of `gpu_types` for people, unique: `v100`, or `v100@gpu` for a part.
    pub labels: Vec<String>,
    /// Nodes with GPUs on offer.
    pub nodes: Vec<WorkerNode>,
    /// GPUs by type over all nodes of the cluster, in whatever state: what could ever be offered.
    pub ceiling: Vec<u32>,
    /// Rate between nodes.
    pub network: BitRate,
    /// Jobs in the order of the job file.
    pub jobs: Vec<JobModel>,
    pub objective: Objective,
    pub seed: u64,
}

/// A node's GPUs on offer.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerNode {
    pub name: NodeName,
    /// Count by GPU type.
    pub gpus: Vec<u32>,
    /// Rate between this node's GPUs.
    pub intra_node: BitRate,
}

/// What planning needs to know of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobModel {
    pub name: JobName,
    /// |Π|.
    pub samples_per_epoch: u64,
    /// T, the epochs still to train.
    pub epochs: u64,
    /// B.
    pub global_batch: u64,
    pub batch_quantum: u64,
    /// D, in bytes.
    pub model_bytes: f64,
    pub syncs_per_epoch: f64,
    /// φ, the hidden part of the communication.
    pub overlap: f64,
    pub weight: f64,
    pub min_gpus: u32,
    /// The lesser of the job's own limit and the number of quanta in a batch.
    pub max_gpus: u32,
    pub accumulate: bool,
    /// Speed by GPU type; `None` where the job cannot run or its speed is not known.
    pub types: Vec<Option<TypeModel>>,
    /// Types on offer that the job cannot use, by index, each with the reason.
    pub unusable: Vec<(usize, String)>,
    /// Where the speeds on types on offer come from, by index, if not simply from the job file.
    pub sources: Vec<(usize, Source)>,
    /// Types on offer that it can use and that its file does not list, by index.
    pub unlisted: Vec<usize>,
    /// What its reader should know of the types on offer, one sentence each.
    pub notes: Vec<String>,
}

/// How a job runs on one GPU type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TypeModel {
    pub speed: Speed,
    /// Samples that fit the GPU's memory at once.
    pub max_batch: Option<u64>,
    /// Whether the type is a MIG slice, which must be a job's only rank.
    pub single_rank: bool,
}

/// What a plan minimises, over the jobs it places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// The mean job completion time (eq. 8).
    #[default]
    MeanJct,
    /// The mean of completion times, weighted by the jobs' weights.
    Weighted,
    /// The last completion time.
    Makespan,
}

/// Why jobs and cluster make no problem.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProblemError {
    #[error("there are no jobs to plan")]
    NoJobs,
}

impl Problem {
    /// Returns the problem of placing `jobs` on the GPUs of `offer`, which are nodes of `cluster`.
    ///
    /// `access` is that of these jobs. `network` and `intra_node` serve where the cluster does not say its own rates.
    ///
    /// # Errors
    /// When there are no jobs.
    pub fn new(
        (cluster, access): (&Cluster, &Access),
        offer: &Offer,
        jobs: &[Job],
        speeds: &ThroughputMatrix,
        (network, intra_node): (BitRate, BitRate),
    ) -> Result<Self, ProblemError> {
        if jobs.is_empty() {
            return Err(ProblemError::NoJobs);
        }
        let parts = Parts::new(cluster, access, speeds.columns());
        let intra_node = cluster.intra_node.unwrap_or(intra_node);
        let nodes: Vec<WorkerNode> = offer
            .nodes
            .iter()
            .map(|node| WorkerNode {
                name: node.name.clone(),
                gpus: parts.counts(&node.name, node.gpus.iter().map(|(ty, count)| (ty, *count))),
                intra_node: node.intra_node.unwrap_or(intra_node),
            })
            .collect();
        let offered: Vec<u32> = (0..parts.list.len())
            .map(|ty| nodes.iter().map(|node: &WorkerNode| node.gpus[ty]).sum())
            .collect();
        let model = |(index, job)| {
            let allowed = |part: &Part| access.allows(index, &parts.pools[part.pool]);
            JobModel::new(job, (&parts, &allowed), &offered, speeds.row(index))
        };
        Ok(Self {
            nodes,
            ceiling: parts.ceiling(cluster),
            network: cluster.network.unwrap_or(network),
            jobs: jobs.iter().enumerate().map(model).collect(),
            objective: Objective::default(),
            seed: 0,
            gpu_types: parts.list.iter().map(|part| part.gpu_type.clone()).collect(),
            labels: parts.labels(access),
        })
    }

    /// Returns the GPU types of a cluster, by name: the columns of its throughput matrix.
    #[must_use]
    pub fn types_of(cluster: &Cluster) -> Vec<GpuType> {
        let stocks = cluster.nodes.iter().flat_map(|node| &node.gpus);
        stocks.map(|stock| stock.gpu_type.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the number of a type on one of the nodes.
    #[must_use]
    pub fn type_on(&self, node: usize, gpu_type: &GpuType) -> Option<usize> {
        let own = self.nodes.get(node)?.gpus.iter().zip(&self.gpu_types);
        own.enumerate().find(|(_, (count, name))| **count > 0 && *name == gpu_type).map(|(number, _)| number)
    }

    /// Returns the GPUs on offer, by type.
    #[must_use]
    pub fn offered(&self) -> Vec<u32> {
        (0..self.gpu_types.len()).map(|ty| self.nodes.iter().map(|node| node.gpus[ty]).sum()).collect()
    }
}

impl JobModel {
    /// Returns whether nobody has measured its speed on a type on offer, and it is estimated.
    #[must_use]
    pub fn is_estimated(&self, gpu_type: usize) -> bool {
        self.sources.iter().any(|(own, source)| *own == gpu_type && matches!(source, Source::Estimated(_)))
    }

    /// Returns the completion time of all epochs when one takes `epoch` seconds: T (l^p + l^c), eq. 7.
    pub(super) fn completion_time(&self, epoch: f64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "epochs are far below 2^52")]
        let epochs = self.epochs as f64;
        epochs * epoch
    }

    fn new(
        job: &Job,
        (parts, allowed): (&Parts, &dyn Fn(&Part) -> bool),
        offered: &[u32],
        row: &[Cell],
    ) -> Self {
        let (mut notes, mut unusable, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        let (mut noted, mut unlisted) = (BTreeSet::new(), Vec::new());
        let types = parts.list.iter().enumerate().map(|(number, part)| {
            if !allowed(part) {
                if offered[number] > 0 {
                    unusable.push((number, "not in the job's partition".to_owned()));
                }
                return None;
            }
            // What is true of a type is said once, however many parts it has.
            let is_news = offered[number] > 0 && noted.insert(part.column);
            let ty = &part.gpu_type;
            match &row[part.column] {
                Cell::Known(Known { speed, source, max_batch, is_listed, remarks }) => {
                    if is_news {
                        notes.extend(remarks.iter().cloned());
                    }
                    if offered[number] > 0 && *source != Source::JobFile {
                        sources.push((number, source.clone()));
                    }
                    if offered[number] > 0 && !is_listed {
                        unlisted.push(number);
                    }
                    let single_rank = ty.is_mig_slice();
                    return Some(TypeModel { speed: *speed, max_batch: *max_batch, single_rank });
                }
                Cell::Unusable(reason) if offered[number] > 0 => {
                    unusable.push((number, reason.to_string()));
                    // What the job file itself leaves out is no news to its reader.
                    if is_news && *reason != Unusable::NotAllowed {
                        notes.push(format!("{ty} not used: {reason}"));
                    }
                }
                Cell::Unusable(_) => {}
            }
            None
        });
        let types = types.collect();
        notes.extend(measured(&sources, &parts.list));
        let quanta = u32::try_from(job.global_batch / job.batch_quantum).unwrap_or(u32::MAX);
        #[expect(clippy::cast_precision_loss, reason = "sizes and counts are far below 2^52")]
        let (model_bytes, syncs_per_epoch) = (job.model_size.0 as f64, job.syncs_per_epoch as f64);
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
            min_gpus: job.min_gpus,
            max_gpus: job.max_gpus.map_or(quanta, |own| own.min(quanta)),
            accumulate: job.accumulate,
            types,
            unusable,
            sources,
            unlisted,
            notes,
        }
    }
}

/// Returns a note that names the types whose speeds were measured, and how sure they are.
fn measured(sources: &[(usize, Source)], parts: &[Part]) -> Option<String> {
    let measured = sources.iter().filter(|(_, source)| matches!(source, Source::Measured(_)));
    let mut types: Vec<String> =
        measured.map(|(number, source)| format!("{} {source}", parts[*number].gpu_type)).collect();
    types.dedup();
    (!types.is_empty()).then(|| format!("speeds from the cache: {}", types.join(", ")))
}

impl Objective {
    /// All objectives with their names on the command line.
    pub const NAMES: [(&'static str, Self); 3] =
        [("mean-jct", Self::MeanJct), ("weighted", Self::Weighted), ("makespan", Self::Makespan)];

    /// Returns the objective's name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, objective)| *objective == self).map_or("", |(name, _)| name)
    }

    /// Returns what a job's completion time counts: its weight where the objective is weighted, else one.
    #[must_use]
    pub fn weight(self, job: &JobModel) -> f64 {
        match self {
            Self::Weighted => job.weight,
            Self::MeanJct | Self::Makespan => 1.0,
        }
    }

    /// Returns the value over pairs of weight and completion time in seconds; 0 for none.
    #[must_use]
    pub fn value(self, jobs: impl IntoIterator<Item = (f64, f64)>) -> f64 {
        let (mut sum, mut weights, mut last) = (0.0, 0.0, 0.0_f64);
        for (weight, jct) in jobs {
            let weight = if self == Self::Weighted { weight } else { 1.0 };
            sum += weight * jct;
            weights += weight;
            last = last.max(jct);
        }
        match self {
            Self::Makespan => last,
            _ if weights == 0.0 => 0.0,
            Self::MeanJct | Self::Weighted => sum / weights,
        }
    }
}
