"""Faults that used to be silent: each case is exact, refused with the reason, or causes a warning."""
import os
import random
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence

import hsched_ddp
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from passes import MICRO, SHARES, compare, data, network, plain, trained
from world import World, difference


class Noting(Dataset):  # type: ignore[type-arg]
    """A data set that records which samples were taken."""

    def __init__(self, samples: int) -> None:
        self.inner, self.taken = data(samples), []  # type: ignore[var-annotated]

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, index: int) -> Any:
        self.taken.append(index)
        return self.inner[index]


def in_turn(world: World, samples: int, parts: Sequence[Any], epochs: int = 2) -> Optional[float]:
    """Trains on some ranks, then on others, each from the previous checkpoint: (shares, micro-batches, steps); returns the difference from one process.

    Each sample must be taken once in an epoch.
    """
    def part(me: Any, limit: Optional[int], whole: bool = False) -> Any:
        me = hsched_ddp.replace(me, epochs=epochs, checkpoint_dir=world.path("whole" if whole else "in turn"))
        model, noting = world.wrapped(network(), me), Noting(samples)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        sampler = hsched_ddp.BatchSampler(samples, me)
        training = hsched_ddp.Training(me, sampler, model, optimizer=optimizer, save_every=100)
        training.resume()
        loader, done = DataLoader(noting, batch_sampler=sampler), 0
        for _ in training.epochs():
            for step in training.steps(loader):
                plain(training, step, optimizer)
                done += 1
                if done == limit:
                    training.save()
                    return model, noting.taken
        return model, noting.taken

    taken: List[int] = []
    model: Any = None
    for shares, micro, limit in parts:
        me = world.rank(shares, micro)
        if me:
            model, own = part(me, limit)
            taken += own
        torch.distributed.barrier()
    everything: List[Any] = [None] * world.me.world_size
    torch.distributed.all_gather_object(everything, taken)
    counts = torch.bincount(torch.tensor(sum(everything, [])), minlength=samples).tolist()
    assert counts == [epochs] * samples, "samples were not taken once in each epoch: %s" % counts
    alone = world.alone(sum(parts[0][0]))
    return difference(list(model.parameters()), list(part(alone, None, True)[0].parameters())) if alone else None


def resume_2_4_ranks(world: World) -> Optional[float]:
    """83 samples in batches of 8: 2 ranks, and 4 ranks from step 10 on, when three samples are left."""
    return in_turn(world, 83, [((6, 2), (3, 2), 10), ((3, 2, 2, 1), (2, 2, 2, 1), None)], epochs=1)


def resume_2_6_ranks(world: World) -> Optional[float]:
    return in_turn(world, 83, [((6, 2), (3, 2), 10), ((2, 2, 1, 1, 1, 1), (1, 1, 1, 1, 1, 1), None)], epochs=1)


def resume_2_4_3_ranks(world: World) -> Optional[float]:
    return in_turn(world, 83, [((6, 2), (3, 2), 4), ((3, 2, 2, 1), (2, 2, 2, 1), 5), ((5, 2, 1), (2, 2, 1), None)])


def resume_4_2_ranks(world: World) -> Optional[float]:
    """The epoch keeps its division for four ranks, unlike that of one process, so only the samples are checked."""
    in_turn(world, 83, [((3, 2, 2, 1), (2, 2, 2, 1), 10), ((6, 2), (3, 2), None)])
    return 0.0


def refused(kind: Any, words: Sequence[str], act: Callable[[], Any]) -> None:
    try:
        act()
    except kind as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError("not refused: %s" % ", ".join(words))


def started(world: World, me: Any, model: Any = None, samples: int = 16, **more: Any) -> Any:
    model = model or network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler = hsched_ddp.BatchSampler(samples, me)
    return hsched_ddp.Training(me, sampler, world.wrapped(model, me), optimizer=optimizer, **more), sampler


def broken_batches(world: World) -> Optional[float]:
    """A loader or a collate_fn that hands out another number of samples than the rank's share."""
    me = world.alone(8)
    if me:
        training, sampler = started(world, me)
        rows = data(16)

        def generator() -> Any:
            for start in range(0, 16, 4):
                yield rows[start:start + 4]

        def dropping(samples: List[Any]) -> Any:
            return torch.utils.data.default_collate([own for own in samples if float(own[0][0]) > -0.5])
        refused(ValueError, ["4 samples", "share is 8"], lambda: [list(step) for step in training.steps(generator())])
        loader = DataLoader(rows, batch_sampler=sampler, collate_fn=dropping)
        refused(ValueError, ["samples, but its share is 8", "collate_fn"], lambda: [list(step) for step in training.steps(loader)])
        for fine in (lambda own: own, lambda own: tuple(zip(*own)), lambda own: {"x": torch.stack([row[0] for row in own]), "meta": ["a"] * 8},
                     lambda own: [torch.zeros(50, 8), torch.zeros(8)], lambda own: torch.zeros(50, 8, 3), lambda own: [torch.zeros(3, 4, 4) for _ in own], lambda own: object()):
            training.step = 0
            assert [len(list(step)) for step in training.steps(DataLoader(rows, batch_sampler=sampler, collate_fn=fine))] == [1, 1]
        training.step = 0
        packed = DataLoader(rows, batch_sampler=sampler, collate_fn=lambda own: torch.zeros(100))
        assert [len(list(step)) for step in training.steps(packed, count=lambda batch: 100)] == [1, 1]
    return 0.0


