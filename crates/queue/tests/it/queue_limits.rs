//! Tiny queues under limits of accounts, users and QOS. There are always free GPUs. Times are in hours, and
//! all jobs run to their limits.

use proptest::prelude::*;
use serde_json::{Value, json};

use hsched_model::{GpuType, Seconds};
use hsched_queue::{Asks, FurtherOptions, GpuAsk, Question, Request, RequestId, Snapshot, Start, forecast};

const NOW: f64 = 1_000_000.0;

fn job(id: &str, (user, account): (&str, &str), gpus: u32, limit: f64) -> Value {
    json!({ "id": id, "user": user, "account": account, "qos": "normal", "partitions": ["p"], "priority": 100,
        "submitted": NOW - 60.0, "limit_s": limit * 3600.0,
        "asks": { "gpus": [{ "type": "a100", "count": gpus }] } })
}

/// Returns a job that has just started, with this many hours left.
fn running(id: &str, whose: (&str, &str), gpus: u32, left: f64) -> Value {
    let mut value = job(id, whose, gpus, left);
    let held = json!([{ "node": "n1", "gpus": [{ "type": "a100", "count": gpus }] }]);
    value["running"] = json!({ "since": NOW, "holds": held });
    value
}

fn limit(holder: &str, name: &str, tres: Option<&str>, max: f64) -> Value {
    json!({ "holder": holder, "name": name, "tres": tres, "max": max })
}

/// Returns a node with 100 GPUs; the user `me` has the accounts `bio` (below `science`) and `chem`.
fn snapshot(limits: &[Value], jobs: &[Value]) -> Value {
    json!({ "schema": "hsched.queue/1", "taken_at": NOW, "user": "me", "jobs": jobs, "limits": limits,
        "nodes": [{ "name": "n1", "partitions": ["p"], "gpus": [{ "type": "a100", "count": 100 }] }],
        "partitions": [{ "name": "p", "default": true, "limit_qos": "of_p" }],
        "parent_accounts": { "bio": "science" },
        "accounts": [{ "name": "bio", "priority": 50, "qos": "normal" }, { "name": "chem", "priority": 50 }] })
}

/// Returns the start of a request of an account with a time limit of this many hours.
fn outlook(snapshot: &Value, account: &str, gpus: u32, limit: f64) -> Start {
    let snapshot = Snapshot::parse(&snapshot.to_string()).expect("a snapshot");
    let requests = [request(account, gpus, limit)];
    let question =
        Question { snapshot: &snapshot, requests: &requests, seed: 1, samples: 0, calibration: None };
    forecast(&question, &|| false).remove(0).start
}

fn request(account: &str, gpus: u32, limit: f64) -> Request {
    let asks = Asks {
        nodes: 1,
        gpus: vec![GpuAsk { gpu_type: GpuType::new("a100"), count: gpus }],
        ..Asks::default()
    };
    let limit = Seconds(limit * 3600.0);
    let account = Some(account.to_owned());
    Request {
        id: RequestId(0),
        asks,
        partition: None,
        account,
        limit,
        run: limit,
        further: FurtherOptions::default(),
    }
}

/// Returns the start of a request in hours.
fn start(snapshot: &Value, account: &str, gpus: u32, limit: f64) -> f64 {
    match outlook(snapshot, account, gpus, limit) {
        Start::Estimated(forecast) => forecast.at_limits.map_or(f64::INFINITY, |at| at.0 / 3600.0),
        other => panic!("{other:?}"),
    }
}

const GPUS: Option<&str> = Some("gres/gpu");

#[test]
fn the_fifth_gpu_of_an_account_with_four_waits() {
    let cap = limit("a:bio", "GrpTRES", GPUS, 4.0);
    let jobs = [running("1", ("you", "bio"), 3, 5.0), running("2", ("she", "bio"), 1, 2.0)];
    let seen = snapshot(&[cap], &jobs);
    assert_eq!(start(&seen, "bio", 1, 1.0), 2.0);
    assert_eq!(start(&seen, "bio", 2, 1.0), 5.0);
    assert_eq!(start(&seen, "chem", 2, 1.0), 0.0);
}

