"""Programs that call `prepare`, and evaluation: equal to one process, or refused with the reason."""
import itertools
import random
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import hsched_ddp
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset

from faults import refused
from passes import MICRO, SHARES, data, network, plain
from world import World, difference

prepare_module = sys.modules["hsched_ddp.prepare"]
"""The module: `hsched_ddp.prepare` is its function of the same name."""


class Stream(IterableDataset):  # type: ignore[type-arg]
    """A stream of consecutive samples that counts its reads and does not know its position."""

    def __init__(self, samples: int) -> None:
        self.rows, self.reads = data(samples), 0

    def __iter__(self) -> Iterator[Any]:
        for row in self.rows:
            self.reads += 1
            yield row


class Resumable(Stream):
    place = 0

    def __iter__(self) -> Iterator[Any]:
        while self.place < len(self.rows):
            self.place += 1
            self.reads += 1
            yield self.rows[self.place - 1]
        self.place = 0

    def state_dict(self) -> Dict[str, int]:
        return {"place": self.place}

    def load_state_dict(self, state: Dict[str, int]) -> None:
        self.place = state["place"]


def worlds(world: World, name: str, parts: Sequence[Any], train: Callable[[Any, Optional[int]], List[Any]]) -> Optional[float]:
    """Trains on some ranks, then on others: (shares, micro-batches, steps); returns the difference from one process."""
    result: List[Any] = []
    for shares, micro, limit in parts:
        me = world.rank(shares, micro, epochs=2, checkpoint_dir=world.path(name))
        if me:
            hsched_ddp.core.started = me
            result = train(me, limit)
        torch.distributed.barrier()
    alone = world.alone(sum(parts[0][0]), epochs=2, checkpoint_dir=world.path(name + " alone"))
    if alone is None:
        return None
    hsched_ddp.core.started = alone
    return difference(result, train(alone, None))


def by(world: World, dataset: Callable[[], Any], **more: Any) -> Callable[[Any, Optional[int]], List[Any]]:
    """Returns a program of a few lines that trains on a data set."""
    def train(me: Any, limit: Optional[int]) -> List[Any]:
        model = network()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        # The default process group has more ranks than this world.
        prepare_module.DistributedDataParallel = lambda own: world.wrapped(own, me)
        training, loader = hsched_ddp.prepare(model, optimizer, dataset(), scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 7), save_every=100, **more)
        done = 0
        for _ in training.epochs():
            for step in training.steps(loader):
                plain(training, step, optimizer)
                training.stateful["scheduler"].step()
                done += 1
                if done == limit:
                    training.save()
                    return list(model.parameters())
        return list(model.parameters())
    return train


def prepared(world: World) -> Optional[float]:
    return worlds(world, "prepared", [(SHARES, MICRO, 8), ((5, 2, 1), (2, 2, 1), None)], by(world, lambda: data(43)))


def prepared_with_workers(world: World) -> Optional[float]:
    return worlds(world, "workers", [(SHARES, MICRO, None)], by(world, lambda: data(43), num_workers=1))


def stream(world: World) -> Optional[float]:
    """45 samples in batches of 8: five steps per epoch, and a stop after seven."""
    return worlds(world, "stream", [(SHARES, MICRO, 7), ((5, 2, 1), (2, 2, 1), None)], by(world, lambda: Stream(45)))


def stream_that_tells_its_place(world: World) -> Optional[float]:
    made: List[Any] = []

    def make() -> Any:
        made.append(Resumable(45))
        return made[-1]
    figure = worlds(world, "resumable", [(SHARES, MICRO, 7), ((5, 2, 1), (2, 2, 1), None)], by(world, make))
    if world.me.rank == 0:  # the second run began with the third of five steps
        assert made[1].reads == 45 - 16, made[1].reads
    return figure


class Shuffled(Stream):
    """A stream that draws random numbers, for its order and for its samples."""

    def __iter__(self) -> Iterator[Any]:
        for place in torch.randperm(len(self.rows)).tolist():
            self.reads += 1
            yield self.rows[place][0] + 0.1 * torch.randn(6) + random.random(), self.rows[place][1]


