//! Jobs that are ended whatever a policy wants: given up by their owners, deaf to a stop, or without nodes for good.

use crate::engine::{Action, Attempt, Request, Rules, Stage, Submission, Then, Tracked};
use crate::model::{Availability, Cluster, GpuType, Seconds, Time};

/// Returns how to end the submissions of a job that its owner gave up, that do not stop, or that can never start.
pub(super) fn end_of_patience(tracked: &Tracked, at: Time, cluster: &Cluster, rules: &Rules) -> Vec<Action> {
    let end = |own: &Submission| end_one(tracked, own, at, cluster, rules);
    tracked.phase.submissions().iter().filter_map(end).collect()
}

fn end_one(
    tracked: &Tracked,
    own: &Submission,
    at: Time,
    cluster: &Cluster,
    rules: &Rules,
) -> Option<Action> {
    let Submission { attempt, stage } = own;
    let why = match *stage {
        Stage::Stopping { request: Request::Killed, since, .. } => {
            if at.since(since) < Rules::KILL_PATIENCE {
                return None;
            }
            "Slurm has not ended it yet; trying again".to_owned()
        }
        Stage::Stopping { then: Then::Cancel, .. } => "cancelled by its owner".to_owned(),
        Stage::Stopping { then: Then::Done(_), .. } => "another copy has completed the job".to_owned(),
        Stage::Stopping { request: Request::Meant, .. } => return ask_again(tracked, attempt),
        Stage::Stopping { since, .. } => {
            let grace = tracked.job.launch.checkpoint.grace.unwrap_or(rules.defaults.grace);
            let patience = Seconds(grace.0 + Rules::PATIENCE.0);
            if at.since(since) < patience {
                return None;
            }
            format!("it did not exit within {} s of the stop signal", patience.0)
        }
        Stage::Pending if at.since(attempt.meant) >= Rules::NODES_PATIENCE => {
            format!("{} are no longer up, so it can never start", unable(attempt, cluster)?)
        }
        _ => return None,
    };
    Some(Action::Cancel { of: attempt.key(&tracked.job.name), job_id: attempt.job_id?, why })
}

/// Returns a request again of which nobody knows whether it was heard: to hear it twice does no harm.
fn ask_again(tracked: &Tracked, attempt: &Attempt) -> Option<Action> {
    let (of, job_id) = (attempt.key(&tracked.job.name), attempt.job_id?);
    let why = "asking again, because the first request may have been lost".to_owned();
    Some(if attempt.started.is_some() {
        Action::Stop { of, job_id, why }
    } else {
        Action::Cancel { of, job_id, why }
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
