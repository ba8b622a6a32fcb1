//! The example of a sweep: the jobs of its file, and its program, which is killed, stopped and resumed.

use std::fs;

use crate::python::{run, with_torch};
use crate::real_cluster::repository;
use crate::sandbox::Sandbox;

/// Kills and stops the program when it reports the end of an epoch, and compares the results.
const DRIVER: &str = r#"
import json, os, signal, subprocess, sys, tempfile

plain = "import runpy, sys; sys.modules['torch'] = None; sys.path.insert(0, 'examples/sweep'); runpy.run_path('examples/sweep/train.py', run_name='__main__')"
program = ["-c", plain] if sys.argv[2] == "plain" else ["examples/sweep/train.py"]

class Training:
    def __init__(self):
        self.folder = tempfile.mkdtemp()
        self.report = os.path.join(self.folder, "report")

    def accuracies(self):
        lines = [json.loads(line) for line in open(self.report)]
        assert [line["epoch"] for line in lines] == list(range(1, len(lines) + 1)), lines
        assert all(0 < line["samples"] <= 1200 and line["compute_s"] > 0 and line["metrics"]["loss"] > 0 for line in lines), lines
        return [line["metrics"]["accuracy"] for line in lines]

    def run(self, number=None):
        """Runs it, to the end or until the first epoch that it prints; returns its exit status."""
        done = len(open(self.report).readlines()) if os.path.exists(self.report) else 0
        env = dict(os.environ, HSCHED_CHECKPOINT_DIR=os.path.join(self.folder, "c"), HSCHED_REPORT=self.report, HSCHED_EPOCHS="4",
                   HSCHED_EPOCHS_DONE=str(done), HSCHED_GLOBAL_BATCH="20", HSCHED_BATCHES="20", OMP_NUM_THREADS="1")
        child = subprocess.Popen([sys.argv[1]] + program + ["--lr", "0.2"], env=env, stdout=subprocess.PIPE, universal_newlines=True)
        for line in child.stdout:
            if number and line.startswith("epoch"):
                child.send_signal(number)
                number = None
        child.stdout.close()
        return child.wait()

whole, stopped, killed = Training(), Training(), Training()
assert whole.run() == 0
right = whole.accuracies()
assert len(right) == 4 and right[0] + 0.1 < right[-1] and right[-1] > 0.7, right
assert stopped.run(signal.SIGUSR1) == 85 and len(stopped.accuracies()) in (1, 2)
assert stopped.run() == 0 and stopped.accuracies() == right, (stopped.accuracies(), right)
assert killed.run(signal.SIGKILL) == -9
assert killed.run(signal.SIGUSR1) == 85
if sys.argv[2] == "plain":
    # As after a kill between the checkpoint and the report. With torch, it saves in mid-epoch.
    reported = open(killed.report).readlines()
    with open(killed.report, "w") as file:
        file.writelines(reported[:-1])
assert killed.run() == 0
assert killed.accuracies() == right, (killed.accuracies(), right)
print("done")
"#;

#[test]
fn in_plain_python_it_learns_and_goes_on_exactly_where_it_was() {
    let python = run("python3", &["-c", "import sys; print(sys.executable)"], "");
    assert_eq!(run("python3", &["-", python.trim(), "plain"], DRIVER), "done\n");
}

#[test]
fn with_torch_it_learns_and_goes_on_exactly_where_it_was() {
    let Some(python) = with_torch() else { return };
    assert_eq!(run(&python, &["-", &python, "torch"], DRIVER), "done\n");
}

#[test]
fn its_job_file_makes_six_jobs_with_commands_of_their_own() {
    let text = fs::read_to_string(repository().join("examples/sweep.yaml")).expect("the example");
    let cluster = "nodes: [{name: here, gpus: {cpu: 2}}]";
    let sandbox = Sandbox::new().file("sweep.yaml", text).file("cluster.yaml", cluster);
    let plan = sandbox.run("plan sweep.yaml --cluster cluster.yaml --format json").json();
    let jobs = plan["jobs"].as_array().expect("jobs");
    let of = |job: &serde_json::Value| {
        let spec = &job["spec"];
        format!("{} {} {} {}", job["name"], spec["command"], spec["env"], spec["model"])
    };
    assert_eq!(jobs.len(), 6);
    assert_eq!(
        of(&jobs[1]),
        r#""digits-lr0.5-seed2" "python3 examples/sweep/train.py --lr 0.5 --seed 2" ["LR=0.5","SEED=2"] "digits""#
    );
    assert!(jobs.iter().all(|job| job["gpus"].as_array().is_none_or(|gpus| gpus.len() < 2)), "{jobs:?}");
}

/// `add` turns a sweep into its variants; each is a separate job.
#[test]
fn what_is_added_are_the_variants() {
    let text = fs::read_to_string(repository().join("examples/sweep.yaml")).expect("the example");
    let sandbox = Sandbox::with_slurm().file("sweep.yaml", text);
    let added = sandbox.run("add sweep.yaml --dry-run").succeeds();
    assert_eq!(added.matches("digits-lr").count(), 6, "{added}");
}
