//! Several requests of one job in the queue at the same time: the first to start runs, and the others are
//! cancelled.

use crate::estimate::mean;
use crate::{Request, RequestId, Start, StartEstimate};
use hsched_model::Seconds;

/// Returns up to `entries` requests to queue together: those with which the job ends first on average, from
/// the futures in which each was simulated alone. The first is `first`, or else the best alone. Another one
/// is added only if it helps, and if the job ends no later than expected even when that request starts
/// immediately; otherwise a long run that starts unexpectedly early would delay the job.
pub fn race(
    requests: &[&Request],
    estimates: &[StartEstimate],
    first: Option<RequestId>,
    entries: usize,
) -> Vec<RequestId> {
    let all: Vec<Racer> = requests.iter().map(|request| Racer::new(request, estimates)).collect();
    let mut chosen: Vec<&Racer> = all.iter().filter(|racer| Some(racer.id) == first).collect();
    let mut best = mean_finish(&chosen).unwrap_or(f64::INFINITY);
    while chosen.len() < entries {
        let with = |racer| {
            let mut together = chosen.clone();
            together.push(racer);
            Some((mean_finish(&together)?, racer))
        };
        let is_other = |racer: &&Racer| chosen.iter().all(|other| other.id != racer.id) && racer.run <= best;
        let others = all.iter().filter(is_other).filter_map(with);
        let Some((finish, racer)) = others.min_by(|a, b| a.0.total_cmp(&b.0)) else { break };
        if finish >= best {
            break;
        }
        best = finish;
        chosen.push(racer);
    }
    chosen.into_iter().map(|racer| racer.id).collect()
}

/// A request with its start in each future.
struct Racer<'a> {
    id: RequestId,
    run: f64,
    starts: &'a [Seconds],
}

impl<'a> Racer<'a> {
    fn new(request: &Request, estimates: &'a [StartEstimate]) -> Self {
        let forecast = StartEstimate::of(estimates, request.id).and_then(Start::forecast);
        Self { id: request.id, run: request.run.0, starts: forecast.map_or(&[], |forecast| &forecast.starts) }
    }
}

/// Returns the mean time to the end of the first request to start, over the futures in which all were
/// simulated.
fn mean_finish(all: &[&Racer]) -> Option<f64> {
    let futures = all.iter().map(|racer| racer.starts.len()).min()?;
    let finish = |future: usize| {
        let start = |racer: &&Racer| Some((racer.starts.get(future)?.0, racer.run));
        let first = all.iter().filter_map(start).min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(first.0 + first.1)
    };
    mean(&(0..futures).filter_map(finish).collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Asks, Estimate, Forecast, FurtherOptions};

    fn request(id: u32, run: f64) -> Request {
        let (limit, run) = (Seconds(run), Seconds(run));
        Request {
            id: RequestId(id),
            asks: Asks::default(),
            partition: None,
            account: None,
            limit,
            run,
            further: FurtherOptions::default(),
        }
    }

    fn estimate(id: u32, starts: &[f64]) -> StartEstimate {
        let start = Start::Estimated(Forecast {
            at_limits: None,
            start: Estimate::of(starts, None),
            finish: Estimate::of(starts, None),
            first: 0.0,
            starts: starts.iter().map(|start| Seconds(*start)).collect(),
            past_waits: 0,
            learnt: None,
            waiting: 0,
            ahead: 0,
        });
        StartEstimate { id: RequestId(id), start }
    }

    #[test]
    fn a_long_run_does_not_race_even_where_it_would_seem_to_help() {
        // Estimates may come in any order.
        let estimates = [estimate(8, &[20.0, 90.0]), estimate(3, &[100.0, 10.0])];
        let chosen = |runs: [f64; 2]| {
            let (first, second) = (request(3, runs[0]), request(8, runs[1]));
            race(&[&first, &second], &estimates, None, 3)
        };
        assert_eq!(chosen([5.0, 40.0]), [RequestId(3), RequestId(8)]);
        // If request 8 were added and started as expected, the job would be done after 48 instead of 60. Its
        // run is longer than 60, so it is left out.
        assert_eq!(chosen([5.0, 61.0]), [RequestId(3)]);
    }
}