#[test]
fn a_limit_above_the_account_counts_all_below_it() {
    let cap = limit("a:science", "GrpTRES", Some("gres/gpu:a100"), 4.0);
    let seen = snapshot(&[cap], &[running("1", ("you", "bio"), 4, 3.0)]);
    assert_eq!((start(&seen, "bio", 1, 1.0), start(&seen, "chem", 1, 1.0)), (3.0, 0.0));
}

#[test]
fn a_limit_per_user_of_a_qos_counts_own_jobs_of_all_accounts() {
    let cap = |holder: &str| limit(holder, "MaxTRESPerUser", GPUS, 4.0);
    let jobs = [running("1", ("me", "chem"), 4, 3.0), running("2", ("you", "bio"), 4, 9.0)];
    assert_eq!(start(&snapshot(&[cap("q:normal")], &jobs), "bio", 1, 1.0), 3.0);
    // A limit of the partition's QOS overrides the limit of the job's QOS.
    let both = [cap("q:normal"), limit("q:of_p", "MaxTRESPerUser", GPUS, 8.0)];
    assert_eq!(start(&snapshot(&both, &jobs), "bio", 1, 1.0), 0.0);
}

#[test]
fn own_jobs_on_nodes_of_other_types_count_too() {
    let mut mine = running("1", ("me", "bio"), 4, 3.0);
    mine["ours"] = json!(true);
    mine["asks"]["gpus"][0]["type"] = json!("t4");
    mine["running"]["holds"] = json!([{ "node": "n2", "gpus": [{ "type": "t4", "count": 4 }] }]);
    let mut seen = snapshot(&[limit("q:normal", "MaxTRESPerUser", GPUS, 4.0)], &[mine]);
    assert_eq!(start(&seen, "bio", 1, 1.0), 3.0, "on a node that is not listed");
    let nodes = seen["nodes"].as_array_mut().expect("nodes");
    nodes.push(json!({ "name": "n2", "partitions": ["p"], "gpus": [{ "type": "t4", "count": 4 }] }));
    assert_eq!(start(&seen, "bio", 1, 1.0), 3.0);
}

#[test]
fn max_jobs_counts_the_users_jobs_in_the_account() {
    let cap = limit("u:bio:me", "MaxJobs", None, 2.0);
    let jobs = [running("1", ("me", "bio"), 1, 3.0), running("2", ("me", "bio"), 1, 4.0)];
    assert_eq!(start(&snapshot(std::slice::from_ref(&cap), &jobs), "bio", 1, 1.0), 3.0);
    assert_eq!(start(&snapshot(&[cap], &jobs[..1]), "bio", 1, 1.0), 0.0);
}

#[test]
fn minutes_left_fall_with_time() {
    // The 2 GPUs for 4 h have 480 min left; 1 GPU for 1 h needs 60 of 300 min.
    let cap = limit("a:bio", "GrpTRESRunMins", GPUS, 300.0);
    let seen = snapshot(&[cap], &[running("1", ("you", "bio"), 2, 4.0)]);
    assert_eq!(start(&seen, "bio", 1, 1.0), 2.0);
}

#[test]
fn pending_jobs_at_a_limit_go_first_and_keep_no_nodes() {
    let cap = limit("a:bio", "GrpTRES", GPUS, 4.0);
    let mut held = job("2", ("you", "bio"), 4, 6.0);
    held["reason"] = json!("AssocGrpGRES");
    held["waits_for_other"] = json!(true);
    let seen = snapshot(&[cap], &[running("1", ("you", "bio"), 4, 3.0), held]);
    assert_eq!(start(&seen, "bio", 1, 1.0), 9.0);
    assert_eq!(start(&seen, "chem", 96, 1.0), 0.0);
}