def stream_with_random_numbers(world: World) -> Optional[float]:
    """The stream's random numbers are equal on all ranks, although the training's are not."""
    return worlds(world, "shuffled", [(SHARES, MICRO, 7), ((5, 2, 1), (2, 2, 1), None)], by(world, lambda: Shuffled(45)))


def other_streams(world: World) -> Optional[float]:
    """Streams that differ between ranks, or that come without `prepare`, and several workers: refused."""
    me = world.rank(SHARES, MICRO, epochs=1, checkpoint_dir=world.path("other streams"))
    if me:
        hsched_ddp.core.started = me

        class Own(Stream):
            def __iter__(self) -> Iterator[Any]:
                yield from itertools.islice(super().__iter__(), me.rank, None)
        refused(ValueError, ["read different streams"], lambda: by(world, lambda: Own(45))(me, None))
        refused(ValueError, ["one worker at most"], lambda: by(world, lambda: Stream(45), num_workers=2)(me, None))
        model = world.wrapped(network(), me)
        training = hsched_ddp.Training(me, hsched_ddp.BatchSampler(16, me), model)
        refused(ValueError, ["pass the IterableDataset to hsched_ddp.prepare()"], lambda: next(training.steps(DataLoader(Stream(45), batch_size=4))))
    return None


def refusals(world: World) -> Optional[float]:
    """What `prepare` cannot do, with the reason."""
    me = world.alone(8)
    if not me:
        return None
    hsched_ddp.core.started = me
    model, rows = network(), data(16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for words, arguments in (
            ("models=[...]", ([model, model], optimizer, rows)), ("takes a torch.nn.Module", (3, optimizer, rows)),
            ("prepare() wraps it", (world.wrapped(network(), me), optimizer, rows)), ("DataParallel", (nn.DataParallel(model), optimizer, rows)),
            ("lazy layers", (nn.LazyLinear(3), optimizer, rows)), ("no parameters to train", (nn.ReLU(), optimizer, rows)),
            ("several optimizers", (model, [optimizer], rows)), ("not the model's", (network(), optimizer, rows)),
            ("pass loader.dataset", (model, optimizer, DataLoader(rows))), ("a length and an index", (model, optimizer, iter([1])))):
        refused(ValueError, [words], lambda: hsched_ddp.prepare(*arguments))
    hsched_ddp.core.started = None
    refused(ValueError, ["remove init_process_group"], lambda: hsched_ddp.prepare(model, optimizer, rows))
    return 0.0


def evaluation(world: World) -> Optional[float]:
    """Disjoint parts of 17, 3, 1 and no samples, in the middle of an epoch: exact sums, no sample twice, and no hang."""
    me = world.rank((6, 1, 1), (3, 1, 1), checkpoint_dir=world.path("evaluation"), report_file=world.path("report-%d" % world.me.rank), epochs=1)
    if not me:
        return None
    hsched_ddp.core.started = me
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    prepare_module.DistributedDataParallel = lambda own: world.wrapped(own, me)
    training, loader = hsched_ddp.prepare(model, optimizer, data(40))
    worst = 0.0
    for _ in training.epochs():
        for step in training.steps(loader):
            plain(training, step, optimizer)
            for samples in (17, 3, 1, 0):
                rows, seen, total = data(samples, seed=9), 0, 0.0
                for inputs, labels in training.evaluate(rows, batch_size=2):
                    outputs = training.model(inputs)  # with gradients, as a careless program has it
                    seen, total = seen + len(labels), total + float(functional.cross_entropy(outputs, labels, reduction="sum"))
                seen, total = training.sum([seen, total])
                assert seen == samples, (seen, samples)
                if samples:
                    worst = max(worst, abs(total - float(functional.cross_entropy(model(rows.tensors[0]), rows.tensors[1], reduction="sum"))) / total)
        training.metrics["accuracy"] = total
    with open(me.report_file) as file:
        assert '"accuracy": 0.0' in file.read()
    return worst


CASES = [prepared, prepared_with_workers, stream, stream_that_tells_its_place, stream_with_random_numbers, other_streams, refusals, evaluation]
