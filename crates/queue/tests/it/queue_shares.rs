//! Fair share in the queue model: users with high usage fall behind, and others overtake them.

use serde_json::{Value, json};

use hsched_model::{GpuType, NodeName, Seconds};
use hsched_queue::{
    Asks, FurtherOptions, GpuAsk, GpuCount, Jobs, NodeHolding, Offer, Question, QueueNode, Request,
    RequestId, Snapshot, Start, choose_together, forecast,
};

const NOW: f64 = 1_000_000.0;
const HOUR: f64 = 3600.0;

/// Returns the queue of one node, on which a job of ann's has run for an hour and may run for a hundred more.
/// Four other jobs of hers are pending.
fn snapshot(shares: Option<Value>) -> Snapshot {
    let gpus = json!([{ "type": "a100", "count": 4 }]);
    let mut jobs = vec![json!({ "id": "1", "user": "ann", "account": "a", "limit_s": 101.0 * HOUR,
        "asks": { "gpus": gpus, "cpus": 64 },
        "running": { "since": NOW - HOUR, "holds": [{ "node": "n1", "gpus": gpus }] } })];
    for id in 2..6 {
        jobs.push(json!({ "id": id.to_string(), "user": "ann", "account": "a", "limit_s": 10.0 * HOUR,
            "asks": { "gpus": gpus, "cpus": 64 }, "priority": 1000, "submitted": NOW - HOUR }));
    }
    let mut text = json!({ "schema": "hsched.queue/1", "taken_at": NOW, "jobs": jobs,
        "nodes": [{ "name": "n1", "gpus": gpus }], "accounts": [{ "name": "b", "priority": 500 }] });
    if let Some(shares) = shares {
        text["shares"] = shares;
    }
    Snapshot::parse(&text.to_string()).expect("a snapshot")
}

/// Returns the same queue with a node of another type, on which ann's running job also holds GPUs.
fn on_two_types(snapshot: &Snapshot) -> Snapshot {
    let mut wide = snapshot.clone();
    let t4 = GpuCount { gpu_type: GpuType::new("t4").expect("a type"), count: 4 };
    let name = NodeName::new("n2").expect("a name");
    let gpus = vec![t4];
    wide.nodes.push(QueueNode { name: name.clone(), gpus: gpus.clone(), ..wide.nodes[0].clone() });
    let running = wide.jobs[0].running.as_mut().expect("a running job");
    running.holds.push(NodeHolding { node: name, gpus, cpus: None, memory_mib: None });
    wide
}

/// Returns the shares of ann and of the user, with the usage of both.
fn shares(ann: f64, mine: f64) -> Value {
    let branch = |account: &str, user: Option<&str>, parent: Option<usize>, usage: f64| {
        let ours = user == Some("me");
        json!({ "account": account, "user": user, "parent": parent, "shares": 1, "usage": usage, "ours": ours })
    };
    json!({ "weight": 1000, "half_life_s": 604_800, "branches": [
        branch("a", None, None, ann), branch("a", Some("ann"), Some(0), ann),
        branch("b", None, None, mine), branch("b", Some("me"), Some(2), mine),
    ] })
}

/// Returns our request for the whole node.
fn request() -> Request {
    Request {
        id: RequestId::default(),
        asks: Asks {
            nodes: 1,
            gpus: vec![GpuAsk { gpu_type: GpuType::new("a100"), count: 4 }],
            ..Asks::default()
        },
        partition: None,
        account: Some("b".to_owned()),
        limit: Seconds(HOUR),
        run: Seconds(HOUR),
        further: FurtherOptions::default(),
    }
}

/// Returns the starts of the request in the same twenty futures, in hours.
fn starts(snapshot: &Snapshot) -> Vec<f64> {
    let request = request();
    let question = Question { snapshot, requests: &[request], seed: 1, samples: 20, calibration: None };
    match forecast(&question, &|| false).remove(0).start {
        Start::Estimated(forecast) => forecast.starts.iter().map(|start| start.0 / HOUR).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_uses_much_is_overtaken() {
    let without = starts(&snapshot(None));
    // Ann has used slightly less than the user and holds 64 CPUs, so within an hour she has used more.
    let with = starts(&snapshot(Some(shares(1e6, 1.1e6))));
    assert!(with.iter().zip(&without).all(|(with, without)| with <= without), "{with:?} {without:?}");
    let sooner = with.iter().zip(&without).filter(|(with, without)| **with < **without - 1.0).count();
    assert!(sooner >= 15, "{sooner} of 20: {with:?} {without:?}");
    // Ann has used far less: she stays first even after a month, in which the user's usage decays to a
    // sixteenth.
    let far = starts(&snapshot(Some(shares(1e6, 1e13))));
    assert_eq!(far, without);
}

#[test]
fn the_usage_of_a_job_on_nodes_of_two_types_counts_once() {
    // Ann reaches the user's usage after ten hours.
    let one = snapshot(Some(shares(1e6, 1e6 + 640.0 * HOUR)));
    assert_eq!(starts(&on_two_types(&one)), starts(&one));
}

#[test]
fn ranks_move_where_jobs_are_planned_together_too() {
    let snapshot = snapshot(Some(shares(1e6, 1.1e6)));
    let options = [vec![Offer { request: request(), rest: 0.0, cost: None }]];
    let jobs = Jobs {
        snapshot: &snapshot,
        options: &options,
        cost_weight: 0.0,
        seed: 1,
        samples: 20,
        calibration: None,
    };
    let chosen = choose_together(&jobs, &|| false).remove(0).expect("a request");
    let together: Vec<f64> = chosen.starts.iter().map(|start| start.0 / HOUR).collect();
    assert_eq!(together, starts(&snapshot));
}