#[test]
fn a_request_above_a_limit_never_starts_and_says_why() {
    let check = |limits: &[Value], gpus: u32, hours: f64, expected: &str| {
        let Start::Refused(refusal) = outlook(&snapshot(limits, &[]), "bio", gpus, hours) else {
            panic!("{expected}")
        };
        assert_eq!(refusal.to_string(), expected);
    };
    let of_account = limit("a:bio", "GrpTRES", GPUS, 4.0);
    check(&[of_account], 5, 1.0, "your account may use 4 GPUs at once (GrpTRES)");
    let above = limit("a:science", "GrpTRES", Some("gres/gpu:a100"), 1.0);
    check(&[above], 2, 1.0, "account science may use 1 a100 GPU at once (GrpTRES)");
    let qos = limit("q:normal", "MaxTRESPerUser", GPUS, 2.0);
    check(&[qos], 3, 1.0, "you may use 2 GPUs at once in QOS normal (MaxTRESPerUser)");
    let minutes = limit("a:bio", "GrpTRESRunMins", GPUS, 100.0);
    check(
        &[minutes],
        1,
        2.0,
        "running jobs of your account may have 100 GPU-minutes left, this request needs 120 (GrpTRESRunMins)",
    );
    let wall = limit("a:bio", "MaxWall", None, 60.0);
    check(&[wall], 1, 2.0, "a job may have a time limit of 60 min (MaxWall)");
}

#[test]
fn jobs_at_a_limit_on_past_use_do_not_compete_and_requests_like_them_have_no_number() {
    for reason in ["AssocGrpGRESMinutes", "QOSUsageThreshold"] {
        let mine = held_up("2", "bio", 100, 6.0, reason);
        let mut seen = snapshot(&[], std::slice::from_ref(&mine));
        assert!(matches!(outlook(&seen, "bio", 1, 1.0), Start::Unknown(_)), "{reason}");
        assert_eq!(start(&seen, "chem", 1, 1.0), 0.0, "{reason}");
        seen["jobs"][0]["ours"] = json!(false);
        seen["jobs"][0]["user"] = json!("you");
        assert_eq!(start(&seen, "bio", 1, 1.0), 0.0, "{reason}");
    }
}

#[test]
fn a_used_up_limit_delays_all_requests_that_it_counts_for() {
    let budget = |holder: &str| limit(holder, "GrpTRESMins", GPUS, 100.0);
    let is_unknown = |limits: &[Value], jobs: &[Value], account: &str, qos: &str| {
        let snapshot = Snapshot::parse(&snapshot(limits, jobs).to_string()).expect("a snapshot");
        let mut request = request(account, 1, 1.0);
        request.further.qos = Some(qos.to_owned());
        let requests = [request];
        let question =
            Question { snapshot: &snapshot, requests: &requests, seed: 1, samples: 0, calibration: None };
        matches!(forecast(&question, &|| false)[0].start, Start::Unknown(_))
    };
    let of_account = [held_up("2", "bio", 1, 1.0, "AssocGrpGRESMinutes")];
    // Another QOS does not help, unless it has the limit itself.
    assert!(is_unknown(&[budget("a:bio")], &of_account, "bio", "cap"));
    assert!(!is_unknown(&[budget("a:bio"), budget("q:cap")], &of_account, "bio", "cap"));
    assert!(!is_unknown(&[budget("a:bio")], &of_account, "chem", "normal"));
    let of_qos = [held_up("2", "bio", 1, 1.0, "QOSGrpGRESMinutes")];
    assert!(is_unknown(&[budget("q:normal")], &of_qos, "chem", "normal"));
    assert!(!is_unknown(&[budget("q:normal")], &of_qos, "bio", "cap"));
    // Without a pending job, the use shows that the limit is reached.
    let mut used = budget("a:science");
    used["used"] = json!(100.0);
    assert!(is_unknown(&[used.clone()], &[], "bio", "normal"));
    assert!(!is_unknown(&[used.clone()], &[], "chem", "normal"));
    used["used"] = json!(99.0);
    assert!(!is_unknown(&[used.clone()], &[], "bio", "normal"));
    // Every job is billed.
    (used["used"], used["tres"]) = (json!(100.0), json!("billing"));
    assert!(is_unknown(&[used], &[], "bio", "normal"));
}

#[test]
fn without_limits_there_is_no_number_if_own_jobs_wait_for_one() {
    let mut held = job("2", ("me", "bio"), 4, 6.0);
    held["reason"] = json!("AssocGrpGRES");
    held["waits_for_other"] = json!(true);
    held["ours"] = json!(true);
    let mut seen = snapshot(&[], &[held]);
    seen["limits"] = Value::Null;
    assert!(matches!(outlook(&seen, "bio", 1, 1.0), Start::Unknown(_)));
    assert_eq!(start(&seen, "chem", 1, 1.0), 0.0);
}

