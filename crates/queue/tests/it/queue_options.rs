//! Tiny queues for options besides GPUs: exclusive nodes, features, node names, times, partitions. All jobs
//! run to their limits. Times are in hours.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use hsched_model::{GpuType, NodeName, Seconds, Time};
use hsched_queue::{
    Asks, FurtherOptions, GpuAsk, Question, Request, RequestId, Snapshot, Start, StartEstimate, forecast,
};

const NOW: f64 = 1_000_000.0;

fn at(hours: f64) -> f64 {
    NOW + hours * 3600.0
}

fn node(name: &str, features: &[&str]) -> Value {
    json!({ "name": name, "partitions": ["p", "q"], "gpus": [{ "type": "a100", "count": 4 }],
        "features": features })
}

/// Returns a job on this many GPUs of a node that must end in this many hours.
fn running(id: &str, node: &str, gpus: u32, ends_in: f64) -> Value {
    json!({ "id": id, "partitions": ["p"], "limit_s": (ends_in + 5.0) * 3600.0, "asks": {},
        "running": { "since": at(-5.0), "holds": [{ "node": node, "gpus": [{ "type": "a100", "count": gpus }] }] } })
}

fn waiting(id: &str, gpus: u32, limit: f64) -> Value {
    json!({ "id": id, "partitions": ["p"], "priority": 100, "limit_s": limit * 3600.0, "submitted": at(-1.0),
        "asks": { "gpus": [{ "type": "a100", "count": gpus }] } })
}

fn with(mut value: Value, content: Value) -> Value {
    let (Value::Object(value_map), Value::Object(content)) = (&mut value, content) else { panic!("objects") };
    value_map.extend(content);
    value
}

/// Two nodes, `n1` with `ib`, and two partitions of both.
fn snapshot(jobs: &[Value]) -> Value {
    json!({ "schema": "hsched.queue/1", "taken_at": NOW, "jobs": jobs,
        "nodes": [node("n1", &["a100", "ib"]), node("n2", &["a100"])],
        "partitions": [{ "name": "p", "default": true, "tier": 1 }, { "name": "q", "tier": 1 }],
        "accounts": [{ "name": "own", "priority": 50 }] })
}

fn request(gpus: u32, limit: f64) -> Request {
    let gpus = vec![GpuAsk { gpu_type: GpuType::new("a100"), count: gpus }];
    Request {
        id: RequestId::default(),
        asks: Asks { nodes: 1, gpus, ..Asks::default() },
        partition: None,
        account: Some("own".to_owned()),
        limit: Seconds(limit * 3600.0),
        run: Seconds(limit * 3600.0),
        further: FurtherOptions::default(),
    }
}

fn asking(gpus: u32, limit: f64, asks: impl Fn(&mut Asks)) -> Request {
    let mut request = request(gpus, limit);
    asks(&mut request.asks);
    request
}

fn with_options(gpus: u32, limit: f64, further: FurtherOptions) -> Request {
    Request { further, ..request(gpus, limit) }
}

fn names(list: &[&str]) -> BTreeSet<NodeName> {
    list.iter().map(|name| NodeName::new(name).expect("a name")).collect()
}

fn start_of(snapshot: &Value, request: Request, samples: usize) -> Start {
    let snapshot = Snapshot::parse(&snapshot.to_string()).expect("a snapshot");
    assert!(snapshot.notes.is_empty(), "{:?}", snapshot.notes);
    let question =
        Question { snapshot: &snapshot, requests: &[request], seed: 1, samples, calibration: None };
    let StartEstimate { start, .. } = forecast(&question, &|| false).remove(0);
    start
}

/// Returns when a request starts, in hours from now; `None`: never.
fn start(snapshot: &Value, request: Request) -> Option<f64> {
    match start_of(snapshot, request, 0) {
        Start::Estimated(forecast) => Some(forecast.at_limits.expect("within the horizon").0 / 3600.0),
        Start::Never | Start::Refused(_) => None,
        Start::Unknown(reason) => panic!("{reason}"),
    }
}

