//! `hsched simulate`: the same bytes for the same seed, events, sweeps, and refusals.

use serde_json::Value;

use crate::sandbox::Sandbox;

const CLUSTER: &str = "
network_gbps: 10
intra_node_gbps: 300
nodes: [{name: 'n[1-2]', gpus: {v100: 2}}, {name: n3, gpus: {t4: 2}}]
";

const TRACE: &str = "\
name,arrival,gpus,samples_per_epoch,epochs,global_batch,model_size,throughput.v100,throughput.t4
a,0,2,10000,40,100,1MB,100,40
b,100,1,10000,5,100,1MB,100,50
c,250,4,10000,2,100,1MB,100,
d,300,1,10000,30,100,1MB,80,60
e,300,2,10000,8,100,1MB,80,60
";

fn sandbox() -> Sandbox {
    Sandbox::new().file("week.csv", TRACE).file("lab.yaml", CLUSTER)
}

const FILES: &str = "simulate --trace week.csv --cluster lab.yaml";

/// Removes measured times.
fn without_times(mut value: Value) -> Value {
    for policy in value["policies"].as_array_mut().expect("policies") {
        policy["decision_s"] = Value::Null;
    }
    value
}

#[test]
fn the_same_seed_gives_the_same_output() {
    let sandbox = sandbox();
    let options =
        "--policy las,srtf,optimal,gavel-max-min --noise 0.3 --job-failures 1h --seed 3 --format json";
    let run = || without_times(sandbox.run(&format!("{FILES} {options}")).json()).to_string();
    let first = run();
    assert_eq!(first, run());
    let other = format!("{FILES} {}", options.replace("--seed 3", "--seed 4"));
    assert_ne!(first, without_times(sandbox.run(&other).json()).to_string());
}

