//! `hsched when` and `hsched plan --queue` over saved snapshots of queues.

use std::path::Path;

use serde_json::Value;

use crate::sandbox::Sandbox;

fn example(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name))
        .expect("an example")
}

/// A queue with four GPUs of one node, which are busy for at most an hour, and one slow GPU, which is free.
pub const SNAPSHOT: &str = r#"{
  "schema": "hsched.queue/1", "taken_at": 1795345200, "cluster": "small",
  "nodes": [{"name": "a1", "gpus": [{"type": "a100", "count": 4}]}, {"name": "t1", "gpus": [{"type": "t4", "count": 1}]}],
  "jobs": [{"id": "1", "limit_s": 7200, "asks": {},
    "running": {"since": 1795341600, "holds": [{"node": "a1", "gpus": [{"type": "a100", "count": 4}]}]}}]
}"#;

/// The job takes 10 h on one T4 and half an hour on four A100.
pub const JOB: &str =
    "jobs: [{name: train, samples_per_epoch: 36000, epochs: 10, global_batch: 100, model_size: 0MB,
  throughput: {t4: 10, a100: 50}, max_gpus: 4, command: [x]}]";

pub fn small() -> Sandbox {
    Sandbox::new().file("jobs.yaml", JOB).file("queue.json", SNAPSHOT)
}

fn option<'a>(json: &'a Value, gpu_type: &str, gpus: u64) -> &'a Value {
    let options = json["jobs"][0]["options"].as_array().expect("options");
    options.iter().find(|option| option["type"] == gpu_type && option["gpus"] == gpus).expect("an option")
}

#[test]
fn a_locale_without_utf8_gets_ascii_alone() {
    let line = "when jobs.yaml --snapshot queue.json --futures 20 --budget 1h";
    for (variable, value) in [("LC_ALL", "C"), ("LANG", "POSIX"), ("LC_CTYPE", "en_US.ISO-8859-1")] {
        let ran = small().variable("COLUMNS", "120").variable(variable, value).run(line).exits(0);
        assert!(ran.stdout.is_ascii() && ran.stdout.contains("###"), "{}", ran.stdout);
    }
    let drawn = small().variable("COLUMNS", "120").variable("LC_ALL", "C.UTF-8").run(line).succeeds();
    assert!(drawn.contains("███"), "{drawn}");
}

/// If Slurm preempts by partition, it stops jobs of a preemptible partition for those of one with a higher
/// tier, even if both are of one user.
#[test]
fn a_request_that_stops_a_running_job_of_ones_own_is_marked() {
    let mut snapshot: Value = serde_json::from_str(SNAPSHOT).expect("JSON");
    snapshot["partitions"] = serde_json::json!([
        { "name": "low", "default": true, "tier": 1, "preemptible": true }, { "name": "high", "tier": 2 }]);
    snapshot["nodes"][0]["partitions"] = serde_json::json!(["low", "high"]);
    snapshot["nodes"][1]["partitions"] = serde_json::json!(["low"]);
    snapshot["jobs"][0]["ours"] = true.into();
    snapshot["jobs"][0]["partitions"] = serde_json::json!(["low"]);
    let sandbox = small().file("queue.json", snapshot.to_string()).variable("COLUMNS", "200");
    let line = "when jobs.yaml --snapshot queue.json --partition low,high --futures 5 --budget 1h";
    let json = sandbox.run(&format!("{line} --format json")).json();
    for option in json["jobs"][0]["options"].as_array().expect("options") {
        let is_there = option["partition"] == "high" && option["type"] == "a100";
        let expected = if is_there { serde_json::json!(["1"]) } else { serde_json::json!([]) };
        assert_eq!(option["preempts"], expected, "{option}");
    }
    assert!(sandbox.run(line).succeeds().contains("may stop your job 1"));
}

/// Without a speed, there is no plan; each command explains how to give a speed.
#[test]
fn a_job_without_a_speed_is_told_what_to_do() {
    let unknown = JOB.replace("throughput: {t4: 10, a100: 50}, ", "");
    let sandbox = small().file("unknown.yaml", &unknown);
    let slurm = Sandbox::with_slurm().file("unknown.yaml", &unknown);
    let cluster = "--cluster cluster.yaml";
    let runs = [
        sandbox.run("when unknown.yaml --snapshot queue.json --futures 20"),
        sandbox.run("plan --queue unknown.yaml --snapshot queue.json"),
        slurm.run(&format!("submit unknown.yaml {cluster}")),
        slurm.run(&format!("plan unknown.yaml {cluster}")),
    ];
    for ran in runs {
        let ran = ran.exits(3);
        let words = format!("{}{}", ran.stdout, ran.stderr);
        let text = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let advice = "no throughput known): add throughput to the job or run hsched probe; if its speed on another GPU type \
                      is known, --estimate all is enough";
        assert!(text.contains(advice), "{text}");
    }
    // With `--estimate all`, a speed on any GPU type suffices.
    let known = unknown.replace("max_gpus", "throughput: {v100: 50}, max_gpus");
    let line = "when jobs.yaml --snapshot queue.json --futures 20";
    let sandbox = small().file("jobs.yaml", known);
    sandbox.run(line).exits(3);
    sandbox.run(&format!("{line} --estimate all")).exits(0);
}

