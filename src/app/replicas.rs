//! Refuses jobs with replicas of several GPUs if the policy or its flags do not support them, so that they
//! are never treated as single GPUs.

use hsched_model::ErrorId;
use hsched_plan::Problem;
use hsched_ui::{Exit, Failure};

/// Refuses policies and flags that assign single GPUs, for a problem with replicas of several GPUs.
///
/// # Errors
/// If the policy or its flag `--use-all` does not support replicas.
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
