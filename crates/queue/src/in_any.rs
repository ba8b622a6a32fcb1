//! Requests for several partitions: each is simulated in all of them, and starts in the one that allows it
//! first.

use crate::estimate::Estimate;
use crate::forecast::{Far, Forecast, Question, Start, StartEstimate, forecast_of};
use crate::{QueuePosition, Request, RequestId};
use hsched_model::Seconds;

/// Returns the start estimate of each request if some are for several partitions; `None` if none is.
pub(super) fn in_any(
    question: &Question,
    positions: &[(RequestId, QueuePosition)],
    far: Far,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Vec<StartEstimate>> {
    let partitions = |request: &Request| -> Vec<Option<String>> {
        match &request.partition {
            Some(names) => names.split(',').map(|name| Some(name.trim().to_owned())).collect(),
            None => vec![None],
        }
    };
    if question.requests.iter().all(|request| partitions(request).len() == 1) {
        return None;
    }
    let (mut list, mut places, mut of) = (Vec::new(), Vec::new(), Vec::new());
    for (number, request) in question.requests.iter().enumerate() {
        for partition in partitions(request) {
            let id = RequestId(u32::try_from(list.len()).unwrap_or(u32::MAX));
            let position = positions.iter().find(|(id, _)| *id == request.id);
            places.extend(position.map(|(_, position)| (id, *position)));
            list.push(Request { id, partition, ..request.clone() });
            of.push(number);
        }
    }
    let estimates = forecast_of(&Question { requests: &list, ..*question }, &places, far, stop);
    let one = |(number, request): (usize, &Request)| {
        let of_partition = of.iter().zip(&estimates).filter(|(of, _)| **of == number);
        let starts: Vec<&Start> = of_partition.map(|(_, estimate)| &estimate.start).collect();
        StartEstimate { id: request.id, start: first(&starts, request, question) }
    };
    Some(question.requests.iter().enumerate().map(one).collect())
}

/// Combines a request's start estimates in each partition.
fn first(starts: &[&Start], request: &Request, question: &Question) -> Start {
    let forecasts: Vec<&Forecast> = starts.iter().filter_map(|start| start.forecast()).collect();
    let soonest = forecasts.iter().min_by(|a, b| a.start.mean.0.total_cmp(&b.start.mean.0));
    let Some(soonest) = soonest else {
        let unknown = starts.iter().find(|start| matches!(start, Start::Unknown(_)));
        let refused = starts.iter().find(|start| matches!(start, Start::Refused(_)));
        return unknown.or(refused).map_or(Start::Never, |start| (*start).clone());
    };
    // All partitions were simulated in the same futures; those far behind the best only in the first futures.
    let futures = forecasts.iter().map(|forecast| forecast.starts.len()).max().unwrap_or(0);
    let start_in = |future: usize| {
        let all = forecasts.iter().filter_map(|forecast| forecast.starts.get(future));
        all.map(|start| start.0).fold(f64::INFINITY, f64::min)
    };
    let all: Vec<f64> = (0..futures).map(start_in).collect();
    if all.is_empty() {
        return Start::Estimated((*soonest).clone());
    }
    let finish: Vec<f64> = all.iter().map(|start| start + request.run.0).collect();
    let at_limits =
        forecasts.iter().filter_map(|forecast| forecast.at_limits).min_by(|a, b| a.0.total_cmp(&b.0));
    Start::Estimated(Forecast {
        at_limits,
        start: Estimate::of(&all, question.calibration),
        finish: Estimate::of(&finish, question.calibration),
        first: forecasts.iter().map(|forecast| forecast.first).sum::<f64>().min(1.0),
        starts: all.into_iter().map(Seconds).collect(),
        ..(*soonest).clone()
    })
}
