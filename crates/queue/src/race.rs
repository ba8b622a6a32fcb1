//! Several requests of one job in the queue at once: the first to start runs, the others are withdrawn.

use crate::estimate::mean;
use crate::{Outlook, Request};

/// Returns up to so many requests to queue together: those with which the job finishes first on average, by the futures in which each
/// was tried alone. The first is `first`, else the best alone; another is added only where it helps, and where the job is done no later
/// than expected even if that one starts at once: long runs that start before anybody foresaw it would be the price of a race.
#[must_use]
pub fn race(requests: &[Request], outlooks: &[Outlook], first: Option<usize>, entries: usize) -> Vec<usize> {
    let mut chosen: Vec<usize> = first.into_iter().collect();
    let mut best = mean_finish(requests, outlooks, &chosen).unwrap_or(f64::INFINITY);
    while chosen.len() < entries {
        let with = |number: usize| {
            let mut all = chosen.clone();
            all.push(number);
            Some((mean_finish(requests, outlooks, &all)?, number))
        };
        let is_fast = |number: &usize| requests[*number].run.0 <= best;
        let others = (0..requests.len()).filter(|number| !chosen.contains(number) && is_fast(number));
        let Some((finish, number)) = others.filter_map(with).min_by(|a, b| a.0.total_cmp(&b.0)) else {
            break;
        };
        if finish >= best {
            break;
        }
        best = finish;
        chosen.push(number);
    }
    chosen
}

/// Returns the mean time to the end of what starts first of some requests, in the futures in which all were tried.
fn mean_finish(requests: &[Request], outlooks: &[Outlook], all: &[usize]) -> Option<f64> {
    let starts = |number: usize| match &outlooks[number] {
        Outlook::Estimated(forecast) => Some(&forecast.starts),
        _ => None,
    };
    let futures = all.iter().map(|&number| starts(number).map_or(0, Vec::len)).min()?;
    let finish = |future: usize| {
        let start = |&number: &usize| Some((starts(number)?.get(future)?.0, number));
        let first = all.iter().filter_map(start).min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(first.0 + requests[first.1].run.0)
    };
    mean(&(0..futures).filter_map(finish).collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Asks, Estimate, Forecast};
    use hsched_model::Seconds;

    fn request(run: f64) -> Request {
        let (limit, run) = (Seconds(run), Seconds(run));
        Request { asks: Asks::default(), partition: None, account: None, limit, run }
    }

    fn outlook(starts: &[f64]) -> Outlook {
        Outlook::Estimated(Forecast {
            at_limits: None,
            start: Estimate::of(starts, None),
            finish: Estimate::of(starts, None),
            first: 0.0,
            starts: starts.iter().map(|start| Seconds(*start)).collect(),
            past_waits: 0,
            waiting: 0,
            ahead: 0,
        })
    }

    #[test]
    fn a_long_run_does_not_race_even_where_it_would_seem_to_help() {
        let outlooks = [outlook(&[100.0, 10.0]), outlook(&[20.0, 90.0])];
        let chosen = |runs: [f64; 2]| race(&runs.map(request), &outlooks, None, 3);
        assert_eq!(chosen([5.0, 40.0]), [0, 1]);
        // With it the job would be done after 48 instead of 60, if it started when it is expected to.
        assert_eq!(chosen([5.0, 61.0]), [0]);
    }
}
