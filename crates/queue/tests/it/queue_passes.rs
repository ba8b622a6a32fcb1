//! Tiny queues with outcomes computed by hand: when each job starts if all run to their limits. Times are in
//! hours.

use serde_json::{Value, json};

use hsched_model::{GpuType, Seconds};
use hsched_queue::{
    Asks, FurtherOptions, GpuAsk, Question, Request, RequestId, Snapshot, Start, StartEstimate, forecast,
};

/// Time of the snapshots here.
const NOW: f64 = 1_000_000.0;

fn at(hours: f64) -> f64 {
    NOW + hours * 3600.0
}

fn node(name: &str, gpus: u32) -> Value {
    json!({ "name": name, "partitions": ["p"], "gpus": [{ "type": "a100", "count": gpus }], "cpus": 16 })
}

/// Returns a job that has run for an hour and must end in this many hours.
fn running(id: &str, gpus: &[(&str, u32)], ends_in: f64) -> Value {
    let holds: Vec<Value> = gpus
        .iter()
        .map(|(node, count)| json!({ "node": node, "gpus": [{ "type": "a100", "count": count }] }))
        .collect();
    json!({ "id": id, "partitions": ["p"], "limit_s": (ends_in + 1.0) * 3600.0, "asks": {},
        "running": { "since": at(-1.0), "holds": holds } })
}

fn waiting(id: &str, (nodes, gpus): (u32, u32), limit: f64) -> Value {
    json!({ "id": id, "partitions": ["p"], "priority": 100, "limit_s": limit * 3600.0, "submitted": at(-1.0),
        "asks": { "nodes": nodes, "gpus": [{ "type": "a100", "count": gpus }] } })
}

fn with(mut value: Value, key: &str, content: Value) -> Value {
    value[key] = content;
    value
}

fn snapshot(nodes: &[Value], jobs: &[Value]) -> Value {
    json!({ "schema": "hsched.queue/1", "taken_at": NOW, "nodes": nodes, "jobs": jobs,
        "partitions": [{ "name": "p", "default": true }],
        "accounts": [{ "name": "low", "priority": 50 }, { "name": "high", "priority": 200 }] })
}

fn request((nodes, gpus): (u32, u32), limit: f64) -> Request {
    Request {
        id: RequestId::default(),
        asks: Asks {
            nodes,
            gpus: vec![GpuAsk { gpu_type: GpuType::new("a100"), count: gpus }],
            ..Asks::default()
        },
        partition: None,
        account: Some("low".to_owned()),
        limit: Seconds(limit * 3600.0),
        run: Seconds(limit * 3600.0),
        further: FurtherOptions::default(),
    }
}

/// Returns when a request starts, in hours from now; `None`: never.
fn start(snapshot: &Value, request: Request) -> Option<f64> {
    let snapshot = Snapshot::parse(&snapshot.to_string()).expect("a snapshot");
    let question =
        Question { snapshot: &snapshot, requests: &[request], seed: 1, samples: 0, calibration: None };
    match forecast(&question, &|| false).remove(0).start {
        Start::Estimated(forecast) => Some(forecast.at_limits.expect("within the horizon").0 / 3600.0),
        Start::Never | Start::Refused(_) => None,
        Start::Unknown(reason) => panic!("{reason}"),
    }
}

#[test]
fn a_short_job_fits_the_hole_before_a_wide_one() {
    // Two GPUs are free until 4; then, the wide job takes all GPUs until 14.
    let queue = snapshot(&[node("n1", 4)], &[running("1", &[("n1", 2)], 4.0), waiting("2", (1, 4), 10.0)]);
    assert_eq!(start(&queue, request((1, 2), 4.0)), Some(0.0));
    assert_eq!(start(&queue, request((1, 2), 5.0)), Some(14.0));
    // A request with a higher priority is not delayed, and the wide job waits for it.
    let first = Request { account: Some("high".to_owned()), ..request((1, 2), 5.0) };
    assert_eq!(start(&queue, first), Some(0.0));
}

#[test]
fn without_backfill_nobody_overtakes() {
    let queue = snapshot(&[node("n1", 4)], &[running("1", &[("n1", 2)], 4.0), waiting("2", (1, 4), 10.0)]);
    let strict = with(queue, "scheduling", json!({ "backfill": false }));
    assert_eq!(start(&strict, request((1, 2), 1.0)), Some(14.0));
}

#[test]
fn a_job_that_waits_keeps_its_whole_node() {
    // At 2, two GPUs become free, three with the one that is free now, and the pending job needs two. The
    // third would always be available, but the node is reserved from 2 until that job has started.
    let jobs = [running("1", &[("n1", 2)], 2.0), running("2", &[("n1", 1)], 8.0), waiting("3", (1, 2), 10.0)];
    let queue = snapshot(&[node("n1", 4)], &jobs);
    assert_eq!(start(&queue, request((1, 1), 2.0)), Some(0.0));
    assert_eq!(start(&queue, request((1, 1), 3.0)), Some(2.0));
}

