//! Everything that a policy may look at at one moment, numbered for fast access.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::model::{
    BitRate, Cluster, Deadline, GpuType, Job, JobName, NodeName, RankNeeds, Refusal, Seconds, Speed, Time,
};
use crate::policy::parts::{Part, Parts};
use crate::policy::{Slot, Standing, Waits};
use crate::throughput::{Cell, Known, Source, Unusable};

/// The jobs and where they stand, the GPUs that they have or may get, and what is to be minimised.
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
    pub now: Time,
    /// The most GPUs of some types that all jobs may hold together.
    pub limits: Vec<TypeLimit>,
    /// How long the queue would hold up what a policy asked about.
    pub forecasts: Vec<Forecast>,
    /// What is known of the queue about requests; `None` where nobody was asked.
    pub outlooks: Option<Vec<Outlook>>,
    /// What is not as it was when the policy decided last.
    pub changed: Changed,
}

/// What is not as it was at the previous decision of the same policy.
///
/// A caller that decides often keeps one problem up to date and names what changed, so that a decision costs no more than
/// that. A job's number then stays while the job is there, and is given to another one only after the policy was told
/// that the job left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Changed {
    /// Anything may have changed, nodes too.
    #[default]
    All,
    /// Nothing but these jobs.
    Since {
        /// Jobs that are new.
        came: Vec<usize>,
        /// Numbers of jobs that are gone; none of them is in `came`.
        left: Vec<usize>,
        /// Other jobs whose standing changed, also by the policy's own plan. The progress of a job that runs on is no
        /// change: [`Standing::left`] knows it.
        other: Vec<usize>,
    },
}

/// A node's GPUs for the jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerNode {
    pub name: NodeName,
    /// GPUs by type that are free or that running jobs of the problem have.
    pub gpus: Vec<u32>,
    /// Rate between this node's GPUs.
    pub intra_node: BitRate,
    /// All GPUs by type, whoever holds them; none where the node is not up.
    pub up: Vec<u32>,
    /// CPUs and memory, where ranks must find room beside the GPUs.
    pub host: Option<Host>,
}

/// What of a node ranks need beside GPUs; `None` where nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    pub cpus: Option<Room>,
    /// In bytes.
    pub memory: Option<Room>,
}

/// Some amount on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// What is free or what running jobs of the problem have.
    pub free: u64,
    /// All, whoever has it.
    pub total: u64,
}

/// The most GPUs of a kind that the jobs may hold together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeLimit {
    /// The types that count together.
    pub gpu_types: Vec<usize>,
    pub most: u32,
}

/// What is known of the queue about one job on some GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    pub job: usize,
    pub slots: Vec<Slot>,
    /// How long the job would wait; `None` where nobody can say.
    pub wait: Option<Seconds>,
}

/// What is known of the queue about all requests of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    pub job: usize,
    /// How long each of its submissions still waits as it is; `None` where it does not wait or nobody can say.
    pub stays: Vec<Option<Seconds>>,
    /// Whether others may be queued beside what waits.
    pub races: bool,
    /// In the order of the job's [`options`](crate::policy::options).
    pub options: Vec<Prospect>,
}

/// How long a request would wait, on average; `None` where nobody can say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prospect {
    /// Submitted now.
    pub anew: Option<Seconds>,
    /// In the place of a pending one that is changed to it; `None` where none can be.
    pub in_place: Option<Seconds>,
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
    /// The number of GPUs that its owner asks for, from `min_gpus` to `max_gpus`: what policies of fixed size give it.
    pub asks: u32,
    pub accumulate: bool,
    /// Speed by GPU type; `None` where the job cannot run or its speed is not known.
    pub types: Vec<Option<TypeModel>>,
    /// Types on offer that the job cannot use, by index, each with the reason; also those not on offer on whose nodes no
    /// rank of it fits.
    pub unusable: Vec<(usize, Misfit)>,
    /// Where the speeds on types on offer come from, by index, if not simply from the job file.
    pub sources: Vec<(usize, Source)>,
    /// Types on offer that it can use and that its file does not list, by index.
    pub unlisted: Vec<usize>,
    /// What its reader should know of the types on offer, by index, one sentence each.
    pub remarks: Vec<(usize, String)>,
    /// What policies that share out single tasks of a job go by.
    pub rounds: Rounds,
    pub aims: Aims,
    /// Whether it may run on nodes that have the type, by GPU type: they are in its partition.
    pub may_use: Vec<bool>,
    /// What each of its ranks needs beside a GPU.
    pub needs: RankNeeds,
    pub standing: Standing,
}

/// What a job's owner wants of its progress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aims {
    /// From 0 to 10.
    pub urgency: f64,
    pub deadline: Option<Time>,
}

/// A job as rounds of equal tasks, an epoch each, whose gradients are synchronised together.
#[derive(Clone, Debug, PartialEq)]
pub struct Rounds {
    /// K, the tasks of a round, at least 1: parts of the global batch.
    pub scale: u64,
    /// Epochs that it is expected to train at least, 0 where nobody expects anything.
    pub predicted: u64,
    /// The loss after each of its epochs, also of those to come: a policy may only look at those that are done.
    pub losses: Vec<f64>,
    /// What its owner calls the training: jobs of one name are like each other.
    pub model: String,
}

