//! `hsched submit --pack`: submissions, output and refusals.

use std::fs;

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Returns a sandbox with a sweep of this number of runs.
fn sweep(runs: u32, more: &str) -> Sandbox {
    let values: Vec<String> = (1..=runs).map(|run| run.to_string()).collect();
    let jobs = format!(
        "jobs:\n  - {{name: s, samples_per_epoch: 8, epochs: 1, global_batch: 8, model_size: 0, command: train{more}, \
         sweep: {{i: [{}]}}}}\n",
        values.join(", ")
    );
    Sandbox::with_slurm().file("jobs.yaml", jobs)
}

const PACK: &str = "submit --pack jobs.yaml --gpus cpu:4 --time 1h --run-id r1";

#[test]
fn a_dry_run_prints_the_json_of_what_would_be_submitted() {
    let sandbox = sweep(9, ", max_gpus: 1");
    let told = sandbox.run(&format!("{PACK} --at-most 5 --dry-run --format json")).succeeds();
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let state = "ROOT/home/.local/state/hsched/together/r1";
    let script = format!("{state}/runs/hsched-run.sbatch");
    assert_eq!(
        [&told["schema"], &told["run"], &told["job_id"], &told["state_dir"], &told["script"]],
        [&json!("hsched.together/1"), &json!("r1"), &Value::Null, &json!(state), &json!(script)]
    );
    let allocations = told["allocations"].as_array().expect("a list");
    // There are nine runs, and each allocation runs four at a time.
    assert_eq!(allocations.len(), 3);
    assert_eq!((&allocations[0]["job_id"], &allocations[0]["script"]), (&Value::Null, &json!(script)));
    let texts: Vec<&str> =
        allocations.iter().map(|allocation| allocation["text"].as_str().expect("a text")).collect();
    assert_eq!(texts.concat(), sandbox.run(&format!("{PACK} --at-most 5 --dry-run")).succeeds());
    assert!(sandbox.calls("sbatch").is_empty() && !sandbox.state("together").exists());
}

#[test]
fn more_gpus_than_any_node_has_are_a_warning() {
    let nodes = ["n1|gpu*|1:00:00|idle|gpu:v100:4|gpu:v100:0|0/8/0/8|64000|0|(null)|none"];
    let sandbox = sweep(1, ", max_gpus: 1, throughput: {v100: 5}").printing("sinfo", &nodes);
    let said = |gpus: &str| {
        sandbox.run(&format!("submit --together jobs.yaml --gpus {gpus} --time 1h --dry-run")).exits(0).stderr
    };
    let warning =
        "warning: a Slurm job of 1 node with gpu:v100:200 each cannot start: the cluster has 0 such nodes";
    assert!(said("v100:200").contains(warning), "{}", said("v100:200"));
    assert!(!said("v100:1").contains("cannot start"), "{}", said("v100:1"));
}

#[test]
fn a_job_that_is_larger_than_an_allocation_is_refused() {
    let sandbox = sweep(1, ", min_gpus: 5");
    let refused = sandbox.run(&format!("{PACK} --at-most 2")).fails(78);
    assert!(
        refused.contains("s-i1 needs 5 GPUs, and each Slurm job has 4: a job runs in one of them"),
        "{refused}"
    );
    assert!(sandbox.calls("sbatch").is_empty() && !sandbox.state("together").exists());
}

#[test]
fn a_job_after_an_unknown_one_is_refused() {
    let sandbox = sweep(1, ", after: trian");
    let refused = sandbox.run(PACK).fails(78);
    assert!(refused.contains("s-i1 depends on trian, but there is no job of that name"), "{refused}");
    assert!(sandbox.calls("sbatch").is_empty() && !sandbox.state("together").exists());
}

