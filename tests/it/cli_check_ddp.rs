//! `hsched check-ddp`: with a real torch, without one, and with a program that is not a Python.

use serde_json::Value;

use crate::python;
use crate::sandbox::Sandbox;

/// The errors that the checks must not exceed: gradients of unequal ranks against one process with the whole
/// batch.
#[test]
fn unequal_ranks_train_as_one_process_does() {
    let Some(python) = python::with_torch() else { return };
    let answer = Sandbox::new().run(&format!("check-ddp --python {python} --format json")).json();
    assert_eq!(answer["right"], true, "{answer:#}");
    assert_eq!((&answer["backend"], &answer["device"]), (&"gloo".into(), &"cpu".into()));
    let checks = answer["checks"].as_array().expect("checks");
    let error = |name: &str| {
        let check = checks.iter().find(|check| check["name"] == name).expect("the check");
        assert!(check["cases"].as_u64() > Some(0), "{check}");
        check["error"].as_f64().expect("a number")
    };
    assert!(error("gradient float64") < 1e-6 && error("gradient float32") < 1e-4, "{answer:#}");
    assert!(error("order of samples") == 0.0 && error("stopped and resumed") < 1e-9, "{answer:#}");
    assert!(error("plain DDP") > 1e-2, "the control sees nothing: {answer:#}");
}

#[test]
fn a_helper_of_one_file_is_refused() {
    let sandbox = Sandbox::new().file("hsched_ddp.py", "");
    let problem = sandbox.run("--set templates=. check-ddp").fails(78);
    assert!(
        problem.contains("hsched_ddp.py: the training helper is a package of several files"),
        "{problem}"
    );
}

/// A helper without loss weights is detected; it comes from the directory in the setting `templates`.
#[test]
fn a_helper_that_does_not_weight_is_wrong() {
    let Some(python) = python::with_torch() else { return };
    let helper = include_str!("../../templates/hsched_ddp/losses.py");
    let weight = "loss * (me.replicas * share / max(total, 1e-300))";
    assert!(helper.contains(weight));
    let sandbox = Sandbox::new().file("hsched_ddp/losses.py", helper.replace(weight, "loss"));
    let ran = sandbox.run(&format!("--set templates=. check-ddp --python {python}")).exits(1);
    assert!(ran.stdout.starts_with("wrong: torch "), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("gradient float64 off by ") && ran.stdout.lines().count() == 1,
        "{}",
        ran.stdout
    );
}

/// The command names a rank with one sample in a pass, with the remedy; two samples in one pass are enough.
#[test]
fn a_plan_with_too_few_samples_for_batch_norm_is_warned_of() {
    let answer = r#"{"python": "3.9.1", "torch": "2.0", "checks": []}"#;
    let keys =
        "samples_per_epoch: 100, epochs: 1, model_size: 0, command: x, throughput: {v100: 900, t4: 75}";
    let jobs = format!(
        "jobs:\n  - {{name: small, global_batch: 32, min_gpus: 4, {keys}}}\n  \
         - {{name: memory, global_batch: 9, gpu_types: [t4], max_gpus: 1, max_batch: {{t4: 2}}, {keys}}}\n  \
         - {{name: one, global_batch: 9, gpu_types: [t4], max_gpus: 1, max_batch: {{t4: 1}}, {keys}}}\n  \
         - {{name: even, global_batch: 10, gpu_types: [t4], max_gpus: 1, max_batch: {{t4: 3}}, {keys}}}\n"
    );
    let cluster = "nodes: [{name: a, gpus: {v100: 2}}, {name: b, gpus: {t4: 5}}]";
    let sandbox = Sandbox::new()
        .program("python3", &format!("echo '{answer}'"))
        .file("jobs.yaml", jobs)
        .file("cluster.yaml", cluster);
    let plan = sandbox.run("plan jobs.yaml --cluster cluster.yaml --format json").exits(0).stdout;
    let sandbox = sandbox.file("plan.json", plan);
    let ran = sandbox.run("check-ddp plan.json --format json").exits(0);
    let warnings = [
        "small: on t4 2 ranks take one sample per pass, too few for BatchNorm: set batch_quantum: 2",
        "memory: on t4 1 rank takes one sample per pass, too few for BatchNorm: set batch_quantum: 2",
        "one: on t4 1 rank takes one sample per pass, too few for BatchNorm: max_batch allows no more; exclude the type with gpu_types",
    ];
    let said: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(said["warnings"], serde_json::json!(warnings));
    assert_eq!(ran.stderr.lines().filter(|line| line.starts_with("note: ")).count(), 3, "{}", ran.stderr);

    let problem = sandbox.run("check-ddp jobs.yaml").fails(78);
    assert!(problem.contains("jobs.yaml: "), "{problem}");
}

#[test]
fn a_python_without_torch_is_told_from_one_that_is_missing() {
    let script = "exec /usr/bin/env python3 -S -c 'import sys; sys.path = sys.path[:0] + \
                  [p for p in sys.path if \"packages\" not in p]; exec(sys.stdin.read())'";
    let sandbox = Sandbox::new().program("python3", script);
    let problem = sandbox.run("check-ddp").fails(78);
    assert!(problem.starts_with("error: python3 (Python 3."), "{problem}");
    assert!(problem.contains("): no module named torch\nhint: activate the environment"), "{problem}");

    let problem = Sandbox::new().run("check-ddp --python none").fails(78);
    assert!(
        problem.contains("none: cannot start this Python") && problem.contains("--python PROGRAM"),
        "{problem}"
    );
}

#[test]
fn what_goes_wrong_in_the_checks_is_said() {
    let check = |lines: &str, message: &str| {
        let ran = Sandbox::new().program("python3", lines).run("check-ddp --format json").exits(1);
        let answer: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        assert_eq!(answer["error"]["message"], message);
    };
    check(
        "echo 'Killed by the administrator' >&2; exit 9",
        "python3: the checks did not run: Killed by the administrator",
    );
    // Hints about Slurm do not apply here.
    check(
        "echo 'RuntimeError: connection refused' >&2; exit 1",
        "python3: the checks did not run: RuntimeError: connection refused",
    );
    check("echo hello", "python3: the checks did not run: cannot read their output");
    let dead = r#"{"python": "3.9.1", "torch": null, "problem": "rank 2: no", "checks": []}"#;
    check(&format!("echo warning; echo '{dead}'"), "python3 (Python 3.9.1): rank 2: no");
}
