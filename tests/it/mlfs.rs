//! MLF-H and MLF-RL: priorities and placements of task graphs in two worked examples, the order of whole
//! jobs, early stops, deadlines, and trained networks.

use serde_json::Value;

use crate::cli_run::{Bench, job as training};
use crate::sandbox::Sandbox;

const SERVERS: &str = "network_gbps: 10
nodes:
  - {name: 'a,b', gpus: {v100: 2}, cpus: 16, memory: 64GiB}
  - {name: c, gpus: {v100: 2}, cpus: 8, memory: 32GiB}
";

/// Returns the events of a simulation of task graphs, the summary last.
fn events(cluster: &str, trace: &str, options: &str) -> Vec<Value> {
    let sandbox = Sandbox::new().file("cluster.yaml", cluster).file("trace.json", trace);
    let line = "simulate --policy mlf-h --trace trace.json --cluster cluster.yaml --events - --format json";
    let text = sandbox.run(&format!("{line} {options}")).succeeds();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn near(value: &Value, expected: f64) {
    assert!(
        value.as_f64().is_some_and(|number| (number - expected).abs() < 1e-8),
        "{value} is not {expected}"
    );
}

fn demand(gpu: f64, cpu: f64, memory: f64, bandwidth: f64) -> String {
    format!("{{\"gpu\": {gpu}, \"cpu\": {cpu}, \"memory\": {memory}, \"bandwidth\": {bandwidth}}}")
}

/// Returns the trace of a worked example: two tasks run on three nodes, and three wait.
fn three_servers() -> String {
    let [r0, r1, w, v] = [
        demand(0.5, 4.0, 16.0, 2.0),
        demand(0.5, 2.0, 8.0, 2.0),
        demand(0.6, 4.0, 8.0, 3.0),
        demand(0.8, 2.0, 30.0, 1.0),
    ];
    format!(
        r#"{{"now": 0, "jobs": [
        {{"name": "r", "tasks": [{{"id": 0, "left_s": 3600, "demand": {r0}, "on": ["a", 0]}},
                                 {{"id": 1, "left_s": 3600, "demand": {r1}, "on": ["b", 0]}}]}},
        {{"name": "w", "urgency": 3, "deadline": 7200, "losses": [1, 0.6], "volumes_mb": [[0, 1, 100]], "tasks": [
            {{"id": 0, "left_s": 1800, "waited_s": 600, "demand": {w}}}, {{"id": 1, "left_s": 1800, "waited_s": 600, "demand": {w}, "on": null}}]}},
        {{"name": "v", "tasks": [{{"id": 0, "left_s": 7200, "waited_s": 60, "demand": {v}}}]}}]}}"#
    )
}

#[test]
fn waiting_tasks_get_the_places_of_the_page() {
    let events = events(SERVERS, &three_servers(), "--rounds 1");
    assert_eq!(events.len(), 2);
    let round = &events[0];
    assert_eq!((round["event"].as_str(), round["busy"].as_bool()), (Some("round"), Some(true)));
    near(&round["cluster_overload"], 0.140_448_012);
    let expected = [("w/0", 0.865_833_333_3), ("w/1", 0.865_833_333_3), ("v/0", 0.409_083_333_3)];
    for (task, priority) in expected {
        near(&round["priorities"][task]["priority"], priority);
    }
    let places = [("w/0", "c", 0, 0.0), ("w/1", "b", 1, 1.0), ("v/0", "a", 1, 0.0)];
    for (placed, (task, node, gpu, distance)) in
        round["placed"].as_array().expect("places").iter().zip(places)
    {
        assert_eq!((placed["task"].as_str(), placed["node"].as_str()), (Some(task), Some(node)));
        assert_eq!(placed["gpu"], gpu);
        near(&placed["distance"], distance);
    }
    assert_eq!(round["queued"], Value::Array(Vec::new()));
}

/// Returns the trace of a worked example with an overloaded GPU; its figures are for restarts of 30 s.
fn overloaded() -> String {
    let [x0, x1, y, z] = [
        demand(0.4, 8.0, 20.0, 2.0),
        demand(0.4, 2.0, 10.0, 2.0),
        demand(0.6, 6.0, 10.0, 1.0),
        demand(0.2, 2.0, 5.0, 1.0),
    ];
    format!(
        r#"{{"now": 0, "jobs": [
        {{"name": "x", "urgency": 5, "losses": [1, 0.7, 0.5], "volumes_mb": [[0, 1, 80]], "tasks": [
            {{"id": 0, "left_s": 3600, "demand": {x0}, "on": ["a", 0]}}, {{"id": 1, "left_s": 3600, "demand": {x1}, "on": ["a", 1]}}]}},
        {{"name": "y", "tasks": [{{"id": 0, "left_s": 7200, "demand": {y}, "on": ["a", 0]}}]}},
        {{"name": "z", "tasks": [{{"id": 0, "left_s": 900, "demand": {z}, "on": ["b", 1]}}]}}]}}"#
    )
}

