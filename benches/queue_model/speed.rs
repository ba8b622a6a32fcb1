//! How long a question takes by the size of the queue, and how far requests that are tried together are from each alone.

use hsched_engine::clock::{Clock, SystemClock};
use hsched_queue::{Question, Request, Snapshot, StartEstimate, forecast};

use crate::made_up;

/// Nodes and waiting jobs of each row.
const SIZES: [(usize, usize); 3] = [(8, 50), (50, 500), (200, 2000)];
const SAMPLES: usize = 30;
/// Seconds after which no more futures are looked at.
const BUDGET: f64 = 10.0;

/// Prints the time of twelve requests, at limits and in 30 futures.
pub fn main() {
    println!("| nodes | waiting | at limits | futures of the best | time |");
    println!("|---|---|---|---|---|");
    for (nodes, waiting) in SIZES {
        let (snapshot, requests) = (made_up::snapshot(nodes, waiting, 1), made_up::requests());
        let clock = SystemClock::default();
        let now = || clock.elapsed().as_secs_f64();
        let ask = |samples: usize| {
            let begin = now();
            let question =
                Question { snapshot: &snapshot, requests: &requests, seed: 1, samples, calibration: None };
            let estimates = forecast(&question, &|| now() - begin > BUDGET);
            (estimates, now() - begin)
        };
        let ((_, at_limits), (estimates, time)) = (ask(0), ask(SAMPLES));
        let futures = |own: &StartEstimate| own.start.forecast().map_or(0, |own| own.starts.len());
        let most = estimates.iter().map(futures).max().unwrap_or(0);
        println!("| {nodes} | {waiting} | {at_limits:.2} s | {most} | {time:.2} s |");
    }
    beside_each_other();
}

/// Prints how much the starts of requests that are tried together differ from those of each alone, in the same futures.
fn beside_each_other() {
    let (snapshot, requests) = (made_up::snapshot(200, 2000, 2), made_up::requests());
    let together = starts(&snapshot, &requests);
    let alone: Vec<Vec<f64>> =
        requests.iter().map(|own| starts(&snapshot, std::slice::from_ref(own)).remove(0)).collect();
    let (mut difference, mut wait, mut same, mut count) = (0.0, 0.0, 0, 0);
    for (together, alone) in together.iter().zip(&alone) {
        for (own, other) in together.iter().zip(alone) {
            (difference, wait, count) = (difference + (own - other), wait + other, count + 1);
            same += usize::from((own - other).abs() < 1.0);
        }
    }
    println!(
        "together and alone, 200 nodes: {} of {count} starts the same; {:+.2} h on {:.1} h on average",
        same,
        difference / 3600.0 / f64::from(count),
        wait / 3600.0 / f64::from(count)
    );
}

/// Returns the starts of each request in the same futures.
fn starts(snapshot: &Snapshot, requests: &[Request]) -> Vec<Vec<f64>> {
    let question = Question { snapshot, requests, seed: 1, samples: 10, calibration: None };
    let known = |own: &StartEstimate| {
        let starts = own.start.forecast().map_or(&[][..], |own| &own.starts);
        starts.iter().map(|start| start.0).collect()
    };
    forecast(&question, &|| false).iter().map(known).collect()
}
