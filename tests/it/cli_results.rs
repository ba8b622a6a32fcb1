//! `hsched results` and the line of a sweep in `hsched status`.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// A sweep of six jobs, one of which fails; the accuracy falls from epoch to epoch, the loss of each job is
/// constant.
const JOBS: &str = r#"jobs:
  - name: lr
    samples_per_epoch: 10
    epochs: 2
    global_batch: 10
    model_size: 0
    max_gpus: 1
    retries: 0
    throughput: {cpu: 100}
    env: {NOTE: "a b"}
    command: 'for e in 1 2; do echo "{\"epoch\": $e, \"metrics\": {\"val_loss\": 1$SEED.$LR, \"acc\": 0.$((9 - e))}}" >>"$HSCHED_REPORT"; done; [ $LR$SEED != 13 ]'
    tags: [grid, "seed{seed}"]
    sweep: {lr: [2, 1], seed: [1, 2, 3]}
"#;

fn ran() -> Sandbox {
    let sandbox = Sandbox::new().file("sweep.yaml", JOBS).variable("PATH", "/usr/local/bin:/usr/bin:/bin");
    let ran = sandbox.run("run sweep.yaml --devices cpu:2");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    sandbox
}

fn rows(value: &Value, key: &str) -> Vec<Value> {
    value["runs"].as_array().expect("runs").iter().map(|run| run[key].clone()).collect()
}

#[test]
fn results_tell_parameters_metrics_and_how_to_repeat_the_best() {
    let sandbox = ran();
    let json = sandbox.run("results lr --sort val_loss --format json").json();
    assert_eq!(json["schema"], "hsched.results/1");
    assert_eq!(rows(&json, "name").len(), 6);
    let best = &json["runs"][0];
    assert_eq!((&best["name"], &best["sweep"]), (&"lr-lr1-seed1".into(), &"lr".into()));
    assert_eq!(best["parameters"], serde_json::json!({ "lr": 1, "seed": 1 }));
    assert_eq!((&best["best"], &best["last"]), (&11.1.into(), &11.1.into()));
    assert_eq!(
        (&best["epoch"], &best["epochs"], &best["state"]),
        (&2.into(), &2.into(), &"completed".into())
    );
    let states = rows(&json, "state");
    assert_eq!(states.iter().filter(|state| **state == "failed").count(), 1, "{states:?}");

    // A higher accuracy is better, so the best value is the one before it fell.
    let json = sandbox.run("results --sort acc --format json").json();
    let first = &json["runs"][0];
    assert_eq!((&first["best"], &first["best_epoch"], &first["last"]), (&0.8.into(), &1.into(), &0.7.into()));

    let csv = sandbox.run("results --format csv --sort seed").succeeds();
    let mut lines = csv.lines();
    assert_eq!(
        lines.next(),
        Some("name,sweep,lr,seed,metric,best,best_epoch,last,epoch,epochs,gpu_hours,state,why")
    );
    assert!(
        lines.next().is_some_and(|line| line.starts_with("lr-lr2-seed1,lr,2,1,val_loss,11.2,1,11.2,2,2,")),
        "{csv}"
    );

    let command = sandbox.run("results --best").succeeds();
    assert!(command.contains("NOTE='a b'") && command.contains("LR=1 SEED=1"), "{command}");
    // Without hsched, the command prints its reports.
    let root = sandbox.work("").ancestors().nth(2).expect("a folder").display().to_string();
    let ran = sandbox.start("/bin/sh", &["-c", &command.replace("ROOT", &root)]).output().expect("runs");
    let ran = sandbox.ran(&ran);
    let report = "{\"epoch\": 2, \"metrics\": {\"val_loss\": 11.1, \"acc\": 0.7}}";
    assert!(ran.code == Some(0) && ran.stdout.contains(report), "{ran:?}");
}

/// The loss of the first run is the best one after one epoch, and the worst one at the end.
#[test]
fn status_and_results_name_the_same_best_run() {
    let report = r#"for loss in $LOSSES; do e=$((e + 1)); echo "{\"epoch\": $e, \"loss\": $loss}"; done >>"$HSCHED_REPORT""#;
    let job = |name: &str, losses: &str| {
        format!(
            "  - {{name: {name}, model: net, samples_per_epoch: 10, epochs: 2, global_batch: 10, model_size: 0, \
             max_gpus: 1, throughput: {{cpu: 100}}, env: {{LOSSES: {losses}}}, command: '{report}'}}\n"
        )
    };
    let jobs = format!("jobs:\n{}{}", job("early", "1.5 4.5"), job("late", "3.5 2.5"));
    let sandbox = Sandbox::new().file("two.yaml", jobs).variable("PATH", "/usr/local/bin:/usr/bin:/bin");
    sandbox.run("run two.yaml --devices cpu:2").exits(0);
    let best = sandbox.run("results --best --format json").json()["runs"][0].clone();
    assert_eq!((&best["name"], &best["best"]), (&"early".into(), &1.5.into()), "{best:#}");
    let status = sandbox.run("status --format json").json();
    let named = &status["best"][0];
    assert_eq!((&named["job"], &named["value"]), (&best["name"], &best["best"]), "{status:#}");
    // The metric of a job shows its progress: the last value, not the best one.
    assert_eq!(status["jobs"][0]["metric"]["value"], 4.5);
    assert!(sandbox.run("status").succeeds().ends_with("best loss: early with 1.500\n"));
}