#[test]
fn running_jobs_block_only_their_gpus() {
    let queue = snapshot(&[node("n1", 4)], &[running("1", &[("n1", 3)], 8.0)]);
    assert_eq!(start(&queue, request((1, 1), 100.0)), Some(0.0));
    assert_eq!(start(&queue, request((1, 2), 1.0)), Some(8.0));
}

#[test]
fn several_nodes_must_be_free_at_once() {
    let jobs = [running("1", &[("n1", 4)], 2.0), running("2", &[("n2", 4)], 5.0), waiting("3", (1, 4), 1.0)];
    let queue = snapshot(&[node("n1", 4), node("n2", 4)], &jobs);
    assert_eq!(start(&queue, request((2, 4), 1.0)), Some(5.0));
    // Maintenance of one node from 5.5 to 7: a job of one hour starts after it.
    let maintained = with(
        queue,
        "reservations",
        json!([{ "name": "m", "nodes": ["n1"], "start": at(5.5), "end": at(7.0) }]),
    );
    assert_eq!(start(&maintained, request((2, 4), 1.0)), Some(7.0));
    assert_eq!(start(&maintained, request((2, 4), 0.5)), Some(5.0));
}

#[test]
fn maintenance_lets_in_only_what_ends_before_it() {
    let closed = json!([{ "name": "m", "nodes": ["n1"], "start": at(3.0), "end": at(5.0) }]);
    let queue = with(snapshot(&[node("n1", 4)], &[]), "reservations", closed);
    assert_eq!(start(&queue, request((1, 4), 3.0)), Some(0.0));
    assert_eq!(start(&queue, request((1, 1), 4.0)), Some(5.0));
}

#[test]
fn tasks_of_an_array_run_up_to_its_limit() {
    let array = |at_once: Option<u32>| {
        let tasks = with(waiting("9_[1-3]", (1, 1), 2.0), "tasks", json!(3));
        let tasks = with(tasks, "array", json!("9"));
        let tasks = match at_once {
            Some(most) => with(tasks, "at_once", json!(most)),
            None => tasks,
        };
        snapshot(&[node("n1", 2)], &[tasks])
    };
    // With one task at a time, the other GPU is free. Without a limit, two tasks start, and the third one
    // waits until 2 for a GPU of the node.
    assert_eq!(start(&array(Some(1)), request((1, 1), 50.0)), Some(0.0));
    assert_eq!(start(&array(None), request((1, 1), 50.0)), Some(2.0));
    assert_eq!(start(&array(None), request((1, 2), 1.0)), Some(4.0));
    // A running task already counts.
    let runs = with(running("9_0", &[("n1", 1)], 6.0), "array", json!("9"));
    let mut busy = array(Some(1));
    busy["jobs"].as_array_mut().expect("jobs").push(runs);
    assert_eq!(start(&busy, request((1, 1), 50.0)), Some(0.0));
}

#[test]
fn jobs_that_wait_for_something_else_do_not_compete() {
    let held = with(waiting("2", (1, 4), 10.0), "waits_for_other", json!(true));
    let held = with(held, "reason", json!("JobHeldUser"));
    let queue = snapshot(&[node("n1", 4)], &[held]);
    assert_eq!(start(&queue, request((1, 4), 5.0)), Some(0.0));
}

#[test]
fn cpus_and_memory_count() {
    let mut busy = running("1", &[("n1", 1)], 3.0);
    busy["running"]["holds"][0]["cpus"] = json!(14);
    let queue = snapshot(&[node("n1", 4)], &[busy]);
    let wants = |cpus: u64| {
        let mut request = request((1, 1), 1.0);
        request.asks.cpus = Some(cpus);
        request
    };
    assert_eq!(start(&queue, wants(2)), Some(0.0));
    assert_eq!(start(&queue, wants(3)), Some(3.0));
    assert_eq!(start(&queue, wants(17)), None);
}

#[test]
fn what_no_node_could_hold_never_starts() {
    let down = with(node("n2", 8), "use", json!("down"));
    let queue = snapshot(&[node("n1", 4), down, with(node("n3", 4), "use", json!("drained"))], &[]);
    assert_eq!(start(&queue, request((1, 8), 1.0)), None);
    assert_eq!(start(&queue, request((2, 4), 1.0)), None);
    assert_eq!(start(&queue, request((1, 4), 1.0)), Some(0.0));
    let elsewhere = Request { partition: Some("q".to_owned()), ..request((1, 1), 1.0) };
    assert_eq!(start(&queue, elsewhere), None);
}

#[test]
fn exclusive_partitions_give_whole_nodes() {
    let mut queue = snapshot(&[node("n1", 4)], &[running("1", &[("n1", 1)], 3.0)]);
    assert_eq!(start(&queue, request((1, 1), 1.0)), Some(0.0));
    queue["partitions"][0]["exclusive"] = json!(true);
    assert_eq!(start(&queue, request((1, 1), 1.0)), Some(3.0));
}

