//! Integer shares: the GPU of each rank, and its samples of each global batch.
//!
//! Among all splits into whole quanta, the one whose slowest rank is fastest is chosen; of equal ones, the
//! one with the lexicographically smallest sorted rank times, then the one that favours earlier ranks.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::{JobModel, Rank, ReplicaPlacement, Sharing, Slot, TypeModel, blocks, cost};
use hsched_model::number::to_f64;

/// Returns the ranks of a job on `slots`: the largest batch first, ranks of a node consecutive (or ranks of a
/// replica if its GPUs may be on several nodes), and nodes with the same GPUs adjacent. `None` if the GPUs
/// cannot hold the batch in whole quanta.
pub(super) fn ranks(job: &JobModel, slots: &[Slot], sharing: Sharing) -> Option<Vec<Rank>> {
    if !job.needs_blocks() && !job.is_loose() {
        return one_each(job, slots, sharing);
    }
    let placed = job.placed(slots)?;
    // A replica is represented by one rank on its first node until batches are known.
    let mut heads: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    for replica in &placed {
        *heads.entry((replica.parts[0].0, replica.gpu_type)).or_default() += 1;
    }
    let heads: Vec<Slot> =
        heads.into_iter().map(|((node, gpu_type), count)| Slot { node, gpu_type, count }).collect();
    let mut waiting: BTreeMap<(usize, usize), VecDeque<ReplicaPlacement>> = BTreeMap::new();
    for replica in placed {
        waiting.entry((replica.parts[0].0, replica.gpu_type)).or_default().push_back(replica);
    }
    let mut ranks = Vec::new();
    let mut local: BTreeMap<usize, u32> = BTreeMap::new();
    for head in one_each(job, &heads, sharing)? {
        let replica = waiting.get_mut(&(head.node, head.gpu_type))?.pop_front()?;
        let nodes = replica.parts.iter().flat_map(|&(node, count)| (0..count).map(move |_| node));
        for node in nodes {
            let next = local.entry(node).or_default();
            ranks.push(Rank { node, local_rank: *next, ..head });
            *next += 1;
        }
    }
    Some(ranks)
}

/// Returns one rank for each GPU or for each replica's representative.
fn one_each(job: &JobModel, slots: &[Slot], sharing: Sharing) -> Option<Vec<Rank>> {
    let sharing = if job.sharing == Sharing::Equal { Sharing::Equal } else { sharing };
    let mut bundle = vec![0; job.types.len()];
    for slot in slots {
        bundle[slot.gpu_type] += slot.count;
    }
    let (mut ranks, batches) = match sharing {
        Sharing::Balanced => balanced(job, slots, &bundle)?,
        Sharing::Equal => equal(job, slots)?,
    };
    let samples = blocks::samples_by_rank(job.samples_per_epoch, &batches);
    for ((rank, batch), samples) in ranks.iter_mut().zip(batches).zip(samples) {
        (rank.batch, rank.samples) = (batch, samples);
    }
    Some(ranks)
}

/// Ranks in order, and the samples of each in a full batch.
type RankShares = (Vec<Rank>, Vec<u64>);

fn balanced(job: &JobModel, slots: &[Slot], bundle: &[u32]) -> Option<RankShares> {
    let mut preference = cost::shares(job, bundle)?;
    let mut ranks = arrange(slots, &preference);
    let batches = split_batch(job, &ranks)?;
    if batches.iter().max() != batches.first() {
        // Rounding may have made another type's share the largest, so sort by the actual shares.
        preference = vec![0.0; job.types.len()];
        for (rank, &batch) in ranks.iter().zip(&batches) {
            let batch = to_f64(batch);
            preference[rank.gpu_type] = preference[rank.gpu_type].max(batch);
        }
        ranks = arrange(slots, &preference);
    }
    let batches = split_batch(job, &ranks)?;
    Some((ranks, batches))
}

