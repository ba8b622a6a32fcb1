"""Replicas of several ranks: FSDP, tensor parallelism by torch and by hand; unequal shares and sizes give the same result as one process."""
import os
import re
import runpy
import signal
import tempfile
from typing import Any, Callable, List, Optional, Sequence

import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, TensorDataset

import fleet
import hsched_ddp
import shares_cases
from passes import data
from replica_models import ByHand, HandCheckpoint, Sparse, WholeCheckpoint
from shares_cases import offer, shares
from world import difference

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "replicas", "train.py")
SAMPLES, EPOCHS = 43, 3
IS_NEW = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 6)
"""Whether torch has the features that the example needs."""
WITH_ANY_TORCH = ("by hand", "sparse")
"""The kinds that do not need these features."""


class Program:
    """A training of a kind on some replicas, which perhaps stops itself."""

    def __init__(self, kind: str, folder: str, stop_at: int = -1, epochs: int = EPOCHS, count: bool = False, fail_from: int = -1) -> None:
        self.kind, self.folder, self.stop_at, self.epochs, self.count, self.fail_from = kind, folder, stop_at, epochs, count, fail_from

    def __call__(self) -> Any:
        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float64)
        me = hsched_ddp.init(replica_size=1)
        if self.kind == "by hand":
            model: Any = ByHand(me)
            optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.3)
            checkpoint: Any = HandCheckpoint(me, model)
        elif self.kind == "sparse":
            model = Sparse()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
            checkpoint = WholeCheckpoint(me, model)
        else:
            own = runpy.run_path(EXAMPLE)
            torch.manual_seed(3)
            model = nn.Sequential(nn.Linear(6, 8), own["Block"](8), own["Block"](8), nn.Linear(8, 3))
            own["shard"](model, self.kind, me.replica_mesh)
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
            checkpoint = own["Checkpoint"](model, optimizer, me.replica_group)
        rows = Noting(self.folder, me)
        sampler = hsched_ddp.BatchSampler(SAMPLES, me)
        training = hsched_ddp.Training(hsched_ddp.replace(me, epochs=self.epochs), sampler, model, optimizer=optimizer, checkpoint=checkpoint)
        training.resume()
        loader = DataLoader(rows, batch_sampler=sampler)
        for epoch in training.epochs():
            for step in training.steps(loader, count=(lambda batch: float((batch[1] > 0).sum())) if self.count else None):
                optimizer.zero_grad()
                for inputs, labels in step:
                    kept = nn.functional.cross_entropy(model(inputs), labels.masked_fill(labels == 0, -1) if self.count else labels, ignore_index=-1,
                                                       reduction="sum" if self.count else "mean")
                    step.scale(kept, "sum" if self.count else "mean").backward()
                optimizer.step()
                if training.global_step == self.stop_at and me.rank == me.world_size - 1:
                    os.kill(os.getpid(), signal.SIGUSR1)
            with torch.no_grad():
                right = sum(int((model(inputs).argmax(1) == labels).sum()) for inputs, labels in training.evaluate(data(17)))
            training.metrics["right"] = training.sum([right])[0]
            if epoch == self.fail_from:
                checkpoint.fails = True
        whole = checkpoint.whole() if self.kind in WITH_ANY_TORCH else [one.detach().full_tensor() for one in model.parameters()]
        seen = [float(one) for name, one in model.named_buffers() if name == "seen"]
        try:
            hsched_ddp.leave()
        except SystemExit:
            return whole, seen, training.me.batches
        raise AssertionError("leave() returned")


class Noting(TensorDataset):
    """Data that notes which samples each rank took."""

    def __init__(self, folder: str, me: Any) -> None:
        super().__init__(*data(SAMPLES).tensors)
        self.path = os.path.join(folder, "took-%d" % me.rank)

    def __getitem__(self, index: int) -> Any:
        with open(self.path, "a") as file:
            file.write("%d\n" % index)
        return super().__getitem__(index)


def took(folder: str, rank: int) -> List[int]:
    path = os.path.join(folder, "took-%d" % rank)
    return [int(line) for line in open(path)] if os.path.exists(path) else []


def alone(kind: str, batch: int = 8, **more: Any) -> List[Any]:
    """Returns the weights of one process, which is a replica of one rank."""
    with tempfile.TemporaryDirectory(prefix="hsched-alone-") as folder:
        ended = fleet.run(Program(kind, folder, **more), (batch,), folder, sizes=(1,))
    assert ended[0].status == 0, ended[0].said
    return list(ended[0].result[0])


def compared(kind: str, sizes: Sequence[int], batches: Sequence[int], micro: Sequence[int], **more: Any) -> Optional[float]:
    """Returns how far replicas are from one process; checks samples, reports and weights of all ranks."""
    if kind not in WITH_ANY_TORCH and not IS_NEW:
        return None
    with tempfile.TemporaryDirectory(prefix="hsched-replicas-") as folder:
        ended = fleet.run(Program(kind, folder, **more), batches, folder, micro, sizes=sizes)
        assert all(own.status == 0 for own in ended), [own.said for own in ended]
        check_samples(folder, sizes)
        check_reports(folder, sizes, batches)
    for own in ended:
        assert difference(own.result[0], ended[0].result[0]) == 0.0, "ranks have different weights"
        assert own.result[1] == ended[0].result[1], "buffers differ"
    return difference(ended[0].result[0], alone(kind, sum(batches), **more))


