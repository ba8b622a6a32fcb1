//! Plan files: a plan of `plan` can be submitted, a plan that was edited by hand cannot.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Returns a sandbox with the worked example's plan by `has`, and the plan.
fn planned() -> (Sandbox, Value) {
    let sandbox = Sandbox::new();
    let plan = sandbox.run("plan jobs.yaml --cluster cluster.yaml --policy has -o plan.json --format json");
    let plan = plan.exits(0).json();
    (sandbox, plan)
}

/// Returns the error for a plan changed by `change`, after the file's name. No script is printed.
fn refusal(change: impl FnOnce(&mut Value)) -> String {
    let (sandbox, mut plan) = planned();
    change(&mut plan);
    refused(&sandbox, &plan.to_string())
}

fn refused(sandbox: &Sandbox, text: &str) -> String {
    std::fs::write(sandbox.work("bad.json"), text).expect("a file");
    let stderr = sandbox.run("submit bad.json --dry-run").fails(78);
    let (first, rest) = stderr.split_once('\n').expect("two lines");
    assert_eq!(rest, "hint: create the plan again with hsched plan\n");
    let said = first.strip_prefix("error: bad.json: ").expect("the file's name");
    // The column changes with every added key.
    said.split_once(" column ").map_or(said, |(place, _)| place).to_owned()
}

/// Returns a change of the value at a JSON pointer.
fn set(pointer: &str, value: Value) -> impl FnOnce(&mut Value) {
    move |plan| {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        match plan.pointer_mut(parent).expect("a place") {
            Value::Array(items) => items[key.parse::<usize>().expect("a number")] = value,
            place => place[key] = value,
        }
    }
}

#[test]
fn a_plan_file_gives_the_scripts_of_its_job_file() {
    let (sandbox, _) = planned();
    let of_plan = sandbox.run("submit plan.json --dry-run --run-id r1").succeeds();
    let of_jobs =
        sandbox.run("submit jobs.yaml --cluster cluster.yaml --policy has --dry-run --run-id r1").succeeds();
    assert!(of_plan == of_jobs);
    assert_eq!(of_plan.matches("#!/bin/bash\n").count(), 2);
    let piped =
        sandbox.run_with_input("submit - --dry-run --run-id r1", &sandbox.text(&sandbox.work("plan.json")));
    assert!(piped.succeeds() == of_plan);
    let one = sandbox.run("submit plan.json -j vgg19 --dry-run --run-id r1").succeeds();
    assert!(of_plan.ends_with(&one));
}

