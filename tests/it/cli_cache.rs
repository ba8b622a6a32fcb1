//! `hsched cache`, and plans with measured speeds.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::sandbox::{JOBS, Sandbox, mode};

/// A file of speeds: two batch sizes of a model on one type, and one batch size of another model on another
/// type.
const SPEEDS: &str = r#"{"schema": "hsched.cache/1", "contributor": "lab", "later": 1, "speeds": [
{"model": "resnet18", "gpu_type": "t4", "precision": null, "contributor": "lab", "observations": 5, "points": [
 {"batch": 64, "seconds": 0.336, "variance": 0.0004, "count": 3, "steps": 300, "seen": 3, "at": 1790000000, "source": "report"},
 {"batch": 128, "seconds": 0.592, "variance": 0.0004, "count": 2, "steps": 200, "seen": 5, "at": 1790000060, "source": "report"}]},
{"model": "vgg19", "gpu_type": "v100", "precision": null, "contributor": "lab", "observations": 1, "points": [
 {"batch": 256, "seconds": 0.146, "variance": 0.01, "count": 1, "steps": 100, "seen": 1, "at": 1790000000, "source": "epoch"}]}
]}"#;

fn with_speeds() -> Sandbox {
    let sandbox = Sandbox::new().file("speeds.json", SPEEDS);
    sandbox.run("cache import speeds.json").succeeds();
    sandbox
}

