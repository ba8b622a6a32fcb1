//! Jobs that take turns: at the gate, parked, with their tensors on the host, and stopped while parked.

use crate::python::{run, with_torch};

/// Two ranks of a small training program, and the actions of hsched to park them.
const DRIVER: &str = r#"
import json, os, select, signal, socket, subprocess, sys, tempfile

TRAIN = '''
import sys
sys.path.insert(0, "templates")
import hsched_ddp as hsched
import torch
from torch.utils.data import DataLoader, TensorDataset
me = hsched.init(global_batch=8, epochs=4)
torch.manual_seed(1)
data = TensorDataset(torch.randn(64, 16), torch.randn(64, 1))
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.BatchNorm1d(32), torch.nn.Linear(32, 1))
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
sampler = hsched.BatchSampler(len(data), me)
loader = DataLoader(data, batch_sampler=sampler)
training = hsched.Training(me, sampler, model, optimizer=optimizer)
training.resume()
for epoch in training.epochs():
    if me.gate:
        sys.stdin.readline()  # until hsched has sent its request
    for step in training.steps(loader):
        for inputs, wanted in step:
            step.scale(torch.nn.functional.mse_loss(model(inputs), wanted)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=epoch % 2 == 0)
if me.rank == 0:
    print("%.12f" % sum(float(own.double().norm()) for own in model.state_dict().values()))
hsched.leave()
'''

