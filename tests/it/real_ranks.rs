//! The positions of ranks, regardless of the effects of the environment and the site on the order of tasks.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::real_user::{Done, PROBE, TestUser, check_ranks, job, user};

/// Variables that change the behaviour of sbatch and srun, as users may have them in a shell profile.
const HOSTILE: [(&str, &str); 8] = [
    ("SLURM_DISTRIBUTION", "cyclic"),
    ("SLURM_EXPORT_ENV", "NONE"),
    ("SRUN_EXPORT_ENV", "NONE"),
    ("SBATCH_EXPORT", "NONE"),
    ("SLURM_GPU_BIND", "single:1"),
    ("SLURM_NTASKS_PER_NODE", "3"),
    ("SLURM_KILL_BAD_EXIT", "0"),
    ("SLURM_HOSTFILE", "/nonexistent"),
];

/// Returns the type of a device of a node in `real.nodes`.
fn device_type(node: &str, device: u32) -> &'static str {
    match (&node[..1], device) {
        ("v" | "b" | "x", _) | ("m", 0..=1) => "v100",
        ("p" | "c", _) => "p100",
        _ => "t4",
    }
}

/// Checks that each rank's own device is of its type, and that no two ranks of a node have the same device.
pub fn check_devices(probes: &[BTreeMap<String, String>]) {
    let mut taken = std::collections::BTreeSet::new();
    for probe in probes {
        let node = probe["SLURMD_NODENAME"].as_str();
        let place: usize = probe["LOCAL_RANK"].parse().expect("a number");
        let devices: Vec<u32> = probe["CUDA_VISIBLE_DEVICES"]
            .split(',')
            .map(|device| device.parse().expect("a number"))
            .collect();
        let device = devices[place];
        assert_eq!(
            device_type(node, device),
            probe["HSCHED_GPU_TYPE"],
            "rank {} on {node}: {devices:?}",
            probe["RANK"]
        );
        assert!(taken.insert((node, device)), "device {device} of {node} is there twice");
    }
}

/// Submits the one job of `plan.json` and checks its ranks.
fn check_run(user: &TestUser<'_>, plan: &Value, arguments: &[&str]) -> Vec<BTreeMap<String, String>> {
    let ended = user.run(&[&["plan.json"], arguments].concat());
    let name = plan["jobs"][0]["name"].as_str().expect("a name");
    assert!(ended.completed(), "{ended:?}: {}", user.read(format!("{name}.out")));
    let probes = user.probes("probe");
    check_ranks(&plan["jobs"][0], &probes);
    check_devices(&probes);
    probes
}

fn probe(name: &str, gpus: u32) -> Value {
    let mut job = job(name, gpus, PROBE);
    job["env"] = json!({"PROBE": "probe"});
    job
}

/// Returns the nodes on which the ranks ran, in the order of the ranks.
fn nodes(probes: &[BTreeMap<String, String>]) -> Vec<&str> {
    probes.iter().map(|probe| probe["SLURMD_NODENAME"].as_str()).collect()
}

