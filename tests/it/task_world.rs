//! The worked examples of Hare and HLAS on the command line: times of tasks, orders, bounds, groups and queues.

use std::fmt::Write as _;

use serde_json::Value;

use crate::sandbox::Sandbox;

/// A job as in the papers: the times of its tasks by GPU type, and of their gradients.
struct Job {
    name: &'static str,
    arrival: f64,
    weight: f64,
    rounds: u64,
    scale: u64,
    times: &'static [(&'static str, f64)],
    sync: f64,
    more: &'static str,
}

const ONE: Job =
    Job { name: "", arrival: 0.0, weight: 1.0, rounds: 1, scale: 1, times: &[], sync: 0.0, more: "" };

fn trace(jobs: &[Job]) -> String {
    let mut text = String::from("jobs:\n");
    for job in jobs {
        let Job { name, arrival, weight, rounds, scale, times, sync, more } = job;
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let k = *scale as f64;
        let bytes = if *scale > 1 { (sync * k / (2.0 * (k - 1.0)) * 1e9).round() } else { 0.0 };
        let rates: Vec<String> = times.iter().map(|(ty, time)| format!("{ty}: {}", 1000.0 / time)).collect();
        let _ = writeln!(
            text,
            "- {{name: {name}, arrival: {arrival}s, weight: {weight}, epochs: {rounds}, sync_scale: {scale}, \
             samples_per_epoch: {samples}, global_batch: {samples}, syncs_per_epoch: 1, \
             model_size: {bytes}B, throughput: {{{rates}}}{more}}}",
            samples = 1000 * scale,
            rates = rates.join(", "),
        );
    }
    text
}

fn cluster(nodes: &str) -> String {
    format!("network_gbps: 8\nintra_node_gbps: 8\nnodes: [{nodes}]\n")
}

/// Simulates jobs on nodes; returns the entry of the policy and the lines of its events.
fn play(nodes: &str, jobs: &[Job], options: &str) -> (Value, Vec<Value>) {
    let sandbox = Sandbox::new().file("trace.yaml", trace(jobs)).file("cluster.yaml", cluster(nodes));
    let run =
        sandbox.run(&format!("simulate --trace trace.yaml --cluster cluster.yaml --events - {options}"));
    let text = run.succeeds();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let summary = lines.pop().expect("a summary");
    (summary["policies"][0].clone(), lines)
}

/// Returns the tasks in the form `A1.1@a0:1–3`.
fn tasks(events: &[Value]) -> String {
    let task = |event: &Value| {
        let part = |key: &str| event[key].to_string().trim_matches('"').to_owned();
        let time = |key: &str| (event[key].as_f64().expect("a time") * 1e8).round() / 1e8;
        let (node, index) = (event["gpu"]["node"].as_str().expect("a node"), &event["gpu"]["index"]);
        let (job, round, number) = (part("job"), part("round"), part("task"));
        format!("{job}{round}.{number}@{node}{index}:{}–{}", time("start_s"), time("computed_s"))
    };
    events.iter().filter(|event| event["event"] == "task").map(task).collect::<Vec<_>>().join(" ")
}

fn ends(entry: &Value) -> Vec<f64> {
    let jobs = entry["jobs"].as_array().expect("jobs");
    jobs.iter().map(|job| job["completion_s"].as_f64().expect("an end")).collect()
}

fn near(found: &Value, expected: f64) {
    let number = found.as_f64().unwrap_or_else(|| panic!("a number, not {found}"));
    assert!((number - expected).abs() < 1e-8, "{number}, not {expected}");
}

const TWO_TYPES: &str = "{name: a, gpus: {v100: 1}}, {name: b, gpus: {k80: 1}}";

/// Returns the jobs of the worked example of Hare.
fn three_jobs() -> [Job; 3] {
    [
        Job { name: "A", arrival: 1.0, rounds: 2, times: &[("v100", 2.0), ("k80", 10.0)], ..ONE },
        Job { name: "B", arrival: 2.0, weight: 2.0, rounds: 2, times: &[("v100", 4.0), ("k80", 4.0)], ..ONE },
        Job { name: "C", arrival: 5.0, weight: 2.0, scale: 2, times: &[("v100", 2.0), ("k80", 10.0)], ..ONE },
    ]
}