#[test]
fn options_for_sbatch_count_or_are_named() {
    // Two of four A100 are free, on a node with a feature.
    let queue = SNAPSHOT.replace(r#"{"name": "a1","#, r#"{"name": "a1", "features": ["ib"],"#).replace(
        r#""holds": [{"node": "a1", "gpus": [{"type": "a100", "count": 4}]}]"#,
        r#""holds": [{"node": "a1", "gpus": [{"type": "a100", "count": 2}]}]"#,
    );
    let told = |options: &str| {
        let job = JOB.replace("max_gpus: 4", &format!("gpu_types: [a100], max_gpus: 2, sbatch: [{options}]"));
        let sandbox = small().file("queue.json", &queue).file("jobs.yaml", job);
        sandbox.run("when jobs.yaml --snapshot queue.json --format json --futures 1 --budget 1h").json()
    };
    let at_limits = |json: &Value| option(json, "a100", 2)["start_at_limits_s"].as_f64();
    let not_counted = |json: &Value| option(json, "a100", 2)["not_counted"].clone();
    let json = told("");
    assert_eq!((at_limits(&json), not_counted(&json)), (Some(0.0), serde_json::json!([])));
    assert_eq!(at_limits(&told("--exclusive")), Some(3600.0));
    assert_eq!(at_limits(&told("--begin=now+5hours")), Some(18_000.0));
    assert_eq!(at_limits(&told("-C, ib")), Some(0.0));
    let none = told("-C, t4");
    assert_eq!(none["jobs"][0]["reason"], "the options for sbatch allow no node");
    let json = told("--licenses=matlab:1, --reservation=unknown, --mail-type=END");
    assert_eq!(at_limits(&json), Some(0.0));
    assert_eq!(not_counted(&json), serde_json::json!(["--licenses=matlab:1", "--reservation=unknown"]));
    assert_eq!(json["jobs"][0]["notes"][0], "train: not counted: --licenses=matlab:1 --reservation=unknown");
}

