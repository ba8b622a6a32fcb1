//! Groups of GPUs that are as equal as possible for every job.

use std::collections::BTreeSet;

use crate::hlas::parameters::Grouping;
use hsched_model::number::to_f64;
use hsched_plan::kit::{TaskJob, Tasks};

/// Groups of GPUs by index in [`Tasks::gpus`], each in the order of GPUs.
pub(crate) type Groups = Vec<Vec<usize>>;

/// Maximum number of partitions for an exhaustive search.
const MOST_PARTITIONS: usize = 100_000;

/// Scale of the decimals that distinguish partitions.
const DECIMALS: f64 = 1e9;

/// GPUs of one group by type.
type GroupGpus = Vec<u32>;

/// The basis for comparing groups: the rates of jobs on GPUs by type, without duplicates.
struct Kinds(Vec<Vec<f64>>);

/// Returns the groups of these GPUs.
pub(crate) fn grouping(tasks: &Tasks, grouping: Grouping) -> Groups {
    let nodes: BTreeSet<usize> = tasks.gpus.iter().map(|gpu| gpu.node).collect();
    let of_node = |node: &usize| (0..tasks.gpus.len()).filter(|gpu| tasks.gpus[*gpu].node == *node).collect();
    match grouping {
        Grouping::Gpus => grouped(tasks, tasks.gpus.len()),
        Grouping::Nodes => nodes.iter().map(of_node).collect(),
        Grouping::Number(number) => grouped(tasks, number),
    }
}

/// Returns the seconds that a round of a job takes on an average group; `None` if the job cannot run.
pub(crate) fn round_time(tasks: &Tasks, groups: &Groups, job: &TaskJob) -> Option<f64> {
    job.fastest()?;
    let rates = job.rates();
    let sum: f64 = groups.iter().flatten().map(|gpu| rates[tasks.gpus[*gpu].gpu_type]).sum();
    let (scale, count) = (to_f64(job.scale), to_f64(groups.len()));
    Some(scale / (sum / count))
}

/// Returns `number` groups, or one per GPU if there are fewer GPUs, with the smallest inequality that the
/// search finds: the maximum over jobs of the difference between the fastest and the slowest group, relative
/// to the mean group.
fn grouped(tasks: &Tasks, number: usize) -> Groups {
    let number = number.clamp(1, tasks.gpus.len().max(1));
    let parts = if number == tasks.gpus.len() {
        let one = |(ty, count): (usize, &u32)| vec![single(tasks.counts.len(), ty); *count as usize];
        tasks.counts.iter().enumerate().flat_map(one).collect()
    } else {
        let kinds = Kinds::of(&tasks.jobs);
        exhaustive(&kinds, &tasks.counts, number).unwrap_or_else(|| greedy(&kinds, &tasks.counts, number))
    };
    hand_out(tasks, parts)
}

/// Returns the groups with their GPUs, which are assigned in the order of GPUs; groups with the most GPUs of
/// the first types come first.
fn hand_out(tasks: &Tasks, mut parts: Vec<GroupGpus>) -> Groups {
    parts.sort_by(|a, b| b.cmp(a));
    let mut of_type: Vec<_> = (0..tasks.counts.len())
        .map(|ty| (0..tasks.gpus.len()).filter(move |gpu| tasks.gpus[*gpu].gpu_type == ty))
        .collect();
    let group = |counts: GroupGpus| {
        let pairs = counts.iter().zip(&mut of_type);
        let mut gpus: Vec<usize> =
            pairs.flat_map(|(count, all)| all.by_ref().take(*count as usize).collect::<Vec<_>>()).collect();
        gpus.sort_unstable();
        gpus
    };
    parts.into_iter().map(group).collect()
}

fn single(types: usize, gpu_type: usize) -> GroupGpus {
    (0..types).map(|ty| u32::from(ty == gpu_type)).collect()
}

