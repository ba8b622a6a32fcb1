//! `hsched demo`: the same story every time, without Slurm, files or settings.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

#[test]
fn the_story_is_told_the_same_every_time() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.run("demo").succeeds(), @"");
}

#[test]
fn json_holds_the_whole_story() {
    let sandbox = Sandbox::new().file("hsched.toml", "nonsense");
    let story = sandbox.run("demo --format json --seed 3").exits(0).json();
    assert_eq!((story["schema"].as_str(), story["seed"].as_u64()), (Some("hsched.demo/1"), Some(3)));
    let lines = story["story"].as_array().expect("lines");
    for job in story["jobs"].as_array().expect("jobs") {
        let is_epoch = |line: &&serde_json::Value| line["job"] == job["name"] && line["topic"] == "epoch";
        assert_eq!(lines.iter().filter(is_epoch).count() as u64, job["epochs"].as_u64().expect("a number"));
        assert!(job["completion_s"].as_f64().is_some_and(|time| time > 0.0), "{job}");
    }
    let mean = |way: &str| story["ways"][way]["mean_completion_s"].as_f64().expect("a time");
    assert!(mean("moves_auto") < mean("moves_never"));
    assert!(mean("moves_never") < mean("moves_never_equal_batches"));
}