#[test]
fn a_plan_file_leaves_nothing_to_plan() {
    let (sandbox, _) = planned();
    assert_snapshot!(sandbox.run("submit plan.json --dry-run --policy exhaustive").fails(2), @r"
    error: the input is a plan: --pin is the only planning option allowed
    hint: to plan again, give the job file
    ");
    let pinned = sandbox.run("submit plan.json --dry-run --pin").succeeds();
    assert!(pinned.contains("#SBATCH --nodelist=b\n"), "{pinned}");
}

#[test]
fn shares_that_do_not_add_up_are_refused() {
    assert_snapshot!(refusal(set("/jobs/0/ranks/0/batch", json!(275))), @"the plan is invalid: job resnet18: has shares that do not add up");
    assert_snapshot!(refusal(set("/jobs/0/ranks/1/samples", json!(0))), @"the plan is invalid: job resnet18: has shares that do not add up");
    assert_snapshot!(refusal(set("/jobs/0/ranks/1/batch", json!(-1))), @"not a plan file: invalid value: integer `-1`, expected u64 at line 1");
    // 2^63 + 2^63 + 512 is 512 to a 64-bit adder.
    assert_snapshot!(refusal(|plan| {
        plan["jobs"][0]["ranks"][0]["batch"] = json!(1_u64 << 63);
        plan["jobs"][0]["ranks"][1]["batch"] = json!(1_u64 << 63);
        plan["jobs"][0]["ranks"][2]["batch"] = json!(512);
    }), @"the plan is invalid: job resnet18: has shares that do not add up");
}

#[test]
fn shares_that_would_make_a_rank_wait_are_refused() {
    assert_snapshot!(refusal(|plan| {
        plan["jobs"][0]["ranks"][0]["batch"] = json!(278);
        plan["jobs"][0]["ranks"][2]["batch"] = json!(116);
    }), @"jobs[0] (resnet18): its batches and samples do not match the speeds of its GPUs");
}

#[test]
fn ranks_elsewhere_are_refused() {
    assert_snapshot!(refusal(set("/jobs/1/ranks/0/node", json!("a"))), @r#"jobs[1] (vgg19): rank 0 is on a GPU that is not available: "v100" of "a""#);
    assert_snapshot!(refusal(set("/jobs/1/ranks/0/node", json!("gone"))), @r#"jobs[1] (vgg19): rank 0 is on a GPU that is not available: "v100" of "gone""#);
    assert_snapshot!(refusal(set("/jobs/1/ranks/0/node", json!("b\n#SBATCH --uid=0"))), @r#"not a plan file: node name "b\n#SBATCH --uid=0" contains '\n'; only letters, digits, '-', '_' and '.' are allowed at line 1"#);
    assert_snapshot!(refusal(set("/jobs/1/ranks/0/type", json!("a100"))), @r#"jobs[1] (vgg19): rank 0 is on a GPU that is not available: "a100" of "b""#);
    assert_snapshot!(refusal(set("/jobs/1/ranks", json!([]))), @"jobs[1] (vgg19): may not run on these GPUs");
    assert_snapshot!(refusal(set("/jobs/0/ranks/2/local_rank", json!(3))), @"the plan is invalid: job resnet18: has ranks of one node that are not consecutive");
    assert_snapshot!(refusal(set("/jobs/0/ranks/2/rank", json!(9))), @"jobs[0] (resnet18): ranks must count from 0, and must be empty if the verdict is not place");
    assert_snapshot!(refusal(set("/jobs/0/gpus/0/count", json!(9))), @"jobs[0] (resnet18): gpus do not match the ranks");
}

#[test]
fn verdicts_must_agree_with_what_they_give() {
    assert_snapshot!(refusal(set("/jobs/0/verdict", json!("run"))), @"not a plan file: unknown variant `run`, expected one of `place`, `defer`, `reject` at line 1");
    assert_snapshot!(refusal(set("/jobs/0/verdict", json!("defer"))), @"jobs[0] (resnet18): jct_s is 16750.418760469012, but the formulas give null");
    assert_snapshot!(refusal(set("/jobs/0/jct_s", json!(1.0))), @"jobs[0] (resnet18): jct_s is 1.0, but the formulas give 16750.418760469012");
    assert_snapshot!(refusal(set("/jobs/0/jct_s", Value::Null)), @"jobs[0] (resnet18): jct_s is null, but the formulas give 16750.418760469012");
    assert_snapshot!(refusal(set("/jobs/0/reason", json!("because"))), @"jobs[0] (resnet18): reason must be a string if the verdict is not place, otherwise null");
    assert_snapshot!(refusal(set("/jobs/0/spec/epochs", json!(1))), @"jobs[0] (resnet18): jct_s is 16750.418760469012, but the formulas give 83.75209380234506");
}

#[test]
fn nodes_that_cannot_be_are_refused() {
    assert_snapshot!(refusal(set("/nodes/0/gpus/0/count", json!(1))), @"the plan is invalid: a gives 2 GPUs of type t4, but it has 1");
    assert_snapshot!(refusal(set("/nodes/0/gpus/0/count", json!(4_294_967_295_u32))), @"nodes[0]: brings the plan to 4294967295 GPUs; the limit is 1000000");
    assert_snapshot!(refusal(set("/nodes/0/name", json!("a b"))), @r#"not a plan file: node name "a b" contains ' '; only letters, digits, '-', '_' and '.' are allowed at line 1"#);
    assert_snapshot!(refusal(set("/nodes/0/name", json!("b"))), @"nodes[1]: b appears twice");
    assert_snapshot!(refusal(set("/network_gbps", json!(0))), @"network_gbps: must be above 0");
    assert_snapshot!(refusal(set("/partitions", json!([{"name": "p", "default": true, "max_time_s": -5}]))), @"partitions[0].max_time_s: must be above 0");
}

#[test]
fn jobs_of_another_file_and_hostile_ones_are_refused() {
    assert_snapshot!(refusal(|plan| {
        plan["jobs"][0]["name"] = json!("other");
    }), @r#"job "other" contains the spec of job "resnet18""#);
    assert_snapshot!(refusal(|plan| plan["jobs"][0]["spec"] = plan["jobs"][1]["spec"].clone()), @r#"jobs[1].spec.name: "vgg19" is already the name of the job on line 1"#);
    assert_snapshot!(refusal(set("/jobs/0/spec/name", json!("../../etc/x"))), @r#"jobs[0].spec.name: job name "../../etc/x" contains '/'; only letters, digits, '-', '_' and '.' are allowed"#);
    assert_snapshot!(refusal(set("/jobs/0/spec/env", json!(["A;touch x=1"]))), @r#"jobs[0].spec.env[0]: "A;touch x" is not a valid variable name"#);
    assert_snapshot!(refusal(set("/jobs/0/spec/env", json!({"RANK": "1"}))), @"jobs[0].spec.env.RANK: hsched sets RANK for every rank; a job cannot set it");
    assert_snapshot!(refusal(set("/jobs/0/spec/sbatch", json!(["-N1\n#SBATCH --uid=0"]))), @r"jobs[0].spec.sbatch[0]: must not contain control characters, got '\n'");
    assert_snapshot!(refusal(set("/jobs/0/spec/epoch", json!(1))), @"jobs[0].spec.epoch: is not a known key");
    assert_snapshot!(refusal(set("/jobs", json!([]))), @"jobs: must contain at least one job");
    assert_snapshot!(refusal(|plan| drop(plan["jobs"][0].as_object_mut().expect("a job").remove("spec"))), @"not a plan file: missing field `spec` at line 1");
}

#[test]
fn hostile_values_stay_values() {
    let (sandbox, mut plan) = planned();
    plan["jobs"][0]["spec"]["env"] = json!(["A='$(touch pwned)\n#SBATCH --uid=0"]);
    std::fs::write(sandbox.work("odd.json"), plan.to_string()).expect("a file");
    let script = sandbox.run("submit odd.json -j resnet18 --dry-run").succeeds();
    let directives = script.lines().take_while(|line| line.starts_with('#'));
    assert!(!directives.clone().any(|line| line.contains("uid")), "{script}");
    let bash = |script: String| {
        let mut bash = assert_cmd::Command::from_std(sandbox.start("/bin/bash", &["-n"]));
        bash.write_stdin(script).assert().success();
    };
    bash(script);
    assert!(!sandbox.work("pwned").exists());
}

#[test]
fn other_texts_are_no_plan_files() {
    let (sandbox, _) = planned();
    let pretty = sandbox.text(&sandbox.work("plan.json"));
    assert_snapshot!(refused(&sandbox, &pretty[..200]), @"not a plan file: EOF while parsing a value at line 8");
    assert_snapshot!(refused(&sandbox, &pretty.replace("hsched.plan/1", "hsched.plan/2")), @r#"its schema is "hsched.plan/2"; this version reads "hsched.plan/1""#);
    assert_snapshot!(refused(&sandbox, &pretty.replace("hsched.plan/1", "hsched.run/1")), @r#"its schema is "hsched.run/1"; this version reads "hsched.plan/1""#);
    assert_snapshot!(refused(&sandbox, &pretty.replace("\"schema\"", "\"scheme\"")), @r#"its schema is missing; this version reads "hsched.plan/1""#);
    assert_snapshot!(refusal(set("/seed", json!("zero"))), @r#"not a plan file: invalid type: string "zero", expected u64 at line 1"#);
    // Later versions only add keys.
    let (_, mut plan) = planned();
    plan["later"] = json!(1);
    std::fs::write(sandbox.work("later.json"), plan.to_string()).expect("a file");
    sandbox.run("submit later.json --dry-run").succeeds();
}
