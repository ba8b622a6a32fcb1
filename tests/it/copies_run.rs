//! Copies of a training in `hsched plan`, and under `hsched run`: plain jobs on devices, started by its guards.

use std::fs;

use insta::assert_snapshot;
use serde_json::Value;

use crate::python;
use crate::sandbox::Sandbox;

#[test]
fn copies_of_a_training_are_one_row() {
    let keys = "samples_per_epoch: 60000, epochs: 30, global_batch: 64, model_size: 45MB, throughput: {v100: 900, t4: 300}";
    let jobs = format!(
        "jobs:\n- {{name: x, {keys}, copies: {{max: 4}}, command: run}}\n- {{name: y, {keys}, command: run}}\n"
    );
    let cluster = "nodes: [{name: a, gpus: {v100: 1}}, {name: b, gpus: {v100: 1, t4: 1}}]";
    let sandbox = Sandbox::new().file("jobs.yaml", jobs).file("cluster.yaml", cluster);
    assert_snapshot!(sandbox.run("plan jobs.yaml --cluster cluster.yaml").succeeds(), @r"
    optimal: 3 of 5 jobs on 3 of 3 GPUs
    mean completion time 55 min 33 s, makespan 1 h 40 min, fairness 0.758
    the mean completion time is proven optimal for the jobs placed

    JOB  GPUS                BATCHES          EPOCH  COMM      DONE IN
    x    1 t4 b, 2 v100 a,b  3 copies of 64  28.6 s   0 %  14 min 17 s

    x: 1 of 4 copies waits: no GPU is left; number 1 among the waiting jobs
    x: the row shows the time of its copies together; the summary counts each copy
      as a job that trains alone
    y: waits: no GPU is left; number 2 among the waiting jobs
    ");
    let names: Vec<Value> =
        sandbox.run("plan jobs.yaml --cluster cluster.yaml --format json").exits(0).json()["jobs"]
            .as_array()
            .expect("jobs")
            .iter()
            .map(|job| job["name"].clone())
            .collect();
    assert_eq!(names, ["x.c1", "x.c2", "x.c3", "x.c4", "y"]);
}

#[test]
fn copies_train_on_devices_and_every_step_is_merged_once() {
    let Some(python) = python::with_torch() else { return };
    let keys =
        "samples_per_epoch: 40, epochs: 4, global_batch: 4, model_size: 1KB, throughput: {a: 90, b: 30}";
    let jobs = format!(
        "jobs:\n- {{name: x, {keys}, copies: {{max: 2, round: 5s}}, command: [{python}, train.py, 4]}}\n"
    );
    let sandbox = Sandbox::new()
        .variable("PATH", "/usr/local/bin:/usr/bin:/bin")
        .variable("OMP_NUM_THREADS", "1")
        .file("train.py", include_str!("copies_train.py"))
        .file("jobs.yaml", jobs);
    let said = sandbox.run("run jobs.yaml --devices a:1,b:1 --simulated").exits(0);
    for copy in ["x.c1", "x.c2"] {
        assert!(said.stdout.contains(&format!("{copy}: completed")), "{}", said.stdout);
    }
    let text = |name: &str| fs::read_to_string(sandbox.work(name)).unwrap_or_default();
    assert!((text("x.c1.out") + &text("x.c2.out")).contains("epochs 4"), "{}", text("x.c1.out"));
    let count = r#"
import itertools, json, os, sys
sys.path.insert(0, "tests/it")
from copies_done import done_steps
paths = ("%s/round-%d.json" % (sys.argv[1], number) for number in itertools.count(1))
done = done_steps([json.load(open(path)) for path in itertools.takewhile(os.path.exists, paths)])
assert done == {(epoch, step): 1 for epoch in range(4) for step in range(10)}, done
"#;
    let rounds = sandbox.work("checkpoints/x/rounds").display().to_string();
    python::run(&python, &["-", &rounds], count);
}