/// A restart of a task graph costs what the option says, else what the setting says if somebody set it, else the
/// 30 s of the paper.
#[test]
fn task_graphs_restart_at_the_cost_of_the_setting() {
    let two = SERVERS.replace("  - {name: c, gpus: {v100: 2}, cpus: 8, memory: 32GiB}\n", "");
    let play = |more: &str| events(&two, &overloaded(), &format!("--rounds 1 --migrate-part 0.5 {more}"));
    assert_eq!(play(""), play("--restart-cost 30s"));
    assert_eq!(play("--set restart_cost=60s"), play("--restart-cost 60s"));
    assert_ne!(play(""), play("--restart-cost 60s"));
}

#[test]
fn flags_without_effect_on_task_graphs_are_refused() {
    let sandbox = Sandbox::new().file("cluster.yaml", SERVERS).file("trace.json", three_servers());
    let flags = [
        "--objective makespan",
        "--execution gangs",
        "--sweep seed=0..2",
        "--noise 0.3",
        "--queue-wait 1h",
        "--lose epoch",
        "--repack off",
        "--job-failures 1h",
        "--node-failures 1h",
        "--bound",
        "--format csv",
    ];
    for flag in flags {
        let line = format!("simulate --policy mlf-h --trace trace.json --cluster cluster.yaml {flag}");
        let name = if flag.starts_with("--format") { flag } else { flag.split(' ').next().expect("a flag") };
        let said = sandbox.run(&line).fails(2);
        assert!(said.contains(&format!("{name} does not work with traces of task graphs")), "{said}");
    }
}

#[test]
fn a_task_leaves_an_overloaded_gpu_as_on_the_page() {
    let two = SERVERS.replace("  - {name: c, gpus: {v100: 2}, cpus: 8, memory: 32GiB}\n", "");
    let all = events(&two, &overloaded(), "--rounds 1 --migrate-part 0.5 --restart-cost 30s");
    let round = &all[0];
    near(&round["cluster_overload"], 0.415_985_411_3);
    assert_eq!((round["busy"].as_bool(), &round["migrated"]), (Some(false), &serde_json::json!(["x/0"])));
    for (task, priority) in [("x/0", 0.36), ("x/1", 0.36), ("y/0", 0.405), ("z/0", 1.14)] {
        near(&round["priorities"][task]["priority"], priority);
    }
    let placed = &round["placed"][0];
    assert_eq!(
        (placed["task"].as_str(), placed["node"].as_str(), &placed["gpu"]),
        (Some("x/0"), Some("b"), &Value::from(0))
    );
    near(&placed["distance"], 1.000_034_15);
    // A gang's task cannot move alone.
    let gang = events(&two, &overloaded(), "--rounds 1 --gang");
    assert_eq!(gang[0]["migrated"], Value::Array(Vec::new()));
    // With whole GPUs, a full GPU is not overloaded, but the CPUs are: the task without traffic leaves.
    let whole = events(&two, &overloaded(), "--rounds 1 --exclusive");
    assert_eq!(whole[0]["migrated"], serde_json::json!(["y/0"]));
}

#[test]
fn graphs_are_played_to_their_end_and_all_of_a_gang_or_none() {
    let task = |id: u32, children: &str| {
        format!(r#"{{"id": {id}, "left_s": 100, "children": [{children}], "demand": {{"gpu": 1}}}}"#)
    };
    let trace = format!(
        r#"{{"jobs": [{{"name": "chain", "deadline": 400, "tasks": [{}, {}]}},
        {{"name": "wide", "deadline": 100, "tasks": [{}, {}, {}]}}]}}"#,
        task(0, "1"),
        task(1, ""),
        task(0, ""),
        task(1, ""),
        task(2, "")
    );
    let all = events("nodes: [{name: n, gpus: {v100: 4}}]", &trace, "--exclusive --gang --round 10s");
    let summary = all.last().expect("a summary");
    let jobs = summary["policies"][0]["jobs"].as_array().expect("jobs");
    // Together, the jobs request more GPUs than the cluster has: three and two of four.
    let ends: Vec<f64> = jobs.iter().map(|job| job["completion_s"].as_f64().expect("a time")).collect();
    assert!(
        (ends[0] - 300.0).abs() <= 10.0 && (ends[1] - 100.0).abs() < 1e-9 || (ends[0] - 200.0).abs() < 1e-9,
        "{ends:?}"
    );
    assert!(summary["policies"][0]["deadlines_met"].as_f64().is_some());
    assert!(all.iter().all(|event| event["placed"].as_array().is_none_or(|placed| placed.len() < 5)));
}

