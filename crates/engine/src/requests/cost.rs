//! The cost of a request: the billing of its partition, or reference GPU units.

use hsched_model::catalogue::reference_units;
use hsched_model::{Cost, GpuType, Request, Seconds, Unit};
use hsched_queue::{QueuePartition, Weigh};

/// Returns the cost of a run: the partition's billing, else reference GPU units if the type has them.
pub(super) fn cost(
    request: &Request,
    gpu_type: &GpuType,
    partition: Option<&QueuePartition>,
    run: Seconds,
) -> Option<Cost> {
    let (asks, nodes) = (&request.asks, f64::from(request.asks.nodes));
    let gpus: f64 = asks.gpus.iter().map(|ask| f64::from(ask.count)).sum::<f64>() * nodes;
    if let Some(billing) = partition.and_then(|partition| partition.billing.as_ref()) {
        #[expect(clippy::cast_precision_loss, reason = "CPUs and MiB of a node")]
        let amount = |amount: Option<u64>| amount.unwrap_or(0) as f64 * nodes;
        let weight = |name: &str| billing.weights.get(name).copied();
        let gpu = weight(&format!("gres/gpu:{gpu_type}")).or_else(|| weight("gres/gpu")).unwrap_or(0.0);
        let parts = [
            gpu * gpus,
            weight("cpu").unwrap_or(0.0) * amount(asks.cpus),
            weight("mem").unwrap_or(0.0) * amount(asks.memory_mib) / 1024.0,
        ];
        let billed = match billing.weigh {
            Weigh::Sum => parts.iter().sum(),
            Weigh::Max => parts.into_iter().fold(0.0, f64::max),
        };
        return Some(Cost { hours: billed * run.0 / 3600.0, unit: Unit::Billing });
    }
    let units = reference_units(gpu_type)?;
    Some(Cost { hours: units * gpus * run.0 / 3600.0, unit: Unit::Rgu })
}
