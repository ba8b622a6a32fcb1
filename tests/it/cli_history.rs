//! `hsched history`: GPU hours, idle and lost ones, and energy of jobs.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// One job that fails after its first epoch and goes on, and one that is done at once.
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
    // No samples, no known power, no reference units: nothing is made up.
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
    assert!(json["jobs"][0]["added"].as_f64() < json["jobs"][1]["added"].as_f64(), "{json}");
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
