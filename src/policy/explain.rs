//! Why a plan is as it is: what its GPUs are worth, and what others would do for each job.
//!
//! Everything here is computed by the formulas that plans are made by; nothing is decided.

use std::collections::BTreeMap;
use std::fmt;

use crate::policy::alternative::{Alternative, one_node, one_type};
use crate::policy::pricing::{Pricer, Rings};
use crate::policy::{Bound, CheckedPlan, JobModel, Placement, Problem, Slot, Verdict, cost};

/// What there is to say of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// By GPU type, in the problem's order.
    pub types: Vec<Market>,
    /// The jobs asked for.
    pub jobs: Vec<JobExplanation>,
}

/// One GPU type over all jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Market {
    pub offered: u32,
    /// GPUs on offer that the plan gives to nobody.
    pub free: u32,
    /// Price of a GPU, in weighted seconds of completion time; none where no job is placed.
    pub price: Option<f64>,
}

/// One job of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct JobExplanation {
    /// Number of the job.
    pub job: usize,
    /// Its GPUs by type; all zero where it got none.
    pub counts: Vec<u32>,
    /// Completion time in seconds, where it is placed.
    pub jct: Option<f64>,
    /// Weight of its completion time in the sum that the prices are of, where it is placed.
    pub weight: Option<f64>,
    /// By GPU type.
    pub types: Vec<TypeExplanation>,
    /// What it would choose at the prices if all GPUs on offer were for sale, where it is placed: the GPUs
    /// with the least completion time and price together. Its ring is as fast as some placement could have it.
    pub choice: Option<Alternative>,
    /// What it could do with one node alone, of all that is on offer.
    pub one_node: Option<Alternative>,
    /// What it could do with one node alone, of its own GPUs and the free ones.
    pub one_node_now: Option<Alternative>,
    /// The limits that it stands at.
    pub limits: Vec<Limit>,
}

/// One GPU type for one job.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeExplanation {
    /// What a GPU more would do, where the job is placed.
    pub more: Option<Change>,
    /// What a GPU less would do, where it has one.
    pub fewer: Option<Change>,
    /// What it could do with this type alone, of all that is on offer.
    pub alone: Result<Alternative, Obstacle>,
    /// What it could do with this type alone, of its own GPUs and the free ones.
    pub alone_now: Option<Alternative>,
}

/// What another number of GPUs does to a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Its completion time in seconds with the best choice of node, and whether the GPU is free (or would be).
    Jct { jct: f64, free: bool },
    /// It cannot be.
    Not(Obstacle),
}

/// Why a job cannot have some GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The job cannot use the type, for this reason.
    Unusable(String),
    /// No GPU of the type is on offer; the cluster has so many.
    NotOffered { ever: u32 },
    /// The job has all of the type that are on offer.
    HasAll,
    /// `max_gpus` of the job.
    MaxGpus { most: u32 },
    /// Each rank takes at least a quantum of the batch.
    Quanta { most: u32, quantum: u64, batch: u64 },
    /// `min_gpus` of the job.
    MinGpus { least: u32 },
    /// A job has at least one.
    OnlyGpu,
    /// A MIG slice has to be a job's only rank.
    Slice,
    /// The batch does not fit the memory at once, and the job does not accumulate.
    Memory,
    /// The slowest GPU's share of the batch would be below the quantum.
    SmallShare { quantum: u64 },
}

/// A limit that a placed job stands at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// It has the most GPUs that it may have.
    Most(Obstacle),
    /// It has the fewest.
    Least { least: u32 },
    /// One more GPU of the type would help, and none is free.
    Taken { gpu_type: usize },
    /// Its share of the batch does not fit the GPU at once: so many micro-batches.
    Accumulation { gpu_type: usize, micro_batches: u64, batch: u64, memory: u64 },
    /// One more GPU of the type would be illegal.
    Illegal { gpu_type: usize, obstacle: Obstacle },
    /// One more GPU, of whatever type it may use, would not end it sooner.
    NoGain,
}