#[test]
fn nodes_are_those_that_the_options_allow() {
    let queue = snapshot(&[running("1", "n1", 1, 3.0), running("2", "n2", 4, 8.0)]);
    assert_eq!(start(&queue, request(1, 1.0)), Some(0.0));
    assert_eq!(start(&queue, asking(1, 1.0, |asks| asks.exclusive = true)), Some(3.0));
    let constraint = |text: &str| start(&queue, asking(1, 1.0, |asks| asks.features = Some(text.to_owned())));
    assert_eq!(
        (constraint("ib"), constraint("a100&ib"), constraint("h100|ib")),
        (Some(0.0), Some(0.0), Some(0.0))
    );
    assert_eq!((constraint("h100"), constraint("h100|a100&ib")), (None, Some(0.0)));
    assert_eq!(start(&queue, asking(1, 1.0, |asks| asks.nodelist = names(&["n2"]))), Some(8.0));
    assert_eq!(start(&queue, asking(1, 1.0, |asks| asks.exclude = names(&["n1"]))), Some(8.0));
    assert_eq!(start(&queue, asking(1, 1.0, |asks| asks.exclude = names(&["n1", "n2"]))), None);
}

#[test]
fn pending_jobs_of_others_go_where_their_options_allow() {
    let whole = |asks: Value| {
        let mut job = waiting("3", 4, 10.0);
        job["asks"] = with(job["asks"].clone(), asks);
        snapshot(&[running("1", "n1", 4, 2.0), running("2", "n2", 4, 4.0), job])
    };
    // Job 3 takes the node that becomes free first, unless it may use only `n2`; the request gets the other.
    assert_eq!(start(&whole(json!({})), request(4, 1.0)), Some(4.0));
    assert_eq!(start(&whole(json!({ "nodelist": ["n2"] })), request(4, 1.0)), Some(2.0));
    assert_eq!(start(&whole(json!({ "exclude": ["n1"] })), request(4, 1.0)), Some(2.0));
}

#[test]
fn nothing_starts_before_its_time() {
    let begin = |hours: f64| FurtherOptions { begin: Some(Time(at(hours))), ..FurtherOptions::default() };
    let queue = snapshot(&[running("1", "n1", 4, 30.0), running("2", "n2", 4, 4.0), waiting("3", 4, 3.0)]);
    assert_eq!(start(&queue, with_options(4, 1.0, begin(2.0))), Some(7.0));
    assert_eq!(start(&queue, with_options(4, 1.0, begin(9.5))), Some(9.5));
    assert_eq!(start(&snapshot(&[]), with_options(4, 1.0, begin(-1.0))), Some(0.0));
    // A job that begins later does not compete before its begin time. From then on, it precedes others of
    // lower priority.
    let late = with(
        waiting("3", 4, 10.0),
        json!({ "begin": at(2.0), "reason": "BeginTime", "waits_for_other": true }),
    );
    let queue = snapshot(&[running("2", "n2", 4, 40.0), late]);
    assert_eq!(start(&queue, with_options(4, 3.0, begin(0.0))), Some(0.0));
    assert_eq!(start(&queue, with_options(4, 3.0, begin(2.0))), Some(12.0));
}

#[test]
fn nice_gives_up_priority() {
    let queue = snapshot(&[
        running("1", "n1", 4, 2.0),
        running("2", "n2", 4, 30.0),
        with(waiting("3", 4, 10.0), json!({ "priority": 45 })),
    ]);
    let nice = |nice: i64| with_options(4, 1.0, FurtherOptions { nice, ..FurtherOptions::default() });
    assert_eq!((start(&queue, nice(0)), start(&queue, nice(10))), (Some(2.0), Some(12.0)));
}