class Ranks:
    def __init__(self, folder, gated=True, want="go", **env):
        self.folder, self.gate = folder, os.path.join(tempfile.mkdtemp(), "gate")
        os.mkfifo(self.gate + ".bell")
        self.bell = os.open(self.gate + ".bell", os.O_RDWR | os.O_NONBLOCK)
        self.number = 0
        if gated:
            self.want(want)
            env["HSCHED_GATE"] = self.gate
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            env["MASTER_PORT"] = str(free.getsockname()[1])
        env.update(HSCHED_CHECKPOINT_DIR=folder, MASTER_ADDR="127.0.0.1", WORLD_SIZE="2", HSCHED_GLOBAL_BATCH="8", HSCHED_BATCHES="5,3", OMP_NUM_THREADS="1")
        self.ranks = [subprocess.Popen([sys.executable, "-c", TRAIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True,
                                       env=dict(os.environ, RANK=str(rank), HSCHED_REPORT=os.path.join(folder, "report-%d" % rank), **env)) for rank in range(2)]

    def want(self, want):
        self.number += 1
        with open(self.gate + ".new", "w") as file:
            json.dump({"number": self.number, "want": want}, file)
        os.replace(self.gate + ".new", self.gate)
        for rank in range(2):
            try:
                bell = os.open("%s.%d.bell" % (self.gate, rank), os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                continue  # the rank does not listen yet and reads the file first
            os.write(bell, b"!")
            os.close(bell)

    def are(self, state):
        """Waits until both ranks have acknowledged the last request with this state."""
        while True:
            said = []
            for rank in range(2):
                try:
                    said.append(json.load(open("%s.%d" % (self.gate, rank))))
                except FileNotFoundError:
                    pass
            if [(own["number"], own["state"]) for own in said] == [(self.number, state)] * 2:
                assert [own["pid"] for own in said] == [rank.pid for rank in self.ranks]
                return
            assert all(rank.poll() is None for rank in self.ranks), "a rank is gone"
            assert select.select([self.bell], [], [], 60)[0], (state, self.number, said)
            os.read(self.bell, 4096)

    def go_on(self, epochs=1):
        for rank in self.ranks:
            rank.stdin.write("\n" * epochs)
            rank.stdin.flush()

    def end(self, status=0):
        printed = [rank.communicate()[0] for rank in self.ranks]
        assert [rank.returncode for rank in self.ranks] == [status] * 2, [rank.returncode for rank in self.ranks]
        return printed[0]

    def epochs(self):
        return [len(open(os.path.join(self.folder, "report-%d" % rank)).readlines()) for rank in range(2)]

def parked():
    ranks = Ranks(tempfile.mkdtemp())
    ranks.are("running")
    ranks.want("park")
    ranks.go_on()
    ranks.are("parked")
    assert ranks.epochs() == [1, 1] and os.path.exists(os.path.join(ranks.folder, "hsched-ddp.pt"))
    return ranks
"#;

fn check(steps: &str) {
    let Some(python) = with_torch() else { return };
    assert_eq!(run(&python, &["-"], &format!("{DRIVER}{steps}print(\"done\")\n")), "done\n");
}

#[test]
fn who_waits_at_the_gate_is_parked_and_offloaded_ends_as_if_nothing_had_been() {
    check(
        r#"
right = Ranks(tempfile.mkdtemp(), gated=False).end()
ranks = Ranks(tempfile.mkdtemp(), want="park")
ranks.are("waiting")
ranks.want("go")
ranks.are("running")
ranks.want("park")
ranks.go_on()
ranks.are("parked")
ranks.want("offload")
ranks.are("offloaded")
ranks.want("park")
ranks.are("parked")
ranks.want("go")
ranks.are("running")
ranks.want("offload")
ranks.go_on()
ranks.are("offloaded")
assert ranks.epochs() == [2, 2]
ranks.want("go")
ranks.are("running")
ranks.want("park")
ranks.want("go")  # before the ranks have seen the request
ranks.go_on()
ranks.are("running")
assert ranks.epochs() == [3, 3]
ranks.go_on()
assert ranks.end() == right != ""
"#,
    );
}

#[test]
fn a_stop_that_reaches_one_parked_rank_ends_all_and_nothing_is_lost() {
    check(
        r#"
right = Ranks(tempfile.mkdtemp(), gated=False).end()
for want in "park", "offload":
    ranks = parked()
    if want == "offload":
        ranks.want(want)
        ranks.are("offloaded")
    ranks.ranks[1].send_signal(signal.SIGUSR1)
    ranks.end(85)
    again = Ranks(ranks.folder, HSCHED_EPOCHS_DONE="1")
    again.go_on(3)
    assert again.end() == right and again.epochs() == [4, 4]
"#,
    );
}

#[test]
fn who_waits_too_long_ends_whether_hsched_lives_or_not() {
    check(
        r#"
Ranks(tempfile.mkdtemp(), want="park", HSCHED_GATE_LIMIT_S="0.1").end(85)
at_the_gate = Ranks(tempfile.mkdtemp(), want="park")
at_the_gate.are("waiting")
at_the_gate.ranks[0].send_signal(signal.SIGUSR1)
at_the_gate.end(85)
ranks = Ranks(tempfile.mkdtemp(), HSCHED_GATE_LIMIT_S="0.1")
ranks.are("running")
ranks.want("park")
ranks.go_on()
ranks.end(85)
assert ranks.epochs() == [1, 1]
"#,
    );
}

/// After a move to the host and back, references to a tensor, its storage or a part of it see the same
/// values.
#[test]
fn what_was_moved_to_the_host_is_where_it_was() {
    check(
        r#"
sys.path.insert(0, "templates")
from hsched_ddp import gate
import numpy, torch
one, other = torch.arange(10.0), torch.full((3,), 7, dtype=torch.int64)
view, foreign = one[2:4], torch.from_numpy(numpy.ones(3))
moved = gate.Moved(torch.device("cpu"))
moved.take(gate.tensors_in({"a": [one, view], "b": {"c": (other, 5)}, "d": foreign, "e": torch.empty(0)}))
moved.take([one])
held = [tensor.storage().untyped() if not hasattr(tensor, "untyped_storage") else tensor.untyped_storage() for tensor in (one, view, other)]
assert [len(storage) for storage in held] == [0, 0, 0] and foreign.tolist() == [1, 1, 1]
moved.put_back()
moved.put_back()
assert one.tolist() == list(range(10)) and view.tolist() == [2, 3] and other.tolist() == [7, 7, 7]
view += 1
assert one.tolist()[:4] == [0, 1, 3, 4]
"#,
    );
}