/// Gains below this part of a completion time are rounding.
const ROUNDING: f64 = 1e-9;

/// Prices are found by a search, and known to this part at best.
const SAME: f64 = 1e-6;

/// Explains a plan's verdicts on `jobs` at the prices of `bound`, which is over all jobs that the plan places.
#[must_use]
pub fn explain(problem: &Problem, plan: &CheckedPlan, bound: Option<&Bound>, jobs: &[usize]) -> Explanation {
    let mut free: Vec<Vec<u32>> = problem.nodes.iter().map(|node| node.gpus.clone()).collect();
    let placements = || plan.verdicts().iter().filter_map(Verdict::placement);
    for slot in placements().flat_map(|placement| &placement.slots) {
        free[slot.node][slot.gpu_type] -= slot.count;
    }
    let market = |(ty, offered): (usize, u32)| Market {
        offered,
        free: free.iter().map(|node| node[ty]).sum(),
        price: bound.map(|bound| bound.prices[ty]),
    };
    let types = problem.offered().into_iter().enumerate().map(market).collect();
    let placed = plan.verdicts().iter().enumerate().filter(|(_, verdict)| verdict.placement().is_some());
    let weights = bound.iter().flat_map(|bound| bound.weights.iter().copied());
    let weights: BTreeMap<usize, f64> = placed.map(|(job, _)| job).zip(weights).collect();
    let job = |&job: &usize| {
        let view = View { problem, job: &problem.jobs[job], number: job, free: &free };
        let prices = bound.map(|bound| bound.prices.as_slice());
        view.explain(plan.verdicts()[job].placement(), prices.zip(weights.get(&job).copied()))
    };
    Explanation { types, jobs: jobs.iter().map(job).collect() }
}

/// One job and the GPUs around it.
struct View<'a> {
    problem: &'a Problem,
    job: &'a JobModel,
    number: usize,
    /// GPUs that nobody has, by node and type.
    free: &'a [Vec<u32>],
}

