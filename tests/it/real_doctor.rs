//! `hsched doctor` and `hsched init` at a real Slurm.

use serde_json::Value;

use crate::real_desk::desk;

#[test]
fn doctor_finds_the_cluster_and_init_begins_with_it() {
    let Some(desk) = desk("doctor", "") else { return };
    let done = desk.hsched(&["doctor", "--format", "json"]);
    let value: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!((done.code, &value["problems"]), (Some(0), &0.into()), "{value:#}");
    let status = |name: &str| {
        let checks = value["checks"].as_array().expect("checks");
        checks.iter().find(|check| check["check"] == name).map(|check| check["status"].clone())
    };
    for name in ["tools", "controller", "clock", "gpus", "partitions", "selection", "mixed jobs"] {
        assert_eq!(status(name), Some("ok".into()), "{name}: {value:#}");
    }

    let done = desk.hsched(&["init"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(desk.read("jobs.yaml").contains("\n      v100: 100\n"));
    assert!(desk.read("hsched.toml").contains(": the default, "));
    let done = desk.hsched(&["plan", "jobs.yaml", "--capacity", "up"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}
