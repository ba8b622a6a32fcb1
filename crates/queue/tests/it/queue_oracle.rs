//! The queue model compared with a slow and simple one that shares no code with it, on small queues of all
//! kinds: hours are integers, all jobs run to their limits, and every hour is simulated.

#![expect(clippy::cast_precision_loss, reason = "hours and counts are small")]

use proptest::prelude::*;
use serde_json::{Value, json};

use hsched_model::{GpuType, Seconds};
use hsched_queue::{Asks, FurtherOptions, GpuAsk, Question, Request, RequestId, Snapshot, Start, forecast};

const NOW: f64 = 1_000_000.0;

/// Number of hours after which all jobs of such a small queue have run.
const LONGEST: usize = 120;

#[derive(Clone, Debug)]
struct Job {
    nodes: usize,
    gpus: u32,
    limit: usize,
    priority: u32,
}

#[derive(Clone, Debug)]
struct Queue {
    /// GPUs of each node.
    nodes: Vec<u32>,
    /// Node, GPUs, remaining hours.
    running: Vec<(usize, u32, usize)>,
    waiting: Vec<Job>,
    /// Node, and the hours at which its maintenance starts and ends.
    closed: Option<(usize, usize, usize)>,
    ours: Job,
}

/// Returns the hour in which our request starts.
fn oracle(queue: &Queue) -> Option<usize> {
    let holds = |job: &Job| queue.nodes.iter().filter(|gpus| **gpus >= job.gpus).count() >= job.nodes;
    if !holds(&queue.ours) {
        return None;
    }
    let mut line: Vec<(Job, bool)> =
        queue.waiting.iter().filter(|job| holds(job)).map(|job| (job.clone(), false)).collect();
    line.push((queue.ours.clone(), true));
    line.sort_by_key(|(job, ours)| (std::cmp::Reverse(job.priority), *ours));
    // Running jobs: nodes, GPUs on each, the hour of their end.
    let mut runs: Vec<(Vec<usize>, u32, usize)> =
        queue.running.iter().map(|(node, gpus, left)| (vec![*node], *gpus, *left)).collect();
    for now in 0..LONGEST {
        runs.retain(|(_, _, end)| *end > now);
        let mut kept: Vec<(Vec<usize>, usize, usize)> =
            queue.closed.iter().map(|(node, start, end)| (vec![*node], *start, *end)).collect();
        let mut left = Vec::new();
        for (job, ours) in line {
            let fits = |node: usize, hour: usize| {
                let held = runs.iter().filter(|(nodes, _, end)| nodes.contains(&node) && *end > hour);
                let free =
                    i64::from(queue.nodes[node]) - held.map(|(_, gpus, _)| i64::from(*gpus)).sum::<i64>();
                let end = hour + job.limit;
                let is_kept = kept
                    .iter()
                    .any(|(nodes, start, last)| nodes.contains(&node) && *start < end && hour < *last);
                free >= i64::from(job.gpus) && !is_kept
            };
            let slot = (now..now + LONGEST).find_map(|hour| {
                let open: Vec<usize> =
                    (0..queue.nodes.len()).filter(|&node| fits(node, hour)).take(job.nodes).collect();
                (open.len() == job.nodes).then_some((hour, open))
            });
            match slot {
                Some((hour, nodes)) if hour == now => {
                    if ours {
                        return Some(now);
                    }
                    runs.push((nodes, job.gpus, now + job.limit));
                }
                Some((hour, nodes)) => {
                    kept.push((nodes, hour, hour + job.limit));
                    left.push((job, ours));
                }
                None => left.push((job, ours)),
            }
        }
        line = left;
    }
    None
}