impl View<'_> {
    /// Explains a verdict; `bound` has the prices and the job's weight, where it is placed.
    fn explain(&self, placement: Option<&Placement>, bound: Option<(&[f64], f64)>) -> JobExplanation {
        let mut counts = vec![0; self.problem.gpu_types.len()];
        let mut now = self.free.to_vec();
        for slot in placement.iter().flat_map(|placement| &placement.slots) {
            counts[slot.gpu_type] += slot.count;
            now[slot.node][slot.gpu_type] += slot.count;
        }
        let offer: Vec<Vec<u32>> = self.problem.nodes.iter().map(|node| node.gpus.clone()).collect();
        let of_type = |ty: usize| TypeExplanation {
            more: placement.map(|placement| self.one_more(placement, &counts, ty)),
            fewer: placement.filter(|_| counts[ty] > 0).map(|own| self.one_fewer(own, &counts, ty)),
            alone: one_type(self.problem, self.job, ty, &offer).ok_or_else(|| self.never(ty)),
            alone_now: one_type(self.problem, self.job, ty, &now),
        };
        let types: Vec<TypeExplanation> = (0..counts.len()).map(of_type).collect();
        let sharing = placement.map_or(crate::policy::Sharing::Balanced, |placement| placement.sharing);
        JobExplanation {
            job: self.number,
            jct: placement.map(|placement| placement.jct(self.job.epochs).0),
            weight: bound.map(|(_, weight)| weight),
            choice: bound.and_then(|(prices, weight)| self.choice(prices, weight)),
            one_node: one_node(self.problem, self.job, sharing, &offer),
            one_node_now: one_node(self.problem, self.job, sharing, &now),
            limits: placement.map(|own| self.limits(own, &counts, &types)).unwrap_or_default(),
            types,
            counts,
        }
    }

    /// Returns what the job answers to prices (by type, in weighted seconds).
    fn choice(&self, prices: &[f64], weight: f64) -> Option<Alternative> {
        let own: Vec<f64> = prices.iter().map(|price| price / weight).collect();
        let mut pricer = Pricer::new(self.job, &Rings::new(self.problem), &self.problem.offered());
        let priced = pricer.cheapest(&own, ROUNDING, None)?;
        Some(Alternative { counts: priced.bundle.counts, node: None, jct: priced.bundle.cost })
    }

    fn one_more(&self, placement: &Placement, counts: &[u32], ty: usize) -> Change {
        let mut bundle = counts.to_vec();
        bundle[ty] += 1;
        if let Some(obstacle) = self.cannot_use(ty) {
            return Change::Not(obstacle);
        }
        if counts[ty] == self.problem.nodes.iter().map(|node| node.gpus[ty]).sum::<u32>() {
            return Change::Not(Obstacle::HasAll);
        }
        let free = self.free.iter().any(|node| node[ty] > 0);
        let own = |node: usize| {
            let here = placement.slots.iter().filter(|slot| slot.node == node);
            here.map(|slot| (slot.count, if slot.gpu_type == ty { slot.count } else { 0 }))
                .fold((0, 0), |(all, same), (a, s)| (all + a, same + s))
        };
        // A ring sees of a node only its links, and whether none, one or more of its ranks are there.
        let mut kinds: BTreeMap<(u32, u64), usize> = BTreeMap::new();
        for (node, gpus) in self.problem.nodes.iter().enumerate() {
            let (ranks, same) = own(node);
            if if free { self.free[node][ty] > 0 } else { gpus.gpus[ty] > same } {
                kinds.entry((ranks.min(2), gpus.intra_node.bytes_per_second().to_bits())).or_insert(node);
            }
        }
        let with = |node: usize| {
            let mut slots = placement.slots.clone();
            match slots.iter_mut().find(|slot| (slot.node, slot.gpu_type) == (node, ty)) {
                Some(slot) => slot.count += 1,
                None => slots.push(Slot { node, gpu_type: ty, count: 1 }),
            }
            slots
        };
        self.best(placement, kinds.into_values().map(with), free, &bundle)
    }

    fn one_fewer(&self, placement: &Placement, counts: &[u32], ty: usize) -> Change {
        let mut bundle = counts.to_vec();
        bundle[ty] -= 1;
        if bundle.iter().sum::<u32>() == 0 {
            return Change::Not(Obstacle::OnlyGpu);
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
            slots[place].count -= 1;
            slots.retain(|slot| slot.count > 0);
            slots
        };
        self.best(placement, kinds.into_values().map(without), true, &bundle)
    }

    /// Returns the least completion time on one of some slots, all of the same bundle.
    fn best(
        &self,
        placement: &Placement,
        choices: impl Iterator<Item = Vec<Slot>>,
        free: bool,
        bundle: &[u32],
    ) -> Change {
        if !(self.job.min_gpus..=self.job.max_gpus).contains(&bundle.iter().sum()) {
            return Change::Not(self.obstacle(bundle));
        }
        let time = |slots: Vec<Slot>| {
            let other = Placement::new(self.problem, self.number, &slots, placement.sharing)?;
            Some(other.jct(self.job.epochs).0)
        };
        match choices.filter_map(time).min_by(f64::total_cmp) {
            Some(jct) => Change::Jct { jct, free },
            None => Change::Not(self.obstacle(bundle)),
        }
    }

    fn cannot_use(&self, ty: usize) -> Option<Obstacle> {
        if self.problem.nodes.iter().all(|node| node.gpus[ty] == 0) {
            return Some(Obstacle::NotOffered { ever: self.problem.ceiling[ty] });
        }
        let reason = self.job.unusable.iter().find(|(other, _)| *other == ty);
        let unusable = self.job.types[ty].is_none();
        unusable.then(|| Obstacle::Unusable(reason.map_or_else(String::new, |(_, reason)| reason.clone())))
    }

    /// Returns why no number of GPUs of a type alone is legal.
    fn never(&self, ty: usize) -> Obstacle {
        self.cannot_use(ty).unwrap_or_else(|| {
            let offered: u32 = self.problem.nodes.iter().map(|node| node.gpus[ty]).sum();
            let mut bundle = vec![0; self.problem.gpu_types.len()];
            bundle[ty] = offered.min(self.job.max_gpus);
            if bundle[ty] >= self.job.min_gpus && self.job.types[ty].is_some_and(|own| !own.single_rank) {
                // With a share too small the fewest GPUs are the nearest to legal, with memory the most.
                bundle[ty] =
                    if cost::holds_batch(self.job, &bundle) { self.job.min_gpus } else { bundle[ty] };
            }
            self.obstacle(&bundle)
        })
    }

    /// Returns which rule a bundle of usable types breaks.
    fn obstacle(&self, bundle: &[u32]) -> Obstacle {
        let JobModel { min_gpus, max_gpus, batch_quantum: quantum, .. } = *self.job;
        let count: u32 = bundle.iter().sum();
        let used = bundle.iter().zip(&self.job.types).filter(|(count, _)| **count > 0);
        if count < min_gpus {
            Obstacle::MinGpus { least: min_gpus }
        } else if count > 1 && used.filter_map(|(_, own)| *own).any(|own| own.single_rank) {
            Obstacle::Slice
        } else if count > max_gpus {
            self.most()
        } else if !cost::holds_batch(self.job, bundle) {
            Obstacle::Memory
        } else {
            Obstacle::SmallShare { quantum }
        }
    }

    /// Returns what limits the number of GPUs.
    fn most(&self) -> Obstacle {
        let JobModel { max_gpus: most, global_batch: batch, batch_quantum: quantum, .. } = *self.job;
        let by_batch = u64::from(most) == batch / quantum;
        if by_batch { Obstacle::Quanta { most, quantum, batch } } else { Obstacle::MaxGpus { most } }
    }

    fn limits(&self, placement: &Placement, counts: &[u32], types: &[TypeExplanation]) -> Vec<Limit> {
        let jct = placement.jct(self.job.epochs).0;
        let ranks: u32 = counts.iter().sum();
        let mut limits = Vec::new();
        if ranks == self.job.max_gpus {
            limits.push(Limit::Most(self.most()));
        }
        if ranks == self.job.min_gpus && ranks > 1 {
            limits.push(Limit::Least { least: ranks });
        }
        let mut possible = false;
        let mut helps = false;
        for (gpu_type, own) in types.iter().enumerate() {
            match &own.more {
                Some(Change::Jct { jct: other, free }) => {
                    possible = true;
                    let gain = *other < jct * (1.0 - ROUNDING);
                    helps |= gain;
                    if gain && !free {
                        limits.push(Limit::Taken { gpu_type });
                    }
                }
                Some(Change::Not(
                    obstacle @ (Obstacle::Slice | Obstacle::SmallShare { .. } | Obstacle::Memory),
                )) => limits.push(Limit::Illegal { gpu_type, obstacle: obstacle.clone() }),
                _ => {}
            }
        }
        if possible && !helps {
            limits.push(Limit::NoGain);
        }
        limits.extend(self.accumulation(placement, counts));
        limits
    }

    fn accumulation(&self, placement: &Placement, counts: &[u32]) -> Vec<Limit> {
        let of_type = |gpu_type: usize| {
            let memory = self.job.types[gpu_type]?.max_batch?;
            let own = placement.ranks.iter().filter(|rank| rank.gpu_type == gpu_type);
            let batch = own.map(|rank| rank.batch).max()?;
            let micro_batches = batch.div_ceil(memory);
            (micro_batches > 1).then_some(Limit::Accumulation { gpu_type, micro_batches, batch, memory })
        };
        (0..counts.len()).filter_map(of_type).collect()
    }
}

