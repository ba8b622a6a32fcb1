//! `hadar` in the simulator: rounds computed by hand and with a second program, and whole runs.

use serde_json::Value;

use crate::sandbox::Sandbox;

fn cluster(nodes: &str) -> String {
    format!("network_gbps: 10\nintra_node_gbps: 300\nnodes:\n{nodes}")
}

fn job(name: &str, gpus: u32, size: &str, speeds: &str, more: &str) -> String {
    format!(
        "  - {{name: {name}, gpus: {gpus}, {size}, throughput: {{{speeds}}}, checkpoint: {{restart_cost: 10s}}{more}}}\n"
    )
}

fn sandbox(nodes: &str, start: &str, jobs: &[String]) -> Sandbox {
    let trace = format!("{start}jobs:\n{}", jobs.concat());
    Sandbox::new().file("lab.yaml", cluster(nodes)).file("trace.yaml", &trace)
}

const RUN: &str = "simulate --trace trace.yaml --cluster lab.yaml --policy hadar --round 360s --no-bound";

/// Returns the first round.
fn first_round(sandbox: &Sandbox, options: &str) -> Value {
    let text = sandbox.run(&format!("{RUN} --rounds 1 {options} --events -")).succeeds();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.find(|line| line["event"] == "round").expect("a round")
}

#[track_caller]
fn near(value: &Value, known: f64) {
    let number = value.as_f64().unwrap_or(f64::NAN);
    assert!((number - known).abs() <= 1e-9 * known.abs().max(1.0), "{number} for {known}");
}

/// Checks a job of a round: its name, its GPUs, and those of its other values that are given.
#[track_caller]
fn check(bid: &Value, name: &str, gpus: &Value, known: &[(&str, f64)]) {
    assert_eq!((&bid["name"], &bid["gpus"]), (&Value::from(name), gpus));
    for (key, known) in known {
        near(&bid[*key], *known);
    }
}

#[test]
fn a_round_of_two_jobs() {
    let size =
        |epochs: u32| format!("samples_per_epoch: 10000, epochs: {epochs}, global_batch: 100, model_size: 0");
    let jobs =
        [job("x", 3, &size(20), "v100: 200, k80: 150", ""), job("y", 1, &size(10), "v100: 500, k80: 50", "")];
    let nodes = "  - {name: a, gpus: {v100: 2}}\n  - {name: b, gpus: {k80: 2}}\n";
    let round = first_round(&sandbox(nodes, "", &jobs), "");
    assert_eq!((&round["round"], &round["horizon_rounds"]), (&Value::from(1), &Value::from(7)));
    near(&round["eta"], 7.56);
    near(&round["u_min"], 0.002_362_055_933);
    near(&round["u_max"]["v100"], 5.0);
    near(&round["alpha"], 7.657_660_793);
    near(&round["total_payoff"], 9.047_121_479);
    let y = [("steps_per_s", 5.0), ("jct_s", 210.0), ("utility", 4.761_904_762), ("cost", 0.002_362_055_933)];
    check(&round["jobs"][0], "y", &serde_json::json!({"a/v100": 1}), &y);
    let x = [
        ("steps_per_s", 4.5),
        ("jct_s", 454.444_444_4),
        ("utility", 4.400_977_995),
        ("cost", 0.113_399_222_5),
    ];
    check(&round["jobs"][1], "x", &serde_json::json!({"a/v100": 1, "b/k80": 2}), &x);
}

#[test]
fn a_round_in_mid_run_with_communication() {
    let of = |samples: u32, epochs: u32, batch: u32, bytes: &str| {
        format!("samples_per_epoch: {samples}, epochs: {epochs}, global_batch: {batch}, model_size: {bytes}")
    };
    let jobs = [
        job(
            "x",
            2,
            &of(50_000, 40, 250, "0"),
            "v100: 1000, p100: 500, k80: 100",
            ", steps_done: 3000, held: {a/v100: 2}",
        ),
        job("y", 2, &of(20_000, 30, 100, "178MB"), "v100: 400, p100: 390, k80: 120", ", arrival: 300s"),
        job("z", 1, &of(30_000, 5, 100, "0"), "p100: 250, k80: 200", ", arrival: 700s"),
    ];
    let nodes = "  - {name: a, gpus: {v100: 2}}\n  - {name: b, gpus: {p100: 2, k80: 1}}\n";
    let round = first_round(&sandbox(nodes, "now: 720s\n", &jobs), "");
    assert_eq!((&round["round"], &round["horizon_rounds"]), (&Value::from(3), &Value::from(27)));
    near(&round["eta"], 64.8);
    near(&round["u_min"], 8.514_261_388e-5);
    near(&round["u_max"]["p100"], 2.973_977_695);
    let bid = |name: &str| {
        let jobs = round["jobs"].as_array().expect("jobs");
        jobs.iter().find(|bid| bid["name"] == name).expect("a bid").clone()
    };
    check(&bid("x"), "x", &serde_json::json!({"a/v100": 2}), &[("jct_s", 1345.0), ("payoff", 5.947_785_105)]);
    near(&bid("x")["steps_done"], 3000.0);
    check(
        &bid("y"),
        "y",
        &serde_json::json!({"b/p100": 2}),
        &[("jct_s", 1_227.710_769), ("payoff", 4.886_974_269)],
    );
    check(&bid("z"), "z", &serde_json::json!({"b/k80": 1}), &[("jct_s", 780.0), ("payoff", 1.922_991_78)]);
}

