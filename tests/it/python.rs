//! The Python for tests that need torch, and rules for all Python files here.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use crate::real_cluster::repository;

/// The variable that turns a missing torch from a skip into a failure.
const WISH: &str = "HSCHED_TEST_TORCH";

/// The first of these Python interpreters that has torch, if any. The second one is that of Debian's package.
static WITH_TORCH: LazyLock<Option<&str>> = LazyLock::new(|| {
    let has_torch = |python: &&&str| {
        let tried = Command::new(python).args(["-c", "import torch"]).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    ["python3", "/usr/bin/python3"].iter().find(has_torch).copied()
});

/// Returns the full path of a Python with torch; `None`, with a message, if there is none.
pub fn with_torch() -> Option<String> {
    let Some(python) = *WITH_TORCH else {
        assert!(std::env::var_os(WISH).is_none_or(|wish| wish != "require"), "no torch");
        let test = std::thread::current().name().unwrap_or("test").to_owned();
        // Not with eprintln!, which the test harness captures.
        let line = format!("skipped: {test}: no Python with torch; {WISH}=require makes this a failure\n");
        io::stderr().write_all(line.as_bytes()).expect("stderr");
        return None;
    };
    Some(run(python, &["-c", "import sys; print(sys.executable)"], "").trim().to_owned())
}

/// Returns the output of Python, which must succeed.
pub fn run(python: &str, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(python)
        .args(arguments)
        .current_dir(repository())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("PYTHONPATH")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Python starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("Python reads");
    let output = child.wait_with_output().expect("Python ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns the Python files below a folder.
fn python_files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let files = entries.flat_map(|path| match path.extension() {
        _ if path.is_dir() => python_files(&path),
        Some(extension) if extension == "py" => vec![path.display().to_string()],
        _ => Vec::new(),
    });
    files.collect()
}

/// The helper and the examples must also run on old clusters.
#[test]
fn no_python_here_is_newer_than_3_8() {
    let folders = ["templates", "examples", "tests"].map(|folder| repository().join(folder));
    let files: Vec<String> = folders.iter().flat_map(|folder| python_files(folder)).collect();
    assert!(files.len() > 20, "{files:?}");
    let check = "import ast, sys\nfor path in sys.argv[1:]:\n    text = open(path).read()\n    \
                 ast.parse(text, path, feature_version=(3, 8))\n    compile(text, path, 'exec')";
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    run("python3", &[&["-c", check], &files[..]].concat(), "");
}

/// Uses the helper without torch, without hsched, and with contradictory variables.
#[test]
fn the_helper_serves_programs_without_torch() {
    let input = r#"
import json, os, signal, subprocess, sys, tempfile
sys.path.insert(0, "templates")
sys.modules["torch"] = None
import hsched_ddp as hsched

alone = hsched.read_rank({}, global_batch=10)
assert (alone.rank, alone.world_size, alone.batches, alone.micro_batch) == (0, 1, (10,), 10), alone
under_torchrun = hsched.read_rank({"RANK": "1", "WORLD_SIZE": "3", "LOCAL_RANK": "1"}, global_batch=10)
assert under_torchrun.batches == (3, 3, 4) and under_torchrun.batch == 3, under_torchrun
planned = {"RANK": "1", "WORLD_SIZE": "3", "HSCHED_GLOBAL_BATCH": "12", "HSCHED_BATCHES": "8,3,1", "HSCHED_MICRO_BATCH": "2",
           "HSCHED_EPOCHS": "5", "HSCHED_REPORT": os.path.join(tempfile.mkdtemp(), "report")}
me = hsched.read_rank(planned, global_batch=99, epochs=7)
assert (me.batch, me.global_batch, me.micro_batch, me.epochs) == (3, 12, 2, 5), me
in_setup = {key: value for key, value in planned.items() if key != "RANK"}
assert hsched.read_rank(in_setup).batches == (12,)
for wrong in ({"HSCHED_BATCHES": "8,3"}, {"HSCHED_BATCHES": "8,3,2"}, {"HSCHED_BATCHES": "9,3,0"}, {"HSCHED_BATCHES": "14,-1,-1"}):
    try:
        hsched.read_rank(dict(planned, **wrong))
        raise SystemExit("%s was taken" % wrong)
    except ValueError as error:
        assert "BATCHES" in str(error)

# Replicas: each has one number in HSCHED_BATCHES, and all ranks of a replica take the same samples.
in_replicas = dict(planned, RANK="2", HSCHED_BATCHES="8,4", HSCHED_REPLICA="1", HSCHED_REPLICA_RANK="0", HSCHED_REPLICA_SIZE="1")
me = hsched.read_rank(in_replicas)
assert (me.replicas, me.replica, me.replica_rank, me.replica_size, me.batch, me.edges(12)) == (2, 1, 0, 1, 4, [0, 8, 12]), me
first = hsched.read_rank(dict(in_replicas, RANK="1", HSCHED_REPLICA="0", HSCHED_REPLICA_RANK="1", HSCHED_REPLICA_SIZE="2"))
assert (first.batch, first.part(12), first.shares_model) == (8, (0, 8), True), first
first.report({"epoch": 1})
assert not os.path.exists(first.report_file)  # the first rank of a replica reports
torchrun = hsched.read_rank({"RANK": "3", "WORLD_SIZE": "4"}, global_batch=10, replica_size=2)
assert (torchrun.batches, torchrun.replica, torchrun.replica_rank, torchrun.batch) == ((5, 5), 1, 1, 5), torchrun
single = hsched.read_rank({}, global_batch=10, replica_size=4)
assert (single.replica_size, single.replicas, single.batch) == (1, 1, 10), single
for wrong, size in (({"HSCHED_REPLICA": "2"}, None), ({"HSCHED_REPLICA_RANK": "1"}, None), ({"HSCHED_BATCHES": "4,4,2,2"}, None)):
    try:
        hsched.read_rank(dict(in_replicas, **wrong))
        raise SystemExit("%s was taken" % wrong)
    except ValueError as error:
        assert "HSCHED_" in str(error)
for env, size in ((planned, 3), ({"RANK": "0", "WORLD_SIZE": "4"}, 3)):
    try:
        hsched.read_rank(env, global_batch=12, replica_size=size)
        raise SystemExit("replicas of %d were taken" % size)
    except ValueError as error:
        assert "replica" in str(error)
me = hsched.read_rank(planned, global_batch=99, epochs=7)

# 26 samples: a whole block of 12 samples, then two blocks of seven.
sampler = hsched.BatchSampler(26, me, seed=1)
assert [sampler.parts(step) for step in range(3)] == [[2, 1], [2], [2]]
first, again = list(sampler), list(hsched.BatchSampler(26, me, seed=1))
assert first == again and len(first) == len(sampler)
sampler.set_epoch(1, 1)
assert list(sampler) == first[2:]
sampler.set_epoch(2)
assert list(sampler) != first

me.report({"epoch": 1, "metrics": {"loss": float("nan")}})
me.report({"epoch": 2})
lines = [json.loads(line) for line in open(me.report_file)]
assert lines == [{"epoch": 1, "metrics": {"loss": None}}, {"epoch": 2}], lines

assert hsched.init(global_batch=4).device is None and not hsched.stop_requested()
os.kill(os.getpid(), signal.SIGUSR1)
assert hsched.stop_requested()
# Slurm also signals the workers of loaders and their helpers; none may die of it.
child = "import os, signal; os.kill(os.getpid(), signal.SIGUSR1)"
assert subprocess.run([sys.executable, "-c", child]).returncode == 0
print("done")
"#;
    assert_eq!(run("python3", &["-"], input), "done\n");
}

/// Wrappers of the model do not change a checkpoint; models that would train wrongly or fail with an obscure error are
/// refused.
#[test]
fn the_helper_takes_models_as_they_are_wrapped_and_refuses_what_is_wrong() {
    let Some(python) = with_torch() else { return };
    let input = r#"
import json, os, random, resource, sys, tempfile
sys.path.insert(0, "templates")
import hsched_ddp as hsched
import numpy
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

class Around(torch.nn.Module):
    """A model around another one, as torch.compile makes it."""
    def __init__(self, name, inner):
        super().__init__()
        setattr(self, name, inner)

class Endless(IterableDataset):
    def __iter__(self):
        return iter(int, 1)

class Closed:
    def state_dict(self):
        return {"rate": lambda epoch: 1}

def refused(kind, words, act):
    try:
        act()
    except kind as error:
        assert words in str(error), error
    else:
        raise SystemExit("not refused: " + words)

draw = lambda: (random.random(), float(torch.rand(1)), float(numpy.random.random_sample()))
with tempfile.TemporaryDirectory() as folder:
    os.environ.update(HSCHED_CHECKPOINT_DIR=folder, HSCHED_REPORT=os.path.join(folder, "report"))
    me = hsched.init(global_batch=4)
    if hasattr(torch, "set_default_device"):
        torch.set_default_device("meta")
    sampler = hsched.BatchSampler(8, me)
    assert sorted(sum(sampler, [])) == list(range(8))
    if hasattr(torch, "set_default_device"):
        torch.set_default_device("cpu")

    plain = torch.nn.Linear(3, 1)
    for model in (plain, DistributedDataParallel(plain), Around("_orig_mod", DistributedDataParallel(plain)),
                  DistributedDataParallel(Around("_orig_mod", plain)), Around("module", plain)):
        training = hsched.Training(me, sampler, model)
        training.save()
        prefix = "module." if hasattr(model, "module") and not isinstance(model, DistributedDataParallel) else ""
        names = sorted(torch.load(training.path, weights_only=True)["state"]["model"])
        assert names == [prefix + "bias", prefix + "weight"], (model, names)
        assert b"_reconstruct" not in open(training.path, "rb").read(), "an array of numpy"
        drawn = draw()
        assert training.resume() and draw() == drawn

    together = hsched.replace(me, batches=(2, 2), world_size=2)
    refused(ValueError, "wrap the model in Distributed", lambda: hsched.Training(together, sampler, plain))

    data = TensorDataset(torch.randn(8, 3))
    training = hsched.Training(me, sampler, DistributedDataParallel(plain))
    refused(ValueError, "has a different sampler", lambda: next(training.steps(DataLoader(data, batch_size=4))))
    refused(ValueError, "pass the IterableDataset to hsched_ddp.prepare()", lambda: next(training.steps(DataLoader(Endless(), batch_size=4))))
    refused(ValueError, "ended before the end of the epoch (2 steps)", lambda: list(training.steps([data[:4]])))
    loader = DataLoader(data, batch_sampler=sampler)

    training = hsched.Training(me, sampler, DistributedDataParallel(plain))
    for epoch in training.epochs():
        for step in training.steps(loader):
            for batch, in step:
                step.scale(training.model(batch).mean()).backward()
        training.metrics["accuracy"] = torch.tensor(0.5)
    with open(me.report_file) as report:
        assert json.loads(report.read())["metrics"]["accuracy"] == 0.5

    refused(RuntimeError, "cannot write the checkpoint", hsched.Training(me, sampler, plain, scheduler=Closed()).save)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    refused(RuntimeError, "File too large", hsched.Training(me, sampler, plain).save)
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(os.listdir(folder)) == ["hsched-ddp.before.pt", "hsched-ddp.pt", "hsched-ddp.pt.sha256", "report"], os.listdir(folder)
    assert training.resume() and training.epoch == 1
    os.remove(os.path.join(folder, "hsched-ddp.before.pt"))
    os.truncate(training.path, os.path.getsize(training.path) // 2)
    refused(RuntimeError, "hsched-ddp.pt was refused: it has changed", training.resume)
    os.remove(training.path + ".sha256")
    refused(RuntimeError, "hsched-ddp.pt cannot be read: ", training.resume)
print("done")
"#;
    assert_eq!(run(&python, &["-"], input), "done\n");
}

/// A thread of gloo that still needs the interpreter aborts a process that shuts the interpreter down:
/// `leave` does not shut it down.
#[test]
fn who_leaves_in_order_ends_with_the_status_it_chose() {
    let Some(python) = with_torch() else { return };
    let program = r#"
import atexit, sys, time
sys.path.insert(0, "templates")
import hsched_ddp as hsched
import torch, torch.distributed as dist

hsched.init(global_batch=4)
group = dist.group.WORLD

@atexit.register
def late():
    group.allreduce([torch.zeros(1)]).get_future().then(lambda _: time.sleep(2))

try:
    LAST_WORDS
finally:
    print("the way out is gone, and what is printed is written", end="")
    if "fail" in sys.argv:
        raise ValueError("on the way out")
"#;
    let ended = |last_words: &str, argument: &str| {
        let program = program.replace("LAST_WORDS", last_words);
        let mut command = Command::new(&python);
        command
            .args(["-c", &program, argument])
            .current_dir(repository())
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let output = command.env_remove("PYTHONPATH").output().expect("Python starts");
        assert!(output.stdout.starts_with(b"the way out"), "{output:?}");
        output.status
    };
    assert_eq!(ended("hsched.leave(85)", "").code(), Some(85));
    assert_eq!(ended("hsched.leave()", "").code(), Some(0));
    assert_ne!(
        ended("hsched.leave()", "fail").code(),
        Some(0),
        "a failure on the way out is none of its business"
    );
}
