//! Refuses jobs with replicas of several GPUs where they are not supported, so that they are never treated as
//! single GPUs.

use crate::error::Failure;
use crate::exit::Exit;
use hsched_model::{ErrorId, Job};
use hsched_plan::Problem;

/// Refuses jobs whose replicas may span nodes, because a job script starts the ranks of a node consecutively.
///
/// # Errors
/// If there is such a job.
pub(crate) fn refuse_spread<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> Result<(), Failure> {
    let is_spread =
        |job: &&Job| job.has_replicas() && job.replica.as_ref().is_some_and(|replica| !replica.same_node);
    match jobs.into_iter().find(is_spread) {
        None => Ok(()),
        Some(job) => {
            let message = format!("{}: a replica on several nodes can be planned, but not started", job.name);
            Err(Failure::new(Exit::BadInput, message).id(ErrorId::Replicas).hint("remove same_node: false"))
        }
    }
}

/// Refuses policies that assign single GPUs for a problem with replicas of several.
///
/// # Errors
/// If the policy does not support replicas.
pub(crate) fn refuse_policy(name: &str, words: &str, problem: &Problem) -> Result<(), Failure> {
    let Some(job) = problem.jobs.iter().find(|job| job.needs_blocks() || job.is_loose()) else {
        return Ok(());
    };
    let knows = hsched_lab::registry().entry(name).is_none_or(|entry| entry.knows_replicas);
    let what = if !knows {
        format!("policy {name} gives out single GPUs")
    } else if words.contains("--use-all") {
        "--use-all counts single GPUs".to_owned()
    } else {
        return Ok(());
    };
    let message = format!("{what}, and replicas of {} have several", job.name);
    Err(Failure::new(Exit::Failed, message)
        .id(ErrorId::Replicas)
        .hint("use --policy optimal, without --use-all"))
}
