//! Explains a plan: the value of its GPUs, and the effect of other GPUs on each job.
//!
//! This module uses the formulas of planning and makes no decisions.

use std::collections::BTreeMap;

use crate::alternative::{one_node, one_type};
use crate::explanation::ROUNDING;
use crate::pricing::{Pricer, Rings};
use crate::replica::NodeShapes;
use crate::{
    Alternative, Bound, CheckedPlan, Explanation, GpuCountEffect, JobExplanation, JobModel, Obstacle,
    Placement, PlacementLimit, Problem, ReplicaExplanation, Sharing, Slot, TypeExplanation, TypeMarket,
    Verdict, cost,
};

/// Explains a plan's verdicts on `jobs` at the prices of `bound`, which covers all jobs that the plan places.
pub fn explain(problem: &Problem, plan: &CheckedPlan, bound: Option<&Bound>, jobs: &[usize]) -> Explanation {
    let mut free: Vec<Vec<u32>> = problem.nodes.iter().map(|node| node.gpus.clone()).collect();
    let placements = || plan.verdicts().iter().filter_map(Verdict::placement);
    for slot in placements().flat_map(|placement| &placement.slots) {
        free[slot.node][slot.gpu_type] -= slot.count;
    }
    let market = |(ty, offered): (usize, u32)| TypeMarket {
        offered,
        free: free.iter().map(|node| node[ty]).sum(),
        price: bound.map(|bound| bound.prices[ty]),
        replica_prices: bound.and_then(|bound| bound.replica_prices.get(ty).cloned()).unwrap_or_default(),
    };
    let types: Vec<TypeMarket> = problem.offered().into_iter().enumerate().map(market).collect();
    let placed = plan.verdicts().iter().enumerate().filter(|(_, verdict)| verdict.placement().is_some());
    let weights = bound.iter().flat_map(|bound| bound.weights.iter().copied());
    let weights: BTreeMap<usize, f64> = placed.map(|(job, _)| job).zip(weights).collect();
    let job = |&job: &usize| {
        let view = JobSurroundings { problem, job: &problem.jobs[job], number: job, free: &free };
        let prices = bound.map(|_| types.as_slice());
        view.explain(plan.verdicts()[job].placement(), prices.zip(weights.get(&job).copied()))
    };
    let jobs = jobs.iter().map(job).collect();
    Explanation { types, jobs }
}

/// One job, and the GPUs available to it.
struct JobSurroundings<'a> {
    problem: &'a Problem,
    job: &'a JobModel,
    number: usize,
    /// Unused GPUs, by node and type.
    free: &'a [Vec<u32>],
}