/// Divides the batch equally: fast GPUs come first, and earlier ranks get the remainder.
fn equal(job: &JobModel, slots: &[Slot]) -> Option<RankShares> {
    let rate = |model: &Option<TypeModel>| model.map_or(0.0, |model| model.speed.rate_at(1.0));
    let ranks = arrange(slots, &job.types.iter().map(rate).collect::<Vec<_>>());
    let count = u64::try_from(ranks.len()).ok()?;
    let part = |total: u64, rank: u64| total / count + u64::from(rank < total % count);
    let quanta = job.global_batch / job.batch_quantum;
    let batches: Vec<u64> = (0..count).map(|rank| part(quanta, rank) * job.batch_quantum).collect();
    let fits = |(rank, batch): (&Rank, &u64)| {
        let memory = job.types[rank.gpu_type].and_then(|model| model.max_batch);
        *batch > 0 && (job.accumulate || memory.is_none_or(|memory| *batch <= memory))
    };
    let legal = ranks.iter().zip(&batches).all(fits);
    legal.then_some((ranks, batches))
}

/// Returns ranks in order, without batches: types inside a node by descending `preference`, and nodes by the
/// preference of their best type.
fn arrange(slots: &[Slot], preference: &[f64]) -> Vec<Rank> {
    let by_preference = |a: usize, b: usize| preference[b].total_cmp(&preference[a]).then(a.cmp(&b));
    let mut nodes: Vec<usize> = slots.iter().map(|slot| slot.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut mixes: Vec<(Vec<(usize, u32)>, usize)> = nodes
        .into_iter()
        .map(|node| {
            let on_node = slots.iter().filter(|slot| slot.node == node);
            let mut mix: Vec<(usize, u32)> = on_node.map(|slot| (slot.gpu_type, slot.count)).collect();
            mix.sort_by(|a, b| by_preference(a.0, b.0));
            (mix, node)
        })
        .collect();
    mixes.sort_by(|(a, node_a), (b, node_b)| {
        let best = by_preference(a[0].0, b[0].0);
        best.then_with(|| Reverse(a).cmp(&Reverse(b))).then(node_a.cmp(node_b))
    });
    let of_node = |(mix, node): (Vec<(usize, u32)>, usize)| {
        let types = mix.into_iter().flat_map(|(ty, count)| (0..count).map(move |_| ty));
        let rank = move |(local, gpu_type)| Rank { node, gpu_type, local_rank: local, batch: 0, samples: 0 };
        (0..).zip(types).map(rank).collect::<Vec<_>>()
    };
    mixes.into_iter().flat_map(of_node).collect()
}

/// Returns the samples of each rank in a full global batch.
fn split_batch(job: &JobModel, ranks: &[Rank]) -> Option<Vec<u64>> {
    let quantum = job.batch_quantum;
    let levels = split(job, ranks, job.global_batch / quantum, quantum)?;
    Some(levels.into_iter().map(|level| level * quantum).collect())
}

/// Splits `total` quanta among the ranks, at least one each, so that the slowest rank is as fast as possible.
///
/// A rank's time grows with every quantum, so repeatedly taking the quantum with the smallest resulting time
/// is optimal for the slowest rank. The real-valued split is a safe start that leaves few quanta to assign
/// individually.
fn split(job: &JobModel, ranks: &[Rank], total: u64, quantum: u64) -> Option<Vec<u64>> {
    let model = |rank: &Rank| job.types[rank.gpu_type];
    let models: Option<Vec<TypeModel>> = ranks.iter().map(model).collect();
    let levels = Levels { models: models?, quantum, accumulate: job.accumulate };
    let ones = u64::try_from(ranks.len()).ok()?;
    if ones > total || (0..ranks.len()).any(|rank| levels.time(rank, 1) == f64::INFINITY) {
        return None;
    }
    let start = levels.below(levels.safe_time(total));
    let used: u64 = start.iter().sum();
    let mut counts = if used <= total { start } else { vec![1; ranks.len()] };
    let mut left = total - counts.iter().sum::<u64>();
    let mut next: BinaryHeap<NextSample> =
        (0..ranks.len()).map(|rank| levels.candidate(rank, counts[rank])).collect();
    while left > 0 {
        let best = next.pop()?;
        if best.time == f64::INFINITY {
            return None;
        }
        counts[best.rank] += 1;
        left -= 1;
        next.push(levels.candidate(best.rank, counts[best.rank]));
    }
    Some(counts)
}

/// The times of the ranks as functions of the number of quanta.
struct Levels {
    models: Vec<TypeModel>,
    quantum: u64,
    accumulate: bool,
}

/// The next quantum of a rank.
#[derive(PartialEq)]
struct NextSample {
    /// The rank's time with this quantum.
    time: f64,
    /// The rank's time without this quantum.
    before: f64,
    rank: usize,
}

impl Levels {
    /// Returns the step time of a rank with `count` quanta; infinite if they do not fit into its memory.
    fn time(&self, rank: usize, count: u64) -> f64 {
        let model = self.models[rank];
        let batch = count.saturating_mul(self.quantum);
        if count == 0 {
            return 0.0;
        }
        if !self.accumulate && model.max_batch.is_some_and(|memory| batch > memory) {
            return f64::INFINITY;
        }
        model.speed.step(batch, model.max_batch)
    }

    /// Returns a lower bound for the time of all splits: with real-valued shares, ranks without a limit
    /// finish no later.
    fn safe_time(&self, total: u64) -> f64 {
        let samples = to_f64(total.saturating_mul(self.quantum));
        let slope = |m: &TypeModel| m.speed.beta().recip();
        let rate: f64 = self.models.iter().map(slope).sum();
        let fastest = self.models.iter().map(|m| m.speed.alpha()).fold(f64::INFINITY, f64::min);
        (fastest + samples / rate) * (1.0 - 1e-9)
    }

    /// Returns for each rank the largest number of quanta (at least one) that it finishes within `time`.
    fn below(&self, time: f64) -> Vec<u64> {
        let most = |rank: usize| {
            let (mut low, mut high) = (0, 1);
            while self.time(rank, high) <= time {
                low = high;
                high *= 2;
            }
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if self.time(rank, middle) <= time { low = middle } else { high = middle }
            }
            low.max(1)
        };
        (0..self.models.len()).map(most).collect()
    }

    fn candidate(&self, rank: usize, count: u64) -> NextSample {
        NextSample { time: self.time(rank, count + 1), before: self.time(rank, count), rank }
    }
}