#[test]
fn json_has_every_job_and_table_every_policy() {
    let sandbox = sandbox();
    let json = sandbox.run(&format!("{FILES} --policy fifo,srsf --format json")).json();
    assert_eq!(json["schema"], "hsched.simulation/1");
    assert_eq!(json["jobs"], 5);
    for policy in json["policies"].as_array().expect("policies") {
        let jobs = policy["jobs"].as_array().expect("jobs");
        let times = |key: &str| jobs.iter().map(|job| job[key].as_f64().expect("a time")).collect::<Vec<_>>();
        let mean = times("jct_s").iter().sum::<f64>() / 5.0;
        assert!((policy["mean_jct_s"].as_f64().expect("a mean") - mean).abs() < 1e-9 * mean);
        assert_eq!(jobs[2]["name"], "c");
        assert!(
            times("started_s").iter().zip(times("arrival_s")).all(|(started, arrival)| *started >= arrival)
        );
    }
    let table = sandbox.run(&format!("{FILES} --policy fifo,srsf")).succeeds();
    assert!(table.starts_with("5 jobs on 6 GPUs, load "), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    assert!(table.contains("GPUs in use"), "{table}");
}

#[test]
fn a_policy_named_twice_is_simulated_once() {
    let ran = sandbox().run(&format!("{FILES} --policy fifo,las,fifo --format json")).exits(0);
    let policies = ran.json()["policies"].as_array().expect("a list").clone();
    let names: Vec<&str> = policies.iter().filter_map(|policy| policy["policy"].as_str()).collect();
    assert_eq!((names, ran.stderr.as_str()), (vec!["fifo", "las"], ""));
}

#[test]
fn a_policy_that_refuses_the_trace_leaves_the_exit_code_to_the_others() {
    let line = |number: u32| format!("j{number},0,8,6400,1,64,1MB,100\n");
    let head = "name,arrival,gpus,samples_per_epoch,epochs,global_batch,model_size,throughput.v100\n";
    let trace = format!("{head}{}", (0..9).map(line).collect::<String>());
    let cluster = "network_gbps: 10\nintra_node_gbps: 300\nnodes: [{name: 'n[1-8]', gpus: {v100: 8}}]\n";
    let sandbox = Sandbox::new().file("week.csv", &trace).file("lab.yaml", cluster);
    let json = sandbox.run(&format!("{FILES} --policy has,jps --format json")).exits(0).json();
    let (refused, other) = (&json["policies"][0], &json["policies"][1]);
    assert!(refused["error"].as_str().is_some_and(|why| why.contains("too many to enumerate")), "{json}");
    assert_eq!((&refused["ended"], &other["ended"]), (&0.into(), &9.into()));
    sandbox.run(&format!("{FILES} --policy has")).exits(3);
}

#[test]
fn notes_on_jobs_that_have_not_ended_end_their_lines() {
    let short = format!("{FILES} --policy fifo,las --rounds 1 --round 1s");
    let text = sandbox().run(&short).exits(0).stdout;
    let notes: Vec<&str> = text.lines().filter(|line| line.contains("have not ended")).collect();
    assert!(notes.len() == 2 && text.ends_with('\n'), "{text}");
}

#[test]
fn events_come_in_order_and_end_with_the_summary() {
    let sandbox = sandbox();
    let text = sandbox.run(&format!("{FILES} --policy fifo,las --events -")).succeeds();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (summary, events) = lines.split_last().expect("lines");
    assert_eq!((&summary["event"], &summary["schema"]), (&"summary".into(), &"hsched.simulation/1".into()));
    let first = "{\"event\":\"arrived\",\"job\":\"a\",\"policy\":\"fifo\",\"t\":0.0}";
    assert_eq!(events[0].to_string(), first);
    for policy in ["fifo", "las"] {
        let policy_events: Vec<&Value> = events.iter().filter(|event| event["policy"] == policy).collect();
        let ended = policy_events.iter().filter(|event| event["event"] == "completed").count();
        let times: Vec<f64> =
            policy_events.iter().map(|event| event["t"].as_f64().expect("a time")).collect();
        assert!(ended == 5 && times.is_sorted(), "{policy}");
    }
}

#[test]
fn sweeps_average_seeds_with_their_confidence() {
    let sandbox = sandbox();
    let options = "--policy las,srtf --noise 0.5 --sweep load=0.5,2 --sweep seed=0..3";
    let json = sandbox.run(&format!("{FILES} {options} --format json")).json();
    let points = json["points"].as_array().expect("points");
    assert_eq!(points.len(), 4);
    for point in points {
        assert_eq!(point["seeds"], serde_json::json!([0, 1, 2, 3]));
        let each = point["mean_jct_s_by_seed"].as_array().expect("means");
        let sum: f64 = each.iter().map(|mean| mean.as_f64().expect("a mean")).sum();
        assert!((point["mean_jct_s"].as_f64().expect("a mean") - sum / 4.0).abs() < 1e-6);
        // las does not need the lengths of jobs, and if no job waits, no policy does.
        let margin = point["mean_jct_s_ci95"].as_f64();
        let differs = point["policy"] == "srtf" && point["load"] == 2.0;
        assert_eq!(margin.is_some_and(|margin| margin > 0.0), differs, "{point}");
    }
    let csv = sandbox.run(&format!("{FILES} {options} --format csv")).exits(0).stdout;
    assert_eq!(csv.lines().count(), 1 + 2 * 2 * 4);
}

#[test]
fn an_interval_needs_runs_that_differ() {
    let sandbox = sandbox();
    let sweep = |options: &str| sandbox.run(&format!("{FILES} --policy srtf --sweep {options}"));
    let said = "note: the seed has no effect with srtf: ";
    for options in ["seed=0..2", "seed=0..2 --sweep load=0.5,1"] {
        let ran = sweep(&format!("{options} --format json")).exits(0);
        assert!(ran.stderr.starts_with(said), "{}", ran.stderr);
        for point in ran.json()["points"].as_array().expect("points") {
            assert!(point["mean_jct_s"].is_number() && point["mean_jct_s_ci95"].is_null(), "{point}");
        }
    }
    let ran = sweep("seed=0..2").exits(0);
    assert!(ran.stderr.starts_with(said) && !ran.stdout.contains(" 0 s"), "{ran:?}");
    // A repeated seed is one run.
    let json = |seeds: &str| sweep(&format!("seed={seeds} --noise 0.5 --format json")).succeeds();
    assert_eq!(json("0,1,1"), json("0,1"));
}

#[test]
fn a_policy_over_time_is_refused_where_it_would_stop_jobs() {
    let sandbox = sandbox();
    for command in ["plan week.csv --cluster lab.yaml", "watch --once"] {
        let said = sandbox.run(&format!("{command} --policy las")).fails(2);
        assert!(
            said.contains("policy las reschedules running jobs; use it with hsched run or hsched simulate"),
            "{said}"
        );
    }
}

#[test]
fn on_a_shared_cluster_jobs_that_do_not_save_are_never_stopped() {
    let sandbox = sandbox();
    let moves = |options: &str| {
        let policies = "--policy horizon,srtf,las,gavel-max-min,allox-p --format json --no-bound";
        let json = sandbox.run(&format!("{FILES} {policies} {options}")).json();
        let policies = json["policies"].as_array().expect("policies").clone();
        policies.iter().map(|policy| policy["moves_per_job"].as_f64().expect("a number")).sum::<f64>()
    };
    assert!(moves("") > 0.0);
    assert!(moves("--queue-wait 1m") <= 0.0);
}

#[test]
fn flags_without_effect_on_single_tasks_are_refused() {
    let sandbox = sandbox();
    let simulate = |flags: &str| sandbox.run(&format!("{FILES} --policy hare {flags}"));
    let flags = ["--rounds 3", "--restart-cost 5s", "--lose epoch", "--repack off"];
    for flag in flags {
        let name = flag.split(' ').next().expect("a flag");
        let said = simulate(flag).fails(2);
        assert!(said.contains(&format!("{name} does not work with hare")), "{said}");
    }
    assert!(simulate("--sweep restart-cost=0s,60s").fails(2).contains("--restart-cost does not work"));
    // Another policy of the list uses the flag.
    let both = sandbox.run(&format!("{FILES} --policy hare,horizon --restart-cost 5s")).exits(0);
    assert!(both.stderr.contains("note: --restart-cost has no effect with hare, which"), "{}", both.stderr);
    let table = simulate("").succeeds();
    assert!(!table.lines().next().expect("a line").contains("restart"), "{table}");
}

#[test]
fn the_load_of_a_trace_that_starts_in_the_middle_cannot_be_scaled() {
    let later = "now: 1h
jobs:
- {name: a, arrival: 0s, samples_per_epoch: 100, epochs: 1, global_batch: 1, model_size: 0B, throughput: {v100: 1}}
- {name: b, arrival: 2h, samples_per_epoch: 100, epochs: 1, global_batch: 1, model_size: 0B, throughput: {v100: 1}}
";
    let sandbox = sandbox().file("later.yaml", later);
    let line = "simulate --trace later.yaml --cluster lab.yaml --policy fifo";
    sandbox.run(line).succeeds();
    let said = sandbox.run(&format!("{line} --sweep load=1")).fails(78);
    assert!(said.contains("the trace starts in the middle"), "{said}");
}

#[test]
fn what_cannot_run_says_why() {
    let huge =
        "name,gpus,samples_per_epoch,epochs,global_batch,model_size,throughput.v100\nx,7,100,1,100,0,9\n";
    let sandbox = sandbox().file("huge.csv", huge);
    let json = sandbox
        .run("simulate --trace huge.csv --cluster lab.yaml --policy fifo --format json")
        .exits(3)
        .json();
    let job = &json["policies"][0]["jobs"][0];
    assert_eq!((&job["completion_s"], &job["jct_s"]), (&Value::Null, &Value::Null));
    assert!(job["reason"].as_str().expect("a reason").starts_with("it never got GPUs"), "{job}");
    let sandbox = sandbox.file("elsewhere.csv", huge.replace("v100", "h100"));
    let said = sandbox.run("simulate --trace elsewhere.csv --cluster lab.yaml --policy fifo").exits(3).stdout;
    assert!(
        said.contains("job x has not ended: it has no known speed on any GPU type of this cluster"),
        "{said}"
    );
    let wrong =
        sandbox.run("simulate --trace huge.csv --cluster lab.yaml --policy fifo --sweep load=1").fails(78);
    assert!(wrong.contains("cannot scale the load"), "{wrong}");
    sandbox.run("simulate --trace huge.csv --cluster lab.yaml --policy nothing").fails(2);
}
