//! The time of a job on a bundle of GPUs: computation with the best, equal or given shares of the batch, and
//! communication.

use std::collections::BTreeMap;

use crate::steps::Steps;
use crate::{JobModel, Problem, Sharing, Slot, TypeModel};
use hsched_model::BitRate;
use hsched_model::number::to_f64;

/// Seconds of one epoch, split into computation and visible communication.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EpochTime {
    pub compute: f64,
    pub comm: f64,
}

impl EpochTime {
    /// Returns the length of the epoch.
    pub fn total(self) -> f64 {
        self.compute + self.comm
    }
}

/// Relative rounding error up to which a share below the quantum is legal.
pub const SHARE_TOLERANCE: f64 = 1e-9;

/// Returns the time of an epoch of `job` on `slots`, or `None` if that is illegal.
pub(super) fn epoch_time(
    problem: &Problem,
    job: &JobModel,
    slots: &[Slot],
    sharing: Sharing,
) -> Option<EpochTime> {
    let bundle = job.replicas_by_type(slots)?;
    let compute = match sharing {
        Sharing::Balanced => compute_time(job, &bundle)?,
        Sharing::Equal => equal_compute_time(job, &bundle)?,
    };
    let ranks = bundle.iter().sum();
    Some(EpochTime { compute, comm: comm_time(job, ranks, ring_rate(problem, job, slots)) })
}

/// Returns the time of an epoch on `slots` if each rank keeps its batch, which `ranks` gives as GPU type and
/// samples. The slowest rank determines the time. `None` if a speed is unknown, or if GPUs are left over.
pub fn epoch_as_shared(
    problem: &Problem,
    job: &JobModel,
    ranks: &[(usize, u64)],
    slots: &[Slot],
) -> Option<EpochTime> {
    let mut slowest = 0.0_f64;
    for &(gpu_type, batch) in ranks {
        let model = job.types.get(gpu_type).copied().flatten()?;
        slowest = slowest.max(model.speed.step(batch, model.max_batch));
    }
    let (batch, samples) = (to_f64(job.global_batch), to_f64(job.samples_per_epoch));
    let count = job.replicas_by_type(slots)?.iter().sum();
    Some(EpochTime {
        compute: samples / batch * slowest,
        comm: comm_time(job, count, ring_rate(problem, job, slots)),
    })
}

/// Returns the computation time of an epoch on `bundle` (replicas by type), or `None` if it is illegal.
pub(super) fn compute_time(job: &JobModel, bundle: &[u32]) -> Option<f64> {
    if job.sharing == Sharing::Equal {
        return equal_compute_time(job, bundle);
    }
    let (mut ranks, mut rate, mut slowest) = (0, 0.0, f64::INFINITY);
    let mut linear = true;
    for (&count, model) in bundle.iter().zip(&job.types) {
        if count == 0 {
            continue;
        }
        let model = model.as_ref()?;
        ranks += count;
        if model.single_rank && ranks > 1 {
            return None;
        }
        linear &= model.speed.alpha() == 0.0 && (job.accumulate || model.max_batch.is_none());
        let type_rate = model.speed.rate_at(1.0);
        rate += f64::from(count) * type_rate;
        slowest = slowest.min(type_rate);
    }
    let has_slice = bundle.iter().zip(&job.types).any(|(&n, m)| n > 0 && m.is_some_and(|m| m.single_rank));
    if ranks == 0 || (has_slice && ranks > 1) {
        return None;
    }
    let (batch, samples, quantum) =
        (to_f64(job.global_batch), to_f64(job.samples_per_epoch), to_f64(job.batch_quantum));
    if linear {
        let legal = slowest * batch >= quantum * rate * (1.0 - SHARE_TOLERANCE);
        return legal.then_some(samples / rate);
    }
    if !holds_batch(job, bundle) {
        return None;
    }
    let step = step_time(job, bundle)?;
    let enough = |(&count, model): (&u32, &Option<TypeModel>)| {
        count == 0 || model.is_some_and(|m| enough(job, m, step))
    };
    bundle.iter().zip(&job.types).all(enough).then_some(samples / batch * step)
}

/// Returns the computation time of an epoch on `bundle` with equal shares, set by the slowest GPU; `None` if
/// the bundle is illegal.
fn equal_compute_time(job: &JobModel, bundle: &[u32]) -> Option<f64> {
    let ranks: u32 = bundle.iter().sum();
    if ranks == 0 || (job.sharing == Sharing::Equal && !holds_equal_parts(job, bundle)) {
        return None;
    }
    let (batch, samples, quantum) =
        (to_f64(job.global_batch), to_f64(job.samples_per_epoch), to_f64(job.batch_quantum));
    let local_batch = batch / f64::from(ranks);
    let mut slowest: Option<f64> = None;
    for (_, model) in bundle.iter().zip(&job.types).filter(|(count, _)| **count > 0) {
        let model = model.as_ref()?;
        let memory = model.max_batch.map_or(f64::INFINITY, to_f64);
        if (model.single_rank && ranks > 1) || (local_batch > memory && !job.accumulate) {
            return None;
        }
        let step = model.speed.alpha() * (local_batch / memory).max(1.0) + model.speed.beta() * local_batch;
        slowest = Some(slowest.map_or(step, |other| other.max(step)));
    }
    let legal = local_batch >= quantum * (1.0 - SHARE_TOLERANCE);
    slowest.filter(|_| legal).map(|step| samples / batch * step)
}

