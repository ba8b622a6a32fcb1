//! Traces that start in the middle: the clock, finished steps, held GPUs.

use crate::sandbox::Sandbox;

const CLUSTER: &str = "network_gbps: 10\nintra_node_gbps: 300\nnodes:\n  - {name: n1, gpus: {v100: 1}}\n";

/// Returns a trace of two jobs of 100 steps each; a step takes a second on a V100.
fn trace(first: &str, second: &str) -> String {
    let job = "samples_per_epoch: 1000, epochs: 10, global_batch: 100, model_size: 0, gpus: 1, throughput: {v100: 100}, checkpoint: {restart_cost: 10s}";
    format!("now: 720s\njobs:\n  - {{name: a, {job}, {first}}}\n  - {{name: b, {job}, {second}}}\n")
}

fn sandbox(first: &str, second: &str) -> Sandbox {
    Sandbox::new().file("lab.yaml", CLUSTER).file("now.yaml", trace(first, second))
}

#[test]
fn a_trace_goes_on_from_where_its_jobs_are() {
    let sandbox = sandbox("steps_done: 40, held: {n1/v100: 1}", "arrival: 700s, steps_done: 50");
    let json = sandbox.run("simulate --trace now.yaml --cluster lab.yaml --policy fifo --format json").json();
    assert!(json["lower_bound_s"].is_null());
    let jobs = &json["policies"][0]["jobs"];
    let times = |job: usize| ["started_s", "completion_s", "jct_s"].map(|key| jobs[job][key].as_f64());
    assert_eq!(times(0), [Some(0.0), Some(780.0), Some(780.0)]);
    // The job resumes when the GPU is free, after its restart.
    assert_eq!(times(1), [Some(700.0), Some(840.0), Some(140.0)]);
}

#[test]
fn rounds_are_counted_from_time_zero_on() {
    let sandbox = sandbox("", "arrival: 800s");
    let command =
        "simulate --trace now.yaml --cluster lab.yaml --policy fifo --round 360s --rounds 1 --events -";
    let text = sandbox.run(command).succeeds();
    let round = text.lines().find(|line| line.contains("\"round\"")).expect("a round");
    assert!(round.contains("\"t\":720.0"), "{round}");
    assert_eq!(text.matches("\"event\":\"round\"").count(), 1);
}

#[test]
fn states_that_cannot_be_are_refused() {
    let refused = |first: &str, second: &str| {
        sandbox(first, second).run("simulate --trace now.yaml --cluster lab.yaml --policy fifo").fails(78)
    };
    for (first, second) in
        [("held: {n1/v100: 1}", "held: {n1/v100: 1}"), ("held: {n1/v100: 2}, max_gpus: 2", "")]
    {
        let said = refused(first, second);
        assert!(said.contains("jobs hold 2 v100 of n1, but the node has 1"), "{said}");
    }
    for wrong in ["held: {n2/v100: 1}", "held: {n1/t4: 1}"] {
        let said = refused(wrong, "");
        assert!(said.contains("job a holds GPUs that the cluster does not have"), "{said}");
    }
    assert!(refused("held: {v100: 1}", "").contains("\"v100\" is not NODE/TYPE, such as gpu01/v100"));
    assert!(refused("steps_done: 100", "").contains("job a has done 100 of its 100 steps"));
    assert!(refused("arrival: 800s, steps_done: 1", "").contains("but arrives after the start of the trace"));
    let jobs = sandbox("", "").run("plan now.yaml --cluster lab.yaml").fails(78);
    assert!(jobs.contains("now: is not a known key"), "{jobs}");
}