#[test]
fn hare_orders_three_jobs_and_proves_a_bound() {
    let (entry, events) = play(TWO_TYPES, &three_jobs(), "--policy hare");
    assert_eq!((&entry["execution"], &entry["assign"]), (&"tasks".into(), &"finish".into()));
    near(&entry["prices"]["k80"], 0.318_181_818_181_8);
    near(&entry["prices"]["v100"], 0.681_818_181_818_2);
    for (job, middles) in
        [&[2.0, 8.318_181_818_181_8][..], &[4.0, 8.0], &[6.363_636_363_636_4]].iter().enumerate()
    {
        let found = entry["jobs"][job]["middle_s"].as_array().expect("middles");
        assert_eq!(found.len(), middles.len());
        found.iter().zip(*middles).for_each(|(found, middle)| near(found, *middle));
    }
    near(&entry["lower_bound"], 39.0);
    near(&entry["weighted_completion_s"], 49.0);
    near(&entry["gap"], 49.0 / 39.0 - 1.0);
    assert_eq!(tasks(&events), "A1.1@a0:1–3 B1.1@b0:2–6 C1.1@a0:5–7 B2.1@b0:6–10 C1.2@a0:7–9 A2.1@a0:9–11");
    assert_eq!(ends(&entry), [11.0, 10.0, 9.0]);
    let first = events.iter().find(|event| event["event"] == "task").expect("a task");
    let gpu = "{\"index\":0,\"node\":\"a\",\"type\":\"v100\"}";
    assert_eq!((first["gpu"].to_string().as_str(), first["synced_s"].as_f64()), (gpu, Some(3.0)));
}

#[test]
fn hare_assigns_as_printed_or_into_gaps() {
    let check = |assign: &str, weighted: f64, completions: [f64; 3], expected: &str| {
        let (entry, events) = play(TWO_TYPES, &three_jobs(), &format!("--policy hare --assign {assign}"));
        near(&entry["weighted_completion_s"], weighted);
        assert_eq!((ends(&entry), tasks(&events)), (completions.to_vec(), expected.to_owned()));
    };
    check(
        "available",
        67.0,
        [13.0, 11.0, 16.0],
        "A1.1@a0:1–3 B1.1@b0:2–6 C1.1@a0:5–7 C1.2@b0:6–16 B2.1@a0:7–11 A2.1@a0:11–13",
    );
    check(
        "insert",
        43.0,
        [5.0, 10.0, 9.0],
        "A1.1@a0:1–3 B1.1@b0:2–6 A2.1@a0:3–5 C1.1@a0:5–7 B2.1@b0:6–10 C1.2@a0:7–9",
    );
}

#[test]
fn one_light_long_job_does_not_absorb_the_delay() {
    let mut jobs = vec![
        Job { name: "junk", weight: 0.001, times: &[("v100", 100.0)], ..ONE },
        Job { name: "big", weight: 1000.0, times: &[("v100", 10.0)], ..ONE },
    ];
    let names = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"];
    jobs.extend(names.map(|name| Job { name, times: &[("v100", 1.0)], ..ONE }));
    for assign in ["available", "finish", "insert"] {
        let (entry, _) =
            play("{name: a, gpus: {v100: 1}}", &jobs, &format!("--policy hare --assign {assign}"));
        near(&entry["weighted_completion_s"], 10155.12);
        near(&entry["lower_bound"], 10155.12);
        near(&entry["gap"], 0.0);
    }
}

#[test]
fn hlas_serves_the_least_served_and_hlas_p_what_is_predicted_last() {
    let job = |name, rounds, more| Job { name, rounds, more, times: &[("v100", 1.0)], ..ONE };
    let jobs = || [job("A", 2, ""), job("B", 3, ""), job("C", 4, ", predicted_epochs: 3")];
    let ends_of = |policy: &str| {
        let options = format!("--policy {policy} --thresholds 1s,2s,3s");
        ends(&play("{name: a, gpus: {v100: 1}}", &jobs(), &options).0)
    };
    assert_eq!(ends_of("hlas"), [4.0, 7.0, 9.0]);
    assert_eq!(ends_of("hlas-p"), [3.0, 5.0, 9.0]);
}