impl JobExplanation {
    /// Returns what so many GPUs of a type cost at the prices, in seconds of this job's own time.
    #[must_use]
    pub fn price(&self, types: &[Market], gpu_type: usize, count: u32) -> Option<f64> {
        Some(f64::from(count) * types[gpu_type].price? / self.weight?)
    }

    /// Returns what GPUs (by type) cost at the prices, in seconds of this job's own time.
    #[must_use]
    pub fn pays(&self, types: &[Market], counts: &[u32]) -> Option<f64> {
        counts.iter().enumerate().map(|(ty, &count)| self.price(types, ty, count)).sum()
    }

    /// Returns by how many seconds one GPU more of a type ends it sooner (negative: later), and whether such a
    /// GPU is free; `None` where it is illegal.
    #[must_use]
    pub fn gain(&self, gpu_type: usize) -> Option<(f64, bool)> {
        self.types[gpu_type].more.as_ref()?.difference(self.jct?)
    }

    /// Returns by how many seconds one GPU fewer of a type ends it later (negative: sooner); `None` where it
    /// is illegal.
    #[must_use]
    pub fn loss(&self, gpu_type: usize) -> Option<f64> {
        let (sooner, _) = self.types[gpu_type].fewer.as_ref()?.difference(self.jct?)?;
        Some(-sooner)
    }

