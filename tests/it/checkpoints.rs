//! Checkpoints of `hsched_ddp`: their content, the refusal of other users' files, and checkpoints of hsched 0.1.0.

use crate::python::{run, with_torch};

/// The common beginning of these programs.
const BEGIN: &str = r#"
import collections, os, pickle, random, sys, tempfile, warnings
sys.path.insert(0, "templates")
import hsched_ddp as hsched
from hsched_ddp import checkpoint, saving
import numpy
import torch
from torch.optim import lr_scheduler

warnings.simplefilter("ignore")
root = tempfile.TemporaryDirectory()
os.environ["HSCHED_CHECKPOINT_DIR"] = root.name
me = hsched.init(global_batch=4)

def training(scheduler=None, **more):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if scheduler:
        more["scheduler"] = scheduler(optimizer)
    return hsched.Training(me, hsched.BatchSampler(40, me), model, optimizer=optimizer, **more)

def steps(own, count):
    """Trains a few steps, and returns what they depended on."""
    seen, optimizer = [], own.stateful["optimizer"]
    for _ in range(count):
        optimizer.zero_grad()
        own.model(torch.randn(4, 3)).sum().backward()
        optimizer.step()
        if "scheduler" in own.stateful:
            own.stateful["scheduler"].step(*[1.0] * isinstance(own.stateful["scheduler"], lr_scheduler.ReduceLROnPlateau))
        seen.append((optimizer.param_groups[0]["lr"], random.random(), float(numpy.random.random_sample())))
    return seen, own.model[0].weight.tolist()

def refused(words, act, kind=RuntimeError):
    try:
        act()
    except kind as error:
        assert all(word in str(error) for word in words), error
        return str(error)
    raise SystemExit("not refused: %s" % (words,))

one_cycle = lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)
"#;

fn check(program: &str) {
    let Some(python) = with_torch() else { return };
    assert_eq!(run(&python, &["-"], &format!("{BEGIN}{program}\nprint('done')\n")), "done\n");
}

/// Includes schedulers that keep methods in their state; torch can load the checkpoint with `weights_only`.
#[test]
fn a_training_goes_on_as_if_it_had_not_been_saved_and_loaded() {
    check(
        r#"
schedulers = [
    one_cycle,
    lambda own: lr_scheduler.OneCycleLR(own, 0.1, total_steps=100, anneal_strategy="linear"),
    lambda own: lr_scheduler.CyclicLR(own, 0.01, 0.1, step_size_up=7),
    lambda own: lr_scheduler.MultiStepLR(own, [3, 12]),
    lambda own: lr_scheduler.ReduceLROnPlateau(own, patience=3),
    lambda own: lr_scheduler.SequentialLR(own, [lr_scheduler.LinearLR(own), lr_scheduler.OneCycleLR(own, 0.1, total_steps=90)], [5]),
    lambda own: lr_scheduler.LambdaLR(own, lambda epoch: 0.9 ** epoch),
    lambda own: torch.optim.swa_utils.SWALR(own, 0.05),
]
for number, scheduler in enumerate(schedulers):
    one = training(scheduler)
    steps(one, 9)
    one.save()
    saved = torch.load(one.path, map_location="cpu", weights_only=True)
    assert saved["format"] == 3 and torch.equal(saved["state"]["model"]["0.weight"], one.model[0].weight), number
    assert b"_reconstruct" not in open(one.path, "rb").read(), "numpy 1 does not read arrays of numpy 2"
    wanted = steps(one, 9)
    other = training(scheduler)
    assert other.resume() and steps(other, 9) == wanted, number
    assert other.model.state_dict()._metadata == one.model.state_dict()._metadata

class Own:
    """An object of the user's own, with all that a checkpoint can hold."""
    def __init__(self, state):
        self.state = state
    def state_dict(self):
        return self.state
    def load_state_dict(self, state):
        self.state = state

ordered = collections.OrderedDict([("b", 1), ("a", 2)])
state = {"float": [0.1, float("inf"), -0.0, numpy.float64(2.5)], "text": "x", 3: None, (1, 0.5): True, "bytes": b"\x00\xff", "set": {1, 2.5}, "tuple": (1, (2.0,), ()),
         "ordered": ordered, "counter": collections.Counter("aab"), "array": numpy.arange(6.0).reshape(2, 3), "scalar": numpy.float32(0.5), "large": 2 ** 70,
         "tensor": torch.arange(3, dtype=torch.bfloat16), "flag": torch.tensor(True), "parameter": torch.nn.Parameter(torch.ones(1)), "empty": [{}, [], torch.zeros(0)]}
one, other = training(own=Own(state)), training(own=Own({}))
one.save()
assert other.resume()
again = other.stateful["own"].state
tensors = {key: state.pop(key) for key in ("array", "tensor", "flag", "parameter", "empty")}
assert all(torch.equal(torch.as_tensor(again.pop(key)), torch.as_tensor(tensors[key])) for key in ("array", "tensor", "flag", "parameter"))
assert again.pop("empty")[:2] == [{}, []] and again == state and list(again["ordered"]) == ["b", "a"], again
assert [type(again[key]) for key in ("bytes", "ordered", "counter", "scalar")] == [type(state[key]) for key in ("bytes", "ordered", "counter", "scalar")]

# A value that could not be loaded is refused by name, before the first epoch and on saving, and the old checkpoint stays.
before = open(one.path, "rb").read()
for wrong, kind in (Own(1), "__main__.Own"), (lambda: 1, "builtins.function"), (collections.deque(), "collections.deque"), (1j, "builtins.complex"), (open, "builtins."):
    one = training(scaler=Own({"parts": [0, wrong]}))
    words = "scaler cannot be saved in a checkpoint: its state['parts'][1] is a " + kind
    refused([words], lambda: next(one.epochs()), hsched.Refused)
    refused(["cannot write the checkpoint", words], one.save)
    assert open(one.path, "rb").read() == before
own = Own({})
own.state_dict = lambda: 1 // 0  # a part that is not ready yet is not checked
assert next(training(own=own).epochs()) == 1
"#,
    );
}

