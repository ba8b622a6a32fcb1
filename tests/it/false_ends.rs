//! States in which 0.1.0 marked stopped runs as completed: they are corrected once, and speeds learnt from them are
//! dropped.

use std::fs;

use serde_json::{Value, json};

use crate::cli_run::Bench;

/// Returns a silent job with a name, which completes at once.
fn silent(name: &str) -> String {
    format!(
        "  - {{name: {name}, samples_per_epoch: 100, epochs: 20, global_batch: 10, model_size: 0, max_gpus: 1, \
         throughput: {{cpu: 2000}}, command: \"echo evaluated\"}}\n"
    )
}

/// Removes from the state file what 0.1.0 did not write, and applies `change` to each of its jobs.
fn rewrite(bench: &Bench, change: impl Fn(&mut Value)) {
    let path = bench.sandbox.state("state.json");
    let mut state: Value = serde_json::from_str(&fs::read_to_string(&path).expect("a state")).expect("JSON");
    for job in state["jobs"].as_array_mut().expect("jobs") {
        for past in job["past"].as_array_mut().expect("attempts") {
            past["attempt"].as_object_mut().expect("an attempt").remove("tells_stops");
        }
        change(job);
    }
    state["sha256"] = "edited".into();
    fs::write(&path, state.to_string()).expect("a file");
}

/// Writes the speed of each model, learnt from a run that ended at the given time.
fn teach(bench: &Bench, models: &[(&str, f64)]) {
    let contributor = "lab";
    let speed = |(model, at): &(&str, f64)| {
        json!({"model": model, "gpu_type": "cpu", "precision": null, "contributor": contributor, "observations": 1, "points": [
            {"batch": 10, "seconds": 0.005, "variance": 0.01, "count": 1, "steps": 10, "seen": 1, "at": at, "source": "epoch"}]})
    };
    let speeds: Vec<Value> = models.iter().map(speed).collect();
    let file = json!({"schema": "hsched.cache/1", "contributor": contributor, "speeds": speeds});
    fs::write(bench.sandbox.state("throughput.json"), file.to_string()).expect("a file");
}

#[test]
fn completed_jobs_that_were_asked_to_stop_are_corrected_and_their_speeds_dropped() {
    let names = ["stopped", "done", "cut"];
    let bench = Bench::new(&names.map(silent));
    bench.run("run jobs.yaml --devices cpu:3").exits(0);
    let ended = |job: &str| {
        let jobs = bench.sandbox.snapshot();
        let entry =
            jobs["jobs"].as_array().expect("jobs").iter().find(|candidate| candidate["spec"]["name"] == job);
        entry.expect("the job")["past"][0]["ended"].as_f64().expect("a time")
    };
    let speeds: Vec<(&str, f64)> = names.iter().map(|name| (*name, ended(name))).collect();
    teach(&bench, &speeds);
    let output = bench.sandbox.work("stopped.out");
    let text = format!("hsched: stop requested\n{}", bench.sandbox.text(&output));
    fs::write(&output, text).expect("the output");
    // Without an output, the time limit of the run decides.
    fs::remove_file(bench.sandbox.work("cut.out")).expect("the output");
    rewrite(&bench, |job| {
        let past = &mut job["past"][0];
        past["attempt"]["limit_s"] = 900.into();
        past["attempt"]["started"] = json!(past["ended"].as_f64().expect("a time") - 780.0);
    });
    let files = || {
        ["state.json", "journal", "newest", "throughput.json"]
            .map(|name| fs::read(bench.sandbox.state(name)).expect("a file"))
    };
    let before = files();
    bench.run("cancel stopped --dry-run").exits(0);
    assert_eq!(files(), before);
    let first = bench.run("run --devices cpu:3");
    for (name, gpu) in [("stopped", "stopped on cpu"), ("cut", "cut on cpu")] {
        let said = format!(
            "{name}: hsched 0.1.0 recorded this job as completed, but its last run was stopped after 0 of 20 epochs"
        );
        let dropped = format!("dropped the speed of model {gpu}");
        let flat = first.stderr.replace('\n', " ").replace("  ", " ");
        assert!(flat.contains(&said) && flat.contains(&dropped), "{}", first.stderr);
    }
    let status = bench.sandbox.run("status --format json").json();
    let states: Vec<(&str, &str, &str)> = status["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| (&job["name"], &job["state"], &job["runs"][0]["end"]))
        .map(|(name, state, end)| {
            (name.as_str().expect("a name"), state.as_str().expect("a state"), end.as_str().expect("an end"))
        })
        .collect();
    let interrupted = "was interrupted";
    assert_eq!(
        states,
        [
            ("stopped", "failed", interrupted),
            ("done", "completed", "completed"),
            ("cut", "failed", interrupted)
        ]
    );
    let cache = bench.sandbox.run("cache show --format json").json();
    let models: Vec<&Value> =
        cache["speeds"].as_array().expect("speeds").iter().map(|speed| &speed["model"]).collect();
    assert_eq!(models, ["done"]);
    // The corrections are reported once, and the jobs run again when the user adds them.
    let second = bench.run("run --devices cpu:3");
    assert!(!second.stderr.contains("0.1.0"), "{}", second.stderr);
    let again = bench.run("run jobs.yaml --devices cpu:3").exits(0);
    assert!(again.stdout.contains("3 completed"), "{}{}", again.stdout, again.stderr);
}