def check_samples(folder: str, sizes: Sequence[int]) -> None:
    """Checks that the ranks of a replica took the same samples, and all replicas together every sample once an epoch."""
    first, everything = 0, []
    for size in sizes:
        own = [took(folder, rank) for rank in range(first, first + size)]
        assert all(one == own[0] for one in own), own
        everything += own[0]
        first += size
    assert sorted(everything) == sorted(list(range(SAMPLES)) * EPOCHS), everything


def check_reports(folder: str, sizes: Sequence[int], batches: Sequence[int]) -> None:
    """Checks that the first rank of each replica reports, and no other one."""
    first, samples = 0, [0] * EPOCHS
    for replica, (size, batch) in enumerate(zip(sizes, batches)):
        lines = fleet.reports(folder, first)
        assert [line["epoch"] for line in lines] == list(range(1, EPOCHS + 1)), lines
        assert all(line["replica"] == replica and line["rank"] == first and line["batch"] == batch for line in lines), lines
        assert all(line["metrics"] == own["metrics"] for line, own in zip(lines, fleet.reports(folder, 0))), lines
        assert all(line["metrics"]["right"] <= 17 for line in lines), lines
        samples = [count + line["samples"] for count, line in zip(samples, lines)]
        assert not any(fleet.reports(folder, rank) for rank in range(first + 1, first + size))
        first += size
    assert samples == [SAMPLES] * EPOCHS, samples


def replicas_fsdp() -> Optional[float]:
    """Two replicas of two ranks with unequal shares, and unequal numbers of passes."""
    return compared("fsdp", (2, 2), (5, 3), (2, 3))


def replicas_tensor_parallel() -> Optional[float]:
    return compared("tensor", (2, 2), (5, 3), (2, 3))


def replicas_by_hand() -> Optional[float]:
    """Tensor parallelism with process groups alone, as with any torch; the buffers are those of the first replica."""
    return compared("by hand", (2, 2), (5, 3), (2, 3))


def replicas_with_sparse_gradients() -> Optional[float]:
    """Gradients stay sparse, as some optimizers need them, though they are averaged as a whole."""
    return compared("sparse", (2, 1), (3, 5), (3, 2))


def replicas_of_other_sizes() -> Optional[float]:
    """Replicas of 2 and of 1 rank, which hold different parts of the model."""
    own = [compared(kind, (2, 1), (3, 5), (3, 2)) for kind in ("fsdp", "tensor")]
    return max(one for one in own if one is not None) if IS_NEW else None


def replicas_with_counts() -> Optional[float]:
    """Losses over counted labels, which are summed once for each replica."""
    return compared("by hand", (2, 2), (5, 3), (2, 3), count=True)


def resumed(kind: str) -> Optional[float]:
    """Stops within an epoch by a signal to one rank, and resumes on other replicas, twice; every sample is taken once."""
    if kind != "by hand" and not IS_NEW:
        return None
    with tempfile.TemporaryDirectory(prefix="hsched-replicas-") as folder:
        everything: List[int] = []
        for sizes, batches, stop_at in (((2, 2), (5, 3), 2), ((2, 1, 1) if kind != "by hand" else (1, 1, 1), (3, 3, 2), 8), ((2,), (8,), -1)):
            for name in os.listdir(folder):
                if name.startswith("took-"):
                    os.unlink(os.path.join(folder, name))
            ended = fleet.run(Program(kind, folder, stop_at=stop_at), batches, folder, sizes=sizes)
            assert all(own.status == (85 if stop_at > 0 else 0) for own in ended), [own.said for own in ended]
            everything += [one for replica in range(len(sizes)) for one in took(folder, sum(sizes[:replica]))]
            kept = [name for name in os.listdir(os.path.join(folder, "checkpoints")) if name.startswith("sharded-")]
            assert len(kept) <= 2, kept
        assert sorted(everything) == sorted(list(range(SAMPLES)) * EPOCHS), everything
        assert [line["epoch"] for line in fleet.reports(folder)] == list(range(1, EPOCHS + 1)), fleet.reports(folder)
    return difference(ended[0].result[0], alone(kind))


def replicas_resumed_fsdp() -> Optional[float]:
    return resumed("fsdp")


def replicas_resumed_tensor_parallel() -> Optional[float]:
    return resumed("tensor")


def replicas_resumed_by_hand() -> Optional[float]:
    return resumed("by hand")