fn snapshot(queue: &Queue) -> Snapshot {
    let gpus = |count: u32| json!([{ "type": "a100", "count": count }]);
    let node = |(number, count): (usize, &u32)| json!({ "name": format!("n{number}"), "gpus": gpus(*count) });
    let nodes: Vec<Value> = queue.nodes.iter().enumerate().map(node).collect();
    let mut jobs = Vec::new();
    for (number, (node, count, left)) in queue.running.iter().enumerate() {
        let holds = json!([{ "node": format!("n{node}"), "gpus": gpus(*count) }]);
        jobs.push(json!({ "id": format!("r{number}"), "asks": {}, "limit_s": left * 3600,
            "running": { "since": NOW, "holds": holds } }));
    }
    for (number, job) in queue.waiting.iter().enumerate() {
        jobs.push(json!({ "id": format!("w{number}"), "limit_s": job.limit * 3600, "priority": job.priority,
            "submitted": NOW - 100.0 + number as f64, "asks": { "nodes": job.nodes, "gpus": gpus(job.gpus) } }));
    }
    let closed = queue.closed.iter().map(|(node, start, end)| {
        json!({ "name": "m", "nodes": [format!("n{node}")],
            "start": NOW + *start as f64 * 3600.0, "end": NOW + *end as f64 * 3600.0 })
    });
    let text = json!({ "schema": "hsched.queue/1", "taken_at": NOW, "nodes": nodes, "jobs": jobs,
        "reservations": closed.collect::<Vec<_>>(), "scheduling": { "window_s": 1e9 },
        "accounts": [{ "name": "own", "priority": queue.ours.priority }] });
    Snapshot::parse(&text.to_string()).expect("a snapshot")
}

fn request(job: &Job) -> Request {
    let limit = Seconds(job.limit as f64 * 3600.0);
    let gpus = vec![GpuAsk { gpu_type: GpuType::new("a100"), count: job.gpus }];
    Request {
        id: RequestId::default(),
        asks: Asks { nodes: u32::try_from(job.nodes).expect("few"), gpus, ..Asks::default() },
        partition: None,
        account: Some("own".to_owned()),
        limit,
        run: limit,
        further: FurtherOptions::default(),
    }
}

fn job() -> impl Strategy<Value = Job> {
    (1..3_usize, 1..5_u32, 1..9_usize, 0..4_u32).prop_map(|(nodes, gpus, limit, priority)| Job {
        nodes,
        gpus,
        limit,
        priority,
    })
}

fn queue() -> impl Strategy<Value = Queue> {
    let nodes = prop::collection::vec(2..5_u32, 1..4);
    nodes.prop_flat_map(|nodes| {
        let count = nodes.len();
        let running = prop::collection::vec((0..count, 1..3_u32, 1..9_usize), 0..5);
        let closed = prop::option::of((0..count, 0..6_usize, 1..6_usize));
        let waiting = prop::collection::vec(job(), 0..7);
        (Just(nodes), running, waiting, closed, job()).prop_map(|(nodes, running, waiting, closed, ours)| {
            let closed = closed.map(|(node, start, length)| (node, start, start + length));
            // No job holds more than exists.
            let mut free = nodes.clone();
            let fits = |(node, gpus, _): &(usize, u32, usize)| {
                let enough = free[*node] >= *gpus;
                free[*node] -= if enough { *gpus } else { 0 };
                enough
            };
            let running = running.into_iter().filter(fits).collect();
            Queue { nodes, running, waiting, closed, ours }
        })
    })
}

proptest! {
    #[test]
    fn the_model_starts_ours_when_the_slow_one_does(queue in queue()) {
        let (snapshot, requests) = (snapshot(&queue), [request(&queue.ours)]);
        let question = Question { snapshot: &snapshot, requests: &requests, seed: 1, samples: 0, calibration: None };
        let start = match forecast(&question, &|| false).remove(0).start {
            Start::Estimated(forecast) => forecast.at_limits.map(|at| at.0 / 3600.0),
            _ => None,
        };
        let known = oracle(&queue).map(|hour| hour as f64);
        prop_assert_eq!(start, known);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn futures_are_the_same_for_the_same_seed_and_never_before_now(queue in queue(), seed: u64) {
        let (snapshot, requests) = (snapshot(&queue), [request(&queue.ours)]);
        let question = Question { snapshot: &snapshot, requests: &requests, seed, samples: 3, calibration: None };
        let outlook = forecast(&question, &|| false);
        prop_assert_eq!(&outlook, &forecast(&question, &|| false));
        if let Start::Estimated(forecast) = &outlook[0].start {
            prop_assert_eq!(forecast.starts.len(), 3);
            prop_assert!(forecast.starts.iter().all(|start| start.0 >= 0.0));
            prop_assert!(forecast.start.low.0 <= forecast.start.median.0 && forecast.start.median.0 <= forecast.start.high.0);
        }
    }
}
