//! The rows of `hsched when`: a request, its cost and its queue.

use crate::app::start_estimates::OptionEstimate;
use hsched_model::SpeedBasis;
use hsched_queue::jobs_in_words;
use hsched_ui::WhenRow;

/// Returns a request as a row of the table of one cluster.
pub(in crate::commands) fn row(option_estimate: &OptionEstimate) -> WhenRow<'_> {
    WhenRow {
        gpus: gpus(option_estimate),
        cluster: None,
        partition: option_estimate.option.request.partition.as_deref(),
        account: option_estimate.option.request.account.as_deref(),
        limit: option_estimate.option.request.limit,
        start: &option_estimate.start,
        run: option_estimate.option.run,
        done: option_estimate.done,
        cost: option_estimate.option.cost.map(|cost| cost.hours),
        mark: marks(option_estimate).join(", "),
    }
}

/// Returns the GPUs of a request for people.
pub(in crate::commands) fn gpus(option_estimate: &OptionEstimate) -> String {
    let nodes = option_estimate.option.request.asks.nodes;
    let on = if nodes > 1 { format!(" on {nodes} nodes") } else { String::new() };
    format!("{} {}{on}", option_estimate.option.gpus, option_estimate.option.gpu_type)
}

fn marks(option_estimate: &OptionEstimate) -> Vec<String> {
    let mut marks = Vec::new();
    let walltime = option_estimate.option.walltime;
    if walltime.pieces > 1 {
        marks.push(format!("{} runs of {} (needs checkpoints)", walltime.pieces, walltime.length()));
    }
    if option_estimate.option.queue_choice.basis == SpeedBasis::Estimated {
        marks.push("speed estimated".to_owned());
    }
    if option_estimate.option.preemptible {
        marks.push("may be preempted".to_owned());
    }
    if !option_estimate.option.preempts.is_empty() {
        marks.push(format!("may stop your {}", jobs_in_words(&option_estimate.option.preempts)));
    }
    marks
}

/// Returns a request's position in the queue, or what its estimate rests on, for people; `None` if its start
/// is not estimated.
pub(super) fn place(option_estimate: &OptionEstimate) -> Option<String> {
    let forecast = option_estimate.start.forecast()?;
    if let Some(basis) = forecast.learnt {
        return Some(format!("the estimate is {basis}"));
    }
    if forecast.past_waits > 0 {
        let count = forecast.past_waits;
        return Some(format!("the queue is hidden; the estimate is based on {count} of your past jobs"));
    }
    let (waiting, place) = (forecast.waiting, forecast.ahead + 1);
    let ending = match (place % 10, place % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    let account = option_estimate
        .option
        .request
        .account
        .as_ref()
        .map_or(String::new(), |name| format!(" (account {name})"));
    Some(match waiting {
        0 => format!("no job is pending for the same nodes{account}"),
        1 => format!("1 job is pending for the same nodes; yours would be the {place}{ending}{account}"),
        _ => format!(
            "{waiting} jobs are pending for the same nodes; yours would be the {place}{ending}{account}"
        ),
    })
}