/// No code in a file is executed, regardless of its format, and the error names the file and the reason.
#[test]
fn a_foreign_checkpoint_runs_nothing_and_is_refused() {
    check(
        r#"
own = training()
own.save()
good = torch.load(own.path, weights_only=True)
trace = os.path.join(root.name, "it ran")

class Evil:
    def __reduce__(self):
        return os.mkdir, (trace,)

class Built:
    """Harmless in itself: its state is what runs."""
    def __init__(self):
        self.inner = Evil()

class Module(torch.nn.Module):
    def forward(self, x):
        return x

def put(value, **how):
    torch.save(value, own.path, **how)
    if os.path.exists(own.path + ".sha256"):
        refused([own.path + " was refused: it has changed since it was written", "if you changed it, remove"], own.resume)
        os.remove(own.path + ".sha256")

def is_refused(*words):
    said = refused([own.path, *words], own.resume)
    assert not os.path.exists(trace), said

for name, value in (("it", Evil()), ("a key", {Evil(): 1}), ("a state", dict(good, state={"model": Evil()})), ("a plan", dict(good, plan=Evil())), ("built", Built())):
    put(value)
    is_refused("was refused: its content", " is a " if name != "a key" else "keys is a ")
put(dict(good, state={"scheduler": {"anneal_func": Evil()}}))
is_refused("was refused", "['state']['scheduler']['anneal_func'] is a posix.mkdir")
for value in Evil(), dict(good, plan=Evil()):
    put(value, _use_new_zipfile_serialization=False)
    is_refused("it is not a complete file of torch.save")
    with open(own.path, "wb") as file:
        pickle.dump(value, file)
    is_refused("it is not a complete file of torch.save")
torch.jit.trace(Module(), torch.ones(1)).save(own.path)
is_refused("it is a program (TorchScript)")

put(dict(good, format=5))
is_refused("its format is 5, but this hsched_ddp reads only up to 4")
for value, words in (([1], "it contains a list"), ({"format": 2}, "it lacks samples, seed"), (dict(good, random=("float", "x")), "cannot be read"), (dict(good, plan=("no kind", 1)), "cannot be read")):
    put(value)
    is_refused(words)
put(good)
content = open(own.path, "rb").read()
for text in b"", b"PK\x03\x04", content[:100], content[:-1], content[:-1000], content[len(content) // 2:], b"\x00" * 1000:
    with open(own.path, "wb") as file:
        file.write(text)
    is_refused("to start over, remove it")
put(good)
assert own.resume()
# The second format counted steps.
put(dict({key: value for key, value in good.items() if key != "ranks"}, format=2, left=[[3, 10]], step=3))
assert own.resume() and own.left == [[3, 10]]
"#,
    );
}

/// A file of another user in a directory that others can write to is refused, unless a variable declares it
/// trusted.
#[test]
fn a_file_of_another_user_is_refused_where_others_can_write() {
    check(
        r#"
own = training()
own.save()
real = os.geteuid()
os.geteuid = lambda: real + 1
os.chmod(root.name, 0o777)
words = ["%s was refused: it belongs to user %d, and other users can write to its directory" % (own.path, real), "HSCHED_TRUST_CHECKPOINT=1"]
refused(words, own.resume)
os.environ["HSCHED_TRUST_CHECKPOINT"] = "0"
refused(words, own.resume)
os.environ["HSCHED_TRUST_CHECKPOINT"] = "1"
assert own.resume()
del os.environ["HSCHED_TRUST_CHECKPOINT"]

# If only its owner can write to the directory, the file is refused unless the owner is root.
os.chmod(root.name, 0o755)
refused(words, own.resume) if real != 0 else own.resume()
os.geteuid = lambda: real
os.chmod(root.name, 0o777)
assert own.resume()
"#,
    );
}

/// In a directory that others can write to, another user may place links at the names of future files.
#[test]
fn a_checkpoint_is_not_written_through_a_link() {
    check(
        r#"
import time
from hsched_ddp import merge
target = os.path.join(root.name, "target")
one = training()
os.symlink(target, one.path + ".%s.tmp" % (me.run or os.getpid()))
os.symlink(target, one.path + ".guessed.tmp")
os.umask(0o027)
one.save()
assert not os.path.exists(target) and os.stat(one.path).st_mode & 0o777 == 0o640
token_hex, checkpoint.secrets.token_hex = checkpoint.secrets.token_hex, lambda count: "guessed"
refused(["cannot write the checkpoint", "File exists"], one.save)
os.symlink(target, os.path.join(root.name, "copy-1.json.guessed.tmp"))
refused(["File exists"], lambda: merge.write_file(os.path.join(root.name, "copy-1.json"), [b"{}"]), OSError)
assert not os.path.exists(target) and os.path.islink(one.path + ".guessed.tmp")
assert one.resume()

# The next process removes files of a killed one, but no file that may still be written.
left = [one.path + end for end in (".old.tmp", ".new.tmp", ".old", ".dir.tmp")]
for path in left[:3]:
    open(path, "w").close()
os.mkdir(left[3])
for path in left[:1] + left[2:]:
    os.utime(path, (time.time() - 7200,) * 2)
training()
assert [os.path.exists(path) for path in left] == [False, True, True, True]
assert os.path.islink(one.path + ".guessed.tmp")

# Nor one that is complete and does not have its name yet.
checkpoint.secrets.token_hex = lambda count: "complete"
with checkpoint.new_file(one.path, training) as file:
    file.write(b"complete")
assert open(one.path, "rb").read() == b"complete"

# Nor the checkpoint that is about to become the previous one.
checkpoint.secrets.token_hex, replace = token_hex, os.replace
os.replace = lambda *names: (training(), replace(*names))
one.save()
assert open(root.name + "/hsched-ddp.before.pt", "rb").read() == b"complete"
"#,
    );
}

/// Files written by hsched 0.1.0, with a scheduler that refers to itself in its state before torch 2.1.
#[test]
fn a_checkpoint_of_0_1_0_resumes() {
    check(
        r#"
def save_as_before(own):
    random_states = [saving.random_state(me.device)]
    saved = dict(own._position(), epoch=own.epoch, step=own.step, left=own.left, global_step=own.global_step, plan="p", random=random_states,
                 unreported={"epoch": 1, "metrics": {"loss": 0.5}}, state={name: part.state_dict() for name, part in own.stateful.items()})
    torch.save(saved, own.path)
    if os.path.exists(own.path + ".sha256"):
        os.remove(own.path + ".sha256")

for scheduler in one_cycle, lambda own: lr_scheduler.MultiStepLR(own, [3, 12]), lambda own: lr_scheduler.ExponentialLR(own, 0.9):
    one = training(scheduler)
    one.epoch, one.left = 2, [[3, 10]]
    steps(one, 9)
    save_as_before(one)
    wanted = steps(one, 9)
    other = training(scheduler)
    assert other.resume() and (other.epoch, other.left) == (2, [[3, 10]]) and steps(other, 9) == wanted
    other.save()
    assert torch.load(other.path, weights_only=True)["format"] == 3

# A method as in OneCycleLR, at the place where this version of torch has it.
class Own:
    def __init__(self, state):
        self.state = state
    def state_dict(self):
        return self.state
    def load_state_dict(self, state):
        self.state = state

class Bound:
    def __reduce__(self):
        scheduler = one_cycle(torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1, momentum=0.9))
        return getattr, (scheduler, "get_last_lr")

one, other = training(own=Own({"rate": 0.5, "anneal_func": Bound()})), training(own=Own({}))
save_as_before(one)
assert other.resume() and other.stateful["own"].state == {"rate": 0.5}
one = training(own=Own({"rate": collections.deque([1])}))
save_as_before(one)
refused([one.path + " was refused", "its content['state']['own']['rate'] is a collections.deque"], one.resume)
"#,
    );
}