/// Returns whether the GPUs can hold the global batch in equal shares of whole quanta.
fn holds_equal_parts(job: &JobModel, bundle: &[u32]) -> bool {
    let ranks: u64 = bundle.iter().map(|&count| u64::from(count)).sum();
    let quanta = job.global_batch / job.batch_quantum;
    let largest = quanta.div_ceil(ranks) * job.batch_quantum;
    let mut used = bundle.iter().zip(&job.types).filter(|(count, _)| **count > 0);
    let fits = |model: &Option<TypeModel>| {
        model.is_some_and(|model| model.max_batch.is_none_or(|memory| largest <= memory))
    };
    ranks <= quanta && (job.accumulate || used.all(|(_, model)| fits(model)))
}

/// Returns whether the GPUs can hold the global batch: always with micro-batches, otherwise in whole quanta,
/// at least one per GPU.
pub(super) fn holds_batch(job: &JobModel, bundle: &[u32]) -> bool {
    if job.accumulate {
        return true;
    }
    let mut room = 0_u64;
    for (&count, model) in bundle.iter().zip(&job.types).filter(|(count, _)| **count > 0) {
        let memory = model.and_then(|model| model.max_batch).unwrap_or(u64::MAX);
        if memory < job.batch_quantum {
            return false;
        }
        room = room.saturating_add(u64::from(count).saturating_mul(memory - memory % job.batch_quantum));
    }
    room >= job.global_batch
}

/// Returns τ, the time of the best real-valued split of the global batch; `None` when the GPUs cannot hold
/// it.
pub(super) fn step_time(job: &JobModel, bundle: &[u32]) -> Option<f64> {
    let types = job.types.iter().zip(bundle).enumerate();
    let used = types.filter_map(|(ty, (model, &count))| model.filter(|_| count > 0).map(|model| (ty, model)));
    Steps::new(job, used).time(bundle)
}

/// Returns the real-valued samples that a GPU takes in a step of `step` seconds: clamp(t⁻¹(τ), 0, c), or more
/// than c with micro-batches.
pub(super) fn share(job: &JobModel, model: TypeModel, step: f64) -> f64 {
    let (alpha, beta) = (model.speed.alpha(), model.speed.beta());
    let Some(memory) = model.max_batch else {
        return ((step - alpha) / beta).max(0.0);
    };
    let memory = to_f64(memory);
    if step <= alpha + beta * memory {
        ((step - alpha) / beta).max(0.0)
    } else if job.accumulate {
        step / (alpha / memory + beta)
    } else {
        memory
    }
}

/// Returns whether a GPU's share in a step of `step` seconds is at least one quantum.
pub(super) fn enough(job: &JobModel, model: TypeModel, step: f64) -> bool {
    share(job, model, step) >= to_f64(job.batch_quantum) * (1.0 - SHARE_TOLERANCE)
}

/// Returns the real-valued share of the global batch per rank for each type, 0 for unused types.
pub(super) fn shares(job: &JobModel, bundle: &[u32]) -> Option<Vec<f64>> {
    let step = step_time(job, bundle)?;
    let of = |(&count, model): (&u32, &Option<TypeModel>)| match model {
        Some(model) if count > 0 => share(job, *model, step),
        _ => 0.0,
    };
    Some(bundle.iter().zip(&job.types).map(of).collect())
}

/// Returns the visible communication of an epoch: (1 − φ) · `n_sync` · 2 (K − 1) D / (K · r), eq. 6.
///
/// `ring` is the slowest link in bytes per second.
pub fn comm_time(job: &JobModel, ranks: u32, ring: f64) -> f64 {
    if ranks <= 1 {
        return 0.0;
    }
    let ranks = f64::from(ranks);
    (1.0 - job.overlap) * job.syncs_per_epoch * 2.0 * (ranks - 1.0) * job.model_bytes / (ranks * ring)
}

/// Returns the slowest link of the ring over `slots` in bytes per second (eq. 5).
///
/// The network counts if the ring spans nodes, and a node's internal links if two or more ranks are on it.
fn ring_rate(problem: &Problem, job: &JobModel, slots: &[Slot]) -> f64 {
    if job.needs_blocks() || job.is_loose() {
        return ring_rate_of_replicas(problem, job, slots);
    }
    let first = slots.first().map_or(0, |slot| slot.node);
    let mut rate = f64::INFINITY;
    if slots.iter().any(|slot| slot.node != first) {
        rate = problem.network.bytes_per_second();
    }
    for slot in slots {
        let on_node: u32 =
            slots.iter().filter(|other| other.node == slot.node).map(|other| other.count).sum();
        if on_node >= 2 {
            rate = rate.min(problem.nodes[slot.node].intra_node.bytes_per_second());
        }
    }
    rate
}

/// Returns the slowest link of the ring of replicas on `slots`; a node's internal links count if two replicas
/// meet there.
fn ring_rate_of_replicas(problem: &Problem, job: &JobModel, slots: &[Slot]) -> f64 {
    let placed = job.placed(slots).unwrap_or_default();
    let mut meet: BTreeMap<usize, u32> = BTreeMap::new();
    for (node, _) in placed.iter().flat_map(|replica| &replica.parts) {
        *meet.entry(*node).or_default() += 1;
    }
    let across = (meet.len() > 1).then_some(problem.network);
    let inside =
        meet.iter().filter(|(_, count)| **count > 1).map(|(&node, _)| problem.nodes[node].intra_node);
    across.into_iter().chain(inside).map(BitRate::bytes_per_second).fold(f64::INFINITY, f64::min)
}
