//! Checks whether a plan depends on unmeasured speeds.

use std::collections::BTreeMap;

use hsched_plan::throughput::SpeedOrigin;
use hsched_plan::{CheckedPlan, Placement, Problem};
use hsched_ui::Failure;

/// Returns a warning if the plan would change with estimated speeds one standard deviation lower or higher.
///
/// # Errors
/// If no plan can be made with the changed speeds.
pub(crate) fn warning(
    problem: &Problem,
    plan: &CheckedPlan,
    solve: impl Fn(&Problem) -> Result<CheckedPlan, Failure>,
) -> Result<Option<String>, Failure> {
    let offered = problem.offered();
    let mut estimated = Vec::new();
    for (job, model) in problem.jobs.iter().enumerate() {
        for (column, source) in &model.sources {
            if let SpeedOrigin::Estimated(estimate) = source
                && offered[*column] > 0
            {
                estimated.push((job, *column, estimate.error));
            }
        }
    }
    if estimated.is_empty() {
        return Ok(None);
    }
    let gpus = gpus(problem, plan);
    for faster in [false, true] {
        let mut other = problem.clone();
        for &(job, column, error) in &estimated {
            let factor = if faster { (1.0 + error).recip() } else { 1.0 + error };
            if let Some(model) = &mut other.jobs[job].types[column]
                && let Some(speed) = model.speed.scaled(factor)
            {
                model.speed = speed;
            }
        }
        let changed = solve(&other)?;
        // A search stopped by its time limit may give another plan for that reason alone.
        if !plan.plan().stopped && !changed.plan().stopped && self::gpus(&other, &changed) != gpus {
            return Ok(Some(sentence(problem, &estimated, faster)));
        }
    }
    Ok(None)
}

/// Returns each job's GPUs by type.
fn gpus(problem: &Problem, plan: &CheckedPlan) -> Vec<Vec<u32>> {
    let counts = |placement: &Placement| {
        let mut counts = vec![0; problem.gpu_types.len()];
        placement.slots.iter().for_each(|slot| counts[slot.gpu_type] += slot.count);
        counts
    };
    plan.verdicts().iter().map(|verdict| verdict.placement().map(counts).unwrap_or_default()).collect()
}

fn sentence(problem: &Problem, estimated: &[(usize, usize, f64)], faster: bool) -> String {
    let mut jobs = BTreeMap::<usize, Vec<String>>::new();
    for &(job, column, _) in estimated {
        jobs.entry(job).or_default().push(problem.gpu_types[column].to_string());
    }
    let name =
        |(job, types): (usize, Vec<String>)| format!("{} on {}", problem.jobs[job].name, types.join(", "));
    let list: Vec<String> = jobs.into_iter().map(name).collect();
    let how = if faster { "faster" } else { "slower" };
    format!(
        "this plan depends on estimated speeds: if they were one standard deviation {how}, it would use \
         other GPUs; measure {} with hsched probe",
        list.join("; ")
    )
}