def warned(world: World) -> Optional[float]:
    """Losses for which the number of samples is the wrong weight; a plain mean never causes a warning."""
    me = world.alone(8)
    if not me:
        return 0.0
    weight, inputs = torch.tensor([1.0, 2.0, 3.0]), torch.randn(8, 3, 5)
    labels = torch.randint(0, 3, (8, 5))
    minus_one, minus_100 = labels.clone(), labels.clone()
    minus_one[0, 1], minus_100[0, 1] = -1, -100
    cross = functional.cross_entropy
    cases: List[Any] = [
        ("count=", lambda own: cross(own, labels, weight=weight), "mean"), ("count=", lambda own: cross(own, minus_one, ignore_index=-1), "mean"),
        ("!= -1)", lambda own: cross(own, minus_one, ignore_index=-1) + 0.1 * own.pow(2).mean(), "mean"), ("count=", lambda own: cross(own, minus_100), "mean"),
        ("reduction='sum'", lambda own: cross(own, labels, reduction="sum"), "mean"), ("reduction='sum'", lambda own: own.pow(2).sum(), "mean"),
        ("reduction='mean'", lambda own: cross(own, labels), "sum"),
        ("count=", lambda own: cross(own.transpose(1, 2).reshape(-1, 3), minus_one.reshape(-1), ignore_index=-1, label_smoothing=0.1), "mean"),
        ("", lambda own: cross(own, labels), "mean"), ("", lambda own: cross(own, labels, label_smoothing=0.1), "mean"), ("", lambda own: own.pow(2).mean(), "mean"),
        ("", lambda own: functional.mse_loss(own, own.detach() + 1), "mean"), ("", lambda own: cross(own, labels, reduction="sum") / 40, "mean"),
        ("", lambda own: cross(own, labels, reduction="none").mean(), "mean"), ("", lambda own: functional.binary_cross_entropy_with_logits(own[:, 0], torch.ones(8, 5)), "mean"),
        ("", lambda own: cross(own, labels) / 4 + own.abs().mean(), "mean"), ("", lambda own: cross(own, labels, reduction="sum"), "sum"), ("", lambda own: own.pow(2).sum(), "sum")]
    for words, loss_of, reduction in cases:
        training, sampler = started(world, me)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(2):
                for step in training.steps(DataLoader(data(16), batch_sampler=sampler)):
                    for _ in step:
                        step.scale(loss_of((inputs + 0.0).requires_grad_(True)), reduction)
        texts = [str(own.message) for own in said]
        assert len(texts) == bool(words) and all(words in text for text in texts), (words, texts)
    training, sampler = started(world, me)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in training.steps(DataLoader(data(16), batch_sampler=sampler), count=lambda batch: 3.0):
            for _ in step:
                step.scale(cross(inputs.requires_grad_(True), labels, weight=weight))
    return 0.0


def dropout_differs(world: World) -> Optional[float]:
    """Masks differ between ranks with the same seed; a resume repeats those that were drawn after the checkpoint."""
    me = world.rank((1, 1, 1), checkpoint_dir=world.path("dropout"))
    if me:
        torch.manual_seed(2)
        training, _ = started(world, me)
        training.save()

        def drawn() -> Any:
            return torch.stack([functional.dropout(torch.ones(64)), torch.full((64,), random.random()), torch.rand(64)])
        own = drawn()
        others = [torch.empty_like(own) for _ in range(3)]
        torch.distributed.all_gather(others, own, group=me.group)
        assert not any(torch.equal(others[a][k], others[b][k]) for k in range(3) for a, b in ((0, 1), (0, 2), (1, 2)))
        training.resume()
        assert torch.equal(drawn(), own)
    return 0.0


def many_files(folder: str) -> List[str]:
    return sorted(os.listdir(folder))


