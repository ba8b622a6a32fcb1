//! `hadare` in the simulator: rounds and runs computed by hand.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Returns a sandbox with a node of one GPU for each of these types, and with these jobs.
fn sandbox(types: &str, jobs: &[(&str, u32, &str)]) -> Sandbox {
    let node = |ty: &str| format!("  - {{name: {ty}0, gpus: {{{ty}: 1}}}}\n");
    let nodes: String = types.split(' ').map(node).collect();
    let job = |(name, steps, speeds): &(&str, u32, &str)| {
        format!(
            "  - {{name: {name}, samples_per_epoch: {steps}, epochs: 1, global_batch: 1, model_size: 1MB, throughput: {{{speeds}}}}}\n"
        )
    };
    let jobs: String = jobs.iter().map(job).collect();
    Sandbox::new()
        .file("lab.yaml", format!("network_gbps: 10\nintra_node_gbps: 300\nnodes:\n{nodes}"))
        .file("trace.yaml", format!("jobs:\n{jobs}"))
}

const RUN: &str = "simulate --trace trace.yaml --cluster lab.yaml --policy hadare";

fn rounds(sandbox: &Sandbox, options: &str) -> Vec<Value> {
    let text = sandbox.run(&format!("{RUN} {options} --events -")).succeeds();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["event"] == "round").collect()
}

/// Returns a job's copies as `node: steps`, and the steps left.
fn copies(round: &Value, job: usize) -> (Value, u64) {
    let job_round = &round["jobs"][job];
    let of_node = |copy: &Value| (copy["node"].as_str().expect("a node").to_owned(), copy["steps"].clone());
    let copies = job_round["copies"].as_array().expect("copies").iter().map(of_node).collect();
    (Value::Object(copies), job_round["steps_left_after"].as_u64().expect("steps"))
}

#[track_caller]
fn near(value: &Value, known: f64) {
    let number = value.as_f64().unwrap_or(f64::NAN);
    assert!((number - known).abs() <= 1e-9 * known.abs().max(1.0), "{number} for {known}");
}

#[test]
fn one_job_on_all_nodes() {
    let sandbox = sandbox("v k t", &[("x", 9000, "v: 10, k: 1, t: 4")]);
    let rounds = rounds(&sandbox, "");
    assert_eq!(copies(&rounds[0], 0), (json!({"v0": 3600, "k0": 360, "t0": 1440}), 3600));
    // The remaining 3600 steps are 240 s of all three nodes: 2400, 240 and 960.
    assert_eq!(copies(&rounds[1], 0), (json!({"v0": 2400, "k0": 240, "t0": 960}), 0));
    near(&rounds[1]["cru"], 240.0 / 360.0);
    let json = sandbox.run(&format!("{RUN} --format json")).json();
    let policy = &json["policies"][0];
    near(&policy["jobs"][0]["completion_s"], 600.0);
    near(&policy["cru"], f64::midpoint(1.0, 240.0 / 360.0));
    assert!(policy["ratio"].is_null(), "the bound is of jobs that are not forked: {policy}");
}

#[test]
fn the_last_end_decides_who_gets_the_next_node() {
    let jobs = [("x", 9000, "v: 10, k: 1, t: 4, u: 4"), ("y", 600, "v: 3, k: 1.5, t: 2, u: 2")];
    let sandbox = sandbox("v k t u", &jobs);
    let rounds = rounds(&sandbox, "--objective makespan --overhead 10s --round 360s --rounds 1");
    assert_eq!(copies(&rounds[0], 0), (json!({"v0": 3500, "t0": 1400, "u0": 1400}), 2700));
    assert_eq!(copies(&rounds[0], 1), (json!({"k0": 525}), 75));
    near(&rounds[0]["cru"], 1.0);
}

#[test]
fn jobs_that_end_soon_come_first() {
    let jobs = [("x", 400, "v: 8, k: 2"), ("y", 100, "v: 4, k: 2.5"), ("z", 1000, "v: 9, k: 3")];
    let sandbox = sandbox("v k", &jobs);
    let rounds = rounds(&sandbox, "--round 90s");
    assert_eq!(copies(&rounds[0], 0), (json!({"v0": 400}), 0));
    assert_eq!(copies(&rounds[0], 1), (json!({"k0": 100}), 0));
    assert_eq!(copies(&rounds[0], 2), (json!({}), 1000));
    near(&rounds[0]["cru"], 0.5);
    // z has 1000 steps at 12 per second, so it ends within the next round.
    assert_eq!(copies(&rounds[1], 0), (json!({"v0": 750, "k0": 250}), 0));
}

#[test]
fn a_job_says_how_many_copies_it_may_have() {
    let trace = "jobs:\n  - {name: x, samples_per_epoch: 9000, epochs: 1, global_batch: 1, model_size: 0, throughput: {v: 10, k: 1, t: 4}, copies: {max: 2}}\n";
    let sandbox = sandbox("v k t", &[]).file("trace.yaml", trace);
    assert_eq!(copies(&rounds(&sandbox, "--round 360s --rounds 1")[0], 0).0, json!({"v0": 3600, "k0": 360}));
    sandbox.run(&format!("{RUN} --overhead 6m")).fails(2);
    let bad = sandbox.file("trace.yaml", trace.replace("max: 2", "max: 0, optimizer: kept"));
    let said = bad.run(RUN).fails(78);
    assert!(said.contains("copies.max: must be at least 1") && said.contains("one of keep, reset"), "{said}");
}
