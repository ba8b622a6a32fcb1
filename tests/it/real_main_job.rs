//! The main use: three jobs on five nodes, from the inventory to the last epoch.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::real_cluster::repository;
use crate::real_ranks::check_devices;
use crate::real_user::{TestUser, check_ranks, field, user};

/// The nodes of the default partition as in `real.nodes`: GPUs by type.
const NODES: [(&str, &[(&str, u64)]); 5] = [
    ("m1", &[("v100", 2), ("t4", 2)]),
    ("p1", &[("p100", 4)]),
    ("t1", &[("t4", 4)]),
    ("v1", &[("v100", 4)]),
    ("v2", &[("v100", 4)]),
];

#[test]
fn three_jobs_run_as_planned() {
    let Some(user) = user("main", "") else { return };
    check_inventory(&user, |_, _| 0);
    write_jobs(&user);
    let plan = user.plan(&["jobs.yaml"]);
    let jobs = plan["jobs"].as_array().expect("jobs");
    assert!(jobs.iter().all(|job| job["verdict"] == "place"), "{plan:#}");
    let types = |job: &Value| {
        let types = job["gpus"].as_array().expect("GPUs").iter().map(|slot| slot["type"].to_string());
        types.collect::<std::collections::BTreeSet<_>>().len()
    };
    assert!(jobs.iter().any(|job| types(job) > 1), "no job mixes types: {plan:#}");

    let ids = user.submit(&["plan.json", "--run-id", "main-1"]);
    let refused = user.hsched(&["submit", "plan.json"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    let message = format!("already in the queue: resnet18 (job {}, ", ids["resnet18"]);
    assert!(refused.stderr.contains(&message), "{}", refused.stderr);
    for id in ids.values() {
        user.running(id);
    }
    check_tags(&user, &ids);
    // The inventory shows as many GPUs in use as Slurm does.
    check_inventory(&user, |node, gpu_type| used_as_scontrol_shows(&user, node, gpu_type));
    // In a new plan, the three jobs would release their GPUs.
    let again = user.plan(&["jobs.yaml"]);
    assert_eq!(again["nodes"], plan["nodes"], "{:#}", again["notes"]);

    user.write("go", "");
    for job in jobs {
        let name = job["name"].as_str().expect("a name");
        let ended = user.ended(&ids[name]);
        assert!(ended.completed(), "{ended:?}: {}", user.read(format!("{name}.out")));
        let probes = user.probes(&format!("probe-{name}"));
        check_ranks(job, &probes);
        check_devices(&probes);
        assert!(
            probes.iter().all(|probe| probe["HSCHED_RUN"] == "main-1" && probe["HSCHED_EPOCHS_DONE"] == "0")
        );
        check_epochs(job, &user.reports(name));
    }
    let env = &user.probes("probe-resnet50")[0];
    assert_eq!(env["LR"], "0.1");
}

/// Writes the jobs of the examples, with fewer and shorter epochs. Their ranks write their environment to a
/// file and then wait for the file `go`.
fn write_jobs(user: &TestUser<'_>) {
    let text = fs::read_to_string(repository().join("examples/jobs.yaml")).expect("the example");
    let probe = r#"[bash, -c, 'mkdir -p probe-$HSCHED_JOB && env -0 >probe-$HSCHED_JOB/$RANK && until [[ -e go ]]; do sleep 0.02; done && exec "$@"', probe, python3, "#;
    let shorter = [("12000", "6000"), ("epochs: 5", "epochs: 2"), ("[python3, ", probe)];
    let text = shorter.iter().fold(text, |text, (long, short)| text.replace(long, short));
    user.write("jobs.yaml", &text);
    let here = user.folder.join("examples");
    std::os::unix::fs::symlink(repository().join("examples"), here).expect("a link");
}

/// Checks totals, free GPUs and states of the nodes of the default partition.
fn check_inventory(user: &TestUser<'_>, used: impl Fn(&str, &str) -> u64) {
    let done = user.hsched(&["inventory", "--format", "json"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let inventory: Value = serde_json::from_str(&done.stdout).expect("JSON");
    let nodes = inventory["nodes"].as_array().expect("nodes").iter();
    let gpu_nodes: Vec<&Value> = nodes.filter(|node| node["partitions"] == json!(["gpu"])).collect();
    let names: Vec<&str> = gpu_nodes.iter().filter_map(|node| node["name"].as_str()).collect();
    assert_eq!(names, NODES.map(|(name, _)| name));
    for (node, (name, gpus)) in gpu_nodes.iter().zip(NODES) {
        let shown = node["gpus"].as_array().expect("GPUs").iter();
        let shown: Vec<(&str, u64, u64)> = shown
            .map(|shown| {
                let number = |key: &str| shown[key].as_u64().expect("a number");
                assert_eq!(number("total"), number("used") + number("free"));
                (shown["type"].as_str().expect("a type"), number("total"), number("used"))
            })
            .collect();
        let expected: Vec<_> = gpus.iter().map(|&(ty, count)| (ty, count, used(name, ty))).collect();
        assert_eq!(shown, expected, "{name}");
        assert_eq!(node["availability"], "up", "{name}");
        assert_eq!(node["cpus"]["total"], 16, "{name}");
        assert_eq!(node["memory_bytes"]["total"], 64_000_u64 << 20, "{name}");
    }
}

/// Returns the number of GPUs of a type in use on a node, from the output of `scontrol -d show node`:
/// `gpu:v100:2(IDX:0-1),…`.
fn used_as_scontrol_shows(user: &TestUser<'_>, node: &str, gpu_type: &str) -> u64 {
    let text = user.ask("scontrol", &["-d", "-o", "show", "node", node]);
    let used = field(&text, "GresUsed").expect("the field");
    let rest = used.split_once(&format!("gpu:{gpu_type}:")).expect("the type").1;
    rest.split('(').next().expect("a number").parse().expect("a number")
}

/// Checks that the queue shows the run of each component.
fn check_tags(user: &TestUser<'_>, ids: &BTreeMap<String, String>) {
    let text = user.ask("squeue", &["-h", "-p", "gpu", "-O", "HetJobID:|,JobID:|,Comment:|"]);
    for line in text.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let leader = if fields[0] == "N/A" || fields[0] == "0" { fields[1] } else { fields[0] };
        let name = ids.iter().find(|(_, id)| *id == leader).expect("a job of this test").0;
        assert_eq!(fields[2], format!(r#"{{"hsched":1,"run":"main-1","job":"{name}"}}"#));
    }
    assert!(text.lines().count() >= ids.len(), "{text}");
}

/// Checks that each rank reported each epoch once, with its batch and in the planned time, and that the
/// ranks' samples add up to an epoch.
fn check_epochs(job: &Value, reports: &[Vec<Value>]) {
    let (name, ranks) = (&job["name"], job["ranks"].as_array().expect("ranks"));
    assert_eq!(reports.len(), ranks.len(), "{name}");
    let planned = job["epoch_s"].as_f64().expect("a time");
    for epoch in 0..2 {
        let samples: u64 = reports.iter().filter_map(|lines| lines[epoch]["samples"].as_u64()).sum();
        assert_eq!(job["spec"]["samples_per_epoch"], samples, "{name}");
    }
    for (rank, lines) in ranks.iter().zip(reports) {
        let epochs: Vec<&Value> = lines.iter().map(|line| &line["epoch"]).collect();
        assert_eq!(epochs, [1, 2], "{name}");
        for line in lines {
            assert_eq!((&line["rank"], &line["batch"]), (&rank["rank"], &rank["batch"]), "{name}");
            let taken = line["epoch_s"].as_f64().expect("a time");
            assert!((taken / planned - 1.0).abs() < 0.05, "{name}: {line}, planned {planned} s");
        }
    }
}
