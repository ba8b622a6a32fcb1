//! The best alternatives for a job with GPUs of a single type or node.

use std::collections::BTreeMap;

use crate::{JobModel, Problem, Sharing, Slot, cost};

/// Alternative GPUs for a job, with the completion time on them.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// GPUs by type.
    pub counts: Vec<u32>,
    /// The node that holds the GPUs, if the alternative is a node.
    pub node: Option<usize>,
    /// Completion time in seconds.
    pub jct: f64,
}

/// The nodes with GPUs of one type, grouped by the properties that affect a ring.
struct TypeStock {
    /// Number of replicas that fit on a node, its internal rate in bytes per second, and the number of such
    /// nodes.
    kinds: Vec<(u32, f64, u32)>,
    network: f64,
}

/// Returns the number of GPUs of one type in `room` (by node and type) with which the job ends soonest, in
/// whole replicas; `None` if no number is legal.
pub(super) fn one_type(
    problem: &Problem,
    job: &JobModel,
    ty: usize,
    room: &[Vec<u32>],
) -> Option<Alternative> {
    let size = job.size(ty);
    let stock = TypeStock::new(problem, ty, size, room);
    let all = || room.iter().map(|gpus| gpus[ty]).sum::<u32>() / size;
    let most = if job.is_loose() { all() } else { stock.total() }.min(job.max_gpus);
    let bundle = |count: u32| {
        let mut counts = vec![0; problem.gpu_types.len()];
        counts[ty] = count;
        let compute = cost::compute_time(job, &counts)?;
        let comm = cost::comm_time(job, count, stock.ring(count));
        counts[ty] *= size;
        Some(Alternative { counts, node: None, jct: job.completion_time(compute + comm) })
    };
    (job.min_gpus.max(1)..=most).filter_map(bundle).min_by(|a, b| a.jct.total_cmp(&b.jct))
}

/// Returns the node, and its GPUs in `room` (by node and type), on which the job ends soonest; `None` if no
/// single node is legal.
pub(super) fn one_node(
    problem: &Problem,
    job: &JobModel,
    sharing: Sharing,
    room: &[Vec<u32>],
) -> Option<Alternative> {
    let mut kinds: BTreeMap<(&[u32], u64), usize> = BTreeMap::new();
    for (node, gpus) in room.iter().enumerate() {
        kinds.entry((gpus, problem.nodes[node].intra_node.bytes_per_second().to_bits())).or_insert(node);
    }
    let best = |&node: &usize| {
        let usable = |(&count, model): (&u32, &Option<_>)| if model.is_some() { count } else { 0 };
        let most: Vec<u32> = job.replicas_in(&room[node]).iter().zip(&job.types).map(usable).collect();
        let mut counts = vec![0; most.len()];
        let mut best: Option<Alternative> = None;
        while next(&mut counts, &most) {
            let Some(jct) = time_inside(problem, job, sharing, node, &counts) else { continue };
            if best.as_ref().is_none_or(|alternative| jct < alternative.jct) {
                best = Some(Alternative { counts: job.gpus(&counts), node: Some(node), jct });
            }
        }
        best
    };
    let mut nodes: Vec<usize> = kinds.into_values().collect();
    nodes.sort_unstable();
    nodes.iter().filter_map(best).min_by(|a, b| a.jct.total_cmp(&b.jct))
}

fn time_inside(
    problem: &Problem,
    job: &JobModel,
    sharing: Sharing,
    node: usize,
    counts: &[u32],
) -> Option<f64> {
    if !(job.min_gpus..=job.max_gpus).contains(&counts.iter().sum()) {
        return None;
    }
    let used = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let slot = |(gpu_type, &count)| Slot { node, gpu_type, count: count * job.size(gpu_type) };
    let slots: Vec<Slot> = used.map(slot).collect();
    Some(job.completion_time(cost::epoch_time(problem, job, &slots, sharing)?.total()))
}

/// Advances `counts` to the next bundle within `most`; returns whether there was one.
fn next(counts: &mut [u32], most: &[u32]) -> bool {
    for (count, &most) in counts.iter_mut().zip(most) {
        if *count < most {
            *count += 1;
            return true;
        }
        *count = 0;
    }
    false
}

impl TypeStock {
    fn new(problem: &Problem, ty: usize, size: u32, room: &[Vec<u32>]) -> Self {
        let mut kinds: BTreeMap<(u32, u64), u32> = BTreeMap::new();
        for (gpus, node) in room.iter().zip(&problem.nodes).filter(|(gpus, _)| gpus[ty] >= size) {
            *kinds.entry((gpus[ty] / size, node.intra_node.bytes_per_second().to_bits())).or_default() += 1;
        }
        let kinds = kinds.into_iter().map(|((count, rate), nodes)| (count, f64::from_bits(rate), nodes));
        Self { kinds: kinds.collect(), network: problem.network.bytes_per_second() }
    }

    fn total(&self) -> u32 {
        self.kinds.iter().map(|(count, _, nodes)| count * nodes).sum()
    }

    /// Returns the rate of the fastest ring of `count` replicas, in bytes per second.
    fn ring(&self, count: u32) -> f64 {
        let able = self.kinds.iter().filter(|(per_node, ..)| *per_node >= count);
        let inside = able.map(|&(_, rate, _)| rate).fold(0.0, f64::max);
        inside.max(self.across(count))
    }

    /// Returns the rate of the fastest ring over several nodes, or 0 if there is none. A node with slower
    /// internal links can hold only one replica of the ring.
    fn across(&self, count: u32) -> f64 {
        if self.kinds.iter().map(|(.., nodes)| nodes).sum::<u32>() < 2 {
            return 0.0;
        }
        let holds = |least: f64| {
            let of = |&(per_node, rate, nodes): &(u32, f64, u32)| {
                if rate >= least { per_node * nodes } else { nodes }
            };
            self.kinds.iter().map(of).sum::<u32>() >= count
        };
        let rates = self.kinds.iter().map(|&(_, rate, _)| rate.min(self.network)).chain([self.network]);
        rates.filter(|&rate| holds(rate)).fold(0.0, f64::max)
    }
}