#[test]
fn the_allocations_of_an_array_are_its_tasks() {
    let sandbox = sweep(9, ", max_gpus: 1");
    let pack = format!("{PACK} --at-most 3 --array");
    let text = sandbox.run(&format!("{pack} --dry-run")).succeeds();
    assert_eq!(text.matches("#SBATCH --array=1-12%3\n").count(), 1, "{text}");
    assert!(text.contains("ROOT/home/desk/hsched-run-%a.out"), "{text}");
    let told: Value =
        serde_json::from_str(&sandbox.run(&format!("{pack} --dry-run --format json")).succeeds())
            .expect("JSON");
    let ids = |told: &Value| -> Vec<Value> {
        let allocations = told["allocations"].as_array().expect("a list");
        assert!(allocations.iter().all(|allocation| allocation["script"] == told["script"]), "{told}");
        assert_eq!(told["job_id"], allocations[0]["job_id"]);
        allocations.iter().map(|allocation| allocation["job_id"].clone()).collect()
    };
    assert_eq!(ids(&told), [Value::Null, Value::Null, Value::Null]);
    assert!(sandbox.calls("sbatch").is_empty() && !sandbox.state("together").exists());
    let told: Value =
        serde_json::from_str(&sandbox.run(&format!("{pack} --format json")).succeeds()).expect("JSON");
    assert_eq!(ids(&told), ["1_1", "1_2", "1_3"]);
    assert_eq!(sandbox.calls("sbatch").len(), 1);
    let refused = sandbox.run("submit --together jobs.yaml --gpus cpu:4 --time 1h --array").fails(2);
    assert!(refused.contains("--together") && refused.contains("--array"), "{refused}");
}

#[test]
fn an_array_has_as_many_tasks_as_slurm_accepts() {
    let check = |message: &str, accepted: &str, expected: &[&str]| {
        let script = format!(
            "for word; do case $word in {accepted}) echo 7; exit 0;; --array=*) echo \"sbatch: error: {message}\" >&2; exit 1;; esac; done"
        );
        let sandbox = sweep(9, ", max_gpus: 1").program("sbatch", &script);
        let ran = sandbox.run(&format!("{PACK} --at-most 3 --array"));
        let sizes = |call: &Vec<String>| call.iter().find(|word| word.starts_with("--array=")).cloned();
        let tried: Vec<String> = sandbox.calls("sbatch").iter().filter_map(sizes).collect();
        assert_eq!(tried, expected, "{message}");
        ran
    };
    let limit = "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";
    let ran = check(limit, "--array=1-3%3", &["--array=1-12%3", "--array=1-6%3", "--array=1-3%3"]);
    assert!(ran.exits(0).stderr.contains("Slurm accepts 3 tasks at a time"));
    let ran = check(limit, "none", &["--array=1-12%3", "--array=1-6%3", "--array=1-3%3", "--array=1-1%3"]);
    assert!(ran.fails(1).contains("job submit limit"));
    let size = "Batch job submission failed: Invalid job array specification";
    check(size, "--array=1-6%3", &["--array=1-12%3", "--array=1-6%3"]).exits(0);
    // Fewer tasks would not help.
    check("invalid partition specified: nope", "none", &["--array=1-12%3"]).fails(1);
}

#[test]
fn a_submission_without_an_answer_is_found_and_never_repeated() {
    let lost = "echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1";
    let sandbox = sweep(9, ", max_gpus: 1").program("sbatch", lost);
    let queue = "script=\"$root/home/.local/state/hsched/together/r1/runs/hsched-run.sbatch\"\n\
                 echo \"8 RUNNING /other\"; echo \"9_[1-12%3] PENDING $script\"";
    let sandbox = sandbox.program("squeue", queue);
    let told = sandbox.run(&format!("{PACK} --at-most 3 --array")).succeeds();
    assert!(told.contains("submitted as jobs 9_1, 9_2, 9_3"), "{told}");
    assert_eq!(sandbox.calls("sbatch").len(), 1);
    let queue = queue.replace("9_[1-12%3]", "9");
    let sandbox = sweep(4, ", max_gpus: 1").program("sbatch", lost).program("squeue", &queue);
    assert!(sandbox.run(PACK).succeeds().contains("submitted as job 9\n"));
    assert_eq!(sandbox.calls("sbatch").len(), 1);
    let sandbox = sweep(9, ", max_gpus: 1").program("sbatch", lost);
    let refused = sandbox.run(&format!("{PACK} --at-most 3 --array")).fails(1);
    assert!(refused.contains("squeue --me --name=hsched-run shows within a minute"), "{refused}");
    assert_eq!(sandbox.calls("sbatch").len(), 1);
}

