//! Tiny queues with a known change that lets a request start sooner. All jobs run to their limits. Times are
//! in hours.

use serde_json::{Value, json};

use hsched_model::{GpuType, Seconds, Time};
use hsched_queue::{
    Asks, Change, ChangeEstimates, ChangeQuestion, ChangeSet, Drawback, FurtherOptions, GpuAsk, PastRun,
    PastRuns, QueuePosition, Request, RequestId, RunEnd, Snapshot, estimate_changes,
};

const NOW: f64 = 1_000_000.0;

fn at(hours: f64) -> f64 {
    NOW + hours * 3600.0
}

fn node(name: &str, gpu_type: &str, partitions: &[&str]) -> Value {
    json!({ "name": name, "partitions": partitions, "gpus": [{ "type": gpu_type, "count": 4 }],
        "cpus": 32, "memory_mib": 262_144 })
}

/// Returns a job on this many GPUs of a node that must end in this many hours.
fn running(node: &str, gpu_type: &str, gpus: u32, ends_in: f64) -> Value {
    json!({ "id": format!("{node}{gpus}"), "partitions": ["p"], "limit_s": (ends_in + 5.0) * 3600.0, "asks": {},
        "running": { "since": at(-5.0),
            "holds": [{ "node": node, "gpus": [{ "type": gpu_type, "count": gpus }] }] } })
}

fn waiting(id: &str, gpus: u32, limit: f64) -> Value {
    json!({ "id": id, "partitions": ["p"], "priority": 100, "limit_s": limit * 3600.0, "submitted": at(-1.0),
        "asks": { "gpus": [{ "type": "a100", "count": gpus }] } })
}

/// Returns a queue with these nodes and jobs, the default partition `p`, and these further partitions.
fn queue(nodes: &[Value], jobs: &[Value], partitions: &[Value]) -> Snapshot {
    let default = json!({ "name": "p", "default": true, "tier": 1 });
    let partitions: Vec<&Value> = std::iter::once(&default).chain(partitions).collect();
    let value = json!({ "schema": "hsched.queue/1", "taken_at": NOW, "jobs": jobs, "nodes": nodes,
        "partitions": partitions, "accounts": [{ "name": "own", "default": true, "priority": 50 }] });
    let snapshot = Snapshot::parse(&value.to_string()).expect("a snapshot");
    assert!(snapshot.notes.is_empty(), "{:?}", snapshot.notes);
    snapshot
}

/// Two of four GPUs are free for six hours; then a job for all of them runs first, for ten hours.
fn a_hole() -> Snapshot {
    queue(&[node("n1", "a100", &["p"])], &[running("n1", "a100", 2, 6.0), waiting("9", 4, 10.0)], &[])
}

fn request(gpu_type: &str, gpus: u32, limit: f64) -> Request {
    let gpus = vec![GpuAsk { gpu_type: GpuType::new(gpu_type), count: gpus }];
    Request {
        id: RequestId::default(),
        asks: Asks { nodes: 1, gpus, ..Asks::default() },
        partition: Some("p".to_owned()),
        account: None,
        limit: Seconds(limit * 3600.0),
        run: Seconds(limit * 3600.0),
        further: FurtherOptions::default(),
    }
}

fn past(gpu_type: &str, gpus: u32, hours: f64) -> PastRuns {
    let run = PastRun {
        gpu_type: GpuType::new(gpu_type),
        gpus,
        ran: Seconds(hours * 3600.0),
        end: RunEnd::Completed,
        memory_mib: None,
    };
    PastRuns(vec![run])
}

fn found(snapshot: &Snapshot, request: &Request, past: &PastRuns) -> ChangeEstimates {
    estimate_changes(
        &ChangeQuestion {
            snapshot,
            request,
            past,
            run_of: &|request| past.usual_run(request),
            is_possible: &|_| true,
            position: &|_| None,
            seed: 1,
            samples: 0,
            calibration: None,
        },
        &|| false,
    )
}

/// Returns each set of changes with the hours gained; `None` if the unchanged job never starts.
fn told(estimates: &ChangeEstimates) -> Vec<(&[Change], Option<f64>)> {
    let list = estimates.list.iter();
    list.map(|estimate| (estimate.set.changes.as_slice(), estimate.sooner.map(|sooner| sooner.0 / 3600.0)))
        .collect()
}