#[test]
fn speeds_are_shown() {
    let sandbox = with_speeds();
    assert_snapshot!(sandbox.run("cache show").succeeds(), @r"
    MODEL     GPU   SPEED                        ERROR  MEASURED  LAST SEEN   SOURCE
    resnet18  t4    80 ms + 4 ms per sample       ±1 %         5  2026-09-21  report
    vgg19     v100  1753 samples/s at batch 256  ±10 %         1  2026-09-21  epoch
    ");
    let all = sandbox.run("cache show --format json").exits(0).json();
    assert_eq!((&all["schema"], &all["speeds"][0]["batches"]), (&json!("hsched.speeds/1"), &json!(2)));
    let one = sandbox.run("cache show vgg19 --format json").exits(0).json();
    assert_eq!(one["speeds"], json!([all["speeds"][1]]));
    let none = sandbox.run("cache show vgg").exits(0);
    assert_eq!(
        (none.stdout.as_str(), none.stderr.as_str()),
        ("", "note: no speed is known for this model\n")
    );
}

#[test]
fn a_file_with_speeds_of_replicas_has_a_schema_that_older_versions_refuse() {
    let sandbox = with_speeds();
    let schema = || {
        let text = fs::read_to_string(sandbox.state("throughput.json")).expect("a file");
        let file: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(sandbox.run("cache export").exits(0).json()["schema"], file["schema"]);
        file["schema"].clone()
    };
    assert_eq!(schema(), "hsched.cache/1");
    sandbox.run("cache set llama a100 90 --gpus 4").succeeds();
    assert_eq!(schema(), "hsched.cache/2");
    let other = Sandbox::new().file("speeds.json", sandbox.run("cache export").exits(0).stdout);
    other.run("cache import speeds.json").succeeds();
    assert_eq!(other.run("cache show").succeeds(), sandbox.run("cache show").succeeds());
    sandbox.run("cache forget llama").succeeds();
    assert_eq!(schema(), "hsched.cache/1");
}

#[test]
fn what_is_set_is_planned_with_until_it_is_forgotten() {
    let sandbox = Sandbox::new();
    let plan = "plan jobs.yaml --cluster cluster.yaml --policy has --format json";
    let first = sandbox.run(plan).exits(0).json();
    assert_snapshot!(sandbox.run("cache set resnet18 t4 alpha_ms=80,beta_ms=4.21 --dry-run").succeeds(), @"resnet18 on t4 would be 80 ms + 4.21 ms per sample, was unknown");
    assert!(!sandbox.state("throughput.json").exists());
    sandbox.run("cache set resnet18 t4 275").succeeds();
    assert_snapshot!(sandbox.run("cache set resnet18 t4 100").succeeds(), @"resnet18 on t4 is 100 samples/s, was 275 samples/s (set by hand)");
    assert_eq!(mode(&sandbox.state("throughput.json")), 0o600);
    let second = sandbox.run(plan).exits(0).json();
    assert_eq!(second["jobs"][0]["speeds"][0]["samples_per_s"], 100.0);
    assert_eq!(
        second["jobs"][0]["notes"],
        json!([
            "t4: 100 samples/s set by hand, used instead of the job file's 275 samples/s",
            "speeds from the cache: t4 (set by hand)"
        ])
    );
    assert_ne!(first["mean_jct_s"], second["mean_jct_s"]);
    let untimed = |mut plan: Value| {
        plan["solve_s"] = Value::Null;
        plan["bound_s"] = Value::Null;
        plan
    };
    let without = sandbox.run(&format!("{plan} --no-cache")).exits(0).json();
    assert_eq!(untimed(without), untimed(first));
    assert_snapshot!(sandbox.run("cache forget resnet18 v100").fails(1), @r"
    error: no speed is known for resnet18 on v100
    hint: hsched cache show lists all known speeds
    ");
    assert_snapshot!(sandbox.run("cache forget resnet81").fails(1), @r"
    error: no speed is known for resnet81
    hint: did you mean resnet18?
    ");
    sandbox.run("cache forget resnet18 --dry-run").succeeds();
    assert_eq!(sandbox.run("cache forget resnet18 t4").succeeds(), "deleted 1 speed of resnet18\n");
    assert_eq!(sandbox.run("cache show").exits(0).stdout, "");
}

#[test]
fn changes_are_told_in_json() {
    let sandbox = Sandbox::new().file("speeds.json", SPEEDS);
    let told = |line: &str| sandbox.run(&format!("cache {line} --format json")).exits(0).json();
    let brief = |value: &Value| {
        let changes = value["changes"].as_array().expect("changes").iter().map(|change| {
            json!([
                change["model"],
                change["gpu_type"],
                change["before"]["samples_per_s"],
                change["after"]["samples_per_s"]
            ])
        });
        json!([value["schema"], value["dry_run"], value["known"], changes.collect::<Vec<_>>()])
    };
    let schema = "hsched.cache-change/1";
    let first = told("set m t4 275 --dry-run");
    assert_eq!(brief(&first), json!([schema, true, 1, [["m", "t4", null, 275.0]]]));
    assert_eq!(first["changes"][0]["before"], Value::Null);
    told("set m t4 275");
    assert_eq!(brief(&told("set m t4 300")), json!([schema, false, 1, [["m", "t4", 275.0, 300.0]]]));
    let imported = told("import speeds.json");
    assert_eq!((&imported["known"], imported["changes"].as_array().map(Vec::len)), (&json!(3), Some(2)));
    assert_eq!(brief(&told("forget m")), json!([schema, false, 2, [["m", "t4", 300.0, null]]]));
    let failure = sandbox.run("cache forget m --format json").exits(1).json();
    assert_eq!(failure["error"]["code"], "failed");
}

#[test]
fn exports_are_imported_as_they_were() {
    let sandbox = with_speeds();
    for format in ["json", "csv"] {
        let text = sandbox.run(&format!("cache export --format {format}")).succeeds();
        let other = Sandbox::new().file("speeds", &text);
        assert_eq!(
            other.run("cache import speeds --dry-run").succeeds(),
            "the cache would have 2 speeds: 2 new, 0 changed\n"
        );
        assert!(!other.state("throughput.json").exists());
        let told = "the cache has 2 speeds: 2 new, 0 changed\n";
        assert_eq!(other.run_with_input("cache import -", &text).succeeds(), told);
        let again = "the cache has 2 speeds: 0 new, 0 changed\n";
        assert_eq!(other.run("cache import speeds").succeeds(), again);
        let shown = |sandbox: &Sandbox| sandbox.run("cache show --format json").exits(0).json();
        assert_eq!(shown(&other), shown(&sandbox));
        assert_eq!(
            other.run(&format!("cache export --format {format}")).succeeds().lines().count(),
            text.lines().count()
        );
    }
}

#[test]
fn a_plan_with_measured_speeds_says_so_and_can_be_submitted() {
    let sandbox = with_speeds();
    let plan = "plan jobs.yaml --cluster cluster.yaml --policy has";
    assert_snapshot!(sandbox.run(plan).succeeds(), @r"
    has: 2 jobs on 4 of 4 GPUs
    mean completion time 3 h 24 min, makespan 5 h 14 min, fairness 0.922
    the mean completion time is at most 15.9 % above the optimum

    JOB       GPUS              BATCHES         EPOCH  COMM     DONE IN
    resnet18  1 v100 b, 2 t4 a  311, 101, 100  94.2 s   0 %  5 h 14 min
    vgg19     1 v100 b          512            28.5 s   0 %  1 h 35 min

    resnet18: t4: 216 samples/s measured, used instead of the job file's 275
      samples/s
    resnet18: speeds from the cache: t4 (±1 %, 5 measurements)
    vgg19: speeds from the cache: v100 (±10 %, 1 measurement inferred from whole
      epochs at batch 256 only)
    ");
    let text = sandbox.run(&format!("{plan} --explain vgg19")).succeeds();
    assert!(text.contains("- speed on v100: 1753 samples/s (±10 %, 1 measurement inferred"), "{text}");
    let file = sandbox.run(&format!("{plan} --format json -o plan.json")).exits(0).json();
    let speed = &file["jobs"][0]["speeds"][0];
    assert_eq!(
        (&speed["type"], &speed["source"], &speed["count"], &speed["by"]),
        (&json!("t4"), &json!("measured"), &json!(5), &json!("report"))
    );
    // The plan contains its speeds, so later values in the cache do not matter.
    sandbox.run("cache set resnet18 t4 1").succeeds();
    sandbox.run("submit plan.json --dry-run").exits(0);
    let mut changed = file.clone();
    changed["jobs"][0]["speeds"][0]["beta_s"] = json!(0.5);
    let sandbox = sandbox.file("bad.json", changed.to_string());
    let refused = sandbox.run("submit bad.json --dry-run").fails(78);
    assert!(refused.contains("the formulas give"), "{refused}");
    changed["jobs"][0]["speeds"][0]["beta_s"] = json!(-1);
    let sandbox = sandbox.file("bad.json", changed.to_string());
    assert_snapshot!(sandbox.run("submit bad.json --dry-run").fails(78), @r"
    error: bad.json: jobs[0] (resnet18): speeds has neither samples_per_s nor alpha_s and beta_s
    hint: create the plan again with hsched plan
    ");
}

#[test]
fn files_of_other_versions_are_left_as_they_are() {
    let path = "home/.local/state/hsched/throughput.json";
    let check = |text: &str| {
        let sandbox = Sandbox::new();
        sandbox.make_state();
        fs::write(sandbox.path(path), text).expect("a file");
        let told = sandbox.run("cache set m t4 5").fails(78);
        for command in ["cache show", "cache export", "plan jobs.yaml --cluster cluster.yaml"] {
            assert_eq!(sandbox.run(command).fails(78), told, "{command}");
        }
        assert_eq!(fs::read_to_string(sandbox.path(path)).expect("is there"), text);
        sandbox.run("plan jobs.yaml --cluster cluster.yaml --no-cache").exits(0);
        told
    };
    assert_snapshot!(check(&SPEEDS.replace("cache/1", "cache/3")), @r#"
    error: ROOT/home/.local/state/hsched/throughput.json: its schema is "hsched.cache/3"; this version reads "hsched.cache/1" and "hsched.cache/2"
    hint: the file was not changed: repair it, update hsched if a newer version wrote it, or move it away
    hint: hsched plan --no-cache does not use it
    "#);
}

#[test]
fn damaged_files_are_a_warning_and_are_kept() {
    let path = "home/.local/state/hsched/throughput.json";
    let check = |text: &str| {
        let sandbox = Sandbox::new();
        sandbox.make_state();
        fs::write(sandbox.path(path), text).expect("a file");
        let told = sandbox.run("plan jobs.yaml --cluster cluster.yaml").exits(0).stderr;
        for command in ["cache show", "cache export", "cache set m t4 5 --dry-run"] {
            let ended = sandbox.run(command).exits(0);
            assert!(ended.stderr.contains(told.trim_end()), "{command}: {}", ended.stderr);
        }
        assert_eq!(fs::read_to_string(sandbox.path(path)).expect("is there"), text);
        sandbox.run("cache set m t4 5").exits(0);
        let kept = fs::read_to_string(sandbox.path(&format!("{path}.damaged")));
        assert_eq!(kept.expect("is kept"), text);
        told
    };
    assert_snapshot!(check(&SPEEDS[..400]), @"warning: ROOT/home/.local/state/hsched/throughput.json is damaged (not a file of measured speeds, or a damaged one: EOF while parsing a string at line 4 column 84); hsched uses the speeds of the job files until it has measured new ones");
    assert_snapshot!(check(&SPEEDS.replace("0.336", "-1")), @"warning: ROOT/home/.local/state/hsched/throughput.json is damaged (resnet18 on t4: its numbers are invalid); hsched uses the speeds of the job files until it has measured new ones");
    for damaged in ["", "{}", "[]", "null", "{\"schema\": \"hsched.cache/1\"}", "\u{0}\u{0}"] {
        assert!(check(damaged).contains("throughput.json is damaged ("), "{damaged}");
    }
}

#[test]
fn wrong_words_are_refused() {
    let sandbox =
        Sandbox::new().file("bad.csv", "model,gpu_type\nx,t4\n").file("bad.json", "{\"schema\": 3}");
    for (speed, why) in [
        ("0", "must be from 1e-9 to 1e12 samples/s, got 0"),
        ("-1", "must be from 1e-9 to 1e12 samples/s, got -1"),
        ("1e60", "must be from 1e-9 to 1e12 samples/s, got "),
        ("alpha_ms=1,beta_ms=1,alpha_ms=2", "has alpha_ms twice"),
        ("fast", "must be a number"),
        ("alpha_ms=1", "needs alpha_ms, from 0 to 1e12, and beta_ms, from 1e-9 to 1e12"),
        ("alpha_ms=1,beta=2", "\"beta\" is not part of a step time"),
    ] {
        let told = sandbox.run(&format!("cache set m t4 {speed}")).fails(2);
        assert!(told.contains(why), "{told}");
    }
    sandbox.run("cache set m 't 4' 5").fails(2);
    sandbox.run("cache set '' t4 5").fails(2);
    let speeds = SPEEDS.replace("resnet18", "a\\u001b[31m");
    assert_ne!(speeds, SPEEDS);
    let sandbox = sandbox.file("escape.json", speeds);
    assert_snapshot!(sandbox.run("cache import escape.json").fails(78), @r"
    error: escape.json: a\u{1b}[31m on t4: its name or contributor must not contain control characters, got '\u{1b}'
    hint: hsched cache export writes such files
    ");
    sandbox.run("cache set m t4 5 --precision fp61").fails(2);
    let near = sandbox.run("cache set m v1000 5 --dry-run").exits(0).stderr;
    assert_eq!(near, "note: unknown GPU type v1000; did you mean v100?\n");
    assert_snapshot!(sandbox.run("cache import bad.csv").fails(78), @r"
    error: bad.csv: not a table of measured speeds, or a damaged one: CSV deserialize error: record 1 (line: 2, byte: 15): missing field `contributor`
    hint: hsched cache export writes such files
    ");
    assert_snapshot!(sandbox.run("cache import bad.json").fails(78), @r#"
    error: bad.json: its schema is 3; this version reads "hsched.cache/1" and "hsched.cache/2"
    hint: hsched cache export writes such files
    "#);
    sandbox.run("cache import missing").fails(78);
}

#[test]
fn speeds_that_nobody_knows_are_guessed_when_asked_for() {
    let jobs = JOBS.replace("v100: 1754, t4: 884", "v100: 1754");
    let sandbox = Sandbox::new().file("jobs.yaml", &jobs);
    let plan = "plan jobs.yaml --cluster cluster.yaml --policy exhaustive";
    let without = sandbox.run(plan).succeeds();
    assert!(
        without.ends_with(
            "vgg19: t4 not used: no throughput known\nto use a GPU type without a known speed, measure the speed with hsched probe or\n  estimate it with --estimate all\n"
        ),
        "{without}"
    );
    assert_snapshot!(sandbox.run(&format!("{plan} --estimate all")).succeeds(), @r"
    exhaustive: 2 jobs on 4 of 4 GPUs
    mean completion time 3 h 04 min, makespan 4 h 18 min, fairness 0.863
    the mean completion time is proven optimal

    JOB       GPUS                BATCHES   EPOCH  COMM     DONE IN
    resnet18  2 v100 b            2x256    77.6 s   0 %  4 h 18 min
    vgg19     2 t4 a (estimated)  2x256    33.0 s   0 %  1 h 50 min

    vgg19: t4: 757 samples/s (estimated from v100 and 1 other model, ±46 %)
    this plan depends on estimated speeds: if they were one standard deviation
      slower, it would use other GPUs; measure vgg19 on t4 with hsched probe
    ");
    let file = sandbox.run(&format!("{plan} --estimate all --format json -o plan.json")).exits(0).json();
    let speed = &file["jobs"][1]["speeds"][0];
    assert_eq!(
        (&speed["type"], &speed["source"], &speed["name"]),
        (&json!("t4"), &json!("scaled"), &json!("v100"))
    );
    sandbox.run("submit plan.json --dry-run").exits(0);
    // With two models that were measured on both types, the estimate is not a guess.
    for (model, gpu_type, rate) in [("a", "v100", 100), ("a", "t4", 50), ("b", "v100", 10), ("b", "t4", 5)] {
        sandbox.run(&format!("cache set {model} {gpu_type} {rate}")).succeeds();
    }
    // The speeds of resnet18 are those of its job file.
    let learnt = |text: &str| assert!(text.contains("estimated from v100 and 2 other models"), "{text}");
    learnt(&sandbox.run(&format!("{plan} --estimate learnt")).succeeds());
    // The estimate was not requested.
    assert_eq!(sandbox.run(plan).succeeds(), without);
    // A setting and a job key also request it; the key takes precedence.
    learnt(&sandbox.run(&format!("{plan} --set estimate=learnt")).succeeds());
    let owner = |which: &str| jobs.replace("v100: 1754}", &format!("v100: 1754}}, estimate: {which}"));
    learnt(&sandbox.file("jobs.yaml", owner("learnt")).run(plan).succeeds());
    let strict = Sandbox::new().file("jobs.yaml", owner("off"));
    assert!(strict.run(&format!("{plan} --estimate all")).succeeds().contains("vgg19: t4 not used"));
    strict.run(&format!("{plan} --estimate some")).fails(2);
    Sandbox::new().file("jobs.yaml", owner("yes")).run(plan).fails(78);
}

#[test]
fn advice_on_unknown_speeds_is_given_once() {
    let job = |partition: &str| {
        format!(
            "jobs: [{{name: a, partition: {partition}, samples_per_epoch: 9, epochs: 1, global_batch: 8, \
             model_size: 0, throughput: {{v100: 9}}, command: [x]}}]"
        )
    };
    let nodes = "nodes:\n  - {name: n1, gpus: {v100: 1}, gpus_used: {v100: 1}, partitions: [x]}\n  \
                 - {name: n2, gpus: {t4: 1}, partitions: [x, y]}\n";
    let said = |jobs: String| {
        let sandbox =
            Sandbox::new().file("jobs.yaml", jobs).file("cluster.yaml", nodes).variable("COLUMNS", "200");
        sandbox.run("plan jobs.yaml --cluster cluster.yaml").stdout
    };
    let advice = "to use a GPU type without a known speed";
    let text = said(job("x"));
    assert!(text.contains("needs a v100; 0 available now") && text.contains(advice), "{text}");
    // The job's own message has the advice, although a speed on a type of another partition is known.
    let other = job("x").replace("[{", "[{gpu_types: [v100], ").replace("name: a", "name: c");
    let text = said(job("y").replace("]}]", "]}, ") + &other["jobs: [".len()..]);
    assert!(text.contains("add throughput to the job or run hsched probe"), "{text}");
    assert!(!text.contains(advice), "{text}");
}

#[test]
fn a_table_of_something_else_is_no_table_of_speeds() {
    let sandbox = Sandbox::new();
    let refused = sandbox.run_with_input("cache import -", "x,y\n1,2\n").exits(78);
    assert!(refused.stderr.contains("needs the columns model and gpu_type"), "{}", refused.stderr);
}