#[test]
fn a_reservation_has_its_nodes_and_its_time() {
    let mut queue = snapshot(&[running("2", "n2", 4, 40.0)]);
    queue["reservations"] = json!([{ "name": "r", "nodes": ["n1"], "start": at(3.0), "end": at(6.0) }]);
    let inside =
        |name: &str| FurtherOptions { reservation: Some(name.to_owned()), ..FurtherOptions::default() };
    assert_eq!(start(&queue, with_options(4, 10.0, inside("r"))), Some(3.0));
    assert_eq!(start(&queue, request(4, 10.0)), Some(6.0));
    assert_eq!(start(&queue, with_options(4, 10.0, inside("other"))), None);
    // Another user's job that waits for the beginning of the reservation takes all of it.
    let job = json!({ "reservation": "r", "reason": "Reservation", "waits_for_other": true });
    queue["jobs"].as_array_mut().expect("jobs").push(with(waiting("3", 4, 1.0), job));
    assert_eq!(start(&queue, with_options(4, 10.0, inside("r"))), Some(4.0));
}

#[test]
fn a_qos_has_its_limits_and_its_priority() {
    let mut queue =
        snapshot(&[running("1", "n1", 4, 2.0), running("2", "n2", 4, 30.0), waiting("3", 4, 10.0)]);
    queue["qos_priority"] = json!({ "high": 100.0, "normal": 0.0 });
    queue["limits"] = json!([{ "holder": "q:small", "name": "MaxTRES", "tres": "gres/gpu", "max": 2 }]);
    let of = |name: &str| FurtherOptions { qos: Some(name.to_owned()), ..FurtherOptions::default() };
    assert_eq!(start(&queue, with_options(4, 1.0, of("high"))), Some(2.0));
    assert_eq!(start(&queue, with_options(4, 1.0, of("normal"))), Some(12.0));
    assert!(matches!(start_of(&queue, with_options(4, 1.0, of("small")), 0), Start::Refused(_)));
}

#[test]
fn jobs_compete_from_the_ends_of_those_that_they_wait_for() {
    let after = |ids: &[&str]| json!({ "after": ids, "reason": "Dependency", "waits_for_other": true });
    let busy = running("2", "n2", 4, 40.0);
    // Job 3 may start when the node becomes free, and precedes the request.
    let queue =
        snapshot(&[running("1", "n1", 4, 2.0), busy.clone(), with(waiting("3", 4, 10.0), after(&["1"]))]);
    assert_eq!(start(&queue, request(4, 1.0)), Some(12.0));
    // In a chain, each job competes once the previous one has ended. The request comes after the last job, or
    // before it if that job has a lower priority.
    let chain = [
        running("1", "n1", 4, 2.0),
        busy.clone(),
        waiting("3", 4, 1.0),
        with(waiting("4", 4, 1.0), after(&["3"])),
        with(waiting("5", 4, 10.0), after(&["4"])),
    ];
    assert_eq!(start(&snapshot(&chain), request(4, 1.0)), Some(14.0));
    let mut low = chain.to_vec();
    low[4]["priority"] = json!(10);
    assert_eq!(start(&snapshot(&low), request(4, 1.0)), Some(4.0));
    // A job that waits for a held or invisible job is left out.
    let held = with(waiting("3", 4, 1.0), json!({ "reason": "JobHeldUser", "waits_for_other": true }));
    for others in [&["3"][..], &["1", "99"], &[]] {
        let queue = snapshot(&[
            running("1", "n1", 4, 2.0),
            busy.clone(),
            held.clone(),
            with(waiting("4", 4, 9.0), after(others)),
        ]);
        assert_eq!(start(&queue, request(4, 1.0)), Some(2.0), "{others:?}");
    }
}

