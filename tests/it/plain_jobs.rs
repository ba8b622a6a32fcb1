//! Jobs that are plain commands: they state no samples, batch or model, and no report is expected from them.

use serde_json::Value;

use crate::sandbox::Sandbox;

fn sandbox(job: &str) -> Sandbox {
    let jobs = format!("sweep: {{k: [1, 2, 3]}}\njobs:\n  - name: s\n{job}");
    Sandbox::new().file("jobs.yaml", jobs).variable("PATH", "/usr/local/bin:/usr/bin:/bin")
}

fn json(sandbox: &Sandbox, command: &str) -> Value {
    serde_json::from_str(&sandbox.run(command).succeeds()).expect("JSON")
}

#[test]
fn a_sweep_of_commands_that_report_nothing_completes_without_a_remark() {
    let sandbox = sandbox("    command: echo {k} >did-{k}\n");
    let told = sandbox.run("run jobs.yaml --devices v100:1,t4:1x2 --simulated").exits(0);
    assert!(told.stdout.contains("3 completed"), "{}", told.stdout);
    let lines = told.stdout.split("JOB ").next().unwrap_or_default();
    for nagging in ["no epoch", "epochs", "speed", "predicted", "measur"] {
        assert!(!lines.contains(nagging), "{nagging}: {lines}");
    }
    assert_eq!(told.stderr, "");
    for k in 1..=3 {
        assert_eq!(sandbox.text(&sandbox.work(&format!("did-{k}"))), format!("{k}\n"));
    }
    let status = json(&sandbox, "status s-k1 --format json");
    assert_eq!(status["jobs"][0]["epochs_done"], 1, "{status}");
    // Nothing is started again.
    sandbox.run("run jobs.yaml --devices cpu:1").exits(0);
    assert_eq!(
        json(&sandbox, "status s-k1 --format json")["jobs"][0]["runs"].as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn a_command_that_fails_has_its_retries_and_then_has_failed() {
    let sandbox = sandbox("    retries: 0\n    command: exit {k}\n");
    let told = sandbox.run("run jobs.yaml --devices cpu:3").exits(1);
    assert!(told.stdout.contains("3 failed"), "{}", told.stdout);
    let results = json(&sandbox, "results --format json");
    assert_eq!(results["runs"][0]["epoch"], 0, "{results}");
}

#[test]
fn one_that_reports_epochs_needs_no_other_number() {
    let report = r#"for e in 1 2; do echo "{\"epoch\": $e, \"loss\": 0.$K}" >>"$HSCHED_REPORT"; done"#;
    let sandbox = sandbox(&format!("    epochs: 2\n    command: '{report}'\n"));
    sandbox.run("run jobs.yaml --devices cpu:1").succeeds();
    let results = json(&sandbox, "results --format json");
    let run = &results["runs"][0];
    assert_eq!((&run["epoch"], &run["epochs"], &run["last"]), (&2.into(), &2.into(), &0.1.into()), "{run}");
}

#[test]
fn the_numbers_of_a_training_are_given_together() {
    let told = |more: &str| {
        sandbox(&format!("    command: a\n{more}")).run("run jobs.yaml --devices cpu:1").fails(78)
    };
    let missing = told("    global_batch: 8\n");
    for key in ["samples_per_epoch", "epochs", "model_size"] {
        assert!(missing.contains(&format!("is missing the required key {key}")), "{missing}");
    }
    let two = told("    min_gpus: 2\n");
    assert!(two.contains("2 is more than 1, and a job without global_batch runs on one GPU"), "{two}");
}