def replicas_failed_save() -> Optional[float]:
    """One rank cannot write its part: all fail, and the training resumes from the checkpoint before."""
    with tempfile.TemporaryDirectory(prefix="hsched-replicas-") as folder:
        ended = fleet.run(Program("by hand", folder, fail_from=2), (5, 3), folder, sizes=(2, 2))
        assert all(own.status == 1 and "cannot be written" in own.said for own in ended), [own.said for own in ended]
        assert "the disk is full" in ended[1].said, ended[1].said
        kept = [name for name in os.listdir(os.path.join(folder, "checkpoints")) if name.startswith("sharded-")]
        assert len(kept) == 1, kept
        ended = fleet.run(Program("by hand", folder), (5, 3), folder, sizes=(2, 2))
        assert all(own.status == 0 for own in ended), [own.said for own in ended]
    return difference(ended[0].result[0], alone("by hand"))


def replicas_new_shares() -> Optional[float]:
    """A file of new shares has one number for each replica."""
    with tempfile.TemporaryDirectory(prefix="hsched-replicas-") as folder:
        offer(folder, shares(1, [2, 6], [2, 6]))
        ended = fleet.run(Program("by hand", folder), (5, 3), folder, sizes=(2, 2), SHARES=os.path.join(folder, "shares.json"))
        assert all(own.status == 0 and own.result[2] == (2, 6) for own in ended), [own.said for own in ended]
    return difference(ended[0].result[0], alone("by hand"))


def replicas_of_one_rank() -> Optional[float]:
    """`replica: {gpus: 1}` changes nothing for a program in DistributedDataParallel."""
    def trained_by(shares: Sequence[int], sizes: Optional[Sequence[int]]) -> List[Any]:
        with tempfile.TemporaryDirectory(prefix="hsched-replicas-") as folder:
            ended = fleet.run(lambda: shares_cases.train(folder, lambda place, epoch: None), shares, folder, sizes=sizes, EPOCHS=2)
        assert all(own.status == 0 for own in ended), [own.said for own in ended]
        return list(ended[0].result[0])
    assert difference(trained_by((5, 3), (1, 1)), trained_by((5, 3), None)) == 0.0
    return difference(trained_by((5, 3), (1, 1)), trained_by((8,), None))


class Nothing:
    """A checkpoint that is never written."""

    def save(self, folder: str) -> None:
        raise AssertionError("nothing is saved")

    load = save


def refused(make: Callable[[Any], Any], words: str, sizes: Sequence[int] = (2, 2), **variables: Any) -> None:
    """Checks that a program is refused on all ranks, with these words."""
    def program() -> None:
        me = hsched_ddp.init(replica_size=1)
        try:
            make(me)
        except (ValueError, RuntimeError) as error:
            assert re.search(words, str(error)), error
            distributed.barrier()  # the first rank serves the others
            return
        raise AssertionError("nothing was refused: %s" % words)
    with tempfile.TemporaryDirectory(prefix="hsched-replicas-") as folder:
        ended = fleet.run(program, [2] * len(sizes), folder, sizes=sizes, **variables)
        assert all(own.status == 0 for own in ended), (words, [own.said for own in ended])


def trained(me: Any, model: Any, **more: Any) -> Any:
    return hsched_ddp.Training(me, hsched_ddp.BatchSampler(16, me), model, **dict({"checkpoint": Nothing()}, **more))


def replicas_refusals() -> Optional[float]:
    def layer() -> nn.Module:
        return nn.Linear(4, 2)

    refused(lambda me: trained(me, layer(), checkpoint=None), "pass checkpoint=")
    refused(lambda me: trained(me, layer(), checkpoint=object()), "has no method save")
    refused(lambda me: trained(me, nn.parallel.DistributedDataParallel(layer())), "pass the model itself")
    refused(lambda me: trained(me, layer(), comm_hook=lambda state, bucket: None), "comm_hook")
    refused(lambda me: trained(me, nn.Linear(4, 1 + me.replica)), "shard it alike")
    refused(lambda me: trained(me, nn.Linear(4, me.replica_size)), "must be a DTensor", sizes=(2, 1))
    refused(lambda me: hsched_ddp.prepare(layer(), torch.optim.SGD(layer().parameters(), 0.1), data()), "not the model's|use init")
    if not IS_NEW:
        return None
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    def over_all_ranks(me: Any) -> Any:
        return trained(me, fully_shard(layer(), mesh=init_device_mesh("cpu", (me.world_size,))))

    def with_old_torch(me: Any) -> Any:
        hsched_ddp.replica_exchange._version = lambda: (2, 5)
        return trained(me, fully_shard(layer(), mesh=me.replica_mesh))
    refused(over_all_ranks, "pass mesh=me.replica_mesh")
    refused(with_old_torch, "from torch 2.6 on")
    return None


CASES: List[Any] = [replicas_fsdp, replicas_tensor_parallel, replicas_by_hand, replicas_with_sparse_gradients, replicas_of_other_sizes, replicas_with_counts, replicas_resumed_fsdp,
                    replicas_resumed_tensor_parallel, replicas_resumed_by_hand, replicas_failed_save, replicas_new_shares, replicas_of_one_rank,
                    replicas_refusals]