impl JobSurroundings<'_> {
    /// Explains a verdict; `bound` has the prices and the weight of a placed job.
    fn explain(&self, placement: Option<&Placement>, bound: Option<(&[TypeMarket], f64)>) -> JobExplanation {
        let mut counts = vec![0; self.problem.gpu_types.len()];
        let mut now = self.free.to_vec();
        for slot in placement.iter().flat_map(|placement| &placement.slots) {
            counts[slot.gpu_type] += slot.count;
            now[slot.node][slot.gpu_type] += slot.count;
        }
        let offer: Vec<Vec<u32>> = self.problem.nodes.iter().map(|node| node.gpus.clone()).collect();
        let of_type = |ty: usize| TypeExplanation {
            more: placement.map(|placement| self.one_more(placement, &counts, ty)),
            fewer: placement
                .filter(|_| counts[ty] > 0)
                .map(|placement| self.one_fewer(placement, &counts, ty)),
            alone: one_type(self.problem, self.job, ty, &offer).ok_or_else(|| self.never(ty)),
            alone_now: one_type(self.problem, self.job, ty, &now),
        };
        let types: Vec<TypeExplanation> = (0..counts.len()).map(of_type).collect();
        let sharing = placement.map_or(Sharing::Balanced, |placement| placement.sharing);
        JobExplanation {
            job: self.number,
            jct: placement.map(|placement| placement.jct(self.job.epochs).0),
            weight: bound.map(|(_, weight)| weight),
            choice: bound.and_then(|(market, weight)| self.choice(market, weight)),
            one_node: one_node(self.problem, self.job, sharing, &offer),
            one_node_now: one_node(self.problem, self.job, sharing, &now),
            limits: placement.map(|placement| self.limits(placement, &counts, &types)).unwrap_or_default(),
            types,
            counts,
            replicas: self.replicas(),
        }
    }

    /// Returns how GPUs form replicas; empty if each GPU is one.
    fn replicas(&self) -> Vec<ReplicaExplanation> {
        if !self.job.has_several_gpus() {
            return Vec::new();
        }
        let of_type = |ty: usize| {
            let block = self.job.block(ty);
            let free = || self.free.iter().map(|node| node[ty]);
            ReplicaExplanation {
                size: self.job.size(ty),
                block,
                left_over: free().filter(|count| *count < block).sum(),
                most_free: free().max().unwrap_or(0),
            }
        };
        (0..self.problem.gpu_types.len()).map(of_type).collect()
    }

    /// Returns the job's choice at prices in weighted seconds.
    fn choice(&self, market: &[TypeMarket], weight: f64) -> Option<Alternative> {
        let of_replica = |(ty, type_market): (usize, &TypeMarket)| {
            let whole = type_market.replica_prices.get(&self.job.block(ty)).copied();
            Some(whole.unwrap_or(type_market.price? * f64::from(self.job.size(ty))) / weight)
        };
        let prices: Vec<f64> = market.iter().enumerate().map(of_replica).collect::<Option<_>>()?;
        let mut pricer = Pricer::alone(self.problem, &Rings::new(self.problem), self.job);
        let priced = pricer.cheapest(&prices, ROUNDING, None)?;
        let counts = self.job.gpus(&priced.bundle.counts);
        Some(Alternative { counts, node: None, jct: priced.bundle.cost })
    }

    fn one_more(&self, placement: &Placement, counts: &[u32], ty: usize) -> GpuCountEffect {
        let (size, block) = (self.job.size(ty), self.job.block(ty));
        let mut bundle = counts.to_vec();
        bundle[ty] += size;
        if let Some(obstacle) = self.cannot_use(ty) {
            return GpuCountEffect::Not(obstacle);
        }
        if counts[ty] == self.problem.nodes.iter().map(|node| node.gpus[ty]).sum::<u32>() {
            return GpuCountEffect::Not(Obstacle::HasAll);
        }
        let free = if self.job.is_loose() {
            self.free.iter().map(|node| node[ty]).sum::<u32>() >= size
        } else {
            self.free.iter().any(|node| node[ty] >= block)
        };
        let counts_on = |node: usize| {
            let here = placement.slots.iter().filter(|slot| slot.node == node);
            here.map(|slot| (slot.count, if slot.gpu_type == ty { slot.count } else { 0 }))
                .fold((0, 0), |(all, same), (a, s)| (all + a, same + s))
        };
        // A ring depends only on a node's links, and on whether none, one or more of its ranks are there.
        let mut kinds: BTreeMap<(u32, u64), usize> = BTreeMap::new();
        for (node, gpus) in self.problem.nodes.iter().enumerate() {
            let (ranks, same) = counts_on(node);
            if if free { self.free[node][ty] >= block } else { gpus.gpus[ty] >= same + block } {
                kinds.entry((ranks.min(2), gpus.intra_node.bytes_per_second().to_bits())).or_insert(node);
            }
        }
        if kinds.is_empty() && self.job.needs_blocks() {
            return GpuCountEffect::Not(Obstacle::NoNode { size });
        }
        let with = |node: usize| {
            let mut slots = placement.slots.clone();
            match slots.iter_mut().find(|slot| (slot.node, slot.gpu_type) == (node, ty)) {
                Some(slot) => slot.count += size,
                None => slots.push(Slot { node, gpu_type: ty, count: size }),
            }
            slots
        };
        self.best(placement, kinds.into_values().map(with), free, &bundle)
    }

    fn one_fewer(&self, placement: &Placement, counts: &[u32], ty: usize) -> GpuCountEffect {
        let size = self.job.size(ty);
        let mut bundle = counts.to_vec();
        bundle[ty] -= size;
        if bundle.iter().sum::<u32>() == 0 {
            let is_replica = self.job.has_several_gpus();
            return GpuCountEffect::Not(if is_replica { Obstacle::OnlyReplica } else { Obstacle::OnlyGpu });
        }
        let mut kinds: BTreeMap<(u32, u64), usize> = BTreeMap::new();
        for (place, slot) in placement.slots.iter().enumerate().filter(|(_, slot)| slot.gpu_type == ty) {
            let here = placement.slots.iter().filter(|other| other.node == slot.node);
            let ranks: u32 = here.map(|other| other.count).sum();
            let rate = self.problem.nodes[slot.node].intra_node.bytes_per_second();
            kinds.entry((ranks.min(3), rate.to_bits())).or_insert(place);
        }
        let without = |place: usize| {
            let mut slots = placement.slots.clone();
            let mut left = size;
            // A replica may span several nodes.
            for at in (place..slots.len()).chain(0..place) {
                let taken = if slots[at].gpu_type == ty { slots[at].count.min(left) } else { 0 };
                slots[at].count -= taken;
                left -= taken;
            }
            slots.retain(|slot| slot.count > 0);
            slots
        };
        self.best(placement, kinds.into_values().map(without), true, &bundle)
    }

    /// Returns the lowest completion time over several slot lists with the same bundle, or the obstacle if
    /// none is legal.
    fn best(
        &self,
        placement: &Placement,
        choices: impl Iterator<Item = Vec<Slot>>,
        free: bool,
        bundle: &[u32],
    ) -> GpuCountEffect {
        let count = self.job.replicas_in(bundle).iter().sum();
        if !(self.job.min_gpus..=self.job.max_gpus).contains(&count) {
            return GpuCountEffect::Not(self.obstacle(bundle));
        }
        let time = |slots: Vec<Slot>| {
            let other = Placement::new(self.problem, self.number, &slots, placement.sharing)?;
            Some(other.jct(self.job.epochs).0)
        };
        match choices.filter_map(time).min_by(f64::total_cmp) {
            Some(jct) => GpuCountEffect::Jct { jct, free },
            None => GpuCountEffect::Not(self.obstacle(bundle)),
        }
    }

    fn cannot_use(&self, ty: usize) -> Option<Obstacle> {
        if self.problem.nodes.iter().all(|node| node.gpus[ty] == 0) {
            return Some(Obstacle::NotOffered { ever: self.problem.ceiling[ty] });
        }
        let reason = self.job.unusable.iter().find(|(other, _)| *other == ty);
        let unusable = self.job.types[ty].is_none();
        unusable
            .then(|| Obstacle::Unusable(reason.map_or_else(String::new, |(_, reason)| reason.to_string())))
    }

    /// Returns why no number of GPUs of a single type is legal.
    fn never(&self, ty: usize) -> Obstacle {
        self.cannot_use(ty).unwrap_or_else(|| {
            let most = self.job.most_replicas(&NodeShapes::offered(self.problem));
            let (offered, size) = (most[ty], self.job.size(ty));
            if offered == 0 {
                return Obstacle::NoNode { size };
            }
            let mut bundle = vec![0; self.problem.gpu_types.len()];
            bundle[ty] = offered.min(self.job.max_gpus);
            if bundle[ty] >= self.job.min_gpus && self.job.types[ty].is_some_and(|model| !model.single_rank) {
                // If shares are too small, the smallest number of GPUs is nearest to legal; if memory is too
                // small, the largest number.
                bundle[ty] =
                    if cost::holds_batch(self.job, &bundle) { self.job.min_gpus } else { bundle[ty] };
            }
            self.obstacle(&self.job.gpus(&bundle))
        })
    }

    /// Returns the rule that a bundle of usable types violates.
    fn obstacle(&self, gpus: &[u32]) -> Obstacle {
        let JobModel { min_gpus, max_gpus, batch_quantum: quantum, .. } = *self.job;
        let bundle = &self.job.replicas_in(gpus);
        let count: u32 = bundle.iter().sum();
        let used = bundle.iter().zip(&self.job.types).filter(|(count, _)| **count > 0);
        if count < min_gpus && self.job.replica.is_some() {
            Obstacle::MinReplicas { least: min_gpus }
        } else if count < min_gpus {
            Obstacle::MinGpus { least: min_gpus }
        } else if count > 1 && used.filter_map(|(_, model)| *model).any(|model| model.single_rank) {
            Obstacle::Slice
        } else if count > max_gpus {
            self.most()
        } else if !cost::holds_batch(self.job, bundle) {
            Obstacle::Memory
        } else {
            Obstacle::SmallShare { quantum }
        }
    }

    /// Returns the limit on the number of GPUs.
    fn most(&self) -> Obstacle {
        let JobModel { max_gpus: most, global_batch: batch, batch_quantum: quantum, .. } = *self.job;
        let by_batch = u64::from(most) == batch / quantum;
        if self.job.replica.is_some() {
            return Obstacle::MaxReplicas { most, batch: by_batch.then_some(batch) };
        }
        if by_batch { Obstacle::Quanta { most, quantum, batch } } else { Obstacle::MaxGpus { most } }
    }

    fn limits(
        &self,
        placement: &Placement,
        counts: &[u32],
        types: &[TypeExplanation],
    ) -> Vec<PlacementLimit> {
        let jct = placement.jct(self.job.epochs).0;
        let ranks: u32 = self.job.replicas_in(counts).iter().sum();
        let mut limits = Vec::new();
        if ranks == self.job.max_gpus {
            limits.push(PlacementLimit::Most(self.most()));
        }
        if ranks == self.job.min_gpus && ranks > 1 {
            limits.push(PlacementLimit::Least { least: ranks });
        }
        let mut possible = false;
        let mut helps = false;
        for (gpu_type, explanation) in types.iter().enumerate() {
            match &explanation.more {
                Some(GpuCountEffect::Jct { jct: other, free }) => {
                    possible = true;
                    let gain = *other < jct * (1.0 - ROUNDING);
                    helps |= gain;
                    if gain && !free {
                        limits.push(PlacementLimit::Taken { gpu_type });
                    }
                }
                Some(GpuCountEffect::Not(
                    obstacle @ (Obstacle::Slice | Obstacle::SmallShare { .. } | Obstacle::Memory),
                )) => limits.push(PlacementLimit::Illegal { gpu_type, obstacle: obstacle.clone() }),
                _ => {}
            }
        }
        if possible && !helps {
            limits.push(PlacementLimit::NoGain);
        }
        limits.extend(self.accumulation(placement, counts));
        limits
    }

    fn accumulation(&self, placement: &Placement, counts: &[u32]) -> Vec<PlacementLimit> {
        let of_type = |gpu_type: usize| {
            let memory = self.job.types[gpu_type]?.max_batch?;
            let on_type = placement.ranks.iter().filter(|rank| rank.gpu_type == gpu_type);
            let batch = on_type.map(|rank| rank.batch).max()?;
            let micro_batches = batch.div_ceil(memory);
            (micro_batches > 1).then_some(PlacementLimit::Accumulation {
                gpu_type,
                micro_batches,
                batch,
                memory,
            })
        };
        (0..counts.len()).filter_map(of_type).collect()
    }
}
