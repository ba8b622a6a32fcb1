//! `hsched history`: GPU hours, idle and lost ones, and energy of jobs.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// A job that fails after its first epoch and resumes, and one that completes without interruption.
const JOBS: &str = r#"jobs:
  - {name: again, samples_per_epoch: 10, epochs: 2, global_batch: 10, model_size: 0, max_gpus: 1, retries: 1,
     throughput: {cpu: 100}, checkpoint: {},
     command: 'echo "{\"epoch\": $((HSCHED_EPOCHS_DONE + 1)), \"epoch_s\": 0.05}" >>"$HSCHED_REPORT"; [ $HSCHED_EPOCHS_DONE = 1 ]'}
  - {name: once, samples_per_epoch: 10, epochs: 1, global_batch: 10, model_size: 0, max_gpus: 1,
     throughput: {cpu: 100}, command: 'echo "{\"epoch\": 1, \"epoch_s\": 0.05}" >>"$HSCHED_REPORT"'}
"#;

fn ran() -> Sandbox {
    let sandbox = Sandbox::new().file("jobs.yaml", JOBS).variable("PATH", "/usr/local/bin:/usr/bin:/bin");
    sandbox.run("run jobs.yaml --devices cpu:1 --set retry_delay=0s").succeeds();
    sandbox
}

fn hours(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// Returns the data of a report page.
fn report_data(page: &str) -> Value {
    let (_, rest) =
        page.split_once(r#"<script type="application/json" id="hsched">"#).expect("the data's element");
    serde_json::from_str(rest.split_once("</script>").expect("its end").0).expect("JSON")
}

#[test]
fn what_was_used_and_lost_is_known_for_each_job_and_for_all() {
    let sandbox = ran();
    let json = sandbox.run("history --format json").json();
    assert_eq!(json["schema"], "hsched.history/1");
    let [again, once] = [&json["jobs"][0], &json["jobs"][1]];
    assert_eq!((&again["name"], &again["submissions"]), (&"again".into(), &2.into()), "{json}");
    assert_eq!(
        (&once["name"], &once["submissions"], &once["state"]),
        (&"once".into(), &1.into(), &"completed".into())
    );
    assert!(
        hours(again, "lost_gpu_hours") > 0.0 && hours(again, "gpu_hours") > hours(again, "lost_gpu_hours")
    );
    assert_eq!(hours(once, "lost_gpu_hours"), 0.0);
    // Without samples, known power and reference units, no value is invented.
    for key in ["idle_gpu_hours", "energy_kwh", "energy_from", "cost", "cost_unit"] {
        assert_eq!((&again[key], &json["total"][key]), (&Value::Null, &Value::Null), "{key}");
    }
    let (all, sum) =
        (hours(&json["total"], "gpu_hours"), hours(again, "gpu_hours") + hours(once, "gpu_hours"));
    assert!((all - sum).abs() < 1e-12, "{json}");
    assert_eq!(again["gpu_hours_by_type"]["cpu"], again["gpu_hours"]);
    let table = sandbox.run("history").succeeds();
    assert!(table.contains("all 2") && table.lines().count() == 4, "{table}");
    assert_eq!(sandbox.run("history once --format json").json()["total"]["jobs"], 1);
}

#[test]
fn a_job_that_is_replaced_stays_in_the_history() {
    let sandbox = ran();
    sandbox.run("run jobs.yaml --restart --devices cpu:1 --set retry_delay=0s").exits(0);
    let json = sandbox.run("history once --format json").json();
    assert_eq!(json["total"]["jobs"], 2, "{json}");
    let [first, second] = [&json["jobs"][0], &json["jobs"][1]];
    assert!(first["added"].as_f64() < second["added"].as_f64(), "{json}");
    // Each submission counts once, in the row of the job for which it was made.
    assert_eq!((&first["submissions"], &second["submissions"]), (&1.into(), &1.into()), "{json}");
    assert_eq!(hours(second, "lost_gpu_hours"), 0.0);
    assert!(second["started"].as_f64() >= second["added"].as_f64(), "{json}");
    let held = |job: &Value| hours(job, "ended") - hours(job, "started");
    assert!((hours(second, "gpu_hours") * 3600.0 - held(second)).abs() < 1e-3, "{json}");
    let results = sandbox.run("results once --format json").json();
    assert!((hours(&results["runs"][1], "gpu_hours") * 3600.0 - held(second)).abs() < 1e-3, "{results}");
    sandbox.run("history --report page.html").succeeds();
    let page = sandbox.text(&sandbox.work("page.html"));
    let run = &report_data(&page)["runs"][0];
    assert_eq!(run["spans"].as_array().map(Vec::len), Some(6), "{run}");
}

/// A job with three samples of a GPU: busy for a minute, then idle for a minute, at 150 W.
const SAMPLED: &str = r#"jobs:
  - name: sampled
    samples_per_epoch: 10
    epochs: 1
    global_batch: 10
    model_size: 0
    max_gpus: 1
    throughput: {cpu: 100}
    command: |
      cat >"${HSCHED_REPORT%/*}/samples/elsewhere.jsonl" <<end
      {"schema": "hsched.samples/1", "node": "elsewhere", "interval_s": 60}
      {"at": 100, "ranks": [0], "gpu": [0], "power_w": [50]}
      {"at": 160, "ranks": [0], "gpu": [90], "power_w": [200]}
      {"at": 220, "ranks": [0], "gpu": [1], "power_w": [100]}
      end
      echo '{"epoch": 1, "epoch_s": 0.05}' >>"$HSCHED_REPORT"
"#;

#[test]
fn samples_say_what_gpus_did_and_drew_also_of_jobs_that_are_replaced() {
    let sandbox = Sandbox::new().file("jobs.yaml", SAMPLED).variable("PATH", "/usr/local/bin:/usr/bin:/bin");
    sandbox.run("run jobs.yaml --devices cpu:1").succeeds();
    sandbox.run("run jobs.yaml --restart --devices cpu:1").exits(0);
    let json = sandbox.run("history --format json").json();
    for job in json["jobs"].as_array().expect("a list") {
        assert!((hours(job, "sampled_gpu_hours") - 120.0 / 3600.0).abs() < 1e-12, "{job}");
        assert!((hours(job, "idle_gpu_hours") - 60.0 / 3600.0).abs() < 1e-12, "{job}");
        assert!((hours(job, "energy_kwh") - 0.15 * hours(job, "gpu_hours")).abs() < 1e-12, "{job}");
        assert_eq!(job["energy_from"], "samples");
    }
    assert!((hours(&json["total"], "idle_gpu_hours") - 120.0 / 3600.0).abs() < 1e-12, "{json}");
    let table = sandbox.run("history").succeeds();
    assert!(table.lines().last().is_some_and(|line| line.contains("0.03") && !line.contains('~')), "{table}");
}

#[test]
fn no_jobs_and_unknown_names_are_said() {
    let sandbox = Sandbox::new();
    assert!(sandbox.run("history").exits(0).stderr.contains("there are no jobs yet"));
    assert_eq!(sandbox.run("history --format json").json()["total"]["jobs"], 0);
    for command in ["history", "results"] {
        assert_eq!(
            sandbox.run(&format!("{command} lr")).fails(2),
            "error: there is no job and no sweep \"lr\"\nhint: hsched submit, hsched add and hsched run add jobs\n"
        );
    }
    let told = ran().run("history nothing-like-it").fails(2);
    assert!(told.ends_with("hint: hsched history lists them all\n"), "{told}");
}