impl Kinds {
    fn of(jobs: &[TaskJob]) -> Self {
        let able = jobs.iter().filter(|job| job.fastest().is_some());
        let bits = |job: &TaskJob| job.rates().into_iter().map(f64::to_bits).collect::<Vec<_>>();
        let kinds: BTreeSet<Vec<u64>> = able.map(bits).collect();
        Self(kinds.into_iter().map(|kind| kind.into_iter().map(f64::from_bits).collect()).collect())
    }

    /// Returns the inequality of the groups, rounded to nine decimals: the maximum over the jobs' kinds.
    fn difference(&self, parts: &[GroupGpus]) -> f64 {
        let number = to_f64(parts.len());
        let worst = |rates: &Vec<f64>| {
            let speeds = parts.iter().map(|part| speed(rates, part));
            let (mut least, mut most, mut sum) = (f64::INFINITY, 0.0_f64, 0.0);
            for speed in speeds {
                (least, most, sum) = (least.min(speed), most.max(speed), sum + speed);
            }
            (most - least) / (sum / number)
        };
        (self.0.iter().map(worst).fold(0.0, f64::max) * DECIMALS).round() / DECIMALS
    }

    /// Returns the speed of a GPU by type, summed over the kinds, each relative to the kind's fastest type.
    fn relative(&self, types: usize) -> Vec<f64> {
        let mut sums = vec![0.0; types];
        for rates in &self.0 {
            let fastest = rates.iter().copied().fold(0.0, f64::max);
            for (sum, rate) in sums.iter_mut().zip(rates) {
                *sum += rate / fastest;
            }
        }
        sums
    }
}

fn speed(rates: &[f64], part: &[u32]) -> f64 {
    rates.iter().zip(part).map(|(rate, count)| rate * f64::from(*count)).sum()
}

/// A search through all partitions, each with its groups in descending order.
struct GroupSearch<'a> {
    kinds: &'a Kinds,
    chosen: Vec<GroupGpus>,
    seen: usize,
    best: Option<(f64, Vec<GroupGpus>)>,
}

/// Returns the best of all partitions, among equal ones the largest by the order of its groups; `None` if
/// there are too many.
fn exhaustive(kinds: &Kinds, counts: &[u32], number: usize) -> Option<Vec<GroupGpus>> {
    let mut search = GroupSearch { kinds, chosen: Vec::new(), seen: 0, best: None };
    search.add(counts, number).then_some(search.best?.1)
}

impl GroupSearch<'_> {
    /// Adds a number of groups from the remaining GPUs; returns false once there are too many partitions.
    fn add(&mut self, left: &[u32], groups: usize) -> bool {
        let all: u32 = left.iter().sum();
        if groups == 1 {
            let is_next = self.chosen.last().is_none_or(|before| left <= before.as_slice());
            return !is_next || self.judge(left);
        }
        let most = all.saturating_sub(u32::try_from(groups - 1).unwrap_or(u32::MAX));
        let limit = self.chosen.last().cloned();
        let mut next = first_part(left, most);
        while let Some(part) = next {
            // No later group has more of the first type.
            if u64::from(part[0]) * (groups as u64) < u64::from(left[0]) {
                break;
            }
            // The groups are in descending order, so that each partition is tried once.
            if limit.as_ref().is_none_or(|limit| part <= *limit) {
                let rest: GroupGpus = left.iter().zip(&part).map(|(all, taken)| all - taken).collect();
                self.chosen.push(part.clone());
                let goes_on = self.add(&rest, groups - 1);
                self.chosen.pop();
                if !goes_on {
                    return false;
                }
            }
            next = smaller(&part, left, most);
        }
        true
    }

    fn judge(&mut self, last: &[u32]) -> bool {
        self.seen += 1;
        if self.seen > MOST_PARTITIONS {
            return false;
        }
        self.chosen.push(last.to_vec());
        let difference = self.kinds.difference(&self.chosen);
        if self.best.as_ref().is_none_or(|(least, _)| difference < *least) {
            self.best = Some((difference, self.chosen.clone()));
        }
        self.chosen.pop();
        true
    }
}