fn hours(hours: f64) -> Change {
    Change::Limit(Seconds(hours * 3600.0))
}

fn to_partition(names: &str) -> Change {
    Change::Partition(names.to_owned())
}

#[test]
fn a_limit_that_past_runs_allow_comes_first_and_costs_nothing() {
    let estimates = found(&a_hole(), &request("a100", 2, 24.0), &past("a100", 2, 3.0));
    assert_eq!(told(&estimates), [(&[hours(4.5)][..], Some(16.0))]);
    let [estimate] = estimates.list.as_slice() else { panic!("one") };
    assert!(estimate.set.is_harmless());
    let drawback = estimate.set.drawbacks[0].to_string();
    assert_eq!(drawback, "Slurm ends the job after 4 h 30 min; the 1 past run took 3 h");
    assert_eq!(estimate.done.map(|done| done.median), Some(Seconds(3.0 * 3600.0)));
    // Runs of seven hours do not fit into the gap.
    assert_eq!(told(&found(&a_hole(), &request("a100", 2, 24.0), &past("a100", 2, 7.0))), []);
}

#[test]
fn without_past_runs_the_longest_limit_that_helps_is_a_question() {
    let estimates = found(&a_hole(), &request("a100", 2, 24.0), &PastRuns::default());
    // With a limit of 12 h, the job waits as before. One GPU instead of two does not help.
    assert_eq!(told(&estimates), [(&[hours(6.0)][..], Some(16.0))]);
    let [estimate] = estimates.list.as_slice() else { panic!("one") };
    assert!(!estimate.set.is_harmless());
    let drawback = estimate.set.drawbacks[0].to_string();
    assert_eq!(drawback, "Slurm ends the job after 6 h; how long it runs is unknown");
    // A run on other GPUs took longer, so the limit does not go below that run's time.
    assert_eq!(told(&found(&a_hole(), &request("a100", 2, 24.0), &past("v100", 1, 8.0))), []);
}