/// Why a job cannot use a GPU type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Misfit {
    #[error("not in the job's partition")]
    Partition,
    /// What a rank needs, in words.
    #[error("a rank needs {0}, more than such a node has")]
    Needs(String),
    #[error("{0}")]
    Speed(Unusable),
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

    /// Returns the number of GPUs by the name of their type.
    #[must_use]
    pub fn by_name(&self, slots: &[Slot]) -> BTreeMap<&GpuType, u32> {
        let mut sum = BTreeMap::new();
        for slot in slots {
            *sum.entry(&self.gpu_types[slot.gpu_type]).or_default() += slot.count;
        }
        sum
    }

    /// Returns GPUs in words: `2 t4 + 3 v100`.
    #[must_use]
    pub fn named(&self, slots: &[Slot]) -> String {
        let types = self.by_name(slots);
        types.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(" + ")
    }

    /// Returns the numbers of the jobs that are there: a caller that keeps its problem up to date leaves vacancies.
    pub fn present(&self) -> impl Iterator<Item = usize> {
        let jobs = self.jobs.iter().enumerate();
        jobs.filter(|(_, job)| job.standing.waits != Waits::Gone).map(|(number, _)| number)
    }

    /// Returns the GPUs on offer, by type.
    #[must_use]
    pub fn offered(&self) -> Vec<u32> {
        (0..self.gpu_types.len()).map(|ty| self.nodes.iter().map(|node| node.gpus[ty]).sum()).collect()
    }
}

impl Default for Aims {
    /// As urgent as any, and without a deadline.
    fn default() -> Self {
        Self { urgency: 1.0, deadline: None }
    }
}

impl Aims {
    /// Returns what a job of a trace says: a duration counts from the trace's start. What dates mean there nobody knows.
    fn of(job: &Job) -> Self {
        let deadline = match job.deadline {
            Some(Deadline::Within(time)) => Some(Time(time.0)),
            Some(Deadline::At(_)) | None => None,
        };
        Self { urgency: job.urgency, deadline }
    }
}

impl Default for Rounds {
    /// A job that says nothing of it: the whole batch is one task.
    fn default() -> Self {
        Self { scale: 1, predicted: 0, losses: Vec::new(), model: String::new() }
    }
}

impl Host {
    /// Returns for how many ranks with these needs there is room, when no job of the problem has any.
    pub(super) fn ranks(self, needs: RankNeeds) -> u64 {
        needs.ranks(self.cpus.map(|room| room.free), self.memory.map(|room| room.free))
    }
}

impl WorkerNode {
    /// Returns a node with these GPUs on offer, of which nobody holds any.
    #[must_use]
    pub fn on_offer(name: NodeName, gpus: Vec<u32>, intra_node: BitRate) -> Self {
        Self { name, up: gpus.clone(), gpus, intra_node, host: None }
    }
}

impl JobModel {
    /// Returns what its reader should know of the types on offer, one sentence each; `problem` is its own.
    #[must_use]
    pub fn notes(&self, problem: &Problem) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        for (_, remark) in &self.remarks {
            // What is true of a type is said once, however many parts it has.
            if !notes.contains(remark) {
                notes.push(remark.clone());
            }
        }
        notes.extend(measured(&self.sources, &problem.gpu_types));
        notes
    }

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

    pub(super) fn new(
        job: &Job,
        parts: &Parts,
        refusal: &dyn Fn(&Part) -> Option<Refusal>,
        offered: &[u32],
        row: &[Cell],
    ) -> Self {
        let (mut remarks, mut unusable, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        let mut unlisted = Vec::new();
        let types = parts.list.iter().enumerate().map(|(number, part)| {
            match refusal(part) {
                Some(Refusal::Partition) => {
                    if offered[number] > 0 {
                        unusable.push((number, Misfit::Partition));
                    }
                    return None;
                }
                Some(Refusal::Needs(what)) => {
                    unusable.push((number, Misfit::Needs(what)));
                    return None;
                }
                None => {}
            }
            let ty = &part.gpu_type;
            match &row[part.column] {
                Cell::Known(Known { speed, source, max_batch, is_listed, remarks: own }) => {
                    if offered[number] > 0 {
                        remarks.extend(own.iter().map(|remark| (number, remark.clone())));
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
                    unusable.push((number, Misfit::Speed(*reason)));
                    // What the job file itself leaves out is no news to its reader.
                    if *reason != Unusable::NotAllowed {
                        remarks.push((number, format!("{ty} not used: {reason}")));
                    }
                }
                Cell::Unusable(_) => {}
            }
            None
        });
        let types = types.collect();
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
            asks: job.gpus.unwrap_or(job.min_gpus),
            accumulate: job.accumulate,
            types,
            unusable,
            sources,
            unlisted,
            remarks,
            rounds: Rounds {
                scale: job.sync_scale,
                predicted: job.predicted_epochs,
                losses: job.losses.clone(),
                model: job.model.clone(),
            },
            aims: Aims::of(job),
            may_use: parts.list.iter().map(|part| refusal(part).is_none()).collect(),
            needs: RankNeeds::default(),
            standing: Standing::of_epochs(job.epochs),
        }
    }
}

/// Returns a note that names the types whose speeds were measured, and how sure they are.
fn measured(sources: &[(usize, Source)], gpu_types: &[GpuType]) -> Option<String> {
    let measured = sources.iter().filter(|(_, source)| matches!(source, Source::Measured(_)));
    let mut types: Vec<String> =
        measured.map(|(number, source)| format!("{} {source}", gpu_types[*number])).collect();
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