#[test]
fn a_round_with_balanced_shares() {
    let of = |samples: u32, epochs: u32, batch: u32, bytes: &str| {
        format!("samples_per_epoch: {samples}, epochs: {epochs}, global_batch: {batch}, model_size: {bytes}")
    };
    let jobs = [
        job("x", 3, &of(12_800, 50, 128, "46.8MB"), "a100: 900, t4: 300", ""),
        job("y", 1, &of(6_400, 10, 64, "0"), "a100: 640, t4: 128", ""),
        job("z", 2, &of(6_400, 10, 64, "0"), "t4: 160", ""),
    ];
    let nodes = "  - {name: a, gpus: {a100: 1, t4: 1}}\n  - {name: b, gpus: {t4: 2}}\n";
    let round = first_round(&sandbox(nodes, "", &jobs), "--sharing balanced");
    assert_eq!(round["horizon_rounds"], 4);
    near(&round["eta"], 14.4);
    near(&round["u_min"], 0.008_680_555_556);
    near(&round["u_max"]["a100"], 10.0);
    check(&round["jobs"][0], "y", &serde_json::json!({"a/a100": 1}), &[("payoff", 9.082_228_535)]);
    let x = [("steps_per_s", 5.204_478_164), ("jct_s", 970.711_111_1), ("payoff", 5.124_821_389)];
    check(&round["jobs"][1], "x", &serde_json::json!({"a/t4": 1, "b/t4": 2}), &x);
    check(&round["jobs"][2], "z", &Value::Null, &[]);
    assert!(round["jobs"][2]["payoff"].is_null());
}

/// The paper's three jobs. Their rates are the epochs that a whole job trains in a round.
#[test]
fn the_papers_three_jobs_to_their_end() {
    // An epoch has 36 steps of 60 samples, so one of W GPUs does rate · 36 · 60 / (W · 360) samples per
    // second.
    let size =
        |epochs: u32| format!("samples_per_epoch: 2160, epochs: {epochs}, global_batch: 60, model_size: 0");
    let jobs = [
        job("J1", 3, &size(80), "v100: 80, p100: 40, k80: 60", ""),
        job("J2", 2, &size(30), "v100: 15, p100: 45, k80: 15", ""),
        job("J3", 2, &size(50), "v100: 30, p100: 6, k80: 60", ""),
    ];
    let nodes =
        "  - {name: a, gpus: {v100: 2}}\n  - {name: b, gpus: {p100: 3}}\n  - {name: c, gpus: {k80: 1}}\n";
    let json = sandbox(nodes, "", &jobs).run(&format!("{RUN} --restart-cost 0s --format json")).json();
    let policy = &json["policies"][0];
    for (job, rounds) in [(0, 8.0 / 3.0), (1, 2.0), (2, 7.8)] {
        near(&policy["jobs"][job]["completion_s"], 360.0 * rounds);
    }
    near(&policy["gru"], (3.0 * 8.0 / 3.0 + 2.0 * 2.0 + 2.0 * 5.8) * 360.0 / (6.0 * 2808.0));
}

#[test]
fn every_round_says_what_it_did() {
    let size = "samples_per_epoch: 10000, epochs: 20, global_batch: 100, model_size: 0";
    let jobs = [job("x", 2, size, "v100: 200", ""), job("y", 2, size, "v100: 200", "")];
    let sandbox = sandbox("  - {name: a, gpus: {v100: 3}}\n", "", &jobs);
    let text = sandbox.run(&format!("{RUN} --events -")).succeeds();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    // Each job trains for 500 s after a start of 10 s: x ends in the second round, and y begins in the third.
    let times = |kind: &str| {
        let events = lines.iter().filter(|line| line["event"] == kind);
        events.map(|line| line["t"].as_f64().expect("a time")).collect::<Vec<_>>()
    };
    assert_eq!(times("started"), [0.0, 720.0]);
    assert_eq!(times("completed"), [510.0, 1230.0]);
    assert_eq!(times("round"), [0.0, 360.0, 720.0, 1080.0]);
}
