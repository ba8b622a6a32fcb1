//! Refuses jobs with replicas of several GPUs where they are not supported, so that they are never treated as
//! single GPUs.

use hsched_model::ErrorId;
use hsched_plan::Problem;
use hsched_ui::{Exit, Failure};

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