/// One run has its validation only after the first epoch, the other one only after the last.
#[test]
fn runs_that_measure_at_different_epochs_are_compared_by_the_same_metric() {
    let job = |name: &str, first: &str, last: &str| {
        let line =
            |epoch: u32, more: &str| format!("echo \"{{\\\"epoch\\\": {epoch}, \\\"loss\\\": 9{more}}}\"");
        format!(
            "  - {{name: {name}, model: net, samples_per_epoch: 10, epochs: 2, global_batch: 10, model_size: 0, \
             max_gpus: 1, throughput: {{cpu: 100}}, command: '{{ {}; {}; }} >>$HSCHED_REPORT'}}\n",
            line(1, first),
            line(2, last)
        )
    };
    let jobs =
        format!("jobs:\n{}{}", job("a", ", \\\"val_loss\\\": 2", ""), job("b", "", ", \\\"val_loss\\\": 3"));
    let sandbox = Sandbox::new().file("two.yaml", jobs).variable("PATH", "/usr/local/bin:/usr/bin:/bin");
    sandbox.run("run two.yaml --devices cpu:2").exits(0);
    let status = sandbox.run("status --format json").json();
    let metric = |job: usize| status["jobs"][job]["metric"].clone();
    assert_eq!(metric(0), serde_json::json!({ "name": "val_loss", "value": 2.0 }));
    assert_eq!(metric(1), serde_json::json!({ "name": "val_loss", "value": 3.0 }));
    assert_eq!(status["best"][0]["job"], "a");
    let runs = sandbox.run("results --format json").json();
    assert_eq!(rows(&runs, "last"), [2.0, 3.0]);
}

#[test]
fn a_sweep_has_one_line_and_its_jobs_have_a_table_of_their_own() {
    let sandbox = ran();
    let table = sandbox.run("status").succeeds();
    assert!(table.contains("lr (6 jobs)  5 completed, 1"), "{table}");
    assert!(table.contains("lr-lr1-seed3: all epochs were done, but then it failed"), "{table}");
    assert!(table.contains("best val_loss"), "{table}");
    let table = sandbox.run("status lr").succeeds();
    assert!(table.contains("lr-lr2-seed3") && !table.contains("(6 jobs)"), "{table}");
    let json = sandbox.run("status lr --format json").json();
    assert_eq!(json["jobs"].as_array().map(Vec::len), Some(6));
}

#[test]
fn the_best_is_named_after_two_sweeps_and_a_restart() {
    let sandbox = ran();
    let other = JOBS.replace("name: lr", "name: wd").replace("\"val_loss\\\": 1", "\"val_loss\\\": 2");
    // The first time, the runs end before their last epoch, as in a crash.
    let crashing = other
        .replace("2$SEED", "3$SEED")
        .replace("for e in 1 2", "for e in 1")
        .replace("[ $LR$SEED != 13 ]", "[ -e go ]");
    let sandbox = sandbox.file("wd.yaml", crashing);
    sandbox.run("run wd.yaml --devices cpu:2").exits(1);
    let best = |sweep: &str| {
        let json = sandbox.run(&format!("results {sweep} --best --format json")).json();
        let run = &json["runs"][0];
        (run["name"].clone(), run["best"].clone(), run["epoch"].clone())
    };
    assert_eq!(best("lr"), ("lr-lr1-seed1".into(), 11.1.into(), 2.into()));
    assert_eq!(best("wd"), ("wd-lr1-seed1".into(), 31.1.into(), 1.into()));
    let sandbox = sandbox.file("wd.yaml", other.replace("2$SEED.$LR", "2$SEED.$((3 - LR))"));
    sandbox.run("run wd.yaml --devices cpu:2 --restart").exits(1);
    let best =
        |sweep: &str| sandbox.run(&format!("results {sweep} --best --format json")).json()["runs"][0].clone();
    let (lr, wd) = (best("lr"), best("wd"));
    assert_eq!((&lr["name"], &lr["best"]), (&"lr-lr1-seed1".into(), &11.1.into()));
    assert_eq!(
        (&wd["name"], &wd["best"], &wd["state"]),
        (&"wd-lr2-seed1".into(), &21.1.into(), &"completed".into())
    );
    let several = sandbox.run("results --best").fails(2);
    assert!(several.contains("they are: lr, wd"), "{several}");
}