impl Eq for NextSample {}

impl Ord for NextSample {
    /// The greatest candidate is assigned first: the smallest time; of ranks with equal times, the one whose
    /// present time is largest (so that the smaller times of the others stay); then the earlier rank.
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .time
            .total_cmp(&self.time)
            .then(self.before.total_cmp(&other.before))
            .then(other.rank.cmp(&self.rank))
    }
}

impl PartialOrd for NextSample {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use hsched_model::{JobName, Seconds, Speed};

    fn job(types: &[TypeModel], global_batch: u64, batch_quantum: u64, accumulate: bool) -> JobModel {
        JobModel {
            name: JobName::new("job").expect("a name"),
            samples_per_epoch: 100_000,
            epochs: 1,
            global_batch,
            batch_quantum,
            model_bytes: 0.0,
            syncs_per_epoch: 1.0,
            overlap: 0.0,
            weight: 1.0,
            min_gpus: 1,
            max_gpus: 99,
            asks: 1,
            accumulate,
            types: types.iter().copied().map(Some).collect(),
            unusable: Vec::new(),
            sources: Vec::new(),
            unlisted: Vec::new(),
            remarks: Vec::new(),
            rounds: std::sync::Arc::default(),
            aims: crate::Aims::default(),
            may_use: vec![true; types.len()],
            needs: hsched_model::RankNeeds::default(),
            replica: None,
            sharing: Sharing::Balanced,
            progress: crate::Progress::default(),
        }
    }

    fn linear(rate: f64) -> TypeModel {
        TypeModel { speed: Speed::rate(rate).expect("valid"), max_batch: None, single_rank: false }
    }

    /// Returns every split of `total` quanta with at least one for each rank.
    fn splits(ranks: usize, total: u64) -> Vec<Vec<u64>> {
        if ranks == 1 {
            return if total > 0 { vec![vec![total]] } else { Vec::new() };
        }
        let rest =
            |first| splits(ranks - 1, total - first).into_iter().map(move |s| [vec![first], s].concat());
        (1..total).flat_map(rest).collect()
    }

