//! The best speed of a job, and its speed with the requested GPUs: the references for slowdowns and loads.

use std::collections::BTreeMap;

use crate::pricing::{Pricer, Rings};
use crate::{JobModel, Problem, TypeModel, WorkerNode, cost};
use hsched_model::number::to_f64;

/// Speeds of jobs of one kind on a whole cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Pace {
    /// Seconds per epoch on the GPUs with which the job would end soonest; `None` if it can run nowhere.
    pub fastest: Option<f64>,
    /// Seconds per epoch on the requested number of GPUs of each type; `None` if that is impossible.
    pub asked: Vec<Option<f64>>,
    /// Samples per second of one GPU of each type with its share of the request; for replicas, per GPU of the
    /// replica.
    pub single: Vec<Option<f64>>,
}

/// The paces of some jobs, each kind stored once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Paces {
    kinds: Vec<Pace>,
    of_job: Vec<usize>,
}

impl Paces {
    /// Returns the paces of jobs on the GPUs of a problem.
    pub fn new<'a>(problem: &Problem, jobs: impl Iterator<Item = &'a JobModel>) -> Self {
        let mut known: BTreeMap<Vec<u64>, usize> = BTreeMap::new();
        let rings = Rings::new(problem);
        let mut paces = Self::default();
        for job in jobs {
            let kind = *known.entry(key(job)).or_insert_with(|| {
                paces.kinds.push(Pace::new(problem, &rings, job));
                paces.kinds.len() - 1
            });
            paces.of_job.push(kind);
        }
        paces
    }

    /// Returns the pace of a job, by its index.
    pub fn of(&self, job: usize) -> &Pace {
        &self.kinds[self.of_job[job]]
    }
}

impl Pace {
    fn new(problem: &Problem, rings: &Rings, job: &JobModel) -> Self {
        let one = JobModel { epochs: 1, ..job.clone() };
        let offered = problem.offered();
        let free = vec![0.0; offered.len()];
        let fastest = Pricer::alone(problem, rings, &one).cheapest(&free, 1e-9, None);
        let largest = |ty: usize| problem.nodes.iter().map(|node| node.gpus[ty]).max().unwrap_or(0);
        let types = 0..offered.len();
        let asked = types.clone().map(|ty| asked_epoch(problem, job, ty, offered[ty], largest(ty)));
        let part = to_f64(job.global_batch) / f64::from(job.asks.max(1));
        let single = types.map(|ty| {
            job.types[ty].map(|type_model| type_model.speed.rate_at(part) / f64::from(job.size(ty)))
        });
        Self {
            fastest: fastest.map(|found| found.bundle.cost),
            asked: asked.collect(),
            single: single.collect(),
        }
    }
}

/// Returns the seconds per epoch on the requested number of GPUs of one type: on one node if a node has
/// enough; `None` if there are too few, or the job cannot run on them.
///
/// There are `total` GPUs of the type, at most `largest` on a node. A job with replicas requests replicas.
pub(super) fn asked_epoch(
    problem: &Problem,
    job: &JobModel,
    gpu_type: usize,
    total: u32,
    largest: u32,
) -> Option<f64> {
    let (asks, size) = (job.asks, job.size(gpu_type));
    let whole = |node: &WorkerNode| node.gpus[gpu_type] / size;
    let total = if job.needs_blocks() { problem.nodes.iter().map(whole).sum() } else { total / size };
    let largest = largest / size;
    if asks == 0 || total < asks {
        return None;
    }
    let several = problem.nodes.iter().filter(|node| whole(node) >= asks.min(largest).min(2));
    let inside = several.map(|node| node.intra_node.bytes_per_second()).fold(0.0, f64::max);
    let network = problem.network.bytes_per_second();
    let ring = match largest {
        largest if largest >= asks => inside,
        0 | 1 => network,
        _ => network.min(inside),
    };
    let mut counts = vec![0; problem.gpu_types.len()];
    counts[gpu_type] = asks;
    Some(cost::compute_time(job, &counts)? + cost::comm_time(job, asks, ring))
}

/// Returns all inputs of a job's speed: jobs with equal keys are of one kind.
pub(super) fn key(model: &JobModel) -> Vec<u64> {
    let mut key = vec![
        model.samples_per_epoch,
        model.global_batch,
        model.batch_quantum,
        model.model_bytes.to_bits(),
        model.syncs_per_epoch.to_bits(),
        model.overlap.to_bits(),
        model.asks.into(),
        model.min_gpus.into(),
        model.max_gpus.into(),
        model.accumulate.into(),
        model.needs.cpus,
        model.needs.memory,
    ];
    model.types.iter().for_each(|type_model| TypeModel::add_key(type_model.as_ref(), &mut key));
    key.extend(model.replica_key());
    key
}