#[test]
fn jobs_are_chosen_by_their_tags() {
    let sandbox = ran();
    let json = sandbox.run("results --tag seed2 --format json").json();
    assert_eq!(rows(&json, "name"), ["lr-lr2-seed2", "lr-lr1-seed2"]);
    assert_eq!(json["runs"][0]["tags"], serde_json::json!(["grid", "seed2"]));
    let json = sandbox.run("results *lr2* --tag seed2 --tag seed1 --format json").json();
    assert_eq!(rows(&json, "name"), ["lr-lr2-seed1", "lr-lr2-seed2"], "names and tags: both must fit");
    let json = sandbox.run("status --tag seed3 --format json").json();
    let names: Vec<&Value> = json["jobs"].as_array().expect("jobs").iter().map(|job| &job["name"]).collect();
    assert_eq!(names, ["lr-lr2-seed3", "lr-lr1-seed3"]);
    let table = sandbox.run("status --tag seed3").succeeds();
    assert!(table.contains("lr-lr2-seed3") && !table.contains("seed1"), "{table}");
    assert!(sandbox.run("status lr-lr1-seed3").succeeds().contains("tags       grid, seed3"));
    let told = sandbox.run("results --tag seed4").fails(2);
    assert!(told.contains("no job has the tag \"seed4\"") && told.contains("did you mean seed"), "{told}");
    let wrong = sandbox.file("wrong.yaml", JOBS.replace("[grid, ", "['a b', "));
    let told = wrong.run("run wrong.yaml --devices cpu:2").fails(78);
    assert!(told.contains("tags[0]: \"a b\" is not a tag: use letters, digits and - _ ."), "{told}");
}

#[test]
fn cancel_ends_the_jobs_of_a_tag_alone() {
    let two = crate::sandbox::JOBS.replace("{name: vgg19,", "{name: vgg19, tags: old,");
    let sandbox = Sandbox::with_slurm().file("jobs.yaml", two);
    sandbox.run("add jobs.yaml").succeeds();
    assert_eq!(
        sandbox.run("cancel --tag old --dry-run").succeeds(),
        "vgg19: would be cancelled (was waiting)\n"
    );
    assert_eq!(sandbox.run("cancel --tag old").succeeds(), "vgg19: cancelled (was waiting)\n");
    assert_eq!(sandbox.run("cancel --tag old").succeeds(), "all jobs have already ended\n");
    sandbox.run("cancel").fails(2);
    let told = sandbox.run("cancel resnet18 --tag old").fails(2);
    assert!(told.contains("none of the named jobs has the tag \"old\""), "{told}");
    for command in ["status resnet18 --tag old", "results resnet18 --tag old"] {
        let told = sandbox.run(command).fails(2);
        assert!(told.contains("none of the named jobs has the tag \"old\""), "{command}: {told}");
    }
    let json = sandbox.run("status --format json").json();
    assert_eq!(
        (&json["jobs"][0]["state"], &json["jobs"][1]["state"]),
        (&"waiting".into(), &"cancelled".into())
    );
}

#[test]
fn unknown_names_and_keys_are_refused() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run("results --format csv").succeeds().lines().count(), 1);
    assert!(sandbox.run("results").exits(0).stderr.contains("there are no runs yet"));
    let silent = "jobs: [{name: a, samples_per_epoch: 1, epochs: 1, global_batch: 1, model_size: 0, throughput: {cpu: 1}, command: 'true'}]";
    let silent = Sandbox::new().file("silent.yaml", silent).variable("PATH", "/usr/local/bin:/usr/bin:/bin");
    silent.run("run silent.yaml --devices cpu:1").exits(0);
    let told = silent.run("results").exits(0).stderr;
    assert!(told.starts_with("note: no run has reported a metric; hsched help program shows"), "{told}");
    let text = sandbox.run("results lr").fails(2);
    assert!(text.contains("no job and no sweep \"lr\""), "{text}");
    let sandbox = ran();
    let text = sandbox.run("results --sort val_los").fails(2);
    assert!(text.contains("did you mean val_loss?"), "{text}");
    assert!(
        sandbox.run("results --sort why").fails(2).contains("no run has a metric or a parameter \"why\"")
    );
    let text = sandbox.run("results lr-lr1-seed9").fails(2);
    assert!(text.contains("did you mean lr-lr1-seed"), "{text}");
}
