//! `hsched submit --pack`: submissions, output and refusals.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// A sweep with this number of runs.
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
fn a_job_that_is_larger_than_an_allocation_is_refused() {
    let sandbox = sweep(1, ", min_gpus: 5");
    let refused = sandbox.run(&format!("{PACK} --at-most 2")).fails(78);
    assert!(
        refused.contains("s-i1 needs 5 GPUs, and each Slurm job has 4: a job runs in one of them"),
        "{refused}"
    );
    assert!(sandbox.calls("sbatch").is_empty() && !sandbox.state("together").exists());
}
