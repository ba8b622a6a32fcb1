//! Relative speeds of other GPU types for a script, from measurements of its model or, if requested, from the
//! table of GPUs.

use std::collections::{BTreeMap, BTreeSet};

use crate::app::context::Context;
use crate::app::speeds::SpeedArgs;
use hsched_model::number::to_f64;
use hsched_model::{GpuType, Job, JobName, Speed};
use hsched_plan::throughput::{SpeedCell, SpeedOrigin};
use hsched_queue::Snapshot;
use hsched_ui::Failure;

/// Batch size at which speeds are compared.
const BATCH: u64 = 64;

/// Returns the speeds of a model with the job's name on the types of a cluster, relative to that on `from`;
/// empty if no model can have this name. If the speed on `from` is not known, the others are ratios from the
/// table of GPUs.
///
/// # Errors
/// If the file of measured speeds cannot be used.
pub(crate) fn relative_speeds(
    context: &Context,
    speeds: &SpeedArgs,
    name: &str,
    from: &GpuType,
    snapshot: &Snapshot,
) -> Result<BTreeMap<GpuType, f64>, Failure> {
    let types: BTreeSet<&GpuType> =
        snapshot.nodes.iter().flat_map(|node| &node.gpus).map(|gpu| &gpu.gpu_type).chain([from]).collect();
    let types: Vec<GpuType> = types.into_iter().cloned().collect();
    let Ok(name) = JobName::new(name) else { return Ok(BTreeMap::new()) };
    let mut job = Job::only_planned(name, BATCH, 1, BATCH);
    let rates = |job: &Job| -> Result<BTreeMap<GpuType, (f64, bool)>, Failure> {
        let matrix = speeds.matrix(context, std::slice::from_ref(job), &types)?;
        let rate = |(gpu_type, cell): (&GpuType, &SpeedCell)| match cell {
            SpeedCell::Known(known) => {
                let is_guess = matches!(known.source, SpeedOrigin::Estimated(_));
                Some((gpu_type.clone(), (known.speed.rate_at(to_f64(BATCH)), is_guess)))
            }
            SpeedCell::Unusable(_) => None,
        };
        Ok(matrix.columns().iter().zip(matrix.row(0)).filter_map(rate).collect())
    };
    let mut known = rates(&job)?;
    if !known.contains_key(from) {
        // The type has no measurement, so only ratios from the table are available.
        job.throughput.insert(from.clone(), Speed::Rate { samples_per_second: 1.0 });
        known = rates(&job)?;
        known.retain(|gpu_type, (_, is_guess)| *is_guess || gpu_type == from);
    }
    let Some((base, _)) = known.get(from).copied().filter(|(base, _)| *base > 0.0) else {
        return Ok(BTreeMap::new());
    };
    Ok(known.into_iter().map(|(gpu_type, (rate, _))| (gpu_type, rate / base)).collect())
}