/// Returns a pending job of the user that waits for a limit.
fn held_up(id: &str, account: &str, gpus: u32, limit: f64, reason: &str) -> Value {
    let mut value = job(id, ("me", account), gpus, limit);
    value["ours"] = json!(true);
    value["waits_for_other"] = json!(true);
    value["reason"] = json!(reason);
    value
}

#[test]
fn a_limit_that_is_reached_says_who_uses_it() {
    let mut mine = running("1", ("me", "bio"), 2, 5.0);
    mine["ours"] = json!(true);
    let jobs = [
        mine,
        running("2", ("bob", "bio"), 9, 5.0),
        running("3", ("bob", "chem"), 9, 5.0),
        held_up("4", "bio", 1, 1.0, "AssocGrpGRES"),
        held_up("5", "bio", 4, 1.0, "AssocGrpGRES"),
        held_up("6", "chem", 1, 10.0, "AssocGrpGRESRunMinutes"),
        // No known limit delays this job.
        held_up("7", "science", 1, 1.0, "AssocGrpGRES"),
    ];
    let limits = [
        limit("a:bio", "GrpTRES", Some("gres/gpu"), 11.0),
        limit("a:chem", "GrpTRESRunMins", Some("gres/gpu"), 3000.0),
    ];
    let told = |limits: &[Value]| -> Vec<String> {
        let snapshot = Snapshot::parse(&snapshot(limits, &jobs).to_string()).expect("a snapshot");
        snapshot.reached_limits().iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        told(&limits),
        [
            "2 of your jobs wait: the limit of account bio (11 GPUs) is reached, 9 in use by others, 2 by you",
            "your job 6 waits: the limit of account chem (3000 GPU-minutes) is reached, 2700 in use by others, 0 by you",
        ]
    );
    assert_eq!(told(&[]), [""; 0]);
    // Four GPUs are more than a user may ever hold.
    let of_qos = [limit("q:normal", "MaxTRESPerUser", Some("gres/gpu"), 2.0)];
    assert_eq!(
        told(&of_qos),
        [
            "3 of your jobs wait: the limit of a user in QOS normal (2 GPUs) is reached, 0 in use by others, 2 by you"
        ]
    );
}

#[test]
fn a_request_at_a_limit_says_who_uses_it() {
    let jobs = [running("1", ("bob", "bio"), 9, 5.0)];
    let limits = [limit("a:bio", "GrpTRES", GPUS, 11.0)];
    let snapshot = Snapshot::parse(&snapshot(&limits, &jobs).to_string()).expect("a snapshot");
    let of = |account: &str, gpus: u32, partition: Option<&str>| {
        let request = Request { partition: partition.map(str::to_owned), ..request(account, gpus, 1.0) };
        snapshot.reached_limit_of(&request).map(|limit| limit.use_in_words())
    };
    let expected = "limit of account bio (11 GPUs) is reached: 9 in use by others, 0 by you";
    assert_eq!(of("bio", 3, None).as_deref(), Some(expected));
    assert_eq!(of("bio", 3, Some("p,other")).as_deref(), Some(expected));
    assert_eq!((of("bio", 2, None), of("chem", 3, None)), (None, None));
    // The limit never allows twelve GPUs: no end of a job helps.
    assert_eq!(of("bio", 12, None), None);
}

proptest! {
    /// With room for all, a limit never makes a start earlier, and the jobs running at the start leave room
    /// below it.
    #[test]
    fn a_limit_only_delays_its_holder(
        jobs in prop::collection::vec((1_u32..5, 1_u32..9), 0..8),
        gpus in 1_u32..5,
        max in 4_u32..9,
    ) {
        let list: Vec<Value> = (0..).zip(&jobs).map(|(id, (gpus, left)): (u32, _)| {
            running(&id.to_string(), ("you", "bio"), *gpus, f64::from(*left))
        }).collect();
        let cap = limit("a:bio", "GrpTRES", GPUS, f64::from(max));
        let free = start(&snapshot(&[], &list), "bio", gpus, 1.0);
        let capped = start(&snapshot(&[cap], &list), "bio", gpus, 1.0);
        prop_assert!(capped >= free);
        let used: u32 = jobs.iter().filter(|(_, left)| f64::from(*left) > capped).map(|(gpus, _)| gpus).sum();
        prop_assert!(used + gpus <= max);
    }
}
