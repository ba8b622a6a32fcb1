//! `hsched when --request`: the request of a batch script.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

const SCRIPT: &str = "#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4
#SBATCH --gres=gpu:a100:4   # all of a node
#SBATCH --mem=64G -t 1-0
##SBATCH --qos=high
python train.py
#SBATCH --exclusive
";

fn sandbox() -> Sandbox {
    Sandbox::new().file("train.sh", SCRIPT)
}

/// Returns these fields of a request.
fn request(json: &Value, names: &[&str]) -> Vec<Value> {
    assert_eq!(json["schema"], "hsched.request/1");
    names.iter().map(|name| json["request"][*name].clone()).collect()
}

#[test]
fn a_script_is_read_as_sbatch_reads_it() {
    let json = sandbox().run("when train.sh --request --format json").exits(0).json();
    let names = [
        "nodes_min",
        "gpus_total",
        "gpu_type",
        "ntasks",
        "mem_mb_per_node",
        "time_limit_s",
        "exclusive",
        "het",
    ];
    let expected =
        [json!(2), json!(8), json!("a100"), json!(8), json!(65536), json!(86400), json!(false), json!(0)];
    assert_eq!(request(&json, &names), expected);
    assert_eq!((&json["refused"], &json["unknown"]), (&Value::Null, &json!([])));
    let lines: Vec<&Value> =
        json["notes"].as_array().expect("notes").iter().map(|note| &note["line"]).collect();
    assert_eq!(lines, [5, 7]);
}

#[test]
fn options_and_variables_win() {
    let sandbox = sandbox().variable("SBATCH_PARTITION", "debug").variable("SBATCH_TIMELIMIT", "9");
    let json =
        sandbox.run("when train.sh --request --format json -- -N1 --time 10 --part=gpu").exits(0).json();
    let names = ["nodes_min", "time_limit_s", "partition"];
    assert_eq!(request(&json, &names), [json!(1), json!(600), json!("gpu")]);
    let json = sandbox.run("when train.sh --request --format json").json();
    assert_eq!(request(&json, &names), [json!(2), json!(540), json!("debug")]);
}

#[test]
fn options_alone_are_a_request_too() {
    let json = sandbox().run("when --request --format json -- --gres=gpu:2 -t 4:00:00").exits(0).json();
    assert_eq!(request(&json, &["gpus_total", "time_limit_s"]), [json!(2), json!(14400)]);
    let json = sandbox().run_with_input("when - --request --format json", SCRIPT).exits(0).json();
    assert_eq!(request(&json, &["gpus_total"]), [json!(8)]);
}

#[test]
fn what_sbatch_refuses_is_no_failure() {
    let sandbox =
        sandbox().file("empty", "").file("data", "jobs: []\n").file("bad.sh", "#!/bin/sh\n#SBATCH --gpu=1\n");
    for file in ["empty", "data", "bad.sh"] {
        let json = sandbox.run(&format!("when {file} --request --format json")).exits(0).json();
        assert!(json["refused"].is_string(), "{json}");
    }
    let ran = sandbox.run("when nothing.sh --request --format json").exits(78);
    assert_eq!(ran.json()["error"]["code"], "bad_input");
    let text = sandbox.run("when bad.sh --request").succeeds();
    assert!(text.starts_with("sbatch would refuse bad.sh: line 2: option '--gpu=1' is ambiguous"), "{text}");
}

#[test]
fn a_placeholder_is_named_and_an_option_replaces_it() {
    let script = SCRIPT.replace("--nodes=2", "--nodes={{ nodes }}");
    let sandbox = sandbox().file("train.sh", script);
    let json = sandbox.run("when train.sh --request --format json").exits(0).json();
    assert_eq!((&json["unknown"][0]["line"], &json["request"]["gpus_total"]), (&json!(2), &Value::Null));
    let json = sandbox.run("when train.sh --request --format json -- --nodes=3").exits(0).json();
    assert_eq!((&json["unknown"], &json["refused"]), (&json!([]), &Value::Null));
    assert_eq!(request(&json, &["gpus_total", "ntasks"]), [json!(12), json!(12)]);
}

#[test]
fn a_table_says_it_in_words() {
    let text = sandbox().run("when train.sh --request").succeeds();
    insta::assert_snapshot!(text, @r"
    train.sh asks for:
      nodes       2
      GPUs        8 a100, 4 on each node
      tasks       8, 1 CPU each
      memory      64 GiB on each node
      time limit  1-00:00:00
    Notes:
      line 5: ##SBATCH --qos=high: Slurm ignores it: it begins with ##
      line 7: #SBATCH --exclusive: Slurm ignores it: it stands after the first
      command (line 6)
    ");
}
