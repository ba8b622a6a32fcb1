//! The JSON of `hsched when`.

use serde_json::{Value, json};

use crate::app::cluster_queue::ClusterQueue;
use crate::app::site_waits::SiteWaits;
use crate::app::start_estimates::OptionEstimate;
use crate::commands::when::EstimatedJob;
use hsched_model::{Request, SpeedBasis};
use hsched_queue::{Forecast, Growth, ReachedLimit, Start};

/// Returns the estimates of each job's requests as JSON.
pub(super) fn json(told: &[EstimatedJob], queues: &[ClusterQueue]) -> Value {
    let job = |estimated: &EstimatedJob| {
        json!({
            "name": estimated.job.name.as_str(),
            "chosen": estimated.choice.and_then(|choice| estimated.list.iter().position(|option| option.id() == choice.id)),
            "reason": estimated.reason(),
            "options": estimated.list.iter().map(|option| option_json(option, queues)).collect::<Vec<_>>(),
            "notes": estimated.notes,
        })
    };
    let queue_json = |(number, cluster_queue): (usize, &ClusterQueue)| {
        let best = told.iter().filter_map(EstimatedJob::best);
        let best = best.filter(|estimate| estimate.queue == number);
        queue(cluster_queue, best.map(|estimate| &estimate.option.request))
    };
    json!({
        "schema": "hsched.when/1",
        "estimated": true,
        "queues": queues.iter().enumerate().map(queue_json).collect::<Vec<_>>(),
        "jobs": told.iter().map(job).collect::<Vec<_>>(),
    })
}

/// Returns a queue and the time of its snapshot as JSON, with the limits that delay pending jobs or these
/// requests.
pub(super) fn queue<'a>(queue: &ClusterQueue, requests: impl IntoIterator<Item = &'a Request>) -> Value {
    let mut limits = queue.snapshot.reached_limits();
    for limit in requests.into_iter().filter_map(|request| queue.snapshot.reached_limit_of(request)) {
        if !limits.iter().any(|known| known.is_same(&limit)) {
            limits.push(limit);
        }
    }
    json!({ "cluster": queue.name, "taken_at": queue.snapshot.taken_at, "age_s": queue.age,
        "corrected_by": queue.learnt.map(|(_, count)| count),
        "learnt": queue.site.as_ref().map(|site| site_json(site, queue)),
        "growth": growth(queue.snapshot.growth()),
        "reached_limits": limits.iter().map(reached).collect::<Vec<_>>(),
        "notes": queue.snapshot.notes })
}

/// Returns the learnt waits of a queue as JSON.
fn site_json(site: &SiteWaits, queue: &ClusterQueue) -> Value {
    json!({ "used": site.basis(&queue.snapshot).is_some(), "from": site.basis_of_all(), "comparison": site.comparison() })
}

/// Returns the hourly growth of the priorities of pending jobs as JSON.
fn growth(growth: Growth) -> Value {
    json!({ "per_hour": growth.per_hour, "source": growth.source.word(), "by_weights": growth.by_weights })
}

/// Returns a limit that delays the user's jobs as JSON.
fn reached(limit: &ReachedLimit) -> Value {
    json!({ "holder": limit.holder, "tres": limit.tres, "max": limit.max, "minutes": limit.is_minutes,
        "by_you": limit.by_you, "by_others": limit.by_others, "jobs": limit.jobs })
}

/// Returns the method of an estimate as one word.
fn method(forecast: &Forecast) -> &'static str {
    match forecast {
        Forecast { learnt: Some(_), .. } => "learnt",
        Forecast { past_waits: 1.., .. } => "past-waits",
        Forecast { starts, .. } if starts.is_empty() => "limits",
        _ => "futures",
    }
}

/// Returns a request with its estimates as JSON.
pub(super) fn option_json(option_estimate: &OptionEstimate, queues: &[ClusterQueue]) -> Value {
    let request = &option_estimate.option.request;
    let mut value = json!({
        "cluster": queues[option_estimate.queue].name,
        "partition": request.partition,
        "account": request.account,
        "type": option_estimate.option.gpu_type.as_str(),
        "gpus": option_estimate.option.gpus,
        "nodes": request.asks.nodes,
        "limit_s": request.limit,
        "run_s": option_estimate.option.run,
        "run_estimated": option_estimate.option.queue_choice.basis == SpeedBasis::Estimated,
        "pieces": option_estimate.option.walltime.pieces,
        "preemptible": option_estimate.option.preemptible,
        "preempts": option_estimate.option.preempts,
        "not_counted": option_estimate.option.not_counted,
        "cost": option_estimate.option.cost.map(|cost| cost.hours),
        "cost_unit": option_estimate.option.cost.map(|cost| cost.unit.word()),
        "priority": option_estimate.priority.priority,
        "priority_source": option_estimate.priority.source.word(),
        "finish": option_estimate.done,
    });
    add_outlook(&mut value, &option_estimate.start);
    value
}

/// Returns a start estimate as JSON.
pub(super) fn outlook(start: &Start) -> Value {
    let mut value = json!({});
    add_outlook(&mut value, start);
    value
}

fn add_outlook(value: &mut Value, start: &Start) {
    match start {
        Start::Estimated(forecast) => {
            value["outlook"] = json!("estimated");
            value["method"] = json!(method(forecast));
            value["past_waits"] = json!(forecast.past_waits);
            value["learnt_from"] = json!(forecast.learnt);
            value["futures"] = json!(forecast.starts.len());
            value["start"] = json!(forecast.start);
            value["start_at_limits_s"] = json!(forecast.at_limits);
            value["finishes_first"] = json!(forecast.first);
            value["ahead"] = json!(forecast.ahead);
            value["waiting"] = json!(forecast.waiting);
        }
        Start::Unknown(why) => {
            value["outlook"] = json!("unknown");
            value["why"] = json!(why);
        }
        Start::Never => value["outlook"] = json!("never"),
        Start::Refused(refusal) => {
            value["outlook"] = json!("never");
            value["why"] = json!(refusal.to_string());
        }
    }
}