def flipped_bit(world: World) -> Optional[float]:
    """A damaged checkpoint is refused by name, and the previous one is used; files left behind by killed writers are removed."""
    me = world.rank(SHARES, MICRO, checkpoint_dir=world.path("flipped"))
    if me:
        training, sampler = started(world, me)
        path, folder = training.path, world.path("flipped")
        training.save()
        for step in training.steps(DataLoader(data(16), batch_sampler=sampler)):
            plain(training, step, training.stateful["optimizer"])
            break
        training.save()
        assert many_files(folder) == ["hsched-ddp.before.pt", "hsched-ddp.pt", "hsched-ddp.pt.sha256"], many_files(folder)
        assert training.resume() and training.step == 1
        torch.distributed.barrier(group=me.group)
        if me.rank == 0:
            with open(path, "r+b") as file:
                content = file.read()
                file.seek(content.index(training.stateful["model"].state_dict()["0.weight"].numpy().tobytes()) + 7)
                file.write(b"\x7f")
            for name in ("hsched-ddp.pt.0123456789abcdef.tmp", "hsched-ddp.pt.sha256.0123456789abcdef.tmp"):
                with open(os.path.join(folder, name), "w") as file:
                    file.write("what a killed writer left")
        torch.distributed.barrier(group=me.group)
        training, _ = started(world, me)
        assert training.resume() and training.step == 0
        torch.distributed.barrier(group=me.group)
        assert len(many_files(folder)) == 3, many_files(folder)
        training.save()
        assert training.resume() and training.step == 0
        torch.distributed.barrier(group=me.group)
        if me.rank == 0:
            for name in (path, os.path.join(folder, "hsched-ddp.before.pt")):
                os.truncate(name, os.path.getsize(name) // 2)
        torch.distributed.barrier(group=me.group)
        refused(RuntimeError, ["the one before cannot be used either"] if me.rank == 0 else ["another rank"], training.resume)
    return 0.0


def scaler(world: World) -> Optional[float]:
    """A GradScaler, if torch has one for CPUs."""
    make = getattr(torch.amp, "GradScaler", None) if hasattr(torch, "amp") else None
    own = make("cpu", init_scale=128.0) if make else torch.cuda.amp.GradScaler(enabled=False)

    def body(training: Any, step: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        for inputs, labels in step:
            own.scale(step.scale(functional.cross_entropy(training.model(inputs), labels))).backward()
        own.unscale_(optimizer)
        nn.utils.clip_grad_norm_(training.model.parameters(), 0.05)
        own.step(optimizer)
        own.update()
    return compare(world, body, scaler=own)


def averaged_model(world: World) -> Optional[float]:
    """An exponential moving average of the weights, saved with the rest; around DistributedDataParallel it is refused."""
    me = world.rank(SHARES, MICRO)
    if me:
        model = world.wrapped(network(), me)
        refused(ValueError, ["ema contains a DistributedDataParallel", ".module"],
                lambda: hsched_ddp.Training(me, hsched_ddp.BatchSampler(16, me), model, ema=nn.Sequential(model)))
    averages: Dict[int, Any] = {}

    def body(training: Any, step: Any, optimizer: Any) -> None:
        plain(training, step, optimizer)
        average = averages.setdefault(training.me.world_size, torch.optim.swa_utils.AveragedModel(training.model.module))
        average.update_parameters(training.model.module)
    figure = compare(world, body)
    return figure if figure is None else max(figure, difference(list(averages[2].parameters()), list(averages[1].parameters())))


def compiled(world: World) -> Optional[float]:
    """torch.compile around and in DistributedDataParallel, if torch has it."""
    if not hasattr(torch, "compile"):
        return None
    inside = compare(world, plain, make=lambda: torch.compile(network(), backend="aot_eager"))
    around = compare(world, plain, wrap=lambda model: torch.compile(model, backend="aot_eager"))
    return None if inside is None or around is None else max(inside, around)


def persistent_workers(world: World) -> Optional[float]:
    return compare(world, plain, loader={"num_workers": 1, "persistent_workers": True})


def batch_norm(world: World) -> Optional[float]:
    """Both ranks have the same buffers after the training."""
    def make() -> nn.Module:
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    me = world.rank(SHARES)
    if me:
        buffers = trained(world, me, plain, make=make, samples=48)[-3:]
        others: List[Any] = [None, None]
        torch.distributed.all_gather_object(others, buffers, group=me.group)
        return difference(others[0], others[1])
    return None


def sync_batch_norm(world: World) -> Optional[float]:
    """Layers in which ranks meet, with unequal passes or a rank without samples: refused.

    Tanh takes the place of SyncBatchNorm, which needs GPUs.
    """
    me, ddp = world.rank(SHARES, MICRO), torch.nn.SyncBatchNorm
    torch.nn.SyncBatchNorm = nn.Tanh  # type: ignore[misc,assignment]
    if me:
        refused(ValueError, ["unequal numbers of passes", "max_batch"], lambda: started(world, me))
    training, sampler = started(world, world.rank((5, 2, 1)), samples=10)
    sampler.cut(1)  # as one process: eight samples, and two for three ranks
    training.left = [[1, sampler.steps]]
    refused(ValueError, ["needs a sample on every rank"], lambda: next(training.steps(DataLoader(data(10), batch_sampler=sampler))))
    torch.nn.SyncBatchNorm = ddp  # type: ignore[misc]
    return 0.0


CASES = [resume_2_4_ranks, resume_4_2_ranks, resume_2_6_ranks, resume_2_4_3_ranks, broken_batches, warned, dropout_differs, flipped_bit, scaler, averaged_model,
         compiled, persistent_workers, batch_norm, sync_batch_norm]