#[test]
fn hlas_forms_equal_groups_and_hands_out_whole_groups() {
    let jobs = [
        Job { name: "A", arrival: 2.0, scale: 2, times: &[("v100", 4.0), ("k80", 8.0)], sync: 0.5, ..ONE },
        Job { name: "B", arrival: 2.0, rounds: 2, times: &[("v100", 1.0), ("k80", 5.0)], ..ONE },
        Job {
            name: "C",
            arrival: 1.0,
            rounds: 2,
            scale: 2,
            times: &[("v100", 2.0), ("k80", 4.0)],
            sync: 0.5,
            ..ONE
        },
    ];
    let nodes = "{name: a, gpus: {v100: 2}}, {name: b, gpus: {k80: 2}}";
    let (entry, events) = play(nodes, &jobs, "--policy hlas --groups 2 --thresholds 2.5s");
    let group = |index: u64| {
        format!(
            "[{{\"index\":{index},\"node\":\"a\",\"type\":\"v100\"}},{{\"index\":{index},\"node\":\"b\",\"type\":\"k80\"}}]"
        )
    };
    assert_eq!(entry["groups"].to_string(), format!("[{},{}]", group(0), group(1)));
    for (job, round) in [5.884_615_384_615, 0.833_333_333_333, 3.214_285_714_286].iter().enumerate() {
        near(&entry["jobs"][job]["round_s"], *round);
    }
    assert_eq!(ends(&entry), [10.5, 7.0, 11.5]);
    assert_eq!(
        tasks(&events),
        "C1.1@a0:1–3 C1.2@b0:1–5 A1.1@a1:2–6 A1.2@b1:2–10 B1.1@a0:5–6 B2.1@a0:6–7 C2.1@a0:7–9 C2.2@b0:7–11"
    );
    let queued = |event: &Value| {
        format!("{} {} {}", event["t"], event["job"].as_str().expect("a job"), event["level"])
    };
    let entries: Vec<String> = events.iter().filter(|event| event["event"] == "queued").map(queued).collect();
    assert_eq!(entries, ["1.0 C 1", "2.0 A 1", "2.0 B 1", "5.5 C 2", "6.0 B 1"]);
    let last = events.iter().rfind(|event| event["event"] == "queued").expect("an entry");
    assert_eq!((&last["epochs_done"], &last["predicted_epochs"]), (&1.into(), &0.into()));
}

#[test]
fn a_job_that_can_run_nowhere_is_left_out_of_prices_and_reported() {
    let [a, b, c] = three_jobs();
    let lost = Job { name: "X", weight: 50.0, times: &[("t4", 1.0)], ..ONE };
    let sandbox =
        Sandbox::new().file("trace.yaml", trace(&[a, b, c, lost])).file("cluster.yaml", cluster(TWO_TYPES));
    let run =
        |options: &str| sandbox.run(&format!("simulate --trace trace.yaml --cluster cluster.yaml {options}"));
    let json = run("--policy hare,hlas --format json").json();
    let entry = &json["policies"][0];
    near(&entry["lower_bound"], 39.0);
    near(&entry["weighted_completion_s"], 49.0);
    for policy in 0..2 {
        let lost = &json["policies"][policy]["jobs"][3];
        assert!(
            lost["completion_s"].is_null() && lost["reason"].as_str().expect("a reason").contains("speed")
        );
    }
    assert!(json["lower_bound_s"].is_null(), "a bound for jobs that hold their GPUs");
}

#[test]
fn what_does_not_exist_task_by_task_is_refused() {
    let sandbox =
        Sandbox::new().file("trace.yaml", trace(&three_jobs())).file("cluster.yaml", cluster(TWO_TYPES));
    let run =
        |options: &str| sandbox.run(&format!("simulate --trace trace.yaml --cluster cluster.yaml {options}"));
    let text = run("--policy hare --noise 0.3").fails(2);
    assert!(text.contains("--execution gangs"), "{text}");
    run("--policy hare --noise 0.3 --execution gangs").succeeds();
    run("--policy fifo --noise 0.3").succeeds();
    run("--policy hlas --groups 0").fails(2);
    let table = run("--policy hare,hlas").succeeds();
    assert!(table.contains("25.6 % above its lower bound"), "{table}");
}
