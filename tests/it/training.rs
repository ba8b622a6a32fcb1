//! The handling of samples, losses, loaders and models by `hsched_ddp`; `tests/ddp` tests several ranks at once.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::python::{run, with_torch};
use crate::real_cluster::repository;
use crate::sandbox::Sandbox;

/// Every epoch is the whole permutation; every rank has a part in every step; blocks do not depend on the
/// number of ranks, if it is at most a quarter of the global batch.
#[test]
fn no_rank_is_without_a_sample_and_no_sample_is_taken_twice() {
    let input = r#"
import itertools, random, sys
sys.path.insert(0, "templates")
sys.modules["torch"] = None
import hsched_ddp as hsched

def samplers(batches, samples, micro_batch, **more):
    rank = hsched.read_rank({"RANK": "0", "WORLD_SIZE": str(len(batches)), "HSCHED_GLOBAL_BATCH": str(sum(batches)),
                             "HSCHED_BATCHES": ",".join(map(str, batches))})
    ranks = [hsched.replace(rank, rank=k, micro_batch=micro_batch) for k in range(len(batches))]
    return [hsched.BatchSampler(samples, rank, seed=3, **more) for rank in ranks]

draw = random.Random(5)
for _ in range(3000):
    batches = [draw.randint(1, 9) for _ in range(draw.randint(1, 7))]
    batch, ranks = sum(batches), len(batches)
    samples, micro_batch = draw.randint(ranks, 5 * batch), draw.randint(1, 9)
    case = (batches, samples, micro_batch)
    own = samplers(batches, samples, micro_batch)
    alone, = samplers([batch], samples, 10 ** 6)
    taken = []
    rows = [iter(sampler) for sampler in own]
    for step in range(own[0].steps):
        parts = [[next(row) for _ in sampler.parts(step)] for sampler, row in zip(own, rows)]
        for sampler, part in zip(own, parts):
            sizes = list(map(len, part))
            assert sizes == sampler.parts(step) and 0 < min(sizes) and max(sizes) <= micro_batch, case
            assert sum(sizes) <= sampler.me.batch or sampler.block(step) > batch, case
            assert max(sizes) - min(sizes) <= 1 and len(sizes) == -(-sum(sizes) // micro_batch), case
            if sampler.me.batch > 1 and sampler.block(step) >= 2 * ranks:
                assert sum(sizes) > 1, case
            if sampler.block(step) == batch:
                assert sum(sizes) == sampler.me.batch, case
        block = list(itertools.chain(*itertools.chain(*parts)))
        assert len(block) == own[0].block(step), case
        taken += block
    assert all(next(row, None) is None for row in rows) and all(len(sampler) == len(list(sampler)) for sampler in own), case
    assert sorted(taken) == list(range(samples)) and taken == list(itertools.chain(*alone)), case
    if 2 * ranks <= batch:
        assert own[0].steps == alone.steps == -(-samples // batch), case
    if 4 * ranks <= batch:
        assert [own[0].block(step) for step in range(own[0].steps)] == list(map(len, alone)), case
    if samples >= batch:
        short = samplers(batches, samples, micro_batch, drop_last=True)[0]
        assert {short.block(step) for step in range(short.steps)} == {batch} and short.steps == samples // batch, case

first, = samplers([9], 9, 3)
assert hsched.BatchSampler(7, hsched.replace(first.me, batches=(7,))).parts(0) == [3, 2, 2]
for batches, samples in ((2, 2, 1), 2), ((4,), 0):
    try:
        samplers(batches, samples, 1)
    except ValueError as error:
        assert "2 samples are too few for 3 ranks" in str(error) or "too few for one step" in str(error), error
    else:
        raise SystemExit("a step without samples was taken")
print("done")
"#;
    assert_eq!(run("python3", &["-"], input), "done\n");
}

/// The number of samples of each rank in a plan equals the number that the rank takes.
#[test]
fn the_plan_knows_what_each_rank_takes_of_an_epoch() {
    let mut jobs = String::from("jobs:\n");
    let cases =
        [(100_000, 512), (66, 64), (65, 64), (103, 32), (130, 64), (50, 64), (27, 8), (28, 8), (83, 11)];
    for (number, (samples, batch)) in cases.into_iter().enumerate() {
        writeln!(
            jobs,
            "  - {{name: j{number}, samples_per_epoch: {samples}, epochs: 1, global_batch: {batch}, model_size: 0, \
             min_gpus: 6, throughput: {{v100: 644, t4: 97}}, command: x}}"
        )
        .expect("text");
    }
    let cluster = "nodes: [{name: 'a[1-9]', gpus: {v100: 3}}, {name: 'b[1-9]', gpus: {t4: 3}}]";
    let sandbox = Sandbox::new().file("cluster.yaml", cluster).file("jobs.yaml", jobs);
    let plan = sandbox.run("plan jobs.yaml --cluster cluster.yaml --format json").json();
    let program = r#"
import json, sys
sys.path.insert(0, "templates")
sys.modules["torch"] = None
import hsched_ddp as hsched
jobs = json.loads(sys.argv[1])
for job in jobs:
    assert job["verdict"] == "place" and len(job["ranks"]) >= 6, job["name"]
    batches = tuple(rank["batch"] for rank in job["ranks"])
    variables = {"WORLD_SIZE": str(len(batches)), "HSCHED_GLOBAL_BATCH": str(sum(batches)), "HSCHED_BATCHES": ",".join(map(str, batches))}
    for rank in job["ranks"]:
        me = hsched.read_rank(dict(variables, RANK=str(rank["rank"])))
        sampler = hsched.BatchSampler(job["spec"]["samples_per_epoch"], me)
        assert sum(map(len, sampler)) == rank["samples"], (job["name"], batches, rank)
print(len(jobs))
"#;
    assert_eq!(run("python3", &["-c", program, &plan["jobs"].to_string()], ""), "9\n");
}

/// Micro-batches are loaded one by one; the number of items in a loss is known or requested.
#[test]
fn a_step_hands_out_its_micro_batches_and_counts_what_their_losses_are_taken_over() {
    let Some(python) = with_torch() else { return };
    let input = r#"
import os, sys, tempfile, warnings
sys.path.insert(0, "templates")
import hsched_ddp as hsched
import torch
from torch.nn.functional import cross_entropy

folder = tempfile.TemporaryDirectory()
os.environ["HSCHED_CHECKPOINT_DIR"] = folder.name
me = hsched.replace(hsched.init(global_batch=7), micro_batch=3)
model = torch.nn.Linear(2, 3)
sampler = hsched.BatchSampler(15, me)
training = hsched.Training(me, sampler, model)
loaded = []

def batches():
    for indices in sampler:
        loaded.append(indices)
        yield torch.tensor(indices)

# 15 samples are a whole global batch and two blocks of four samples.
seen = []
for step in training.steps(batches()):
    before = len(loaded)
    for k, batch in enumerate(step):
        assert len(loaded) == before + k + 1, "what is not yet needed was loaded"
        seen.append((step.size, step.is_last, len(batch)))
assert seen == [(7, False, 3), (7, False, 2), (7, False, 2), (4, False, 2), (4, False, 2), (4, True, 2), (4, True, 2)], seen
assert sorted(sum(loaded, [])) == list(range(15))

training.step, expected = 0, list(sampler)
for number, step in enumerate(training.steps(batches())):
    if number != 1:  # a skipped batch does not become that of the next step
        assert next(iter(step)).tolist() == expected[3 * number - number // 2]
training.step = 0
for step in training.steps(batches(), keep=True):
    assert [batch.tolist() for batch in step] == [batch.tolist() for batch in step] != []
training.step = 0
step = next(training.steps(batches()))
assert len(list(step)) == 3
try:
    list(step)
    raise SystemExit("micro-batches that are gone were handed out again")
except RuntimeError as error:
    assert "keep=True" in str(error)

# Of the three micro-batches of the first step, the second one has no label.
inputs, labels = torch.randn(7, 2), torch.tensor([0, 1, -100, -100, -100, 2, -100])
parts = [(inputs[:3], labels[:3]), (inputs[3:5], labels[3:5]), (inputs[5:], {"labels": labels[5:]})]
value = lambda labels: labels["labels"] if isinstance(labels, dict) else labels

def told(passes, reduction="mean", **more):
    training = hsched.Training(me, hsched.BatchSampler(7, me), model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for again in range(2):
            training.step = 0
            for step in training.steps(passes, **more):
                for batch, labels in step:
                    step.scale(cross_entropy(model(batch), value(labels), reduction=reduction), reduction).backward()
    return training, [str(warning.message) for warning in caught if warning.filename == "<stdin>"]

training, said = told(parts, count=lambda batch: int((value(batch[1]) != -100).sum()))
gradient = model.weight.grad / 2
model.zero_grad()
right = cross_entropy(model(inputs), labels)
right.backward()
assert (gradient - model.weight.grad).norm() < 1e-6 * model.weight.grad.norm(), (gradient, model.weight.grad)
loss = training._line(1.0)["metrics"]["loss"]
assert abs(loss - float(right)) < 1e-6 and not said, (loss, right, said)
for passes in parts, [(batch, {"labels": value(labels)}) for batch, labels in parts]:
    said = told(passes)[1]
    assert len(said) == 1 and "count=lambda batch" in said[0], said
labelled = [(batch, value(labels).clamp(min=0)) for batch, labels in parts]
assert told(labelled)[1] == [] and told(parts, "sum")[1] == []
print("done")
"#;
    assert_eq!(run(&python, &["-"], input), "done\n");
}

#[test]
fn a_sum_of_means_over_samples_counts_as_a_mean() {
    let Some(python) = with_torch() else { return };
    let input = r#"
import sys, warnings
sys.path.insert(0, "templates")
import torch
from torch.nn.functional import cross_entropy, mse_loss
from hsched_ddp.losses import LossCheck

out, labels = torch.randn(8, 3, requires_grad=True), torch.zeros(8, dtype=torch.int64)

def is_warned_of(loss):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        LossCheck(False).look(loss, "mean", 8, None)
    assert all("the loss is a sum" in str(warning.message) for warning in caught), caught
    return bool(caught)

squares = (out - 1) ** 2
means = [squares.mean(0).sum(), squares.mean(-2).sum(), squares.mean((0, 1)).sum(), (2 * squares.mean(0)).sum(), squares.mean(),
         torch.stack([cross_entropy(out, labels), mse_loss(out, out.detach())]).sum(), cross_entropy(out, labels)]
assert [is_warned_of(loss) for loss in means] == [False] * len(means)
sums = [squares.sum(), squares.mean(1).sum(), squares.mean(-1).sum(), cross_entropy(out, labels, reduction="none").sum()]
assert [is_warned_of(loss) for loss in sums] == [True] * len(sums)
print("done")
"#;
    assert_eq!(run(&python, &["-"], input), "done\n");
}

/// All trained models are recognised, and a loader with other batches is refused.
#[test]
fn models_and_loaders_that_would_train_wrongly_in_silence_are_refused() {
    let Some(python) = with_torch() else { return };
    let input = r#"
import os, sys, tempfile
sys.path.insert(0, "templates")
import hsched_ddp as hsched
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

def refused(words, act):
    try:
        act()
    except ValueError as error:
        assert words in str(error), error
    else:
        raise SystemExit("not refused: " + words)

class Pair:
    def __init__(self, model):
        self.model = model
    def state_dict(self):
        return {}

class Net(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

with tempfile.TemporaryDirectory() as folder:
    os.environ["HSCHED_CHECKPOINT_DIR"] = folder
    me = hsched.init(global_batch=4)
    sampler = hsched.BatchSampler(8, me)
    wrapped = lambda: DistributedDataParallel(torch.nn.Linear(3, 1))
    one, two = wrapped(), wrapped()
    for hidden in two, Pair(two), Net(two), Pair(Net(two)), Net(Net(two)), Pair([two]), Pair({"a": two}):
        refused("critic contains a DistributedDataParallel model", lambda: hsched.Training(me, sampler, one, critic=hidden))
    refused("model contains a DistributedDataParallel model", lambda: hsched.Training(me, sampler, Net(two)))
    refused("models=[...]", lambda: hsched.Training(me, sampler))
    together = hsched.replace(me, batches=(2, 2), world_size=2)
    refused("got DistributedDataParallel, Linear", lambda: hsched.Training(together, sampler, models=[two, two.module]))

    training = hsched.Training(me, sampler, models=[one, two], critic=Pair(two.module))
    assert training.model is one and training.models == [one, two]
    training.save()
    saved = torch.load(training.path, weights_only=True)["state"]
    assert sorted(saved) == ["critic", "model", "model 2"] and torch.equal(saved["model 2"]["weight"], two.module.weight)
    other = hsched.Training(me, sampler, wrapped(), models=[wrapped()])
    assert other.resume() and all(torch.equal(a.module.weight, b.module.weight) for a, b in zip(other.models, [one, two]))

    more = hsched.Training(me, sampler, models=[one, two], critic=Pair(two.module), best=Pair(None))
    refused("hsched-ddp.pt has no state of best, which the program has added since", more.resume)

    loader = DataLoader(TensorDataset(torch.randn(8, 3)), batch_sampler=sampler)
    prepared = type("DataLoaderShard", (DataLoader,), {"__module__": "accelerate.data_loader"})(loader.dataset, batch_sampler=sampler)
    refused("accelerate has prepared this loader", lambda: next(other.steps(prepared)))
    loader._is_accelerate_prepared = True
    refused("accelerate has prepared this loader", lambda: next(other.steps(loader)))
print("done")
"#;
    assert_eq!(run(&python, &["-"], input), "done\n");
}

/// The device `meta` computes nothing and has no values to read, so code that would wait for a GPU fails on it.
#[test]
fn a_step_does_not_wait_for_the_device() {
    let Some(python) = with_torch() else { return };
    let input = r#"
import os, sys, tempfile
sys.path.insert(0, "templates")
import hsched_ddp as hsched
import torch
import torch.distributed as dist

folder = tempfile.TemporaryDirectory()
os.environ["HSCHED_CHECKPOINT_DIR"] = folder.name
asked = []
begin = dist.init_process_group
dist.init_process_group = lambda backend, **more: (asked.append(backend), begin("gloo", **more))
me = hsched.init(global_batch=7, backend="nccl")
assert asked == ["nccl"] and dist.get_backend(me.control) == "gloo" and me.control is not dist.group.WORLD

made = torch.tensor
def tensor(*values, device=None, **more):
    assert device is None or torch.device(device).type == "cpu", "values are sent to the device"
    return made(*values, device=device, **more)

device = torch.device("meta")
me = hsched.replace(me, device=device, micro_batch=3)
model = torch.nn.Linear(3, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
training = hsched.Training(me, hsched.BatchSampler(21, me), model)
torch.tensor = tensor
for count in None, len:
    training.step, passes = 0, 0
    for step in training.steps(training.sampler, count=count):
        for batch in step:
            step.scale(model(torch.empty(len(batch), 3, device=device)).mean()).backward()
            passes += 1
        optimizer.step()
    assert passes == 9 and training.loss.device == device
print("done")
"#;
    assert_eq!(run(&python, &["-"], input), "done\n");
}

/// A `PyTorch` that was built without libuv, such as Debian's, requests it anyway.
#[test]
fn a_process_group_begins_also_without_libuv() {
    let input = r#"
import os, sys, types
sys.path.insert(0, "templates")
sys.modules["torch"] = None
import hsched_ddp as hsched
from hsched_ddp import core

tried = []
def init_process_group(backend, **more):
    tried.append(os.environ.get("USE_LIBUV"))
    if tried[-1] != "0":
        raise RuntimeError(reason)

core.torch = types.SimpleNamespace(cuda=types.SimpleNamespace(is_available=lambda: False), device=lambda name: types.SimpleNamespace(type=name))
core.dist = types.SimpleNamespace(init_process_group=init_process_group, HashStore=lambda: None)
os.environ.pop("USE_LIBUV", None)
reason = "use_libuv was requested but PyTorch was build without libuv support"
hsched.init(2)
assert tried == [None, "0"], tried

del os.environ["USE_LIBUV"]
reason = "no route to host"
try:
    hsched.init(2)
except RuntimeError as error:
    print(tried[2:], error)
"#;
    assert_eq!(run("python3", &["-"], input), "[None] no route to host\n");
}

/// The cases of `tests/ddp`, on real ranks, with the installed torch; `tests/frameworks` runs them with others.
#[test]
fn unequal_ranks_train_as_one_process_does() {
    let Some(python) = with_torch() else { return };
    let text = run(&python, &["tests/ddp/run.py"], "");
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    let cases = answer["cases"].as_array().expect("cases");
    let documented = fs::read_to_string(repository().join("docs/training.md")).expect("the page");
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        assert_eq!(case["problem"], Value::Null, "{case}");
        assert!(case["figure"].as_f64().unwrap_or_default() < 1e-12, "{case}");
        assert!(
            documented.contains(&format!("| `{name}` |")),
            "{name} is not in the table of docs/training.md"
        );
    }
    assert!(cases.len() > 25, "{} cases", cases.len());
}
