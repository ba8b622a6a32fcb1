//! `hsched plan`: the JSON that other programs rely on, the table, capacities, and jobs that cannot be placed.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::sandbox::{JOBS, Sandbox, mode};

pub(crate) const PLAN: &str = "plan jobs.yaml --cluster cluster.yaml";

/// Returns the plan of the worked example by a policy.
fn plan(policy: &str) -> Value {
    Sandbox::new().run(&format!("{PLAN} --policy {policy} --format json")).exits(0).json()
}

pub(crate) fn near(value: &Value, expected: f64) {
    let number = value.as_f64().expect("a number");
    assert!((number - expected).abs() <= 5e-5, "{number} is not {expected}");
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// Returns the GPUs of a job as text.
fn gpus(job: &Value) -> String {
    let one = |gpus: &Value| format!("{}{}{}", gpus["count"], gpus["type"], gpus["node"]);
    job["gpus"].as_array().expect("gpus").iter().map(one).collect::<Vec<_>>().join(" ").replace('"', " ")
}

#[test]
fn has_gives_the_worked_example_in_the_contracts_form() {
    let plan = plan("has");
    assert_eq!(plan["schema"], "hsched.plan/1");
    assert_eq!(
        (&plan["policy"], &plan["seed"], &plan["objective"]),
        (&json!("has"), &json!(0), &json!("mean-jct"))
    );
    for (key, expected) in [
        ("objective_value", 11_225.836_5),
        ("mean_jct_s", 11_225.836_5),
        ("makespan_s", 16_750.418_8),
        ("fairness", 0.905_5),
    ] {
        near(&plan[key], expected);
    }
    assert_eq!(plan["categories"], 3);
    assert!(plan["proven_optimal"].is_boolean() && plan["solve_s"].is_f64());
    for key in ["lower_bound", "gap", "bound_s"] {
        assert!(plan.get(key).is_some_and(|value| value.is_null() || value.is_f64()), "{key}");
    }
    assert!(plan.get("certificate").is_some_and(|value| value.is_null() || value.is_object()));

    let job = &plan["jobs"][0];
    assert_eq!(
        (&job["name"], &job["verdict"], &job["reason"]),
        (&json!("resnet18"), &json!("place"), &Value::Null)
    );
    for (key, expected) in [
        ("jct_s", 16_750.418_8),
        ("epoch_s", 83.752_1),
        ("compute_s", 83.752_1),
        ("comm_s", 0.0),
        ("throughput", 1194.0),
    ] {
        near(&job[key], expected);
    }
    assert_eq!(
        job["gpus"],
        json!([{"node": "b", "type": "v100", "count": 1}, {"node": "a", "type": "t4", "count": 2}])
    );
    assert_eq!(
        job["ranks"],
        json!([
            {"rank": 0, "node": "b", "type": "v100", "local_rank": 0, "batch": 276, "samples": 53906},
            {"rank": 1, "node": "a", "type": "t4", "local_rank": 0, "batch": 118, "samples": 23047},
            {"rank": 2, "node": "a", "type": "t4", "local_rank": 1, "batch": 118, "samples": 23047},
        ])
    );
}

#[test]
fn every_policy_writes_the_same_keys() {
    let plans = ["has", "jps", "exhaustive", "optimal"].map(plan);
    for plan in &plans {
        assert_eq!(keys(plan), keys(&plans[0]));
        for job in plan["jobs"].as_array().expect("jobs") {
            assert_eq!(keys(job), keys(&plans[0]["jobs"][0]));
        }
    }
    let [has, jps, exhaustive, optimal] = &plans;
    for plan in &plans {
        near(&plan["lower_bound"], 10_592.029_5);
        assert_eq!(plan["proven_optimal"], plan["mean_jct_s"] == optimal["mean_jct_s"]);
    }
    assert!((has["gap"].as_f64().expect("a gap") - 0.0598).abs() < 5e-5, "{}", has["gap"]);
    near(&jps["mean_jct_s"], 11_225.836_5);
    near(&exhaustive["mean_jct_s"], 10_592.029_5);
    assert_eq!(
        (gpus(&exhaustive["jobs"][0]), gpus(&exhaustive["jobs"][1])),
        ("2 v100  b ".into(), "2 t4  a ".into())
    );
}

#[test]
fn equal_input_gives_equal_output() {
    let sandbox = Sandbox::new();
    for policy in ["has", "jps", "exhaustive", "optimal"] {
        let untimed = || {
            let text = sandbox.run(&format!("{PLAN} --policy {policy} --seed 7 --format json")).succeeds();
            let timing = |line: &&str| line.starts_with("  \"solve_s\"") || line.starts_with("  \"bound_s\"");
            text.lines().filter(|line| !timing(line)).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(untimed(), untimed());
    }
    assert_eq!(sandbox.run(PLAN).succeeds(), sandbox.run(PLAN).succeeds());
}

#[test]
fn the_table_is_for_people() {
    assert_snapshot!(Sandbox::new().run(&format!("{PLAN} --policy has")).succeeds(), @r"
    has: 2 jobs on 4 of 4 GPUs
    mean completion time 3 h 07 min, makespan 4 h 39 min, fairness 0.906
    the mean completion time is at most 6.0 % above the optimum

    JOB       GPUS              BATCHES      EPOCH  COMM     DONE IN
    resnet18  1 v100 b, 2 t4 a  276, 2x118  83.8 s   0 %  4 h 39 min
    vgg19     1 v100 b          512         28.5 s   0 %  1 h 35 min
    ");
}

#[test]
fn long_names_are_whole_in_a_pipe_and_all_else_fits_beside_them() {
    let nodes = (1..40)
        .step_by(2)
        .map(|n| format!("  - {{name: a-rather-long-node-name-{n}, gpus: {{t4: 1, v100: 1}}}}\n"));
    let jobs = crate::sandbox::JOBS.replace("vgg19", &"v".repeat(64));
    let sandbox = Sandbox::new()
        .file("cluster.yaml", format!("nodes:\n{}", nodes.collect::<String>()))
        .file("jobs.yaml", jobs);
    let table = sandbox.run("plan jobs.yaml --cluster cluster.yaml --policy jps").exits(0).stdout;
    assert!(table.contains(&"v".repeat(64)), "{table}");
    let narrow = |line: &&str| line.trim_start().chars().count() <= 80 || line.starts_with(['v', 'J', 'r']);
    assert!(table.lines().all(|line| narrow(&line)), "{table}");
    assert!(table.contains("  a-rather-long-node-name-19,"), "{table}");
}

#[test]
fn output_is_the_same_json_in_a_file() {
    let sandbox = Sandbox::new().file("plan.json", "old");
    let printed = sandbox.run(&format!("{PLAN} --output plan.json --format json")).succeeds();
    assert_eq!(sandbox.text(&sandbox.work("plan.json")), printed);
    let table = sandbox.run(&format!("{PLAN} -o new.json")).succeeds();
    assert!(table.contains("resnet18") && sandbox.text(&sandbox.work("new.json")).contains("hsched.plan/1"));
    // The file has the permissions of one created by the shell's `>`.
    fs::write(sandbox.work("by-hand"), "").expect("a file");
    assert_eq!(mode(&sandbox.work("new.json")), mode(&sandbox.work("by-hand")));
    assert_snapshot!(sandbox.run(&format!("{PLAN} -o gone/plan.json")).fails(1), @"error: cannot write gone/plan.json: No such file or directory (os error 2)");
    assert_snapshot!(sandbox.run(&format!("{PLAN} -o /dev/full")).fails(1), @"error: cannot write /dev/full: No space left on device (os error 28)");
    assert!(sandbox.run(&format!("{PLAN} -o /dev/stdout")).succeeds().starts_with("{\n"));
}

#[test]
fn a_dash_reads_standard_input() {
    let sandbox = Sandbox::new();
    let read = sandbox.run_with_input("plan - --cluster cluster.yaml", JOBS).succeeds();
    assert_eq!(read, sandbox.run(PLAN).succeeds());
    let wrong = sandbox.run_with_input("plan - --cluster cluster.yaml", "jobs: 3").fails(78);
    assert_snapshot!(wrong, @r#"error: standard input:1: jobs: must be a list, got "3""#);
}

#[test]
fn capacity_says_which_gpus_count() {
    let sandbox = Sandbox::new().file(
        "cluster.yaml",
        "nodes:\n  - {name: a, gpus: {v100: 4}, gpus_used: {v100: 3}}\n  - {name: b, gpus: {v100: 4}, state: down}\n\
         \x20 - {name: c, gpus: {v100: 4}, state: drained}\n  - {name: d, gpus: {v100: 4}, state: reserved}\n",
    );
    let used = |options: &str| {
        let plan = sandbox.run(&format!("{PLAN} --format json {options}")).exits(0).json();
        let counts = |job: &Value| gpus(job);
        (
            plan["capacity"].clone(),
            plan["jobs"].as_array().expect("jobs").iter().map(counts).collect::<Vec<_>>().join(","),
        )
    };
    assert_eq!(used(""), (json!("free"), ",1 v100  a ".into()));
    assert_eq!(used("--capacity free").0, "free");
    let (name, all) = used("--capacity up");
    assert_eq!((name, all.matches('a').count()), (json!("up"), 2));
    assert_eq!(used("--capacity limits --set capacity.v100=1").1, ",1 v100  a ");
    // A capacity table implies `--capacity limits`.
    assert_eq!(used("--set capacity.v100=2").0, "limits");
    assert_snapshot!(sandbox.run(&format!("{PLAN} --capacity limits")).fails(78), @r"
    error: --capacity limits needs a [capacity] table in the settings
    hint: or set it here: --set capacity.v100=8
    ");
    let few = sandbox.run(&format!("{PLAN} --set capacity.v100=9")).exits(0).stdout;
    assert!(few.ends_with("capacity v100: 9 set, but only 4 are up\n"), "{few}");
}

#[test]
fn advice_follows_if_a_job_waits_for_gpus_that_other_jobs_hold() {
    let has_advice = |cluster: &str, jobs: &str| {
        let sandbox = Sandbox::new().file("cluster.yaml", cluster).file("jobs.yaml", jobs);
        let advice = "the GPUs are in use; --capacity up plans as if they were free\n";
        sandbox.run(PLAN).stdout.ends_with(advice)
    };
    let cluster =
        |used: &str| format!("nodes: [{{name: a, gpus: {{v100: 2, t4: 1}}, gpus_used: {{{used}}}}}]");
    assert!(has_advice(&cluster("v100: 1, t4: 1"), JOBS));
    assert!(has_advice(&cluster("v100: 2, t4: 1"), JOBS));
    assert!(!has_advice("nodes: [{name: a, gpus: {v100: 1}}]", JOBS));
    // No job waits for the used T4.
    let of_v100 = JOBS.replace(", t4: 275", "").replace(", t4: 884", "");
    assert!(!has_advice("nodes: [{name: a, gpus: {v100: 1, t4: 1}, gpus_used: {t4: 1}}]", &of_v100));
    // A job with predecessors waits for these.
    let behind = JOBS.replace("name: vgg19", "name: vgg19, after: resnet18");
    assert!(!has_advice(&cluster("v100: 1, t4: 1"), &behind));
}

#[test]
fn who_finds_no_gpu_waits() {
    let sandbox = Sandbox::new().file("cluster.yaml", "nodes: [{name: a, gpus: {v100: 1}}]");
    assert_snapshot!(sandbox.run(PLAN).succeeds(), @r"
    optimal: 1 of 2 jobs on 1 of 1 GPUs
    mean completion time 1 h 35 min, makespan 1 h 35 min, fairness 1.000
    the mean completion time is proven optimal for the jobs placed

    JOB    GPUS      BATCHES   EPOCH  COMM     DONE IN
    vgg19  1 v100 a  512      28.5 s   0 %  1 h 35 min

    resnet18: waits: no GPU is left; number 1 among the waiting jobs
    ");
    let plan = sandbox.run(&format!("{PLAN} --format json")).exits(0).json();
    let job = &plan["jobs"][0];
    assert_eq!((&job["verdict"], &job["gpus"], &job["ranks"]), (&json!("defer"), &json!([]), &json!([])));
    assert!(job["reason"].is_string());
    for key in ["jct_s", "epoch_s", "compute_s", "comm_s", "throughput"] {
        assert_eq!(job[key], Value::Null, "{key}");
    }
}

#[test]
fn nothing_to_place_on_is_told_and_has_its_code() {
    let check = |cluster: &str| {
        let sandbox = Sandbox::new().file("cluster.yaml", cluster);
        let plan = sandbox.run(&format!("{PLAN} --format json")).exits(3).json();
        for key in ["objective_value", "mean_jct_s", "makespan_s", "fairness", "lower_bound", "gap"] {
            assert_eq!(plan[key], Value::Null, "{key}");
        }
        assert_eq!(plan["proven_optimal"], false);
        sandbox.run(PLAN).exits(3).stdout
    };
    assert_snapshot!(check("nodes: []"), @r"
    optimal: 0 of 2 jobs on 0 of 0 GPUs

    resnet18: rejected: the cluster has no GPUs
    vgg19: rejected: the cluster has no GPUs
    ");
    assert_snapshot!(check("nodes: [{name: a, gpus: {p100: 2}}]"), @r"
    optimal: 0 of 2 jobs on 0 of 2 GPUs

    resnet18: rejected: cannot use any available GPU type (p100: no throughput
      known): add throughput to the job or run hsched probe; if its speed on another
      GPU type is known, --estimate all is enough
    vgg19: rejected: cannot use any available GPU type (p100: no throughput known):
      add throughput to the job or run hsched probe; if its speed on another GPU
      type is known, --estimate all is enough
    resnet18: no t4, v100 here: the cluster has p100
    vgg19: no t4, v100 here: the cluster has p100
    ");
    assert_snapshot!(check("nodes: [{name: a, gpus: {v100: 2}, state: down}]"), @r"
    optimal: 0 of 2 jobs on 0 of 0 GPUs

    resnet18: waits: needs a v100; 0 available now
    vgg19: waits: needs a v100; 0 available now
    ");
}

#[test]
fn a_job_that_never_fits_is_rejected_and_the_others_are_placed() {
    let jobs = crate::sandbox::JOBS.replacen("command: train", "command: train, min_gpus: 5", 1);
    let sandbox = Sandbox::new().file("jobs.yaml", jobs);
    assert_snapshot!(sandbox.run(PLAN).exits(3).stdout, @r"
    optimal: 1 of 2 jobs on 4 of 4 GPUs
    mean completion time 31 min 35 s, makespan 31 min 35 s, fairness 1.000
    the mean completion time is proven optimal for the jobs placed

    JOB    GPUS              BATCHES       EPOCH  COMM      DONE IN
    vgg19  2 v100 b, 2 t4 a  2x170, 2x86  9.48 s   0 %  31 min 35 s

    resnet18: rejected: needs 5 GPUs of types t4, v100; a job can have at most 4 on
      this cluster
    ");
}

#[test]
fn a_type_without_throughput_is_left_out_and_named() {
    let sandbox = Sandbox::new().file("jobs.yaml", crate::sandbox::JOBS.replacen(", t4: 275", "", 1));
    let ran = sandbox.run(&format!("{PLAN} --policy has")).exits(0);
    assert!(ran.stdout.contains("resnet18: t4 not used: no throughput known"), "{}", ran.stdout);
    let row = ran.stdout.lines().find(|line| line.starts_with("resnet18 ")).expect("a row");
    assert!(!row.contains("t4"), "{}", ran.stdout);
}

#[test]
fn what_own_jobs_hold_counts_as_free() {
    let queued = |job: &str| {
        format!(
            "7|7|N/A|N/A|RUNNING|None|gpu|a|b|N/A|9:57|1|2|0|0|v1|cpu=2,gres/gpu=2,gres/gpu:v100=2|gres:gpu:v100:2|N/A|\
             x|{{\"hsched\":1,\"run\":\"r1\",\"job\":\"{job}\"}}"
        )
    };
    let node = "v1|gpu*|infinite|allocated|gpu:v100:2|gpu:v100:2(IDX:0-1)|2/6/0/8|64000|0|(null)|none";
    let sandbox = Sandbox::new().printing("sinfo", &[node]).printing("squeue", &[&queued("vgg19")]);
    let ran = sandbox.run("plan jobs.yaml").exits(0);
    assert!(ran.stdout.contains("2 jobs on 2 of 2 GPUs"), "{}", ran.stdout);
    assert!(ran.stdout.contains("job 7 (x) is running: its GPUs count as free"), "{}", ran.stdout);
    assert_eq!((sandbox.calls("sinfo").len(), sandbox.calls("squeue").len()), (1, 1));
    let sandbox = sandbox.printing("squeue", &[&queued("somebody-elses")]);
    sandbox.run("plan jobs.yaml").exits(3);
}

#[test]
fn policies_are_compared_on_the_same_problem() {
    let sandbox = Sandbox::new();
    let text =
        sandbox.run("plan jobs.yaml --cluster cluster.yaml --compare has,exhaustive,optimus").succeeds();
    let means: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(means[1][..8], ["has", "2", "3", "h", "07", "min", "+6.0", "%"]);
    assert_eq!(means[2][..8], ["optimus", "2", "4", "h", "50", "min", "+64.4", "%"]);
    assert_eq!(means[3][..8], ["exhaustive", "2", "2", "h", "56", "min", "+0.0", "%"]);
    sandbox.run("plan jobs.yaml --cluster cluster.yaml --compare has --policy jps").fails(2);
}

#[test]
fn a_policy_that_refuses_is_compared_with_its_reason() {
    let job = |number: u32| {
        format!(
            "  - {{name: j{number}, samples_per_epoch: 64, epochs: 1, global_batch: 64, model_size: 0, \
             throughput: {{v100: 9}}, command: [x]}}\n"
        )
    };
    let jobs: String = (0..9).map(job).collect();
    let sandbox = Sandbox::new()
        .file("cluster.yaml", "nodes:\n  - {name: \"n[1-8]\", gpus: {V100: 8}}\n")
        .file("jobs.yaml", format!("jobs:\n{jobs}"));
    let text = sandbox.run("plan jobs.yaml --cluster cluster.yaml --compare has,jps").succeeds();
    assert!(text.contains("\njps  ") && text.contains("\nhas: 3872894697 categories"), "{text}");
    let json = sandbox.run("plan jobs.yaml --cluster cluster.yaml --compare has,jps --format json").json();
    let row = |name: &str| {
        let rows = json["policies"].as_array().expect("rows");
        rows.iter().find(|row| row["policy"] == name).expect("a row").clone()
    };
    assert!(row("has")["error"].as_str().is_some_and(|why| why.contains("use --policy jps")), "{json}");
    assert_eq!((&row("has")["placed"], &row("jps")["placed"]), (&0.into(), &9.into()));
    assert!(row("jps").get("error").is_none(), "{json}");
    sandbox.run("plan jobs.yaml --cluster cluster.yaml --compare has").exits(3);
}

#[test]
fn jobs_of_different_partitions_are_planned_together_each_on_its_own_nodes() {
    let node = |name: &str, partitions: &str| {
        format!("  - {{name: {name}, gpus: {{V100: 2}}, partitions: [{partitions}]}}\n")
    };
    let job = |name: &str, partition: &str| {
        format!(
            "  - {{name: {name}, partition: {partition}, samples_per_epoch: 9, epochs: 1, global_batch: 8, \
             model_size: 0, throughput: {{v100: 9}}, command: [x]}}\n"
        )
    };
    let cluster = format!("nodes:\n{}{}{}", node("n1", "x"), node("n2", "y"), node("n3", "x, y"));
    let sandbox = |jobs: String| {
        Sandbox::new().file("cluster.yaml", &cluster).file("jobs.yaml", format!("jobs:\n{jobs}"))
    };
    let both = sandbox(job("a", "x") + &job("b", "y"));
    let text = both.run(PLAN).succeeds();
    assert!(text.contains("2 jobs on 6 of 6 GPUs\n"), "{text}");
    let json = both.run(&format!("{PLAN} --format json")).json();
    let nodes = |job: usize| -> Vec<&str> {
        let ranks = json["jobs"][job]["ranks"].as_array().expect("ranks");
        ranks.iter().map(|rank| rank["node"].as_str().expect("a name")).collect()
    };
    assert!(!nodes(0).contains(&"n2") && !nodes(1).contains(&"n1"), "{json}");
    assert_eq!(json["proven_optimal"], true);
    let prices = json["certificate"]["prices"].as_object().expect("prices");
    assert_eq!(prices.keys().collect::<Vec<_>>(), ["V100@x", "V100@x+y", "V100@y"]);
    // The file is read again, and a job that was moved to nodes of another partition is refused.
    let text = both.run(&format!("{PLAN} --output plan.json")).succeeds();
    assert!(text.contains("2 jobs on 6 of 6 GPUs\n"), "{text}");
    both.run("submit plan.json --dry-run").succeeds();
    let moved = both.text(&both.work("plan.json")).replace("\"node\": \"n1\"", "\"node\": \"n2\"");
    let refused = sandbox(String::new()).file("plan.json", moved).run("submit plan.json --dry-run").fails(78);
    assert!(refused.contains("jobs[0] (a): may not run on these GPUs"), "{refused}");

    let text = sandbox(job("a", "x")).run(PLAN).succeeds();
    assert!(text.contains("a: the speed of v100 is used for V100: same model\n"), "{text}");
    assert!(text.contains("1 of 3 nodes are not in partition x and are not used\n"), "{text}");
}
