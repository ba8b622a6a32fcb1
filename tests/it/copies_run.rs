//! Copies of a training under `hsched run`: plain jobs on devices, started by its guards.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::python;
use crate::sandbox::Sandbox;

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
    let said = sandbox.run("run jobs.yaml --devices a:1,b:1").exits(0);
    for copy in ["x.c1", "x.c2"] {
        assert!(said.stdout.contains(&format!("{copy}: completed")), "{}", said.stdout);
    }
    let text = |name: &str| fs::read_to_string(sandbox.work(name)).unwrap_or_default();
    assert!((text("x.c1.out") + &text("x.c2.out")).contains("epochs 4"), "{}", text("x.c1.out"));
    let rounds: Vec<Value> = (1..)
        .map_while(|number| {
            let path = sandbox.work(&format!("checkpoints/x/rounds/round-{number}.json"));
            fs::read_to_string(path).ok().map(|text| serde_json::from_str(&text).expect("JSON"))
        })
        .collect();
    let mut done: BTreeMap<(u64, u64), u32> = BTreeMap::new();
    for round in rounds.windows(2) {
        let merged = round[1]["merged"].as_object().expect("copies").values();
        for range in merged.flat_map(|own| own["ranges"].as_array().expect("ranges")) {
            let steps = range[0].as_u64().expect("a step")..range[1].as_u64().expect("a step");
            for step in steps {
                *done.entry((round[0]["epoch"].as_u64().expect("an epoch"), step)).or_default() += 1;
            }
        }
    }
    assert_eq!((done.len(), done.values().max()), (40, Some(&1)), "{done:?}");
}