#[test]
fn other_types_have_at_least_the_memory() {
    let nodes = [node("n1", "v100", &["p"]), node("n2", "a100", &["p"]), node("n3", "t4", &["p"])];
    let busy = |name: &str, gpu_type: &str| running(name, gpu_type, 4, 9.0);
    let types = |gpu_type: &str, busy: Value| {
        let estimates =
            found(&queue(&nodes, &[busy], &[]), &request(gpu_type, 4, 24.0), &PastRuns::default());
        let changes = estimates.list.iter().filter_map(|estimate| estimate.set.gpu_type().cloned());
        changes.map(|gpu_type| gpu_type.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(types("v100", busy("n1", "v100")), ["a100"]);
    assert_eq!(types("a100", busy("n2", "a100")), [""; 0]);
    assert_eq!(types("t4", busy("n3", "t4")), ["a100", "v100"]);
}

#[test]
fn a_type_that_is_elsewhere_takes_its_partition_along() {
    let nodes = [node("n1", "v100", &["p"]), node("n2", "a100", &["q"])];
    let snapshot = queue(&nodes, &[running("n1", "v100", 4, 9.0)], &[json!({ "name": "q", "tier": 1 })]);
    let estimates = found(&snapshot, &request("v100", 4, 24.0), &PastRuns::default());
    let to = GpuType::new("a100").expect("a type");
    assert_eq!(told(&estimates), [(&[Change::GpuType(to), to_partition("q")][..], Some(9.0))]);
    assert_eq!(
        estimates.list[0].set.drawbacks[0].to_string(),
        "are a100 GPUs fast enough? The script asks for v100"
    );
}

#[test]
fn partitions_are_added_where_they_take_the_job() {
    let nodes = [node("n1", "a100", &["p"]), node("n2", "a100", &["q", "closed"])];
    let busy = [running("n1", "a100", 4, 9.0)];
    let closed = json!({ "name": "closed", "tier": 9, "accounts": ["other"] });
    let with = |q: Value| queue(&nodes, &busy, &[q, closed.clone()]);
    let open =
        found(&with(json!({ "name": "q", "tier": 1 })), &request("a100", 4, 24.0), &PastRuns::default());
    assert_eq!(told(&open), [(&[to_partition("p,q")][..], Some(9.0))]);
    assert!(open.list[0].set.drawbacks.is_empty());
    // A partition for short jobs is combined with the limit that past runs need, or else with a fraction of
    // the limit.
    let short = with(json!({ "name": "q", "tier": 1, "max_time_s": 5.0 * 3600.0 }));
    let estimates = found(&short, &request("a100", 4, 24.0), &past("a100", 4, 3.0));
    assert_eq!(told(&estimates), [(&[hours(4.5), to_partition("p,q")][..], Some(9.0))]);
    assert!(estimates.list[0].set.is_harmless());
    let estimates = found(&short, &request("a100", 4, 24.0), &PastRuns::default());
    assert_eq!(told(&estimates), [(&[hours(5.0), to_partition("p,q")][..], Some(9.0))]);
    assert!(!estimates.list[0].set.is_harmless());
    let estimates = found(&short, &request("a100", 4, 24.0), &past("a100", 4, 4.0));
    assert_eq!(told(&estimates), []);
}

#[test]
fn fewer_gpus_take_longer_and_get_the_limit_that_they_need() {
    let free = queue(&[node("n1", "a100", &["p"])], &[running("n1", "a100", 2, 30.0)], &[]);
    let half = Change::Gpus { nodes: 1, per_node: 2 };
    let told_of = |limit: f64, past: &PastRuns| {
        let estimates = found(&free, &request("a100", 4, limit), past);
        estimates.list.iter().map(|estimate| estimate.set.clone()).collect::<Vec<ChangeSet>>()
    };
    let longer = Drawback::RunsLonger(2.0);
    let unknown = told_of(24.0, &PastRuns::default());
    assert_eq!(unknown, [ChangeSet { changes: vec![half.clone()], drawbacks: vec![longer.clone()] }]);
    // Four hours become eight and, with a margin, twelve.
    let known = told_of(10.0, &past("a100", 4, 4.0));
    assert_eq!(known, [ChangeSet { changes: vec![half, hours(12.0)], drawbacks: vec![longer] }]);
    // A run of 40 hours ends later with half of the GPUs.
    assert_eq!(told_of(100.0, &past("a100", 4, 40.0)), []);
}

#[test]
fn more_gpus_than_a_node_has_become_all_that_it_has() {
    let free = queue(&[node("n1", "a100", &["p"])], &[], &[]);
    let estimates = found(&free, &request("a100", 5, 24.0), &PastRuns::default());
    let changes: Vec<&Change> = estimates.list.iter().flat_map(|estimate| &estimate.set.changes).collect();
    let gpus = |per_node: u32| Change::Gpus { nodes: 1, per_node };
    assert!(changes.contains(&&gpus(4)), "{changes:?}");
}

#[test]
fn gpus_on_more_nodes_start_where_no_node_has_as_many() {
    let nodes = [node("n1", "a100", &["p"]), node("n2", "a100", &["p"])];
    let jobs = [running("n1", "a100", 2, 9.0), running("n2", "a100", 2, 9.0)];
    let estimates = found(&queue(&nodes, &jobs, &[]), &request("a100", 4, 24.0), &PastRuns::default());
    let two = Change::Gpus { nodes: 2, per_node: 2 };
    let shown =
        estimates.list.iter().find(|estimate| estimate.set.changes == [two.clone()]).expect("two nodes");
    assert_eq!(shown.sooner, Some(Seconds(9.0 * 3600.0)));
    assert_eq!(shown.set.drawbacks[0].to_string(), "the script must train on 2 nodes");
}

#[test]
fn gpus_without_cpus_are_for_jobs_that_need_fewer_of_them() {
    let mut busy = running("n1", "a100", 2, 9.0);
    busy["running"]["holds"][0]["cpus"] = json!(26);
    busy["running"]["holds"][0]["memory_mib"] = json!(200_000);
    let snapshot = queue(&[node("n1", "a100", &["p"])], &[busy], &[]);
    let mut asked = request("a100", 2, 24.0);
    asked.asks.cpus = Some(16);
    let estimates = found(&snapshot, &asked, &PastRuns::default());
    assert_eq!(told(&estimates), [(&[Change::Cpus(6)][..], Some(9.0))]);
    assert_eq!(estimates.list[0].set.drawbacks[0].to_string(), "6 CPUs instead of 16 on each node");
    asked.asks.memory_mib = Some(100_000);
    let estimates = found(&snapshot, &asked, &PastRuns::default());
    let less = [Change::Cpus(6), Change::Memory(60 * 1024)];
    assert_eq!(told(&estimates), [(&less[..], Some(9.0))]);
    // Past runs used more than is available.
    let mut used = past("a100", 2, 24.0);
    used.0[0].memory_mib = Some(70_000);
    assert_eq!(told(&found(&snapshot, &asked, &used)), []);
}

#[test]
fn another_account_or_qos_may_come_first() {
    let mut snapshot = a_hole();
    let account = snapshot.accounts[0].clone();
    snapshot.accounts[0].allowed_qos = vec!["normal".to_owned(), "high".to_owned()];
    snapshot.accounts.push(hsched_queue::QueueAccount {
        name: "rich".to_owned(),
        default: false,
        priority: Some(500),
        ..account
    });
    snapshot.qos_priority = [("high".to_owned(), 1000.0)].into();
    let estimates = found(&snapshot, &request("a100", 2, 24.0), &past("a100", 2, 20.0));
    let told = told(&estimates);
    // The account is charged without an additional gain, and both changes together also gain no more.
    assert_eq!(told, [(&[Change::Qos("high".to_owned())][..], Some(16.0))]);
    snapshot.accounts[0].allowed_qos.truncate(1);
    let estimates = found(&snapshot, &request("a100", 2, 24.0), &past("a100", 2, 20.0));
    assert_eq!(self::told(&estimates), [(&[Change::Account("rich".to_owned())][..], Some(16.0))]);
}

#[test]
fn two_changes_together_may_do_what_neither_does() {
    // There is a gap of six hours on `n2`, which is in the other partition, and none on `n1`.
    let nodes = [node("n1", "a100", &["p"]), node("n2", "a100", &["q"])];
    let other = json!({ "id": "8", "partitions": ["q"], "priority": 100, "limit_s": 10.0 * 3600.0,
        "submitted": at(-1.0), "asks": { "gpus": [{ "type": "a100", "count": 4 }] } });
    let jobs = [running("n1", "a100", 4, 12.0), running("n2", "a100", 2, 6.0), other, waiting("9", 4, 20.0)];
    let snapshot = queue(&nodes, &jobs, &[json!({ "name": "q", "tier": 1 })]);
    let estimates = found(&snapshot, &request("a100", 2, 24.0), &past("a100", 2, 3.0));
    let told = told(&estimates);
    // On `n1`, the job waits for 32 hours, on `n2` for 16.
    let both = [to_partition("p,q"), hours(4.5)];
    let first = told[0].0;
    assert!(first.len() == 2 && both.iter().all(|change| first.contains(change)), "{told:?}");
    assert_eq!(told[0].1, Some(32.0));
    assert!(told.contains(&(&[to_partition("p,q")][..], Some(16.0))), "{told:?}");
}

#[test]
fn a_pending_job_keeps_its_place() {
    let snapshot = a_hole();
    let (asked, past) = (request("a100", 2, 24.0), past("a100", 2, 3.0));
    let ask = |position: &dyn Fn(&[Change]) -> Option<QueuePosition>| {
        let question = ChangeQuestion {
            snapshot: &snapshot,
            request: &asked,
            past: &past,
            run_of: &|_| None,
            is_possible: &|_| true,
            position,
            seed: 1,
            samples: 0,
            calibration: None,
        };
        estimate_changes(&question, &|| false)
    };
    let first = QueuePosition { priority: 500.0, submitted: Time(at(-2.0)), order: 0 };
    // Ahead of the other job, it starts at once, regardless of the change.
    assert_eq!(told(&ask(&|_| Some(first))), []);
    assert_eq!(told(&ask(&|_| None)).len(), 1);
}

#[test]
fn what_never_starts_may_start_with_a_change() {
    let nodes = [node("n1", "a100", &["p"]), node("n2", "v100", &["q"])];
    let snapshot = queue(&nodes, &[], &[json!({ "name": "q", "tier": 1 })]);
    let estimates = found(&snapshot, &request("v100", 2, 24.0), &PastRuns::default());
    assert!(estimates.as_is.is_never());
    let told = told(&estimates);
    assert!(told.contains(&(&[to_partition("p,q")][..], None)), "{told:?}");
    // Changes that cannot be made are not listed.
    let nothing = estimate_changes(
        &ChangeQuestion {
            snapshot: &snapshot,
            request: &request("v100", 2, 24.0),
            past: &PastRuns::default(),
            run_of: &|_| None,
            is_possible: &|_| false,
            position: &|_| None,
            seed: 1,
            samples: 0,
            calibration: None,
        },
        &|| false,
    );
    assert!(nothing.list.is_empty());
}

#[test]
fn what_is_shown_is_compared_in_the_same_futures_and_notable() {
    let (snapshot, request) = (a_hole(), request("a100", 2, 24.0));
    let past = PastRuns::default();
    let question = ChangeQuestion {
        snapshot: &snapshot,
        request: &request,
        past: &past,
        run_of: &|_| None,
        is_possible: &|_| true,
        position: &|_| None,
        seed: 1,
        samples: 40,
        calibration: None,
    };
    let estimates = estimate_changes(&question, &|| false);
    let as_is = estimates.as_is.forecast().expect("an estimate");
    assert_eq!(as_is.starts.len(), 40);
    assert!(!estimates.list.is_empty());
    let least = 600.0_f64.max(0.05 * as_is.start.median.0);
    for estimate in &estimates.list {
        let forecast = estimate.start.forecast().expect("an estimate");
        assert_eq!(forecast.starts.len(), 40);
        assert!(estimate.sooner.is_some_and(|sooner| sooner.0 >= least), "{estimate:?}");
    }
    let gains = |harmless: bool| -> Vec<f64> {
        let kind = estimates.list.iter().filter(|estimate| estimate.set.is_harmless() == harmless);
        kind.filter_map(|estimate| estimate.sooner).map(|sooner| sooner.0).collect()
    };
    for gains in [gains(true), gains(false)] {
        assert!(gains.is_sorted_by(|a, b| a >= b), "{gains:?}");
    }
}

#[test]
fn numbers_beyond_any_cluster_do_no_harm() {
    let snapshot = a_hole();
    for (nodes, gpus) in [(100_000, 100_000), (1, u32::MAX), (u32::MAX, u32::MAX)] {
        let mut request = request("a100", gpus, 24.0);
        request.asks.nodes = nodes;
        assert_eq!(found(&snapshot, &request, &PastRuns::default()).as_is, hsched_queue::Start::Never);
    }
}

#[test]
fn a_change_that_preempts_jobs_of_others_is_not_harmless() {
    let nodes = [node("n1", "a100", &["p", "high"]), node("n2", "a100", &["q"])];
    let jobs = |free_in: f64| [running("n1", "a100", 4, 9.0), running("n2", "a100", 4, free_in)];
    let more = [json!({ "name": "high", "tier": 9 }), json!({ "name": "q", "tier": 1 })];
    let list = |free_in: f64| {
        let mut snapshot = queue(&nodes, &jobs(free_in), &more);
        snapshot.partitions[0].preemptible = true;
        let list = found(&snapshot, &request("a100", 4, 1.0), &PastRuns::default()).list;
        list.into_iter().map(|estimate| estimate.set).collect::<Vec<ChangeSet>>()
    };
    let harmless = ChangeSet { changes: vec![to_partition("p,q")], drawbacks: vec![] };
    let preempting = ChangeSet {
        changes: vec![to_partition("p,high")],
        drawbacks: vec![Drawback::PreemptsOthers { count: 1 }],
    };
    assert!(!preempting.is_harmless());
    assert_eq!(list(1.0), [harmless.clone(), preempting]);
    // A harmless change that is as good is enough.
    assert_eq!(list(0.05), [harmless]);
}