    #[test]
    fn the_contract_example() {
        let job = job(&[linear(275.0), linear(644.0)], 512, 1, true);
        let slots = [Slot { node: 0, gpu_type: 0, count: 2 }, Slot { node: 1, gpu_type: 1, count: 1 }];
        let ranks = ranks(&job, &slots, Sharing::Balanced).expect("legal");
        let facts: Vec<_> = ranks.iter().map(|r| (r.node, r.local_rank, r.batch, r.samples)).collect();
        assert_eq!(facts, [(1, 0, 276, 53_906), (0, 0, 118, 23_047), (0, 1, 118, 23_047)]);
    }

    #[test]
    fn nodes_with_the_same_gpus_are_neighbours_and_equal_ranks_differ_by_their_order_alone() {
        let job = job(&[linear(100.0), linear(200.0)], 57, 1, true);
        let slot = |node, gpu_type, count| Slot { node, gpu_type, count };
        let slots =
            [slot(0, 0, 1), slot(0, 1, 1), slot(1, 1, 2), slot(2, 0, 1), slot(2, 1, 1), slot(3, 1, 2)];
        let ranks = ranks(&job, &slots, Sharing::Balanced).expect("legal");
        assert_eq!(ranks.iter().map(|rank| rank.node).collect::<Vec<_>>(), [1, 1, 3, 3, 0, 0, 2, 2]);
        assert_eq!(ranks.iter().map(|rank| rank.batch).collect::<Vec<_>>(), [9, 8, 8, 8, 8, 4, 8, 4]);
    }

    /// Compares the split of `total * quantum` samples with the best of all splits; types are (alpha, beta,
    /// maximum batch).
    fn check(types: &[(u32, u32, Option<u64>)], counts: &[u32], total: u64, quantum: u64, accumulate: bool) {
        let model = |&(alpha, beta, max_batch): &(u32, u32, Option<u64>)| {
            let speed = Speed::affine(Seconds(f64::from(alpha)), Seconds(f64::from(beta)));
            TypeModel { speed: speed.expect("valid"), max_batch, single_rank: false }
        };
        let models: Vec<TypeModel> = types.iter().map(model).collect();
        let job = job(&models, total * quantum, quantum, accumulate);
        let count = counts.iter().take(types.len()).sum::<u32>() as usize;
        let ranks: Vec<Rank> = (0..types.len())
            .flat_map(|ty| (0..counts[ty]).map(move |_| ty))
            .map(|gpu_type| Rank { node: 0, gpu_type, local_rank: 0, batch: 0, samples: 0 })
            .collect();
        let time = |(rank, batch): (&Rank, &u64)| {
            let model = job.types[rank.gpu_type].expect("usable");
            let too_large = !accumulate && model.max_batch.is_some_and(|most| *batch > most);
            if too_large { f64::INFINITY } else { model.speed.step(*batch, model.max_batch) }
        };
        let times = |batches: &[u64]| {
            let mut times: Vec<f64> = ranks.iter().zip(batches).map(time).collect();
            times.sort_by(|a, b| b.total_cmp(a));
            times
        };
        let scaled = |split: &Vec<u64>| split.iter().map(|level| level * quantum).collect::<Vec<_>>();
        let best = splits(count, total)
            .iter()
            .map(scaled)
            .filter(|batches| times(batches)[0] < f64::INFINITY)
            .min_by(|a, b| times(a).partial_cmp(&times(b)).expect("no NaN").then(b.cmp(a)));
        assert_eq!(split_batch(&job, &ranks), best);
    }

    #[test]
    fn a_split_that_was_once_wrong() {
        check(&[(0, 3, None), (2, 2, None), (0, 2, None)], &[1, 1, 2], 7, 1, false);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]
        #[test]
        fn equals_brute_force(
            types in proptest::collection::vec(
                (0_u32..3, 1_u32..5, proptest::option::weighted(0.4, 1_u64..9)), 1..4),
            counts in proptest::collection::vec(1_u32..3, 3),
            total in 1_u64..11,
            quantum in 1_u64..4,
            accumulate in any::<bool>(),
        ) {
            check(&types, &counts, total, quantum, accumulate);
        }
    }
}