#[test]
fn a_job_beyond_the_window_keeps_nothing() {
    // The job on two nodes could start at 30. With a window of two days, nodes are reserved for it; with one
    // day, they are not.
    let jobs = [running("1", &[("n1", 4)], 30.0), waiting("2", (2, 4), 5.0)];
    let queue = |hours: f64| {
        let queue = snapshot(&[node("n1", 4), node("n2", 4)], &jobs);
        with(queue, "scheduling", json!({ "window_s": hours * 3600.0 }))
    };
    assert_eq!(start(&queue(48.0), request((1, 4), 40.0)), Some(35.0));
    assert_eq!(start(&queue(24.0), request((1, 4), 40.0)), Some(0.0));
}

#[test]
fn features_and_types_choose_the_nodes() {
    let mut other = node("n2", 4);
    other["gpus"][0]["type"] = json!("v100");
    other["features"] = json!(["ib"]);
    let queue = snapshot(&[node("n1", 4), other], &[running("1", &[("n1", 4)], 6.0)]);
    assert_eq!(start(&queue, request((1, 1), 1.0)), Some(6.0));
    let mut any = request((1, 1), 1.0);
    any.asks.gpus[0].gpu_type = None;
    assert_eq!(start(&queue, any.clone()), Some(0.0));
    any.asks.features = Some("ib&fast".to_owned());
    assert_eq!(start(&queue, any), None);
}

#[test]
fn where_others_are_hidden_nothing_is_foretold() {
    let queue = with(snapshot(&[node("n1", 4)], &[]), "others_hidden", json!(true));
    let snapshot = Snapshot::parse(&queue.to_string()).expect("a snapshot");
    let requests = [request((1, 1), 1.0)];
    let question =
        Question { snapshot: &snapshot, requests: &requests, seed: 1, samples: 9, calibration: None };
    assert!(matches!(forecast(&question, &|| false)[..], [StartEstimate { start: Start::Unknown(_), .. }]));
}

/// The only submissions of the week arrived within one second, like the tasks of an array.
#[test]
fn submissions_of_one_second_end_in_an_estimate() {
    let ended = |task: u32| {
        json!({ "user": format!("u{task}"), "partition": "p", "limit_s": 3600.0, "submitted": at(-30.0),
            "started": at(-29.0), "ended": at(-28.5), "asks": { "gpus": [{ "type": "a100", "count": 4 }] } })
    };
    let mut value = snapshot(&[node("n1", 4)], &[running("1", &[("n1", 4)], 5.0)]);
    value["history"] = json!((0..40).map(ended).collect::<Vec<_>>());
    value["history_since"] = json!(at(-200.0));
    let snapshot = Snapshot::parse(&value.to_string()).expect("a snapshot");
    let requests = [request((1, 4), 1.0)];
    let question =
        Question { snapshot: &snapshot, requests: &requests, seed: 1, samples: 10, calibration: None };
    let start = forecast(&question, &|| false).remove(0).start;
    assert_eq!(start.forecast().map(|forecast| forecast.starts.len()), Some(10));
}

#[test]
fn only_jobs_for_nodes_that_can_hold_a_request_are_before_it() {
    let node = |name: &str, gpus: &[(&str, u32)]| {
        let gpus: Vec<Value> =
            gpus.iter().map(|(gpu_type, count)| json!({ "type": gpu_type, "count": count })).collect();
        json!({ "name": name, "partitions": ["p"], "gpus": gpus })
    };
    // Node `m` has both types, but too few A100 GPUs.
    let nodes = [node("a", &[("a100", 4)]), node("m", &[("a100", 2), ("t4", 2)]), node("t", &[("t4", 4)])];
    let busy = running("1", &[("a", 4), ("m", 2)], 5.0);
    let t4 = with(waiting("2", (1, 1), 1.0), "asks", json!({ "gpus": [{ "type": "t4", "count": 4 }] }));
    let also_t4 = with(waiting("3", (1, 1), 1.0), "asks", json!({ "gpus": [{ "type": "t4", "count": 2 }] }));
    let counts = |jobs: &[Value]| {
        let snapshot = Snapshot::parse(&snapshot(&nodes, jobs).to_string()).expect("a snapshot");
        let requests = [request((1, 4), 1.0)];
        let question =
            Question { snapshot: &snapshot, requests: &requests, seed: 0, samples: 0, calibration: None };
        let found = forecast(&question, &|| false);
        let forecast = found[0].start.forecast().expect("an estimate");
        (forecast.waiting, forecast.ahead)
    };
    let small = waiting("4", (1, 2), 1.0);
    assert_eq!(counts(&[busy.clone(), t4.clone(), also_t4.clone()]), (0, 0));
    assert_eq!(counts(&[busy, t4, also_t4, small]), (1, 1));
}
