//! Jobs with replicas of several GPUs on the command line: the variables of their ranks, and the commands that refuse
//! them.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

const CLUSTER: &str = "nodes: [{name: a, gpus: {a100: 5}}, {name: b, gpus: {h100: 2}}]";

const JOBS: &str = "\
jobs:
  - {name: llm, samples_per_epoch: 800, epochs: 3, global_batch: 8, model_size: 0,
     replica: {gpus: {a100: 2, h100: 1}}, throughput: {a100: 100, h100: 100}, command: train}
";

fn sandbox() -> Sandbox {
    Sandbox::with_slurm().file("cluster.yaml", CLUSTER).file("jobs.yaml", JOBS)
}

#[test]
fn ranks_know_their_replica_and_a_batch_is_that_of_a_replica() {
    let sandbox = sandbox();
    let script = sandbox.run("submit jobs.yaml --cluster cluster.yaml --run-id r1 --dry-run").succeeds();
    let (functions, _) = script.rsplit_once("hs_batch_main").expect("the call of the batch shell");
    // The steps of the batch shell and then of each rank.
    let look = "hs_join_batches; hs_master_addr=a hs_master_port=1\n\
                eval \"$(declare -f hs_export_common)\"\n\
                for hs_rank in \"${!hs_ranks[@]}\"; do (hs_export_common\n\
                  env | grep -E '^HSCHED_(BATCHES|REPLICA)' | sort | tr '\\n' ' '; echo); done";
    let ran = std::process::Command::new("bash").arg("-c").arg(format!("{functions}\n{look}")).output();
    let ran = ran.expect("bash");
    let seen = String::from_utf8_lossy(&ran.stdout).into_owned();
    let of = |replica: u32, rank: u32, size: u32| {
        format!(
            "HSCHED_BATCHES=2,2,2,2 HSCHED_REPLICA={replica} HSCHED_REPLICA_RANK={rank} HSCHED_REPLICA_SIZE={size} \n"
        )
    };
    let expected = [of(0, 0, 2), of(0, 1, 2), of(1, 0, 2), of(1, 1, 2), of(2, 0, 1), of(3, 0, 1)];
    assert_eq!(seen, expected.concat(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn a_node_of_replicas_on_several_nodes_is_in_one_component() {
    let cluster = "nodes: [{name: a, gpus: {a100: 3, h100: 1}}, {name: b, gpus: {a100: 1, h100: 3}}]";
    let jobs = JOBS.replace("{a100: 2, h100: 1}}", "{a100: 4, h100: 2}, same_node: false}, min_replicas: 3");
    let sandbox = Sandbox::with_slurm().file("cluster.yaml", cluster).file("jobs.yaml", jobs);
    let script = sandbox.run("submit jobs.yaml --cluster cluster.yaml --run-id r1 --dry-run").succeeds();
    let gpus: Vec<&str> = script.lines().filter_map(|line| line.strip_prefix("#SBATCH --gres=")).collect();
    assert_eq!(gpus, ["gpu:a100:3,gpu:h100:1", "gpu:a100:1,gpu:h100:3"]);
    let ranks = script.split_once("hs_ranks=(").expect("a table").1.split_once("\n)").expect("its end").0;
    // Node, local rank, batch, micro-batch, passes and type: the second replica has its first rank on node 0.
    let places: Vec<&str> =
        ranks.lines().map(|row| row.trim().trim_matches('\'')).filter(|row| !row.is_empty()).collect();
    let places: Vec<&str> = places.iter().map(|row| row.get(..3).expect("a node and a local rank")).collect();
    assert_eq!(places, ["0 0", "0 1", "0 2", "1 0", "0 3", "1 1", "1 2", "1 3"]);
}

#[test]
fn a_job_without_replicas_has_no_trace_of_them_in_its_script() {
    let sandbox = Sandbox::with_slurm()
        .file("cluster.yaml", CLUSTER)
        .file("jobs.yaml", JOBS.replace("replica: {gpus: {a100: 2, h100: 1}},", "max_gpus: 2,"));
    let script = sandbox.run("submit jobs.yaml --cluster cluster.yaml --run-id r1 --dry-run").succeeds();
    assert!(!script.to_lowercase().contains("replica"), "{script}");
}

#[test]
fn the_examples_are_planned_over_two_types() {
    let folder = crate::real_cluster::repository().join("examples/replicas").display().to_string();
    let plan = Sandbox::new()
        .run(&format!("plan {folder}/jobs.yaml --cluster {folder}/cluster.yaml --format json"))
        .json();
    for job in plan["jobs"].as_array().expect("jobs") {
        let replicas = job["replicas"].as_array().expect("replicas").iter();
        let gpus: Vec<(&Value, &Value)> =
            replicas.map(|replica| (&replica["gpus"][0]["type"], &replica["gpus"][0]["count"])).collect();
        assert_eq!(gpus, [(&"v100".into(), &2.into()), (&"t4".into(), &1.into())], "{plan:#}");
    }
}

#[test]
fn a_plan_of_replicas_is_read_again_and_checked() {
    let sandbox = sandbox();
    let text = sandbox.run("plan jobs.yaml --cluster cluster.yaml --format json").succeeds();
    let mut plan: Value = serde_json::from_str(&text).expect("JSON");
    let job = &plan["jobs"][0];
    let batches: Vec<u64> = job["replicas"]
        .as_array()
        .expect("replicas")
        .iter()
        .filter_map(|replica| replica["batch"].as_u64())
        .collect();
    assert_eq!(batches, [2, 2, 2, 2]);
    assert_eq!(job["ranks"].as_array().expect("ranks").len(), 6);
    let sandbox = sandbox.file("plan.json", &text);
    let again = sandbox.run("submit plan.json --run-id r1 --dry-run").succeeds();
    assert!(again.contains("hs_replica_sizes"), "{again}");
    plan["jobs"][0]["replicas"][0]["batch"] = 4.into();
    let sandbox = sandbox.file("wrong.json", plan.to_string());
    let ran = sandbox.run("submit wrong.json --run-id r1 --dry-run").exits(78);
    assert!(ran.stderr.contains("replicas do not match the ranks"), "{}", ran.stderr);
}

#[test]
fn what_does_not_know_replicas_refuses_them() {
    let sandbox = sandbox();
    let ran = sandbox.run("plan jobs.yaml --cluster cluster.yaml --policy optimus").exits(1);
    assert!(ran.stderr.contains("policy optimus gives out single GPUs"), "{}", ran.stderr);
    let sandbox = sandbox.file("large.yaml", JOBS.replace("a100: 2, h100: 1", "a100: 8, h100: 4"));
    let ran = sandbox.run("plan large.yaml --cluster cluster.yaml --format json").exits(3);
    let reason = "a replica needs 8 a100 or 4 h100 on one node; the largest has 5 a100 or 2 h100";
    assert!(ran.stdout.contains(reason), "{}", ran.stdout);
    let ran = sandbox.run("submit large.yaml --pack --gpus a100:2 --nodes 4 --time 1h --dry-run").exits(78);
    let reason = "a replica of llm needs 8 a100 on one node, and a node of each Slurm job has 2 a100";
    assert!(ran.stderr.contains(reason), "{}", ran.stderr);
}

/// `llm` needs replicas of 2 a100 or of 1 h100.
#[test]
fn a_pool_has_room_for_each_job_on_its_own_types() {
    let many = JOBS.replace("h100: 1}}", "h100: 1}}, min_replicas: 5");
    let other = JOBS.replace("replica:", "gpu_types: [h100], replica:");
    let spread = JOBS.replace("h100: 1}}", "h100: 1}, same_node: false}");
    let large = JOBS.replace("replica:", "gpu_types: [a100], replica:");
    let sandbox = sandbox().file("many.yaml", many).file("other.yaml", other).file("spread.yaml", spread);
    let sandbox = sandbox.file("large.yaml", large);
    // If `why` is empty, the job is accepted.
    let check = |file: &str, gpus: &str, why: &str| {
        let pack = format!("submit {file} --pack --gpus {gpus} --time 1h --dry-run");
        let ran = sandbox.run(&pack);
        match why {
            "" => assert!(!ran.exits(0).stderr.contains("llm"), "{pack}"),
            why => {
                let told = ran.exits(78).stderr;
                assert!(told.contains(why), "{pack}: {told}");
            }
        }
    };
    check("jobs.yaml", "a100:2", "");
    check("jobs.yaml", "h100:1", "");
    check(
        "jobs.yaml",
        "a100:1",
        "a replica of llm needs 2 a100 on one node, and a node of each Slurm job has 1 a100",
    );
    check(
        "jobs.yaml",
        "t4:8",
        "llm can run on no GPU of a Slurm job (t4: not among the sizes of the job's replica)",
    );
    check("jobs.yaml", "a100:1,t4:8", "a replica of llm needs 2 a100 on one node");
    check("jobs.yaml", "1", "");
    check(
        "large.yaml",
        "1",
        "a replica of llm needs 2 GPUs on one node, and a node of each Slurm job has 1 GPU",
    );
    check("spread.yaml", "a100:1 --nodes 2", "");
    check("spread.yaml", "a100:1", "llm needs 1 replica, and each Slurm job has room for 0");
    check(
        "other.yaml",
        "a100:2",
        "llm can run on no GPU of a Slurm job (a100: not among the job's gpu_types)",
    );
    check("many.yaml", "a100:4,h100:3", "");
    check("many.yaml", "a100:4,h100:2", "llm needs 5 replicas, and each Slurm job has room for 4");
    check("many.yaml", "a100:5 --nodes 2", "llm needs 5 replicas, and each Slurm job has room for 4");
}

#[test]
fn plans_between_mean_and_fairness_have_prices_of_replicas() {
    let jobs = format!("{JOBS}{}", JOBS.replace("jobs:\n", "").replace("name: llm", "name: other"));
    let sandbox = sandbox().file("jobs.yaml", jobs);
    let front = sandbox.run("plan jobs.yaml --cluster cluster.yaml --pareto --format json").json();
    let plans = front["plans"].as_array().expect("plans");
    assert!(!plans.is_empty());
    for plan in plans {
        assert!(plan["certificate"]["replica_prices"]["a100"]["2"].is_number(), "{plan:#}");
        assert!(plan["plan"]["jobs"][0]["replicas"].is_array(), "{plan:#}");
    }
}

#[test]
fn requests_are_of_whole_replicas() {
    let queue = include_str!("../../examples/queue.json");
    let jobs =
        JOBS.replace("{a100: 2, h100: 1}", "{a100: 4}").replace("global_batch: 8", "global_batch: 512");
    let sandbox = Sandbox::with_slurm().file("queue.json", queue).file("jobs.yaml", jobs);
    let ran = sandbox.run("when jobs.yaml --snapshot queue.json --format json");
    let told: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let text = told.to_string();
    assert!(text.contains("\"gpus\":4") && !text.contains("\"gpus\":2,"), "{text}");
}

#[test]
fn a_probe_says_of_how_many_gpus_a_speed_is() {
    let nodes =
        ["b1|gpu*|1:00:00|idle|gpu:a100:4,gpu:h100:1|gpu:a100:0,gpu:h100:0|0/8/0/8|64000|0|(null)|none"];
    let jobs = JOBS.replace("throughput: {a100: 100, h100: 100}, ", "");
    let sandbox = sandbox().file("jobs.yaml", jobs).printing("sinfo", &nodes);
    let planned = sandbox.run("probe jobs.yaml --all --dry-run --format json").exits(0).json();
    let of = |place: usize| (&planned["probes"][place]["gpu_type"], &planned["probes"][place]["gpus"]);
    assert_eq!(of(0), (&json!("a100"), &json!(2)), "{planned:#}");
    assert_eq!(of(1), (&json!("h100"), &Value::Null), "{planned:#}");
    let table = sandbox.run("probe jobs.yaml --all --dry-run").succeeds();
    assert!(table.contains("2 a100"), "{table}");
}
