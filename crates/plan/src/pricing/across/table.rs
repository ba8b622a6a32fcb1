//! All rings of one job, costed once, where they are few and each takes long to cost.

use crate::pricing::across::Across;

/// The rings of a job with their costs, in seconds.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Number of the job's types.
    types: usize,
    /// Counts by the job's types, ring by ring.
    counts: Vec<u32>,
    costs: Vec<f64>,
    /// Rings that cost less than all that are within them, by rising cost.
    worth_having: Vec<usize>,
}

/// The most rings that are tabulated: 4096 take about a tenth of a MiB.
const MOST: u64 = 4096;

impl Table {
    /// Costs all rings of a job; `None` where they are many.
    pub(super) fn new(across: &Across<'_>) -> Option<Self> {
        let volume = across.caps.iter().fold(1_u64, |all, &cap| all.saturating_mul(u64::from(cap) + 1));
        if volume > MOST {
            return None;
        }
        let types = across.types.len();
        let mut table = Self { types, counts: Vec::new(), costs: Vec::new(), worth_having: Vec::new() };
        // The least cost of any ring within these counts, for all counts so far.
        let mut least: Vec<f64> = Vec::new();
        let mut counts = vec![0; types];
        loop {
            let within = table.least_within(&counts, &across.caps, &least);
            let cost = across.cost(&counts);
            least.push(cost.map_or(within, |cost| cost.min(within)));
            if let Some(cost) = cost {
                if cost < within {
                    table.worth_having.push(table.costs.len());
                }
                table.counts.extend(&counts);
                table.costs.push(cost);
            }
            let Some(ty) = (0..types).find(|&ty| counts[ty] < across.caps[ty]) else { break };
            counts[ty] += 1;
            counts[..ty].fill(0);
        }
        table.worth_having.sort_by(|&a, &b| table.costs[a].total_cmp(&table.costs[b]));
        Some(table)
    }

    /// Returns the least cost of all rings with a GPU less, or more GPUs less.
    fn least_within(&self, counts: &[u32], caps: &[u32], least: &[f64]) -> f64 {
        let mut stride = 1;
        let mut within = f64::INFINITY;
        for ty in 0..self.types {
            if counts[ty] > 0 {
                within = within.min(least[least.len() - stride]);
            }
            stride *= caps[ty] as usize + 1;
        }
        within
    }

    /// Returns the cost and the counts of every ring.
    pub(super) fn all(&self) -> impl Iterator<Item = (f64, &[u32])> {
        self.costs.iter().copied().zip(self.counts.chunks_exact(self.types))
    }

    /// Returns the cost and the counts of those that are the cheapest at some prices, by rising cost: not the
    /// ones that have all the GPUs of another and cost no less.
    pub(super) fn worth_having(&self) -> impl Iterator<Item = (f64, &[u32])> {
        let own = |&ring: &usize| (self.costs[ring], &self.counts[ring * self.types..][..self.types]);
        self.worth_having.iter().map(own)
    }
}