    /// Returns whether one GPU more of a type is worth it: that it ends the job sooner, by more than its price
    /// where it is not free; `None` where it is illegal or has no price.
    #[must_use]
    pub fn is_more_worth_it(&self, types: &[Market], gpu_type: usize) -> Option<bool> {
        let (gain, free) = self.gain(gpu_type)?;
        let price = if free { 0.0 } else { self.price(types, gpu_type, 1)? };
        Some(gain > price * (1.0 + SAME))
    }

    /// Returns whether the job's last GPU of a type saves it at least the price; `None` where it has none to
    /// spare, or there is no price.
    #[must_use]
    pub fn is_last_worth_it(&self, types: &[Market], gpu_type: usize) -> Option<bool> {
        Some(self.loss(gpu_type)? >= self.price(types, gpu_type, 1)? * (1.0 - SAME))
    }

    /// Returns the one type with which it would be done soonest, with what it would do, on all that is on
    /// offer.
    #[must_use]
    pub fn best_type(&self) -> Option<(usize, &Alternative)> {
        let types = self.types.iter().enumerate();
        let able = types.filter_map(|(ty, own)| Some((ty, own.alone.as_ref().ok()?)));
        able.min_by(|a, b| a.1.jct.total_cmp(&b.1.jct))
    }
}

impl Change {
    /// Returns the seconds that it saves against `jct`, 0 where that is rounding, and whether its GPU is free.
    fn difference(&self, jct: f64) -> Option<(f64, bool)> {
        let Self::Jct { jct: other, free } = self else { return None };
        let saved = jct - other;
        Some((if saved.abs() <= jct * ROUNDING { 0.0 } else { saved }, *free))
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable(reason) => f.write_str(reason),
            Self::NotOffered { ever } => write!(f, "none on offer, {ever} in the cluster"),
            Self::HasAll => f.write_str("it has all on offer"),
            Self::MaxGpus { most } => write!(f, "max_gpus is {most}"),
            Self::Quanta { most, quantum: 1, batch } => {
                write!(f, "a batch of {batch} makes {most} ranks at most")
            }
            Self::Quanta { most, quantum, batch } => {
                write!(f, "a batch of {batch} in parts of {quantum} makes {most} ranks at most")
            }
            Self::MinGpus { least } => write!(f, "below min_gpus {least}"),
            Self::OnlyGpu => f.write_str("its only GPU"),
            Self::Slice => f.write_str("a MIG slice is a job's only rank"),
            Self::Memory => f.write_str("too little memory for the batch, and accumulate is false"),
            Self::SmallShare { quantum: 1 } => f.write_str("a share of the batch would be below 1 sample"),
            Self::SmallShare { quantum } => {
                write!(f, "a share of the batch would be below batch_quantum {quantum}")
            }
        }
    }
}