/// Returns the largest part of the remaining GPUs with at most this many GPUs.
fn first_part(left: &[u32], most: u32) -> Option<GroupGpus> {
    let mut room = most;
    let take = |count: &u32| {
        let taken = (*count).min(room);
        room -= taken;
        taken
    };
    let part: GroupGpus = left.iter().map(take).collect();
    part.iter().any(|count| *count > 0).then_some(part)
}

/// Returns the next smaller non-empty part.
fn smaller(part: &[u32], left: &[u32], most: u32) -> Option<GroupGpus> {
    let place = part[..part.len() - 1].iter().rposition(|count| *count > 0);
    let last = part.len() - 1;
    let (place, mut next) = match (part[last], place) {
        (1.., _) => (last, part.to_vec()),
        (0, place) => (place?, part.to_vec()),
    };
    next[place] -= 1;
    let mut room = most - next[..=place].iter().sum::<u32>();
    for ty in place + 1..next.len() {
        next[ty] = left[ty].min(room);
        room -= next[ty];
    }
    next.iter().any(|count| *count > 0).then_some(next)
}

/// Returns a partition of many GPUs: assigns the fastest first, each to the slowest group, and then swaps
/// GPUs while a swap reduces the inequality.
fn greedy(kinds: &Kinds, counts: &[u32], number: usize) -> Vec<GroupGpus> {
    let relative = kinds.relative(counts.len());
    let mut types: Vec<usize> = (0..counts.len()).collect();
    types.sort_by(|a, b| relative[*b].total_cmp(&relative[*a]).then(a.cmp(b)));
    let mut parts = vec![vec![0; counts.len()]; number];
    let mut sums = vec![0.0; number];
    for ty in types {
        for _ in 0..counts[ty] {
            let slowest = (0..number).min_by(|a, b| f64::total_cmp(&sums[*a], &sums[*b]).then(a.cmp(b)));
            let Some(group) = slowest else { continue };
            parts[group][ty] += 1;
            sums[group] += relative[ty];
        }
    }
    swapped(kinds, parts)
}

/// Repeats the swap of two GPUs that reduces the inequality most until no swap does; returns the partition.
fn swapped(kinds: &Kinds, mut parts: Vec<GroupGpus>) -> Vec<GroupGpus> {
    let mut least = kinds.difference(&parts);
    loop {
        let mut best: Option<(f64, Vec<GroupGpus>)> = None;
        // Groups with equal GPUs are equivalent for swaps.
        let mut tried: BTreeSet<(GroupGpus, GroupGpus)> = BTreeSet::new();
        for (a, b) in (0..parts.len()).flat_map(|a| (a + 1..parts.len()).map(move |b| (a, b))) {
            if parts[a] == parts[b] || !tried.insert((parts[a].clone(), parts[b].clone())) {
                continue;
            }
            for (from, to) in pairs(&parts[a], &parts[b]) {
                let mut after = parts.clone();
                (after[a][from], after[a][to]) = (after[a][from] - 1, after[a][to] + 1);
                (after[b][from], after[b][to]) = (after[b][from] + 1, after[b][to] - 1);
                let difference = kinds.difference(&after);
                if difference < best.as_ref().map_or(least, |(known, _)| *known) {
                    best = Some((difference, after));
                }
            }
        }
        let Some((difference, after)) = best else { return parts };
        (least, parts) = (difference, after);
    }
}

/// Returns the pairs of types that two groups can swap.
fn pairs<'a>(a: &'a [u32], b: &'a [u32]) -> impl Iterator<Item = (usize, usize)> + 'a {
    let of = |counts: &'a [u32]| (0..counts.len()).filter(move |ty| counts[*ty] > 0);
    of(a).flat_map(move |from| of(b).map(move |to| (from, to))).filter(|(from, to)| from != to)
}