#[test]
fn status_shows_the_last_pool_even_if_it_has_ended() {
    let sandbox = sweep(2, ", max_gpus: 1").program("sbatch", "echo 77");
    sandbox.run(PACK).succeeds();
    let shown = |which: &str, ended: u32| {
        let text = format!(
            "{which}: {ended} of 2 jobs have ended; to see it: \
             HSCHED_STATE_DIR=ROOT/home/.local/state/hsched/together/r1 hsched status\n"
        );
        assert_eq!(sandbox.run("status").succeeds(), text);
        let pools = sandbox.run("status --format json").succeeds();
        let pools: Value = serde_json::from_str(&pools).expect("JSON");
        assert_eq!(pools["pools"].as_array().map(Vec::len), Some(usize::from(ended < 2)));
    };
    shown("a pool", 0);
    let state = sandbox.state("together/r1");
    sandbox.run(&format!("cancel s-i1 s-i2 --set state_dir={}", state.display())).succeeds();
    shown("the last pool", 2);
}

#[test]
fn the_last_pool_is_the_newest_whatever_its_name() {
    let sandbox = sweep(2, ", max_gpus: 1").program("sbatch", "echo 77");
    for id in ["zeta", "20261127-alpha"] {
        sandbox.run(&format!("{PACK} --run-id {id}").replace(" --run-id r1", "")).succeeds();
    }
    let note = sandbox.run("results s").exits(0).stderr;
    assert!(note.ends_with("/together/20261127-alpha\n"), "{note}");
}

#[test]
fn options_without_effect_on_a_pool_are_refused() {
    let sandbox = sweep(2, ", max_gpus: 1");
    for option in ["--queue", "--race 2", "--pin", "--may limit"] {
        for pool in ["--pack", "--together"] {
            let command = format!("{PACK} --dry-run {option}").replace("--pack", pool);
            let refused = sandbox.run(&command).fails(2);
            assert!(refused.contains("cannot be used with"), "{command}: {refused}");
        }
    }
}

#[test]
fn a_refused_pool_is_not_mistaken_for_the_last_one() {
    let sandbox = sweep(2, ", max_gpus: 1").program("sbatch", "echo 77");
    sandbox.run(PACK).succeeds();
    let sandbox = sandbox.program("sbatch", "echo 'sbatch: error: invalid partition specified' >&2; exit 1");
    for pool in ["--at-most 1", "--at-most 2", "--at-most 2 --array"] {
        let refused = sandbox.run(&format!("{PACK} {pool}").replace("r1", "r2")).fails(1);
        assert!(refused.contains("hint: no job was added"), "{refused}");
        assert!(!sandbox.state("together/r2").exists(), "{pool}");
    }
    // The pool that exists stays.
    sandbox.run(PACK).fails(1);
    assert!(sandbox.run("results s").exits(0).stderr.ends_with("/together/r1\n"));
}

#[test]
fn a_pool_is_found_behind_many_newer_ones() {
    let sandbox = sweep(2, ", max_gpus: 1").program("sbatch", "echo 77");
    sandbox.run(PACK).succeeds();
    for number in 0..30 {
        fs::create_dir(sandbox.state(&format!("together/n{number}"))).expect("a folder");
    }
    assert!(sandbox.run("results s").exits(0).stderr.ends_with("/together/r1\n"));
}

#[test]
fn names_that_only_a_pool_has_are_found_there() {
    let sandbox = sweep(2, ", max_gpus: 1").program("sbatch", "echo 77");
    sandbox.run(PACK).succeeds();
    let pool = "ROOT/home/.local/state/hsched/together/r1";
    for command in ["results s", "results s-i1", "status s", "status s-i1", "history s"] {
        let ran = sandbox.run(command).exits(0);
        assert_eq!(ran.stderr, format!("note: reading the pool in {pool}\n"), "{command}");
        assert!(ran.stdout.contains("s-i1"), "{command}: {}", ran.stdout);
    }
    assert_eq!(sandbox.run("tell s").exits(0).stderr, format!("note: reading the pool in {pool}\n"));
    assert!(sandbox.run("logs s").exits(0).stderr.ends_with("2 of 2 runs have not started yet\n"));
    for (names, words) in [("s-i1", "s-i1"), ("s", "'s-*'")] {
        assert_eq!(
            sandbox.run(&format!("cancel {names}")).fails(2),
            format!(
                "error: there is no job {names:?}\nhint: a pool has such jobs: HSCHED_STATE_DIR={pool} hsched cancel {words}\n"
            )
        );
    }
    let unknown = sandbox.run("results t").fails(2);
    assert!(!unknown.contains("pool"), "{unknown}");
    // The state directory itself comes first.
    sandbox.run("add jobs.yaml").succeeds();
    assert_eq!(sandbox.run("results s").exits(0).stderr, "");
}
