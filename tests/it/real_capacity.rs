//! Free capacity: GPUs of other jobs, drained nodes, and limits of a partition.

use serde_json::{Value, json};

use crate::real_user::{TestUser, job, user, wait_for};

/// Plans one job that takes all available GPUs; returns the offered GPUs by node, and the notes of the plan.
fn offered(user: &TestUser<'_>, arguments: &[&str]) -> (Vec<(String, Value)>, String) {
    let plan = user.plan(&[&["jobs.yaml"], arguments].concat());
    let node = |node: &Value| (node["name"].as_str().expect("a name").to_owned(), node["gpus"].clone());
    let nodes = plan["nodes"].as_array().expect("nodes").iter().map(node).collect();
    (nodes, plan["notes"].to_string())
}

fn gpus(name: &str, gpu_type: &str, count: u32) -> (String, Value) {
    (name.to_owned(), json!([{"type": gpu_type, "count": count}]))
}

/// Starts a job without hsched and waits until it runs; returns its id.
fn hold(user: &TestUser<'_>, options: &[&str]) -> String {
    let common = ["--parsable", "-p", "lab", "-o", "/dev/null", "--wrap", "sleep 100"];
    let id = user.ask("sbatch", &[&common, options].concat()).trim().to_owned();
    user.running(&id);
    id
}

#[test]
fn what_others_hold_and_what_is_drained_is_not_planned_on() {
    let Some(user) = user("capacity", "lab") else { return };
    let mut job = job("long", 1, "sleep 100");
    job["max_gpus"] = 6.into();
    job["cpus_per_gpu"] = 2.into();
    job["epochs"] = 1000.into();
    user.write("jobs.yaml", &json!({ "jobs": [job] }).to_string());
    let all = [gpus("x1", "v100", 2), gpus("x2", "v100", 2), gpus("x3", "t4", 2)];
    assert_eq!(offered(&user, &[]).0, all);

    let held =
        [hold(&user, &["-w", "x1", "--gres=gpu:v100:1", "-c", "1"]), hold(&user, &["-w", "x3", "-c", "4"])];
    user.ask("scontrol", &["update", "nodename=x2", "state=drain", "reason=no power"]);
    let (nodes, notes) = offered(&user, &[]);
    assert_eq!(nodes, [gpus("x1", "v100", 1)], "{notes}");
    assert!(notes.contains("x3"), "{notes}");
    let inventory = user.hsched(&["inventory", "--format", "json"]).stdout;
    let inventory: Value = serde_json::from_str(&inventory).expect("JSON");
    let x2 = inventory["nodes"].as_array().expect("nodes").iter().find(|node| node["name"] == "x2");
    let x2 = x2.expect("the node");
    assert_eq!((&x2["availability"], &x2["reason"]), (&json!("drained"), &json!("no power")));
    let up = offered(&user, &["--capacity", "up"]).0;
    assert_eq!(up, [gpus("x1", "v100", 2), gpus("x3", "t4", 2)]);

    // GPUs held by a job of the plan count as free, because the job would release them. Its thousand epochs
    // would take longer than the time limit of the partition, so it gets that limit.
    let id = user.submit(&["jobs.yaml"])["long"].clone();
    assert_eq!(user.field(&id, "TimeLimit"), ["00:04:00"]);
    user.running(&id);
    let (nodes, notes) = offered(&user, &[]);
    assert_eq!(nodes, [gpus("x1", "v100", 1)], "{notes}");
    assert!(notes.contains("(long) is running: its GPUs count as free for this plan"), "{notes}");
    let refused = user.hsched(&["submit", "jobs.yaml"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(
        refused.stderr.contains(&format!("already in the queue: long (job {id}, RUNNING)")),
        "{}",
        refused.stderr
    );

    user.ask("scontrol", &["update", "nodename=x2", "state=resume"]);
    user.ask("scancel", &[&held[0], &held[1], &id]);
    wait_for("all free again", || (offered(&user, &[]).0 == all).then_some(()));
}