#[test]
fn other_partitions_and_accounts_are_looked_at() {
    let queue =
        SNAPSHOT.replace(r#"{"name": "a1","#, r#"{"name": "a1", "partitions": ["gpu", "short"],"#).replace(
            r#""cluster": "small","#,
            r#""cluster": "small", "partitions": [{"name": "gpu", "default": true}, {"name": "short"}],"#,
        );
    let sandbox = small().file("queue.json", queue);
    let json = sandbox
        .run("when jobs.yaml --snapshot queue.json --format json --futures 1 --partition gpu,short --account a --account b")
        .json();
    let options = json["jobs"][0]["options"].as_array().expect("options");
    let places: std::collections::BTreeSet<String> =
        options.iter().map(|option| format!("{} {}", option["partition"], option["account"])).collect();
    let places: Vec<&str> = places.iter().map(String::as_str).collect();
    assert_eq!(places, [r#""gpu" "a""#, r#""gpu" "b""#, r#""short" "a""#, r#""short" "b""#]);
    let refused = sandbox.run("when jobs.yaml --snapshot queue.json --partition=");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
}

#[test]
fn the_first_to_finish_is_chosen_though_other_gpus_are_free() {
    let sandbox = small();
    let json =
        sandbox.run("when jobs.yaml --snapshot queue.json --format json --futures 20 --budget 1h").json();
    assert_eq!((json["schema"].as_str(), json["estimated"].as_bool()), (Some("hsched.when/1"), Some(true)));
    let (fast, slow) = (option(&json, "a100", 4), option(&json, "t4", 1));
    assert_eq!((&slow["start"]["q90_s"], &slow["run_s"]), (&Value::from(0.0), &Value::from(36_000.0)));
    // Without past jobs, the running job may end at any time within its last hour; early ends are likelier.
    assert_eq!((&fast["start_at_limits_s"], &fast["run_s"]), (&Value::from(3600.0), &Value::from(1800.0)));
    let point = |name: &str| fast["start"][name].as_f64().expect("a number");
    assert!(
        point("q10_s") < point("q50_s") && point("q50_s") < point("q90_s") && point("q90_s") <= 3600.0,
        "{fast}"
    );
    // Half an hour, plus 10 % for slow runs, another 10 % and the time to save, rounded up to quarters of an
    // hour.
    assert_eq!(fast["limit_s"], 2700.0);
    let chosen = usize::try_from(json["jobs"][0]["chosen"].as_u64().expect("a choice")).expect("small");
    assert_eq!(&json["jobs"][0]["options"][chosen], fast);
}

#[test]
fn the_table_marks_the_choice_and_what_is_estimated() {
    let text = small().run("when jobs.yaml --snapshot queue.json --futures 20 --budget 1h").succeeds();
    let chosen = text.lines().find(|line| line.starts_with("*  ")).expect("a choice");
    assert!(chosen.contains("4 a100") && chosen.contains('█'), "{text}");
    for words in
        ["no job is pending for the same nodes", "finishes first on average (mean ", "priority unknown"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn hidden_queues_give_no_number() {
    let hidden = SNAPSHOT.replace("\"cluster\"", "\"others_hidden\": true, \"cluster\"");
    let sandbox = Sandbox::new().file("jobs.yaml", JOB).file("queue.json", hidden);
    let text = sandbox.run("when jobs.yaml --snapshot queue.json").exits(3);
    let shown = &text.stdout;
    assert!(shown.contains("unknown") && shown.contains("other users' jobs are hidden here"), "{shown}");
    let json = sandbox.run("when jobs.yaml --snapshot queue.json --format json").exits(3).json();
    assert_eq!(option(&json, "t4", 1)["outlook"], "unknown");
    assert_eq!((&option(&json, "t4", 1)["start"], &json["jobs"][0]["chosen"]), (&Value::Null, &Value::Null));
}

#[test]
fn several_snapshots_tell_which_cluster() {
    let empty = SNAPSHOT.replace("\"small\"", "\"idle\"");
    let mut empty: Value = serde_json::from_str(&empty).expect("JSON");
    empty["jobs"] = Value::Array(Vec::new());
    let sandbox = small().file("idle.json", empty.to_string());
    let json = sandbox
        .run(
            "when jobs.yaml --snapshot queue.json --snapshot idle.json --format json --futures 5 --budget 1h",
        )
        .json();
    let chosen = usize::try_from(json["jobs"][0]["chosen"].as_u64().expect("a choice")).expect("small");
    assert_eq!(json["jobs"][0]["options"][chosen]["cluster"], "idle");
}

#[test]
fn what_is_no_snapshot_is_refused() {
    let sandbox = small().file("bad.json", "{\"schema\": \"hsched.queue/9\"}");
    let error = sandbox.run("when jobs.yaml --snapshot bad.json").fails(78);
    assert!(error.contains("bad.json: the snapshot has schema \"hsched.queue/9\""), "{error}");
    let error = sandbox.run("when jobs.yaml --snapshot none.json").fails(78);
    assert!(error.contains("none.json"), "{error}");
    let error = sandbox.run("plan jobs.yaml --snapshot queue.json").fails(2);
    assert!(error.contains("--queue"), "{error}");
    sandbox.run("when jobs.yaml --snapshot queue.json --cost-weight -1").fails(2);
}

#[test]
fn jobs_are_planned_together() {
    // Two equal jobs for two nodes of one GPU each, one of them slightly slower; alone, both jobs would
    // choose the faster one.
    let nodes = r#"{"schema": "hsched.queue/1", "taken_at": 1795345200,
      "nodes": [{"name": "a1", "gpus": [{"type": "a100", "count": 1}]}, {"name": "v1", "gpus": [{"type": "v100", "count": 1}]}]}"#;
    let job = |name: &str| {
        format!(
            "{{name: {name}, samples_per_epoch: 36000, epochs: 10, global_batch: 100, model_size: 0MB, \
             throughput: {{a100: 50, v100: 45}}, command: [x]}}"
        )
    };
    let jobs = format!("jobs: [{}, {}]", job("one"), job("two"));
    let sandbox = Sandbox::new().file("jobs.yaml", jobs).file("queue.json", nodes);
    let alone = sandbox.run("when jobs.yaml --snapshot queue.json --format json").json();
    for job in alone["jobs"].as_array().expect("jobs") {
        assert_eq!(job["options"][0]["type"], "a100");
    }
    let json = sandbox.run("plan jobs.yaml --queue --snapshot queue.json --format json --budget 1h").json();
    let types: Vec<&str> = json["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| job["request"]["type"].as_str().expect("a type"))
        .collect();
    assert!(types.contains(&"a100") && types.contains(&"v100"), "{json}");
    // A job takes 7200 s on one type and 8000 s on the other.
    assert_eq!(json["mean_finish_s"], 7600.0);
}

#[test]
fn jobs_planned_together_take_the_cheapest_of_what_is_nearly_as_soon() {
    // The second type costs less than half for 300 s more, also beside a job without a choice.
    let nodes = r#"{"schema": "hsched.queue/1", "taken_at": 1795345200,
      "nodes": [{"name": "h1", "gpus": [{"type": "h100", "count": 2}]}, {"name": "a1", "gpus": [{"type": "a100", "count": 1}]}]}"#;
    let job = |name: &str, throughput: &str| {
        format!(
            "{{name: {name}, samples_per_epoch: 36000, epochs: 10, global_batch: 100, model_size: 0MB, max_gpus: 1, \
             throughput: {throughput}, command: [x]}}"
        )
    };
    let jobs = format!("jobs: [{}, {}]", job("one", "{h100: 50, a100: 48}"), job("two", "{h100: 50}"));
    let sandbox = Sandbox::new().file("jobs.yaml", jobs).file("queue.json", nodes);
    let json = sandbox.run("plan jobs.yaml --queue --snapshot queue.json --format json --budget 1h").json();
    let request = |job: usize| &json["jobs"][job]["request"];
    assert_eq!((&request(0)["type"], &request(1)["type"]), (&"a100".into(), &"h100".into()), "{json}");
    let dear = sandbox
        .run("plan jobs.yaml --queue --snapshot queue.json --format json --budget 1h --cost-weight 0.000001")
        .json();
    assert_eq!(dear["jobs"][0]["request"]["type"], "h100");
    let explained = sandbox
        .run("plan jobs.yaml --queue --snapshot queue.json --explain one --format json --budget 1h")
        .json();
    assert_eq!(explained["jobs"][0]["chosen"]["type"], "a100");
    assert_eq!(explained["jobs"][0]["options"].as_array().map(Vec::len), Some(2));
}

#[test]
fn similar_jobs_share_a_table_and_a_time_scale() {
    let sweep = JOB
        .replace("jobs: [{name: train,", "jobs: [{name: train, sweep: {lr: [1, 2, 3, 4, 5]},")
        .replace("}]", "}, {name: other, samples_per_epoch: 36000, epochs: 1, global_batch: 100, model_size: 0MB, throughput: {t4: 10}, max_gpus: 1, command: [x]}]");
    let sandbox = small().file("sweep.yaml", sweep).variable("COLUMNS", "110");
    let line = "sweep.yaml --snapshot queue.json --futures 20 --budget 1h";
    let text = sandbox.run(&format!("when {line}")).succeeds();
    let headings: Vec<&str> = text.lines().filter(|line| line.contains("STARTS IN  ")).collect();
    assert!(headings.len() == 1 && headings[0].contains("JOB"), "{text}");
    assert!(text.contains("train-lr1 +4") && text.contains("5 jobs with the same requests"), "{text}");
    for rows in ["train-lr1 +4  4 a100", "other         1 t4"] {
        assert!(text.contains(rows), "{rows}: {text}");
    }
    // The table of GPUs has no RGU value for the T4.
    let of_t4 = text.lines().find(|line| line.contains("1 t4")).expect("a row");
    assert!(of_t4.contains(" unknown ") && text.contains("cost in RGU-hours"), "{text}");
    let json = sandbox.run(&format!("when {line} --format json")).json();
    let jobs = json["jobs"].as_array().expect("jobs");
    assert_eq!(jobs.len(), 6);
    assert_eq!((&jobs[0]["options"], &jobs[0]["chosen"]), (&jobs[4]["options"], &jobs[4]["chosen"]));
    assert_ne!(jobs[0]["options"], jobs[5]["options"]);

    let text = sandbox.run(&format!("plan --queue {line}")).succeeds();
    assert_eq!(text.matches("STARTS IN  ").count(), 1, "{text}");
    let places = ["train-lr1", "train-lr5", "other"].map(|job| text.find(job));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    assert_eq!(text.matches("chosen together with the other jobs of the file").count(), 1, "{text}");
    // The rows are in the order of the jobs.
    assert!(!text.contains("rows in order"), "{text}");
}

#[test]
fn a_plan_of_one_job_speaks_of_no_others_and_both_commands_name_the_age_of_the_queue_alike() {
    let sandbox = small();
    let said = |command: &str| {
        sandbox.run(&format!("{command} jobs.yaml --snapshot queue.json --futures 4 --budget 1h")).succeeds()
    };
    let (plan, when) = (said("plan --queue"), said("when"));
    assert!(plan.contains("train: the chosen request") && !plan.contains("other jobs"), "{plan}");
    let when_in_order =
        when.split_whitespace().collect::<Vec<_>>().join(" ").contains("rows in order of the mean");
    assert!(!plan.contains("rows in order") && when_in_order, "{plan}{when}");
    let age = |text: &str| {
        let line = text.lines().find(|line| line.contains(": queue seen ")).expect("a note");
        assert!(line.ends_with(" ago"), "{line}");
        line.split(": queue seen ").next().map(str::to_owned)
    };
    assert_eq!(age(&plan), age(&when));
}

#[test]
fn the_example_runs_as_its_file_says() {
    let sandbox =
        Sandbox::new().file("queue.yaml", example("queue.yaml")).file("queue.json", example("queue.json"));
    let when = "when queue.yaml --snapshot queue.json --format json --futures 4 --budget 1h";
    let json = sandbox.run(when).json();
    let accounts: Vec<&Value> = json["jobs"][0]["options"]
        .as_array()
        .expect("options")
        .iter()
        .map(|option| &option["account"])
        .collect();
    assert!(accounts.contains(&&Value::from("def-you")) && accounts.contains(&&Value::from("rrg-you")));
    let partitions =
        |value: &Value| value["partition"] == "short" && value["limit_s"].as_f64() <= Some(10_800.0);
    assert!(json["jobs"][1]["options"].as_array().expect("options").iter().any(partitions));
    assert_eq!(sandbox.run(when).json()["jobs"], json["jobs"], "the same seed, another answer");
    let plan = "plan queue.yaml --queue --snapshot queue.json --futures 4 --budget 1h";
    assert!(sandbox.run(plan).succeeds().contains("mean completion time: "));
}

#[test]
fn the_explanation_lists_what_no_other_request_beats() {
    let text = small().run("plan jobs.yaml --queue --snapshot queue.json --explain --budget 1h").succeeds();
    assert!(text.contains("* 4 a100: the chosen request"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let explain = "plan jobs.yaml --queue --snapshot queue.json --explain train --format json --budget 1h";
    let json = small().run(explain).json();
    let options = json["jobs"][0]["options"].as_array().expect("options");
    let figures = |name: &str| -> Vec<f64> {
        let of = |value: &Value| {
            if name == "cost" { value["cost"].as_f64() } else { value["finish"]["mean_s"].as_f64() }
        };
        options.iter().map(|option| of(option).expect("a number")).collect()
    };
    // Requests that finish later are cheaper; otherwise, they would not be listed.
    assert!(figures("finish").is_sorted() && figures("cost").is_sorted_by(|a, b| a > b), "{json}");
    let error = small().run("plan jobs.yaml --queue --snapshot queue.json --explain nobody").fails(2);
    assert!(error.contains("--explain nobody: no such job"), "{error}");
}

#[test]
fn where_the_queue_is_hidden_past_waits_of_ones_own_count() {
    let mut hidden: Value = serde_json::from_str(SNAPSHOT).expect("JSON");
    hidden["others_hidden"] = true.into();
    let past = |wait: f64| {
        serde_json::json!({ "asks": { "gpus": [{ "type": "a100", "count": 4 }] }, "submitted": 1_795_000_000.0,
            "started": 1_795_000_000.0 + wait, "ended": 1_795_300_000.0 })
    };
    hidden["history"] = (1..=10).map(|number| past(f64::from(number) * 600.0)).collect();
    let sandbox = Sandbox::new().file("jobs.yaml", JOB).file("queue.json", hidden.to_string());
    let json = sandbox.run("when jobs.yaml --snapshot queue.json --format json").json();
    let option = option(&json, "a100", 4);
    assert_eq!(
        (&option["method"], &option["past_waits"], &option["start"]["q50_s"]),
        (&"past-waits".into(), &10.into(), &3300.0.into())
    );
    let text = sandbox.run("when jobs.yaml --snapshot queue.json").succeeds();
    assert!(text.contains("the queue is hidden; the estimate is based on 10 of your past jobs"), "{text}");
    let json = sandbox.run("plan jobs.yaml --queue --snapshot queue.json --format json").json();
    assert_eq!(json["jobs"][0]["request"]["type"], "a100");
}
