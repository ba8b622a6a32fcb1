//! `hsched doctor` and `hsched init` on a real Slurm.

use serde_json::Value;

use crate::real_user::user;

#[test]
fn doctor_finds_the_cluster_and_init_begins_with_it() {
    let Some(user) = user("doctor", "") else { return };
    let done = user.hsched(&["doctor", "--format", "json"]);
    let value: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!((done.code, &value["problems"]), (Some(0), &0.into()), "{value:#}");
    let status = |name: &str| {
        let checks = value["checks"].as_array().expect("checks");
        checks.iter().find(|check| check["check"] == name).map(|check| check["status"].clone())
    };
    for name in ["tools", "controller", "clock", "gpus", "partitions", "selection", "mixed jobs"] {
        assert_eq!(status(name), Some("ok".into()), "{name}: {value:#}");
    }

    let done = user.hsched(&["init"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(user.read("jobs.yaml").contains("\n      v100: 100\n"));
    assert!(user.read("hsched.toml").contains(": the default, "));
    let done = user.hsched(&["plan", "jobs.yaml", "--capacity", "up"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

#[test]
fn a_bundle_of_a_real_slurm_shows_the_same_cluster_without_names() {
    let Some(user) = user("bundle", "") else { return };
    // The job is held, so that it takes no GPU from other tests on this cluster.
    let held =
        ["--parsable", "--hold", "-J", "thesis", "-o", "/dev/null", "--gres=gpu:v100:1", "--wrap", "true"];
    let id = user.ask("sbatch", &held).trim().to_owned();
    let done = user.hsched(&["doctor", "--bundle", "out.tar.gz", "--format", "json"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    user.ask("scancel", &[&id]);
    let made: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert!(
        done.stdout.contains(&format!("scontrol -o show job {id}")) && !done.stdout.contains("thesis"),
        "{made:#}"
    );
    for call in made["calls"].as_array().expect("calls") {
        // Without accounting, these calls may fail.
        let command = call["command"].as_str().expect("a command");
        let of_accounting = ["sacct", "sshare"].iter().any(|program| command.starts_with(program));
        assert!(of_accounting || call["error"].is_null(), "{call}");
    }
    let inventory = |arguments: &[&str]| -> Value {
        let done = user.hsched(&[&["inventory", "--format", "json"], arguments].concat());
        serde_json::from_str(&done.stdout).expect("JSON")
    };
    let (live, bundled) = (inventory(&[]), inventory(&["--from", "out.tar.gz"]));
    let counts = |json: &Value, of: &str| json["gpus"]["v100"][of].clone();
    // Other tests use the same cluster, so the number of free GPUs varies from call to call.
    assert_eq!(counts(&bundled, "total"), counts(&live, "total"), "{bundled:#}");
}