#[test]
fn wrong_graphs_are_refused() {
    let check = |trace: &str, options: &str, code: i32, expected: &str| {
        let sandbox = Sandbox::new().file("cluster.yaml", SERVERS).file("t.json", trace);
        let ran = sandbox.run(&format!("simulate --trace t.json --cluster cluster.yaml {options}"));
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    };
    let with_task = |task: &str| format!(r#"{{"jobs": [{{"name": "x", "tasks": [{task}]}}]}}"#);
    let mlfh = "--policy mlf-h";
    check(&with_task(r#"{"id": 0, "left_s": 1}"#), "--policy srtf", 2, "which policy srtf cannot place");
    check(&with_task(r#"{"id": 0}"#), mlfh, 78, "missing the required key left_s");
    check(&with_task(r#"{"left_s": 1}"#), mlfh, 78, "missing the required key id");
    check(
        &with_task(r#"{"id": 0, "left_s": 1, "children": [0]}"#),
        mlfh,
        78,
        "has a cycle of tasks that wait for each other",
    );
    check(
        &with_task(r#"{"id": 0, "left_s": 1, "children": [1]}"#),
        mlfh,
        78,
        "no task of the job has the id \"1\"",
    );
    check(&with_task(r#"{"id": 0, "left_s": 1, "on": ["z", 0]}"#), mlfh, 78, "the cluster has no node \"z\"");
    check(&with_task(r#"{"id": 0, "left_s": 1, "on": ["a", 2]}"#), mlfh, 78, "a has 2 GPUs, counted from 0");
    check(&with_task(r#"{"id": 0, "left_s": 1, "epochs": 3}"#), mlfh, 78, "is not a known key");
}

#[test]
fn whole_jobs_start_in_the_order_of_their_priorities() {
    let job = |name: &str, epochs: u32, more: &str| {
        format!(
            "- {{name: {name}, samples_per_epoch: 1000, epochs: {epochs}, global_batch: 10, model_size: 0, max_gpus: 1, \
             throughput: {{v100: 10}}, arrival: 1s, {more}}}\n"
        )
    };
    // An hour is 36 epochs. The first job holds the GPU; it is followed by the urgent job, then the one that
    // is nearly due, then the short one.
    let jobs = [
        job("first", 10, "urgency: 10, deadline: 60s"),
        job("long", 100, ""),
        job("short", 20, ""),
        job("due", 100, "deadline: 90m"),
        job("urgent", 100, "urgency: 10"),
    ];
    let sandbox = Sandbox::new()
        .file("jobs.yaml", format!("jobs:\n{}", jobs.concat()))
        .file("lab.yaml", "nodes: [{name: n, gpus: {v100: 1}}]");
    let value =
        sandbox.run("simulate --trace jobs.yaml --cluster lab.yaml --policy mlf-h --format json").json();
    let policy = &value["policies"][0];
    let mut order: Vec<(f64, &str)> = policy["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| (job["started_s"].as_f64().expect("a time"), job["name"].as_str().expect("a name")))
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let names: Vec<&str> = order.into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["first", "urgent", "due", "short", "long"]);
    near(&policy["deadlines_met"], 0.0);
}

/// Returns a trace of two jobs on one GPU: the loss of the first has levelled out when a third of its epochs
/// are done.
fn levelling(stop: &str) -> String {
    let losses: Vec<String> = (1..=60).map(|epoch| (0.2 + 0.8 * 0.6_f64.powi(epoch)).to_string()).collect();
    let job = |name: &str, more: &str| {
        format!(
            "- {{name: {name}, samples_per_epoch: 1000, epochs: 60, global_batch: 10, model_size: 0, max_gpus: 1, \
             throughput: {{v100: 10}}, {more}}}\n"
        )
    };
    let goes_by = format!("losses: [{}], target: {{metric: loss, mode: min}}", losses.join(", "));
    format!(
        "jobs:\n{}{}",
        job("first", &format!("{goes_by}, {stop}")),
        job("second", "deadline: 3h, arrival: 1s")
    )
}

#[test]
fn a_simulated_job_stops_by_its_rule_and_no_other() {
    let play = |stop: &str| {
        let sandbox = Sandbox::new()
            .file("jobs.yaml", levelling(stop))
            .file("lab.yaml", "nodes: [{name: n, gpus: {v100: 1}}]");
        let line = "simulate --trace jobs.yaml --cluster lab.yaml --policy fifo --format json --events -";
        let text = sandbox.run(line).succeeds();
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let policy = events.last().expect("a summary")["policies"][0].clone();
        let why = events.iter().find(|event| event["event"] == "completed" && event["job"] == "first");
        let why = why.and_then(|event| event["reason"].as_str()).unwrap_or_default().to_owned();
        (policy, why)
    };
    let (whole, why) = play("weight: 1");
    assert_eq!((&whole["stopped_early"], why.as_str()), (&Value::from(0.0), ""));
    near(&whole["jobs"][0]["jct_s"], 6000.0);
    // The second job is on time only if the first one stops.
    near(&whole["deadlines_met"], 0.0);
    for stop in ["stop: {rule: best}", "stop: {when_busy: best}"] {
        let (policy, why) = play(stop);
        let first = &policy["jobs"][0];
        let epochs = first["epochs_done"].as_f64().expect("epochs");
        assert!((8.0..30.0).contains(&epochs), "{first}");
        near(&first["jct_s"], 100.0 * epochs);
        assert!(why.starts_with(&format!("stopped at epoch {epochs} of 60: nothing to gain")), "{why}");
        near(&policy["deadlines_met"], 1.0);
        assert_eq!((&policy["stopped_early"], &policy["ratio"]), (&Value::from(1.0), &Value::Null));
    }
    let (late, _) = play("stop: {rule: best, not_before: 40}");
    near(&late["jobs"][0]["epochs_done"], 40.0);
}

#[test]
fn the_table_says_how_many_deadlines_are_met() {
    let sandbox = Sandbox::new()
        .file("jobs.yaml", levelling("stop: {rule: best}"))
        .file("lab.yaml", "nodes: [{name: n, gpus: {v100: 1}}]");
    let text = sandbox.run("simulate --trace jobs.yaml --cluster lab.yaml --policy fifo").succeeds();
    assert!(text.contains("DEADLINES") && text.contains("100.0 %"), "{text}");
    assert!(text.contains("fifo: 1 job stopped before the last epoch"), "{text}");
}

/// Returns a sandbox with a folder of three small traces and a folder with a cluster.
fn lessons() -> Sandbox {
    let trace = |seed: u32| {
        let job = |number: u32| {
            let (at, epochs) = (number * 40 * seed % 700, 5 + number * 7 * seed % 40);
            format!(
                "- {{name: j{number}, samples_per_epoch: 1000, epochs: {epochs}, global_batch: 10, model_size: 0, gpus: 1, \
                 throughput: {{v100: 20, t4: 10}}, arrival: {at}s, deadline: {}s}}\n",
                at + 150 * epochs
            )
        };
        format!("jobs:\n{}", (0..12).map(job).collect::<String>())
    };
    let sandbox = Sandbox::new().file("clusters/lab.yaml", "nodes: [{name: n, gpus: {v100: 1, t4: 1}}]");
    (1..=3).fold(sandbox, |sandbox, seed| sandbox.file(&format!("traces/{seed}.yaml"), trace(seed)))
}

#[test]
fn a_net_is_trained_and_chooses_and_is_the_same_for_the_same_seed() {
    let sandbox = lessons();
    let train = "train-policy --traces traces --clusters clusters --passes 1 --format json --output";
    let intent = sandbox.run(&format!("{train} a.json --dry-run")).json();
    assert_eq!(
        [&intent["dry_run"], &intent["traces"], &intent["held_out"]],
        [&Value::Bool(true), &2.into(), &1.into()]
    );
    assert!(!sandbox.work("a.json").exists());
    let report = sandbox.run(&format!("{train} a.json --seed 3")).json();
    sandbox.run(&format!("{train} b.json --seed 3")).succeeds();
    sandbox.run(&format!("{train} c.json --seed 4")).succeeds();
    let net = |name: &str| sandbox.text(&sandbox.work(name));
    assert_eq!(net("a.json"), net("b.json"));
    assert!(net("a.json") != net("c.json"));
    assert_eq!((&report["traces"], &report["held_out"]), (&Value::from(2), &Value::from(1)));
    let names: Vec<&str> = report["policies"]
        .as_array()
        .expect("policies")
        .iter()
        .filter_map(|policy| policy["policy"].as_str())
        .collect();
    assert_eq!(names, ["mlf-h", "srtf", "imitates mlf-h", "mlf-rl"]);

    let line =
        "simulate --trace traces/3.yaml --cluster clusters/lab.yaml --policy mlf-rl,mlf-h --format json";
    let played = sandbox.run(&format!("{line} --network a.json")).json();
    assert_eq!(played["policies"][0]["ended"], 12.0);
    // The last trace was held out, so the figures are the same.
    near(&played["policies"][0]["mean_jct_s"], report["policies"][3]["mean_jct_s"].as_f64().expect("a mean"));
    near(&played["policies"][1]["mean_jct_s"], report["policies"][0]["mean_jct_s"].as_f64().expect("a mean"));

    let line = line.replace(" --format json", "");
    let text = sandbox.run(&line).fails(2);
    assert!(
        text.contains("mlf-rl needs a trained network") && text.contains("hsched train-policy"),
        "{text}"
    );
    let broken = net("a.json").replace("\"sizes\":[15,32", "\"sizes\":[15,31");
    let sandbox = sandbox.file("broken.json", broken).file("other.json", "{}");
    for (file, expected) in
        [("broken.json", "its weights do not match its layer sizes"), ("other.json", "not a network file")]
    {
        let text = sandbox.run(&format!("{line} --network {file}")).fails(78);
        assert!(text.contains(expected), "{text}");
    }
    let text = sandbox.run("train-policy --traces clusters --clusters clusters --output d.json").fails(78);
    assert!(text.contains("needs at least two traces"), "{text}");
}

#[test]
fn a_net_decides_under_run_and_without_one_nobody_is_started() {
    let learnt = lessons();
    learnt.run("train-policy --traces traces --clusters clusters --passes 0 --output net.json").succeeds();
    let speed = "throughput: {cpu: 2000}, gpus: 1";
    let bench = Bench::new(&["a", "b", "c"].map(|name| training(name, 2, speed)));
    for command in ["run jobs.yaml --devices cpu:2 --policy mlf-rl", "watch --policy mlf-rl"] {
        let text = bench.sandbox.run(command).fails(2);
        assert!(text.contains("mlf-rl needs a trained network"), "{text}");
    }
    std::fs::copy(learnt.work("net.json"), bench.sandbox.work("net.json")).expect("a file");
    bench.run("run jobs.yaml --devices cpu:2 --policy mlf-rl --network net.json").exits(0);
    for name in ["a", "b", "c"] {
        bench.did_each_epoch_once(name, 2);
    }
    let text = bench.sandbox.run("plan jobs.yaml --cluster cluster.yaml --policy mlf-rl").fails(2);
    assert!(text.contains("use it with hsched watch, hsched run or hsched simulate"), "{text}");
}

#[test]
fn with_the_objective_deadlines_a_long_job_goes_first_where_a_short_one_would_make_it_late() {
    let job = |name: &str, samples: u32, more: &str| {
        format!(
            "- {{name: {name}, samples_per_epoch: {samples}, epochs: 10, global_batch: 10, model_size: 0, \
             throughput: {{a: 100}}, command: x{more}}}\n"
        )
    };
    let jobs = format!("jobs:\n{}{}", job("short", 1000, ""), job("long", 10_000, ", deadline: 1050s"));
    let sandbox = Sandbox::new().file("t.yaml", jobs).file("one.yaml", "nodes: [{name: n, gpus: {a: 1}}]");
    let met = |objective: &str| {
        let how = "--cluster one.yaml --policy optimal --restart-cost 0s --format json";
        let ran = sandbox.run(&format!("simulate --trace t.yaml {how} --objective {objective}"));
        ran.exits(0).json()["policies"][0]["deadlines_met"].clone()
    };
    near(&met("mean-jct"), 0.0);
    near(&met("deadlines"), 1.0);
    let waits = |objective: &str| {
        sandbox.run(&format!("plan t.yaml --cluster one.yaml --objective {objective}")).stdout
    };
    assert!(waits("mean-jct").contains("long: waits: "), "{}", waits("mean-jct"));
    assert!(waits("deadlines").contains("short: waits: "), "{}", waits("deadlines"));
    let simulate = "simulate --trace t.yaml --cluster one.yaml --objective deadlines --policy";
    let run = sandbox.run(&format!("{simulate} optimal,srtf,horizon"));
    assert!(
        run.stderr.contains("--objective deadlines has no effect with srtf and horizon"),
        "{}",
        run.stderr
    );
    let refused = sandbox.run(&format!("{simulate} hadare"));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("hadare minimises mean-jct or makespan, not deadlines"), "{refused:?}");
}
