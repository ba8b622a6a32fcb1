//! Time of an estimate by the size of the queue, and the difference between simulating requests together and
//! alone.

use std::fs;

use hsched_engine::clock::{Clock, SystemClock};
use hsched_queue::{Question, Request, Snapshot, StartEstimate, forecast};

use crate::made_up;

/// Nodes, pending jobs and futures of each row.
const SIZES: [(usize, usize, usize); 4] = [(8, 50, 60), (50, 500, 60), (200, 2000, 60), (2000, 20_000, 10)];

/// Prints the time for 24 requests with all jobs at their limits and in the given number of futures, with CPU
/// time and memory.
pub fn main() {
    println!(
        "| nodes | waiting | at limits | futures of the best | time | processor time | most memory so far |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (nodes, waiting, samples) in SIZES {
        let (snapshot, requests) = (made_up::snapshot(nodes, waiting, 1), made_up::requests());
        let clock = SystemClock::default();
        let ask = |samples: usize| {
            let (begin, processor) = (clock.elapsed().as_secs_f64(), processor_seconds());
            let question =
                Question { snapshot: &snapshot, requests: &requests, seed: 1, samples, calibration: None };
            let estimates = forecast(&question, &|| false);
            (estimates, clock.elapsed().as_secs_f64() - begin, processor_seconds() - processor)
        };
        let ((_, at_limits, _), (estimates, time, processor)) = (ask(0), ask(samples));
        let futures =
            |estimate: &StartEstimate| estimate.start.forecast().map_or(0, |forecast| forecast.starts.len());
        let most = estimates.iter().map(futures).max().unwrap_or(0);
        println!(
            "| {nodes} | {waiting} | {at_limits:.2} s | {most} | {time:.2} s | {processor:.2} s | {} MB |",
            most_memory_kb() / 1000
        );
    }
    beside_each_other();
}

/// Prints the difference between the starts of requests simulated together and alone, in the same futures.
fn beside_each_other() {
    let (snapshot, requests) = (made_up::snapshot(200, 2000, 2), made_up::requests());
    let together = starts(&snapshot, &requests);
    let alone: Vec<Vec<f64>> =
        requests.iter().map(|request| starts(&snapshot, std::slice::from_ref(request)).remove(0)).collect();
    let (mut difference, mut wait, mut same, mut count) = (0.0, 0.0, 0, 0);
    for (together, alone) in together.iter().zip(&alone) {
        for (joint, other) in together.iter().zip(alone) {
            (difference, wait, count) = (difference + (joint - other), wait + other, count + 1);
            same += usize::from((joint - other).abs() < 1.0);
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
    let known = |estimate: &StartEstimate| {
        let starts = estimate.start.forecast().map_or(&[][..], |forecast| &forecast.starts);
        starts.iter().map(|start| start.0).collect()
    };
    forecast(&question, &|| false).iter().map(known).collect()
}

/// Returns the CPU time of all threads of this process, in seconds.
fn processor_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").expect("Linux");
    let after_name = text.rsplit(')').next().expect("a line");
    let ticks = after_name.split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().expect("a number")).sum::<f64>() / TICKS
}

/// Ticks of `/proc` in a second.
const TICKS: f64 = 100.0;

fn most_memory_kb() -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
