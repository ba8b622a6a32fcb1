//! Start estimates if a site hides other users' jobs: the user's own past waits, because nothing better is
//! known.

use crate::estimate::Estimate;
use crate::{Asks, Forecast, Request, Snapshot, Start, StartEstimate};
use hsched_model::Time;

/// Minimum number of past waits.
const ENOUGH: usize = 10;

/// A past wait of the user in seconds, and its request.
struct Wait<'a> {
    asks: &'a Asks,
    seconds: f64,
}

/// Returns the estimate of each request from the user's own past waits; unknown if there are too few.
pub(super) fn by_past_waits(snapshot: &Snapshot, requests: &[Request]) -> Vec<StartEstimate> {
    let waits = waits(snapshot);
    requests
        .iter()
        .map(|request| StartEstimate { id: request.id, start: start(&waits, request, snapshot.taken_at) })
        .collect()
}

/// Returns the waits of ended and running jobs; if others are hidden, all of them belong to the user.
fn waits(snapshot: &Snapshot) -> Vec<Wait<'_>> {
    let ended = snapshot.history.iter().flatten().filter_map(|job| {
        let seconds = job.started?.since(job.submitted).0;
        Some(Wait { asks: &job.asks, seconds: seconds.max(0.0) })
    });
    let running = snapshot.jobs.iter().filter_map(|job| {
        let seconds = job.running.as_ref()?.since.since(job.submitted?).0;
        Some(Wait { asks: &job.asks, seconds: seconds.max(0.0) })
    });
    ended.chain(running).collect()
}

/// Estimates a start from the waits for the same number of GPUs of the type; if there are too few, for any
/// number of GPUs of the type, and otherwise from all waits.
fn start(waits: &[Wait], request: &Request, taken_at: Time) -> Start {
    let gpu_type = |asks: &Asks| asks.gpus.first().map(|ask| ask.gpu_type.clone());
    let is_of_type = |wait: &&Wait| gpu_type(wait.asks) == gpu_type(&request.asks);
    let is_alike =
        |wait: &&Wait| wait.asks.gpus == request.asks.gpus && wait.asks.nodes == request.asks.nodes;
    let of = |is: &dyn Fn(&&Wait) -> bool| -> Option<Vec<f64>> {
        let list: Vec<f64> = waits.iter().filter(|wait| is(wait)).map(|wait| wait.seconds).collect();
        (list.len() >= ENOUGH).then_some(list)
    };
    let Some(waits) = of(&is_alike).or_else(|| of(&is_of_type)).or_else(|| of(&|_| true)) else {
        return Start::Unknown("other users' jobs are hidden here");
    };
    // The wait counts from the request's begin time.
    let begin = request.further.begin.map_or(0.0, |begin| begin.since(taken_at).0.max(0.0));
    let starts: Vec<f64> = waits.iter().map(|wait| begin + wait).collect();
    let finish: Vec<f64> = starts.iter().map(|start| start + request.run.0).collect();
    Start::Estimated(Forecast {
        at_limits: None,
        start: Estimate::of(&starts, None),
        finish: Estimate::of(&finish, None),
        first: 0.0,
        // Past waits are not futures, so they cannot be matched between requests.
        starts: Vec::new(),
        past_waits: starts.len(),
        learnt: None,
        waiting: 0,
        ahead: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_request::test_request;
    use crate::{EndedJob, GpuAsk};
    use hsched_model::{GpuType, Seconds};

    fn asks(gpu_type: &str, count: u32) -> Asks {
        let gpus = vec![GpuAsk { gpu_type: GpuType::new(gpu_type), count }];
        Asks { nodes: 1, gpus, ..Asks::default() }
    }

    fn snapshot(waits: &[(Asks, f64)]) -> Snapshot {
        let ended = |(asks, wait): &(Asks, f64)| EndedJob {
            user: None,
            account: None,
            qos: None,
            partition: None,
            asks: asks.clone(),
            limit_s: None,
            priority: None,
            submitted: Time(0.0),
            started: Some(Time(*wait)),
            ended: Time(1e6),
        };
        let history = Some(waits.iter().map(ended).collect());
        Snapshot { others_hidden: true, history, ..Snapshot::empty(Time(1e6)) }
    }

    #[test]
    fn like_jobs_count_first_and_few_say_nothing() {
        let request = Request { run: Seconds(50.0), ..test_request(1, "a100", 4) };
        let told =
            |waits: &[(Asks, f64)]| match by_past_waits(&snapshot(waits), std::slice::from_ref(&request))
                .remove(0)
                .start
            {
                Start::Estimated(forecast) => {
                    Some((forecast.start.median.0, forecast.finish.median.0, forecast.past_waits))
                }
                _ => None,
            };
        let of = |gpu_type: &str, count: u32, wait: f64, number: usize| {
            vec![(asks(gpu_type, count), wait); number]
        };
        let alike = of("a100", 4, 900.0, 10);
        assert_eq!(told(&[alike.clone(), of("t4", 1, 5.0, 90)].concat()), Some((900.0, 950.0, 10)));
        assert_eq!(
            told(&[of("a100", 1, 300.0, 10), of("t4", 1, 5.0, 90)].concat()),
            Some((300.0, 350.0, 10))
        );
        assert_eq!(told(&of("t4", 1, 5.0, 10)), Some((5.0, 55.0, 10)));
        assert_eq!(told(&alike[1..]), None);
    }
}
