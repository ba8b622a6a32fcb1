//! Jobs that are ended whatever a policy wants: given up by their owners, deaf to a stop, or without nodes for good.

use crate::engine::{Action, Attempt, Phase, Request, Rules, Then, Tracked};
use crate::model::{Availability, Cluster, GpuType, Seconds, Time};

/// Returns how to end a job that its owner gave up, that does not stop, or that can never start.
pub(super) fn end_of_patience(
    tracked: &Tracked,
    at: Time,
    cluster: &Cluster,
    rules: &Rules,
) -> Option<Action> {
    let attempt = tracked.phase.attempt()?;
    let why = match &tracked.phase {
        Phase::Stopping { request: Request::Killed, since, .. } => {
            if at.since(*since) < Rules::KILL_PATIENCE {
                return None;
            }
            "Slurm has not ended it yet; trying again".to_owned()
        }
        Phase::Stopping { then: Then::Cancel, .. } => "cancelled by its owner".to_owned(),
        Phase::Stopping { request: Request::Meant, .. } => return ask_again(tracked),
        Phase::Stopping { since, .. } => {
            let grace = tracked.job.launch.checkpoint.grace.unwrap_or(rules.defaults.grace);
            let patience = Seconds(grace.0 + Rules::PATIENCE.0);
            if at.since(*since) < patience {
                return None;
            }
            format!("it did not exit within {} s of the stop signal", patience.0)
        }
        Phase::Pending(_) if at.since(attempt.meant) >= Rules::NODES_PATIENCE => {
            format!("{} are no longer up, so it can never start", unable(attempt, cluster)?)
        }
        _ => return None,
    };
    let (job, run, job_id) = (tracked.job.name.clone(), attempt.run.clone(), attempt.job_id?);
    Some(Action::Cancel { job, run, job_id, why })
}

/// Returns a request again of which nobody knows whether it was heard: to hear it twice does no harm.
fn ask_again(tracked: &Tracked) -> Option<Action> {
    let attempt = tracked.phase.attempt()?;
    let (job, run, job_id) = (tracked.job.name.clone(), attempt.run.clone(), attempt.job_id?);
    let why = "asking again, because the first request may have been lost".to_owned();
    Some(if attempt.started.is_some() {
        Action::Stop { job, run, job_id, why }
    } else {
        Action::Cancel { job, run, job_id, why }
    })
}

/// Returns the GPUs of an attempt for which no nodes are up, if there are any.
fn unable(attempt: &Attempt, cluster: &Cluster) -> Option<String> {
    // A cluster without nodes is one that nobody could see.
    if cluster.nodes.is_empty() {
        return None;
    }
    let up = |gpu_type: &GpuType| -> u32 {
        let nodes = cluster.nodes.iter().filter(|node| node.state.availability() == Availability::Up);
        let stocks = nodes.flat_map(|node| &node.gpus).filter(|stock| stock.gpu_type == *gpu_type);
        stocks.map(|stock| stock.total).sum()
    };
    let short = attempt.gpus.by_type().into_iter().find(|(gpu_type, count)| up(gpu_type) < *count);
    short.map(|(gpu_type, count)| format!("{count} {gpu_type}"))
}
