//! Jobs with replicas of several GPUs, where hsched cannot do what is asked for them: they are refused, never treated as single GPUs.

use crate::error::Failure;
use crate::exit::Exit;
use hsched_model::Job;
use hsched_plan::Problem;

/// The policy that plans replicas.
pub(crate) const PLANNED_BY: &str = "optimal";

/// Refuses jobs whose replicas have several GPUs, because `what` does not know them.
///
/// # Errors
/// When there is such a job.
pub(crate) fn refuse<'a>(jobs: impl IntoIterator<Item = &'a Job>, what: &str) -> Result<(), Failure> {
    match jobs.into_iter().find(|job| job.has_replicas()) {
        None => Ok(()),
        Some(job) => {
            let message =
                format!("{}: {what} cannot be used for a job with replicas of several GPUs", job.name);
            Err(Failure::new(Exit::BadInput, message).hint("hsched plan --policy optimal plans such jobs"))
        }
    }
}

/// Refuses the policies that give out single GPUs for a problem with replicas of several.
///
/// # Errors
/// When the policy does not know replicas.
pub(crate) fn refuse_policy(name: &str, words: &str, problem: &Problem) -> Result<(), Failure> {
    let Some(job) = problem.jobs.iter().find(|job| job.needs_blocks() || job.is_loose()) else {
        return Ok(());
    };
    let what = if name != PLANNED_BY {
        format!("policy {name} gives out single GPUs")
    } else if words.contains("--use-all") {
        "--use-all counts single GPUs".to_owned()
    } else {
        return Ok(());
    };
    let message = format!("{what}, and replicas of {} have several", job.name);
    Err(Failure::new(Exit::Failed, message).hint("use --policy optimal, without --use-all"))
}
