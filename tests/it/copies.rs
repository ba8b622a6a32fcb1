//! Copies of a job: merging by hand and in Python, and rounds while copies start and end.

use serde_json::json;

use crate::python;
use crate::sandbox::Sandbox;

/// Merges weights and optimizer states in Python as copies do, compares the results with known numbers, and
/// writes and reads a file of weights.
#[test]
fn python_merges_by_steps_and_refuses_what_does_not_fit() {
    let Some(python) = python::with_torch() else { return };
    let input = r#"
import math, os, sys, tempfile
sys.path.insert(0, "templates")
import torch
from hsched_ddp.merge import MergeError, merge_states, merge_weights, read_safetensors, write_safetensors

def model(w, mean, var, count, **more):
    return {"w": torch.tensor(w), "running_mean": torch.tensor([mean]), "running_var": torch.tensor([var]),
            "num_batches_tracked": torch.tensor(count), **more}

one, two = model([1.0, 2.0], 0.0, 1.0, 300), model([3.0, -2.0], 2.0, 3.0, 100)
merged = merge_weights([one, two], [300, 100])
assert merged["w"].tolist() == [1.5, 1.0] and merged["running_mean"].tolist() == [0.5], merged
assert merged["running_var"].tolist() == [2.25] and int(merged["num_batches_tracked"]) == 300, merged
# A large mean does not reduce the precision of the variance.
far = merge_weights([model([1.0, 2.0], 1e6, 1e-3, 300), model([3.0, -2.0], 1e6 + 0.25, 1e-3, 100)], [300, 100])["running_var"].tolist()
assert abs(far[0] - (1e-3 + 0.1875 * 0.0625)) < 1e-8, far
assert merge_weights([one, model([math.nan, 0.0], 0.0, 1.0, 1)], [5, 0])["w"].tolist() == [1.0, 2.0]

def refused(*models):
    try:
        merge_weights(models, [1] * len(models))
    except MergeError as error:
        return str(error)
    raise AssertionError("not refused")

assert "not finite" in refused(one, model([math.inf, 0.0], 0.0, 1.0, 1))
assert "different shapes" in refused(one, model([1.0], 0.0, 1.0, 1))
assert "different tensors" in refused(one, model([1.0, 2.0], 0.0, 1.0, 1, more=torch.zeros(1)))
assert "integers that differ" in refused({"t": torch.tensor([1, 2])}, {"t": torch.tensor([1, 3])})

state = lambda step, moment: {0: {"step": torch.tensor(step), "exp_avg": torch.tensor([moment])}}
merged = merge_states("state", [state(300.0, 1.0), state(100.0, 3.0)], [0.75, 0.25])
assert float(merged[0]["step"]) == 300 and merged[0]["exp_avg"].tolist() == [1.5], merged

with tempfile.TemporaryDirectory() as folder:
    kinds = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
    tensors = {"t%d" % k: torch.tensor([[1, 0], [3, 1]], dtype=kind) for k, kind in enumerate(kinds)}
    tensors.update(scalar=torch.tensor(2.5), empty=torch.zeros(0, 3), turned=torch.arange(6.0).reshape(2, 3).t())
    path = os.path.join(folder, "a.safetensors")
    write_safetensors(path, tensors)
    again = read_safetensors(path)
    assert all(again[name].dtype == own.dtype and again[name].shape == own.shape and torch.equal(again[name], own) for name, own in tensors.items())
    with open(path, "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(content[:-1])
    try:
        read_safetensors(path)
        raise AssertionError("cut off and read")
    except MergeError:
        pass
"#;
    python::run(&python, &["-"], input);
}

#[test]
fn python_splits_and_returns_steps() {
    let Some(python) = python::with_torch() else { return };
    let input = r#"
import sys
sys.path.insert(0, "templates")
from hsched_ddp.ranges import join, split, take

assert split(9000, [10.0, 1.0, 4.0], 360) == ([3600, 360, 1440], True)
assert split(3600, [10.0, 1.0, 4.0], 360) == ([2400, 240, 960], True)
assert split(10, [None, None, None], 360) == ([4, 3, 3], False)
assert split(2, [5.0, None, 2.0], 360) == ([1, 1, 0], True)
assert take([[0, 3], [10, 20]], 5) == ([[0, 3], [10, 12]], [[12, 20]])
assert join([[5, 6], [0, 5], [8, 9], [9, 9]]) == [[0, 6], [8, 9]]
try:
    join([[0, 5], [4, 6]])
    raise AssertionError("a step twice")
except ValueError:
    pass
"#;
    python::run(&python, &["-"], input);
}

/// When a merge is worse than its best copy twice in a row, that copy continues alone; results of another
/// round, base or process are not merged.
#[test]
fn python_guards_merges_and_takes_nothing_that_is_not_of_its_round() {
    let Some(python) = python::with_torch() else { return };
    let input = r#"
import json, math, os, sys, tempfile
sys.path.insert(0, "templates")
import torch
from hsched_ddp.copies import Copies
from hsched_ddp.checkpoint import sha256 as digest
from hsched_ddp.merge import MergeError, write_safetensors
from hsched_ddp.rounds import Folder

with tempfile.TemporaryDirectory() as folder:
    own = Copies.__new__(Copies)
    own.number, own.keeps, own.folder = 1, True, Folder(folder, 1, 4, math.inf)
    Folder(folder, 2, 4, math.inf)
    last = {"alone": None, "why": "", "worse": 0, "merged": {"1": {"loss": [1.0, 0.01]}, "2": {"loss": [0.5, 0.01]}}}
    after = lambda mean, error: {1: {"after": [mean, error]}, 2: {"after": None}}
    assert own._guard(last, after(0.51, 0.1)) == (None, "", 0), "within the noise"
    assert own._guard(last, after(0.9, 0.01)) == (None, "", 1)
    last["worse"] = 1
    alone, why, _ = own._guard(last, after(0.9, 0.01))
    assert alone == 2 and "worse than the best copy 2 times in a row" in why, why
    assert own._guard(last, after(0.4, 0.01)) == (None, "", 0), "not in a row"
    last["merged"].pop("1")
    assert own._guard(last, after(0.9, 0.01)) == (None, "", 1), "one copy is no merge"

    os.mkdir(folder + "/round-3")
    members = {str(number): {"token": token, "ranges": [[10 * number, 10 * number + 5]]} for number, token in enumerate("abcd", 1)}
    said = {}
    for number, (about, base, token) in enumerate([(3, "base", "a"), (2, "base", "b"), (3, "other", "c"), (3, "base", "earlier")], 1):
        path = folder + "/round-3/copy-%d" % number
        line = {"round": about, "base": base, "token": token, "steps": number, "ranges": [[10 * number, 11 * number]], "busy_s": 1.0, "calls": {}, "loss": None, "after": None,
                "weights": write_safetensors(path + ".safetensors", {"w": torch.tensor([float(number)])})}
        torch.save({"optimizer": {0: {"exp_avg": torch.tensor([2.0 * number])}}}, path + ".pt")
        said[str(number)] = dict(line, states=digest(path + ".pt"))
        with open(path + ".json", "w") as file:
            json.dump(said[str(number)], file)
    assert list(own.folder.handed_in({"round": 3, "members": members}, "base")) == [1], "those of another round, base or process are not taken"
    weights, states = own._merged(3, {key: said[key] for key in ("1", "3")})
    assert weights["w"].tolist() == [2.5] and states["optimizer"][0]["exp_avg"].tolist() == [5.0], (weights, states)
    write_safetensors(folder + "/round-3/copy-1.safetensors", {"w": torch.tensor([9.0])})
    try:
        own._merged(3, {"1": said["1"]})
        raise AssertionError("other files than the copy wrote")
    except MergeError:
        pass
"#;
    python::run(&python, &["-"], input);
}

/// The model is worse after each merge: one copy continues to the end, and the other one prints a message and
/// ends.
#[test]
fn a_training_whose_merges_are_worse_goes_on_as_one_copy() {
    let Some(python) = python::with_torch() else { return };
    let input = r#"
import os, subprocess, sys, tempfile

with tempfile.TemporaryDirectory() as folder:
    def start(number):
        own = dict(os.environ, HSCHED_COPY=str(number), HSCHED_COPIES="2", HSCHED_ROUND_DIR=folder + "/rounds", HSCHED_CHECKPOINT_DIR=folder, PYTHONPATH="templates", OMP_NUM_THREADS="1")
        return subprocess.Popen([sys.executable, "tests/it/copies_train.py", "30", "0.05", "worse"], env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = [process.communicate()[0].decode() for process in [start(1), start(2)]]
    alone = [text for text in said if "this one exits" in text]
    assert len(alone) == 1 and "worse than the best copy 2 times in a row" in alone[0], said
    assert [text.count("epochs 30") for text in said].count(1) == 1, said
"#;
    python::run(&python, &["-"], input);
}

/// The copy that decided on a round died before it wrote the round's checkpoint. Two other copies wait for
/// it, and must not wait for each other.
#[test]
fn copies_that_all_wait_go_on_from_the_last_checkpoint() {
    let Some(python) = python::with_torch() else { return };
    let input = r#"
import json, os, subprocess, sys, tempfile

# The training program with a predictable token.
PROGRAM = """
import runpy, secrets, sys
token = "token-" + sys.argv.pop()
secrets.token_hex = lambda _: token
runpy.run_path("tests/it/copies_train.py")
"""
with tempfile.TemporaryDirectory() as folder:
    os.mkdir(folder + "/rounds")
    member = lambda number, ranges: {"token": "token-%d" % number, "ranges": ranges}
    decided = {"round": 1, "epoch": 0, "by": [3, "token-3"], "members": {"1": member(1, []), "2": member(2, []), "3": member(3, [[0, 10]])}, "speeds": {},
               "length_s": 1, "alone": None, "why": "", "worse": 0, "calls": {}, "left": [], "merged": {}}
    with open(folder + "/rounds/round-1.json", "w") as file:
        json.dump(decided, file)
    for number in (1, 2):  # both are alive before either looks
        with open(folder + "/rounds/alive-%d.json" % number, "w") as file:
            json.dump({"token": "token-%d" % number, "gone": False, "waits": False}, file)
    def start(number):
        own = dict(os.environ, HSCHED_COPY=str(number), HSCHED_COPIES="3", HSCHED_ROUND_DIR=folder + "/rounds", HSCHED_CHECKPOINT_DIR=folder, PYTHONPATH="templates", OMP_NUM_THREADS="1")
        return subprocess.Popen([sys.executable, "-c", PROGRAM, "2", str(number)], env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    copies = [start(1), start(2)]
    try:
        said = [process.communicate(timeout=300)[0].decode() for process in copies]
    finally:
        for process in copies:
            process.kill()
    assert all("epochs 2" in text for text in said), said
"#;
    python::run(&python, &["-"], input);
}

/// Three copies of unequal speed: one is killed during a round, a fourth one joins, and one is asked to stop.
#[test]
fn copies_come_and_go_and_every_step_is_done_once() {
    let Some(python) = python::with_torch() else { return };
    let input = r#"
import glob, json, os, signal, subprocess, sys, tempfile, time
sys.path.insert(0, "tests/it")
from copies_done import done_steps

def wait(what, test, limit=300):
    until = time.monotonic() + limit
    while not test():
        assert time.monotonic() < until, "%s: %s" % (what, [open(own).read()[-2000:] for own in sorted(glob.glob(folder + "/out-*"))])
        time.sleep(0.02)

def start(number):
    own = dict(os.environ, HSCHED_COPY=str(number), HSCHED_COPIES="4", HSCHED_ROUND_DIR=folder + "/ck/rounds", HSCHED_CHECKPOINT_DIR=folder + "/ck",
               HSCHED_COPY_ROUND_S="2", HSCHED_COPY_SILENCE_S="10", HSCHED_GPU_TYPE="t%d" % number, PYTHONPATH="templates:examples/sweep",
               HSCHED_REPORT=folder + "/report-%d" % number, OMP_NUM_THREADS="1")
    out = open(folder + "/out-%d" % number, "w")
    program = ["examples/sweep/copies.py", "--epochs", "6", "--step-ms", "30", "--slow", "t2=3"]
    return subprocess.Popen([sys.executable] + program, env=own, stdout=out, stderr=out)

def rounds():
    return [json.load(open(path)) for path in sorted(glob.glob(folder + "/ck/rounds/round-*.json"), key=lambda path: int(path.rsplit("-", 1)[1][:-5]))]

def checkpointed():
    path = folder + "/ck/rounds/checkpoint.json"
    return json.load(open(path))["round"] if os.path.exists(path) else 0

with tempfile.TemporaryDirectory() as folder:
    copies = {number: start(number) for number in (1, 2, 3)}
    # Waits for the checkpoint of the round. If copy 3 was the only one in the round before and is killed
    # earlier, the steps merged into the round are rightly repeated.
    wait("three copies", lambda: any(len(own["members"]) == 3 and own["round"] <= checkpointed() for own in rounds()))
    copies[3].kill()
    copies[4] = start(4)
    wait("a fourth", lambda: any("4" in own["members"] and "3" not in own["members"] for own in rounds()))
    copies[2].send_signal(signal.SIGUSR1)
    assert copies[2].wait(300) == 85
    assert copies[1].wait(300) == 0 and copies[4].wait(300) == 0, open(folder + "/out-1").read() + open(folder + "/out-4").read()
    done, steps = done_steps(rounds()), 57
    assert done == {(epoch, step): 1 for epoch in range(6) for step in range(steps)}, "not once: %s" % {k: v for k, v in done.items() if v != 1}
    last = lambda number: [line for line in open(folder + "/out-%d" % number) if line.startswith("epoch 6")]
    assert last(1) == last(4) and last(1), "the copies ended with different models: %s %s" % (last(1), last(4))
    assert "rate 0.000000" in last(1)[0], "the schedule goes by the steps of all copies"

    # A job without copies resumes from the merged checkpoint.
    plain = dict(os.environ, HSCHED_CHECKPOINT_DIR=folder + "/ck", PYTHONPATH="templates:examples/sweep", OMP_NUM_THREADS="1")
    plain.pop("HSCHED_COPY", None)
    said = subprocess.run([sys.executable, "examples/sweep/copies.py", "--epochs", "7"], env=plain, stdout=subprocess.PIPE, check=True).stdout.decode()
    assert "resumes after step %d" % (6 * steps) in said and "epoch 7 of 7" in said, said
"#;
    python::run(&python, &["-"], input);
}

/// Merges files that Python wrote, and refuses invalid numbers, copies without steps, and files of another
/// format.
#[test]
fn consolidate_merges_files() {
    let Some(python) = python::with_torch() else { return };
    let sandbox = Sandbox::new();
    let write = format!(
        r#"
import sys
sys.path.insert(0, "templates")
import torch
from hsched_ddp.merge import write_safetensors
folder = {:?}
model = lambda w, mean, var, count: {{"w": torch.tensor(w), "bn.running_mean": torch.tensor([mean]), "bn.running_var": torch.tensor([var]), "bn.num_batches_tracked": torch.tensor(count)}}
write_safetensors(folder + "/a.safetensors", model([1.0, 2.0], 0.0, 1.0, 300))
write_safetensors(folder + "/b.safetensors", model([3.0, -2.0], 2.0, 3.0, 100))
write_safetensors(folder + "/nan.safetensors", model([float("nan"), -2.0], 2.0, 3.0, 100))
"#,
        sandbox.work("")
    );
    python::run(&python, &["-"], &write);
    let parts = "a.safetensors=300 b.safetensors=100";
    let json =
        sandbox.run(&format!("consolidate --output out.safetensors {parts} --dry-run --format json")).json();
    assert_eq!((&json["dry_run"], sandbox.work("out.safetensors").exists()), (&json!(true), false));
    assert_eq!(
        sandbox.run(&format!("consolidate --output out.safetensors {parts} --dry-run")).succeeds(),
        "would merge 2 copies with 400 steps into out.safetensors\n"
    );
    let json = sandbox
        .run("consolidate --output out.safetensors a.safetensors=300 b.safetensors=100 --format json")
        .json();
    assert_eq!(
        json,
        json!({
            "schema": "hsched.consolidate/1", "dry_run": false, "steps": 400, "weights": [0.75, 0.25],
        })
    );
    let read = format!(
        "import sys\nsys.path.insert(0, 'templates')\nfrom hsched_ddp.merge import read_safetensors\nown = read_safetensors({:?})\n\
         assert own['w'].tolist() == [1.5, 1.0] and own['bn.running_var'].tolist() == [2.25] and int(own['bn.num_batches_tracked']) == 300, own\n",
        sandbox.work("out.safetensors")
    );
    python::run(&python, &["-"], &read);
    let said =
        sandbox.run("consolidate --output out.safetensors a.safetensors=1 nan.safetensors=1").fails(78);
    assert!(said.contains("w of nan.safetensors has numbers that are not finite"), "{said}");
    sandbox.run("consolidate --output out.safetensors a.safetensors=0").fails(78);
    sandbox.run("consolidate --output out.safetensors a.safetensors").fails(2);
    let said = sandbox
        .file("c.safetensors", "nothing")
        .run("consolidate --output out.safetensors c.safetensors=1")
        .fails(78);
    assert!(said.contains("c.safetensors: is not a safetensors file"), "{said}");
}
