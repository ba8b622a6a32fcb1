//! The job arrays whose tasks are the allocations of a pool.

use std::path::Path;

use crate::app::context::Context;
use crate::app::slurm::allocation::NotSubmitted;
use hsched_engine::pool::{ArrayPlan, QueuedArray};
use hsched_model::JobId;
use hsched_slurm::{CommandError, Runner as _, pool_jobs, sbatch};

/// Returns the arrays of a script in the user's queue; `None` if Slurm does not answer.
pub(crate) fn pool_arrays(context: &Context, script: &Path) -> Option<Vec<QueuedArray>> {
    Some(pool_jobs::arrays(&context.slurm.ask(&pool_jobs::command()).ok()?, script))
}

/// Submits a script as a job array of which `at_once` tasks may run at a time; returns its id and its number of
/// tasks. If a limit on the user's jobs or on the size of arrays forbids that many tasks, it has fewer.
///
/// # Errors
/// If Slurm refuses it or does not answer.
pub(crate) fn submit_array(
    context: &Context,
    script: &Path,
    options: &[String],
    ArrayPlan { mut tasks, at_once }: ArrayPlan,
) -> Result<(JobId, u32), NotSubmitted> {
    loop {
        let array = format!("--array=1-{tasks}%{at_once}");
        let command = sbatch::command(&script.display().to_string(), &[options, &[array]].concat());
        match sbatch::submit(&context.slurm, &command) {
            Ok(submitted) => return Ok((submitted.id, tasks)),
            Err(error) if tasks > 1 && error.is_about_size() => tasks /= 2,
            Err(error) => return Err(NotSubmitted::of(&error)),
        }
    }
}

/// Asks Slurm to let this number of tasks of an array run at a time; returns whether Slurm has answered. The answer
/// is also an error if a task has ended, so only the queue shows whether it has worked.
pub(crate) fn throttle(context: &Context, array: JobId, at_once: u32) -> bool {
    let answer = context.slurm.run(&pool_jobs::throttle(array, at_once));
    matches!(answer, Ok(_) | Err(CommandError::Failed { .. }))
}