#[test]
fn two_nodes_of_a_component_follow_each_other_whatever_the_users_variables_say() {
    let Some(user) = user("order", "mech") else { return };
    let plan = user.plan_over(&["b1 {v100: 2}", "b2 {v100: 2}", "a1 {t4: 1}"], &[probe("order", 5)]);
    let done = user.hsched_with(&HOSTILE, &["submit", "plan.json", "--format", "json"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let ended = user.ended(&done.job_ids()["order"]);
    assert!(ended.completed() && ended.states.len() == 2, "{ended:?}: {}", user.read("order.out"));
    let probes = user.probes("probe");
    check_ranks(&plan["jobs"][0], &probes);
    check_devices(&probes);
    // Without --pin, the job may be on other nodes of the same kind.
    let nodes = nodes(&probes);
    assert!(nodes[0] == nodes[1] && nodes[1] < nodes[2] && nodes[2] == nodes[3], "{nodes:?}");
}

#[test]
fn pinned_ranks_are_on_their_nodes_in_the_order_of_the_plan() {
    let Some(user) = user("pinned", "mech") else { return };
    // Equal nodes come in the order of the cluster file.
    let plan = user.plan_over(&["b2 {v100: 1}", "b1 {v100: 1}", "a1 {t4: 2}"], &[probe("pinned", 4)]);
    let probes = check_run(&user, &plan, &["--pin"]);
    assert_eq!(nodes(&probes), ["b2", "b1", "a1", "a1"]);
    assert!(probes.iter().all(|probe| probe["SLURM_CPUS_PER_TASK"] == "1"));
}

#[test]
fn on_a_mixed_node_each_rank_has_a_device_of_its_type() {
    let Some(user) = user("mixed", "mech") else { return };
    let mut job = probe("mixed", 3);
    // Here, the T4 is the faster type, so ranks 0 and 1 are on the last devices of the node.
    job["throughput"] = json!({"v100": 100, "t4": 300});
    job["cpus_per_gpu"] = 2.into();
    job["max_batch"] = json!({"t4": 32});
    let plan = user.plan_over(&["m2 {v100: 1, t4: 2}"], &[job]);
    let types = plan["jobs"][0]["ranks"].as_array().expect("ranks").iter().map(|rank| rank["type"].clone());
    assert_eq!(types.collect::<Vec<_>>(), ["t4", "t4", "v100"]);
    let probes = check_run(&user, &plan, &[]);
    assert_eq!(nodes(&probes), ["m2"; 3]);
    let steps = |probe: &BTreeMap<String, String>| {
        (
            probe["HSCHED_MICRO_BATCH"].clone(),
            probe["HSCHED_ACCUMULATION"].clone(),
            probe["SLURM_CPUS_PER_TASK"].clone(),
        )
    };
    assert_ne!(steps(&probes[0]).1, "1");
    assert_eq!(steps(&probes[2]).1, "1");
    assert_eq!(steps(&probes[0]).2, "2");
}

#[test]
fn a_mixed_node_may_follow_nodes_of_one_type() {
    let Some(user) = user("follows", "mech") else { return };
    // The second component inherits the exclusions of the first one unless it sets its own.
    let plan = user.plan_over(&["b1 {v100: 3}", "m2 {v100: 2, t4: 1}"], &[probe("follows", 6)]);
    assert_eq!(plan["jobs"][0]["ranks"][0]["node"], "b1");
    let probes = check_run(&user, &plan, &[]);
    assert_eq!(nodes(&probes)[3..], ["m2"; 3]);
}

#[test]
fn with_more_gpus_than_ranks_each_rank_still_has_a_device_of_its_type() {
    let Some(user) = user("whole", "mech") else { return };
    let mut job = probe("whole", 3);
    job["throughput"] = json!({"v100": 100, "t4": 300});
    let plan = user.plan_over(&["m2 {v100: 2, t4: 2}"], &[job]);
    // Some sites allocate only whole nodes, regardless of the request.
    let script = user.hsched(&["submit", "plan.json", "--dry-run"]);
    assert_eq!(script.code, Some(0), "{}", script.stderr);
    user.write("whole.sh", &script.stdout);
    let whole = ["--parsable", "--exclusive", "--gres=gpu:v100:2,gpu:t4:2", "whole.sh"];
    let ended = user.ended(user.ask("sbatch", &whole).trim());
    assert!(ended.completed(), "{ended:?}: {}", user.read("whole.out"));
    let probes = user.probes("probe");
    assert_eq!(probes.len(), plan["jobs"][0]["ranks"].as_array().expect("ranks").len());
    assert_eq!(probes[0]["CUDA_VISIBLE_DEVICES"].split(',').count(), 4);
    check_devices(&probes);
}

#[test]
fn a_job_of_one_type_leaves_mixed_nodes_to_others() {
    let Some(user) = user("kind", "mech") else { return };
    let plan = user.plan_over(&["b1 {v100: 2}", "m2 {v100: 2, t4: 2}"], &[typed("kind", 2)]);
    assert_eq!(plan["jobs"][0]["ranks"][0]["node"], "b1", "the node that it fills");
    // By itself, Slurm would choose the mixed node rather than a partly used one.
    let hold = ["--parsable", "-p", "mech", "-o", "/dev/null", "--gres=gpu:v100:1", "--wrap", "sleep 30"];
    let held: Vec<String> =
        ["b1", "b2"].map(|node| user.ask("sbatch", &[&hold[..], &["-w", node]].concat())).to_vec();
    for id in &held {
        user.running(id.trim());
    }
    let probes = check_run(&user, &plan, &[]);
    for id in &held {
        user.ask("scancel", &[id.trim()]);
    }
    assert!(nodes(&probes)[0].starts_with('b'), "{:?}", nodes(&probes));
}

/// Returns a job that takes V100 only.
fn typed(name: &str, gpus: u32) -> Value {
    let mut job = probe(name, gpus);
    job["gpu_types"] = json!(["v100"]);
    job
}

#[test]
fn a_script_on_stdout_is_the_same_job() {
    let Some(user) = user("piped", "mech") else { return };
    let jobs = [probe("piped", 3), probe("other", 1)];
    let plan = user.plan_over(&["b1 {v100: 2}", "a1 {t4: 1}", "c1 {p100: 1}"], &jobs);
    let script = user.hsched(&["submit", "--dry-run", "-j", "piped", "plan.json"]);
    assert_eq!(script.code, Some(0), "{}", script.stderr);
    assert!(user.only_run().is_none(), "a dry run leaves nothing behind");
    user.write("piped.sh", &script.stdout);
    let input = std::fs::File::open(user.folder.join("piped.sh")).expect("the script");
    let mut sbatch = user.program("sbatch");
    let done = Done::of(
        sbatch
            .arg("--parsable")
            .envs(HOSTILE)
            .env_remove("SBATCH_EXPORT")
            .env_remove("SLURM_HOSTFILE")
            .stdin(input),
    );
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let ended = user.ended(done.stdout.trim());
    assert!(ended.completed(), "{ended:?}: {}", user.read("piped.out"));
    check_ranks(&plan["jobs"][0], &user.probes("probe"));
}

#[test]
fn without_heterogeneous_steps_an_even_placement_runs_and_others_are_refused() {
    let Some(user) = user("hostfile", "mech") else { return };
    let settings = ["--set", "het_steps=false"];
    let plan = user.plan_over(&["a1 {t4: 2}", "b1 {v100: 2}"], &[probe("even", 4)]);
    let probes = check_run(&user, &plan, &settings);
    // The fast ranks come first although their node's name does not.
    assert_eq!(nodes(&probes), ["b1", "b1", "a1", "a1"]);

    let _ = user.plan_over(&["a1 {t4: 1}", "b1 {v100: 2}"], &[probe("uneven", 3)]);
    let refused = user.hsched(&[&["submit", "plan.json"], &settings[..]].concat());
    assert_eq!(refused.code, Some(78), "{}", refused.stderr);
    let message = "job uneven: its placement mixes GPUs (b1 gpu:v100:2; a1 gpu:t4:1), but het_steps = false";
    assert!(refused.stderr.contains(message), "{}", refused.stderr);
}