#[test]
fn a_chain_across_parts_of_the_queue_goes_on() {
    // Nodes of two types: a job that waits for a job on the other node joins at that job's limit.
    let mut queue = snapshot(&[running("1", "n1", 4, 2.0), running("2", "n2", 2, 6.0)]);
    queue["nodes"][1]["gpus"][0]["type"] = json!("t4");
    queue["jobs"][1]["running"]["holds"][0]["gpus"][0]["type"] = json!("t4");
    let after = json!({ "after": ["2"], "reason": "Dependency", "waits_for_other": true });
    queue["jobs"].as_array_mut().expect("jobs").push(with(waiting("3", 4, 10.0), after));
    assert_eq!(start(&queue, request(4, 4.0)), Some(2.0));
    let begin = FurtherOptions { begin: Some(Time(at(6.0))), ..FurtherOptions::default() };
    assert_eq!(start(&queue, with_options(4, 4.0, begin)), Some(16.0));
}

#[test]
fn a_job_past_its_limit_still_holds_its_nodes() {
    let mut queue = snapshot(&[running("1", "n1", 4, -1.0), running("2", "n2", 4, 30.0)]);
    // It is unknown why the job still runs, so it is assumed to exceed its limit by the same time again.
    let hours = start(&queue, request(4, 1.0)).expect("a start");
    assert!((hours - 1.0).abs() < 0.1, "{hours}");
    queue["scheduling"] = json!({ "overtime_s": 3.0 * 3600.0 });
    let hours = start(&queue, request(4, 1.0)).expect("a start");
    assert!((hours - 2.0).abs() < 0.1, "{hours}");
    let Start::Estimated(forecast) = start_of(&queue, request(4, 1.0), 20) else { panic!("a start") };
    assert!(forecast.start.high.0 > 60.0, "{forecast:?}");
    let note = |queue: &Value| Snapshot::parse(&queue.to_string()).expect("a snapshot").overrun_note();
    assert_eq!(note(&queue), None);
    queue["scheduling"] = json!({});
    assert!(note(&queue).is_some_and(|note| note.starts_with("1 running job is past the time limit;")));
}

#[test]
fn a_job_of_several_partitions_starts_in_the_first_that_lets_it() {
    // Partition q comes first regardless of priorities, and its QOS allows `limit` GPUs in total.
    let several = |limit: u32| {
        let job = with(waiting("3", 4, 10.0), json!({ "partitions": ["p", "q"], "priority": 1 }));
        let mut queue = snapshot(&[running("1", "n1", 4, 2.0), running("2", "n2", 4, 30.0), job]);
        queue["partitions"][1] = json!({ "name": "q", "tier": 5, "limit_qos": "q" });
        queue["limits"] = json!([{ "holder": "q:q", "name": "GrpTRES", "tres": "gres/gpu", "max": limit }]);
        queue
    };
    assert_eq!(start(&several(8), request(4, 1.0)), Some(12.0));
    // Only p accepts the other job, and the request has the higher priority there.
    assert_eq!(start(&several(2), request(4, 1.0)), Some(2.0));
    // The job runs once, not once in each partition.
    assert_eq!(start(&several(8), request(4, 30.0)), Some(12.0));
}

#[test]
fn a_request_for_several_partitions_starts_where_it_is_first_let_in() {
    let of = |names: &str| Request { partition: Some(names.to_owned()), ..request(4, 1.0) };
    let mut queue =
        snapshot(&[running("1", "n1", 4, 2.0), running("2", "n2", 4, 30.0), waiting("3", 4, 10.0)]);
    queue["partitions"][1]["tier"] = json!(5);
    assert_eq!((start(&queue, of("p")), start(&queue, of("q"))), (Some(12.0), Some(2.0)));
    assert_eq!((start(&queue, of("p,q")), start(&queue, of("q,p"))), (Some(2.0), Some(2.0)));
    queue["limits"] = json!([{ "holder": "q:q", "name": "MaxTRES", "tres": "gres/gpu", "max": 2 }]);
    queue["partitions"][1]["limit_qos"] = json!("q");
    assert_eq!((start(&queue, of("q")), start(&queue, of("p,q"))), (None, Some(12.0)));
    let Start::Estimated(forecast) = start_of(&queue, of("p,q"), 20) else { panic!("a start") };
    assert_eq!((forecast.starts.len(), forecast.waiting), (20, 1));
}
