//! Random requests of all shapes.

use std::collections::BTreeMap;

use hsched_model::GpuType;
use hsched_queue::{Asks, GpuAsk, Snapshot};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Numbers of GPUs, and limits in minutes; the number of occurrences here is the weight.
const COUNTS: [u32; 10] = [1, 1, 1, 1, 2, 2, 2, 4, 4, 8];
const LIMITS: [u32; 10] = [60, 60, 60, 180, 180, 180, 720, 720, 720, 1440];
/// The longest limit of the partition `short`.
const SHORT: u32 = 180;

/// A sequence of random requests.
pub struct Draw(Pcg64Mcg);

/// A request, its limit in minutes, and its run time in minutes.
pub struct DrawnRequest {
    pub asks: Asks,
    pub partition: String,
    pub account: Option<String>,
    pub limit_min: u32,
    pub run_min: f64,
    /// Seconds until the next request, as a multiple of their mean.
    pub gap: f64,
}

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.0.random_range(0..list.len())].clone()
    }

    /// Returns a request that some nodes of the cluster can hold.
    pub fn next(&mut self, snapshot: &Snapshot) -> DrawnRequest {
        let mut types: BTreeMap<&GpuType, (u32, u32)> = BTreeMap::new();
        for stock in snapshot.nodes.iter().flat_map(|node| &node.gpus) {
            let (nodes, most) = types.entry(&stock.gpu_type).or_default();
            (*nodes, *most) = (*nodes + 1, stock.count.max(*most));
        }
        // The weight of a type is its number of nodes.
        let types: Vec<(&GpuType, (u32, u32))> =
            types.into_iter().flat_map(|entry| vec![entry; entry.1.0 as usize]).collect();
        let (gpu_type, (nodes, most)) = self.pick(&types);
        let count = self.pick(&COUNTS).min(nodes * most);
        let (nodes, per_node) = (count.div_ceil(most), count.min(most));
        let limit_min = self.pick(&LIMITS);
        // The start of a job does not depend on its run time afterwards; short runs leave the cluster to
        // other jobs.
        let used: f64 = self.0.random_range(0.01..0.3);
        let default = snapshot
            .partitions
            .iter()
            .find(|partition| partition.default)
            .map(|partition| partition.name.clone());
        let has_short = snapshot.partitions.iter().any(|partition| partition.name == "short");
        let short = has_short && limit_min <= SHORT && self.0.random::<f64>() < 0.3;
        let partition = if short { "short".to_owned() } else { default.unwrap_or_default() };
        let accounts: Vec<String> = snapshot.accounts.iter().map(|account| account.name.clone()).collect();
        let account = (!accounts.is_empty()).then(|| self.pick(&accounts));
        let gpus = vec![GpuAsk { gpu_type: Some(gpu_type.clone()), count: per_node }];
        let cpus = u64::from(per_node) * 4;
        DrawnRequest {
            asks: Asks {
                nodes,
                gpus,
                cpus: Some(cpus),
                memory_mib: Some(cpus * 2000),
                exclusive: false,
                features: None,
                ..Asks::default()
            },
            partition,
            account,
            limit_min,
            run_min: (f64::from(limit_min) * used).max(1.0),
            gap: -(1.0 - self.0.random::<f64>()).ln(),
        }
    }
}
