"""Training with unequal local batches: all that a PyTorch program needs under hsched, in one file to import.

hsched gives every rank its own share of each global batch. DistributedDataParallel averages gradients over ranks as if
all shares were equal, so the loss must be weighted; this module does that. It also gives each rank its samples, reports
speeds, saves checkpoints, and stops on SIGUSR1. See docs/training.md of hsched.

It also works under torchrun and as a single process; the shares are then equal. Without torch, only `init`,
`BatchSampler`, `Rank.report` and `stop_requested` are available. Needs Python 3.8 and, if used, torch 1.13. You may copy
this file freely.
"""
from __future__ import annotations

import atexit
import collections
import contextlib
import datetime
import io
import json
import logging
import math
import multiprocessing.util
import os
import pickle
import random
import re
import resource
import secrets
import select
import signal
import stat
import sys
import time
import types
import warnings
import weakref
import zipfile
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

try:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
except ModuleNotFoundError:
    torch = None  # type: ignore[assignment]

SAVED = 85  # the exit status of a rank that saved its state and wants to be continued

FORMAT = 2  # of checkpoints; those of hsched 0.1.0 have no key `format`, and are of the first

_PARKED = {"park": "parked", "offload": "offloaded"}  # wishes on which a training waits, and its state then

Ranges = List[List[int]]  # steps of an epoch, each [first, end)
Pass = Tuple[Any, int, float]  # a micro-batch, its samples, and what its loss is taken over

_asked_to_stop = False
_left: Optional[int] = None  # the status with which `leave` ended this program


@dataclass(frozen=True)
class Rank:
    """This process: its rank, its share of each global batch, and its device."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    batches: Tuple[int, ...]  # samples of a global batch that each rank takes, by rank
    micro_batch: int  # most samples of one forward and backward pass of this rank
    epochs: int
    epochs_done: int
    job: str
    run: str
    plan: str
    gpu_type: str
    checkpoint_dir: str
    report_file: str  # where this rank reports; empty: nowhere
    grace_s: float  # seconds between the request to stop and the end
    device: Any = None  # the torch.device to compute on
    group: Any = None  # the ranks' process group; None is torch's default
    control: Any = None  # the same ranks' group for agreeing without waiting for a GPU; None is `group`
    gate: Any = None  # the Gate through which hsched parks this training; None: it does not

    @property
    def batch(self) -> int:
        """Local batch: samples of each global batch that this rank takes."""
        return self.batches[self.rank]

    @property
    def global_batch(self) -> int:
        """Samples per global batch."""
        return sum(self.batches)

    def part(self, block: int) -> Tuple[int, int]:
        """Returns where this rank's part of a block of samples begins, and its size.

        For a whole global batch, the size is `batch`. Any other block is divided in proportion; no part is empty, and
        no part has only one sample if that can be avoided. The parts of all ranks cover the block without gaps or
        overlaps.
        """
        least = [min(batch, 2) for batch in self.batches]
        if sum(least) > block:
            least = [1] * self.world_size
        if sum(least) > block:
            raise ValueError("%d samples are too few for %d ranks" % (block, self.world_size))
        edges, edge, before, after = [0], 0, 0, sum(least)
        for batch, low in zip(self.batches, least):
            before, after = before + batch, after - low
            edge = max(edge + low, before * block // self.global_batch)
            edges.append(min(edge, block - after))
        return edges[self.rank], edges[self.rank + 1] - edges[self.rank]

    def report(self, line: Mapping[str, Any]) -> None:
        """Appends a JSON line to this rank's report, if there is one. Numbers that are not finite become null."""
        if self.report_file:
            text = json.dumps(_finite(dict(line))) + "\n"
            moved = self.gate.reports if self.gate else ""
            with open(os.path.join(moved, os.path.basename(self.report_file)) if moved else self.report_file, "a") as file:
                file.write(text)  # one write: a reader sees the whole line or none


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_rank(env: Mapping[str, str], global_batch: Optional[int] = None, epochs: int = 1) -> Rank:
    """Returns the rank described by the variables of hsched or of torchrun; without either, the world size is 1.

    `global_batch` and `epochs` apply only if hsched does not set them.
    """
    alone = "RANK" not in env  # lines of setup see some variables, but are no rank
    rank, world_size = (0, 1) if alone else (int(env["RANK"]), int(env["WORLD_SIZE"]))
    planned = env.get("HSCHED_GLOBAL_BATCH")
    whole = int(planned) if planned else global_batch
    if not whole or whole < 1:
        raise ValueError("the global batch is not set: call init(global_batch=...)")
    if planned and not alone:
        batches = tuple(int(batch) for batch in env["HSCHED_BATCHES"].split(","))
    else:
        batches = tuple((k + 1) * whole // world_size - k * whole // world_size for k in range(world_size))
    if len(batches) != world_size or sum(batches) != whole or min(batches) < 1:
        raise ValueError("HSCHED_BATCHES %s does not split %d samples over %d ranks" % (batches, whole, world_size))
    return Rank(
        rank=rank, world_size=world_size,
        local_rank=0 if alone else int(env.get("LOCAL_RANK", 0)),
        local_world_size=1 if alone else int(env.get("LOCAL_WORLD_SIZE", 1)),
        batches=batches, micro_batch=max(1, batches[rank] if alone else int(env.get("HSCHED_MICRO_BATCH", batches[rank]))),
        epochs=int(env.get("HSCHED_EPOCHS", epochs)), epochs_done=int(env.get("HSCHED_EPOCHS_DONE", 0)),
        job=env.get("HSCHED_JOB", ""), run=env.get("HSCHED_RUN", ""), plan=env.get("HSCHED_PLAN", ""),
        gpu_type=env.get("HSCHED_GPU_TYPE", ""), checkpoint_dir=env.get("HSCHED_CHECKPOINT_DIR", "checkpoints"),
        report_file=env.get("HSCHED_REPORT", ""), grace_s=float(env.get("HSCHED_STOP_GRACE_S", 0)),
    )


def init(global_batch: Optional[int] = None, epochs: int = 1, backend: Optional[str] = None, timeout_s: float = 1800.0) -> Rank:
    """Handles the stop signal, chooses the device, and initialises the process group. Call it once, before anything else.

    `global_batch` and `epochs` apply only if hsched does not set them. The backend is NCCL on GPUs; it is gloo on
    CPUs, and on MIG slices, because NCCL cannot form a ring over them. With NCCL, the ranks also form a gloo group to
    agree on stops and counts. Without torch, there is no device and no process group.

    If hsched starts the job early (HSCHED_GATE), this waits until the job may use its device.
    """
    me = read_rank(os.environ, global_batch, epochs)
    signal.signal(signal.SIGUSR1, _on_stop)  # for threads that were there before
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # what is started from now on inherits this, and outlives the signal
    if os.environ.get("HSCHED_GATE"):
        me = replace(me, gate=Gate(os.environ["HSCHED_GATE"], me.rank, float(os.environ.get("HSCHED_GATE_LIMIT_S", timeout_s))))
        if me.gate.hold(dict.fromkeys(_PARKED, "waiting")):
            sys.exit(SAVED)
        me.gate.say("running")
    if torch is None:
        return me
    me = replace(me, device=_device(me))
    on_gpu = me.device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(me.device)
    if backend is None:
        sliced = "MIG-" in os.environ.get("CUDA_VISIBLE_DEVICES", "") or re.search(r"\dg\.\d+gb", me.gpu_type.lower())
        backend = "nccl" if on_gpu and not sliced and dist.is_nccl_available() else "gloo"
    timeout = datetime.timedelta(seconds=timeout_s)
    store = None if "RANK" in os.environ else dist.HashStore()  # nobody to meet, and perhaps no MASTER_ADDR
    try:
        dist.init_process_group(backend, rank=me.rank, world_size=me.world_size, timeout=timeout, store=store)
    except RuntimeError as error:
        if "libuv" not in str(error):
            raise
        # Since 2.4 PyTorch meets by libuv, and asks for it where it was built without, as Debian's.
        os.environ["USE_LIBUV"] = "0"
        dist.init_process_group(backend, rank=me.rank, world_size=me.world_size, timeout=timeout, store=store)
    return me if backend == "gloo" else replace(me, control=dist.new_group(timeout=timeout, backend="gloo"))


def _device(me: Rank) -> Any:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        return torch.device("cpu")
    index = me.local_rank if count > 1 else 0  # some sites show each rank its own device alone
    if index >= count:
        raise RuntimeError("rank %d has local rank %d, but sees only %d GPUs on its node" % (me.rank, me.local_rank, count))
    return torch.device("cuda", index)


def _check_fence() -> None:
    """Raises where a newer submission of this job has begun (HSCHED_FENCE): the checkpoint is that one's."""
    folder, _, own = os.environ.get("HSCHED_FENCE", "").rpartition("/")
    with contextlib.suppress(OSError, ValueError):  # who cannot look goes on
        if not any(name.isdigit() and int(name) > int(own) for name in os.listdir(folder)):
            return
        raise RuntimeError("a newer submission of this job has started from the last checkpoint")


def _on_stop(number: int, frame: Any) -> None:
    global _asked_to_stop
    _asked_to_stop = True


def stop_requested() -> bool:
    """Returns whether this process received the stop signal. Without `Training`, the ranks must agree on it."""
    return _asked_to_stop or signal.SIGUSR1 in signal.sigpending()


def leave(status: int = 0) -> None:
    """Exits cleanly: raises SystemExit. All ranks must call it."""
    global _left
    if torch is not None and dist.is_initialized():
        dist.barrier()  # nobody's end breaks what another one still exchanges
        dist.destroy_process_group()
        _left = status
    sys.exit(status)


@atexit.register
def _end() -> None:
    """Ends a process that left in order before the interpreter is taken down.

    DistributedDataParallel keeps gloo's threads alive. One of them that is still about to drop a tensor would find no
    interpreter any more and abort the process. Registered on import, so that what the program registers comes before.
    """
    if _left is None or getattr(sys, "last_value", None) is not None:  # or an exception came on the way out
        return
    multiprocessing.util._exit_function()  # a loader's workers and what they shared
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_left)


class Gate:
    """Where hsched says whether a training may go on: a file that is replaced as a whole, and a bell for each rank.

    A rank that has to wait does so outside any exchange with other ranks. docs/training.md has the protocol.
    """

    def __init__(self, path: str, rank: int, limit_s: float) -> None:
        self.path, self.limit_s, self.number = path, limit_s, 0
        self.parks = False  # whether this program waits where it is asked to
        self.reports = ""  # the folder for this rank's reports, where it is not that of the start any more
        self._own = "%s.%d" % (path, rank)
        self._bell: Optional[int] = None
        with contextlib.suppress(OSError):  # a file system without pipes: the file is looked at once a second
            with contextlib.suppress(FileExistsError):
                os.mkfifo(self._own + ".bell")
            self._bell = os.open(self._own + ".bell", os.O_RDWR | os.O_NONBLOCK)

    def read(self) -> Tuple[int, str]:
        """Returns the number of hsched's last wish, and the wish: go, park or offload."""
        try:
            with open(self.path) as file:
                wish = json.load(file)
        except FileNotFoundError:
            return 0, "go"
        self.reports = str(wish.get("reports") or self.reports)
        return int(wish["number"]), str(wish["want"])

    def say(self, state: str) -> None:
        """Acknowledges the last wish that this rank has read, and rings for hsched."""
        with open(self._own + ".tmp", "w") as file:
            json.dump({"number": self.number, "state": state, "pid": os.getpid(), "parks": self.parks, "memory": _memory()}, file)
        os.replace(self._own + ".tmp", self._own)
        with contextlib.suppress(OSError):  # nobody listens
            bell = os.open(self.path + ".bell", os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(bell, b"!")
            finally:
                os.close(bell)

    def hold(self, states: Mapping[str, str], enter: Callable[[str], None] = lambda state: None) -> bool:
        """Waits until hsched lets this rank go on; returns whether it has to end instead.

        `states` names the state for each wish to wait; `enter` brings it about before it is acknowledged. A rank has to
        end when it or another one was asked to stop, or when it has waited too long.
        """
        deadline, said = time.monotonic() + self.limit_s, (-1, "")
        while True:
            self.number, want = self.read()
            if want not in states:
                return False
            if stop_requested() or time.monotonic() > deadline or os.path.exists(self.path + ".stop"):
                with open(self.path + ".stop", "w"):  # the signal may have reached this rank alone
                    return True
            if said != (self.number, want):
                enter(states[want])
                self.say(states[want])
                said = (self.number, want)
            pause = min(1.0, max(0.0, deadline - time.monotonic()))
            if self._bell is None:
                time.sleep(pause)
            elif select.select([self._bell], [], [], pause)[0]:
                os.read(self._bell, 4096)


def _memory() -> Dict[str, int]:
    """Returns the bytes that this process has taken at most of its host and, of its device, all that there are, what it holds, and the most."""
    own = {"host": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        own.update(device=torch.cuda.mem_get_info()[1], held=torch.cuda.memory_reserved(), peak=torch.cuda.max_memory_reserved())
    return own


class BatchSampler:
    """This rank's samples of every global batch, for DataLoader(batch_sampler=...): lists of at most `micro_batch`.

    Global batches are consecutive blocks of one permutation of all samples, drawn from the seed and the epoch alone.
    So the order of samples does not depend on the number of ranks or on their shares. All ranks take the same number
    of steps, with at least one sample per rank and step; no sample is used twice.

    The samples that remain after the last whole global batch form a smaller block. If it has fewer samples than a
    quarter of a global batch, or than there are ranks, this block and the last whole one are divided evenly into two
    blocks. If these are still too small for every rank to get a sample, they form one block.
    """

    def __init__(self, samples: int, me: Rank, seed: int = 0, shuffle: bool = True, drop_last: bool = False) -> None:
        """`drop_last` leaves out the samples that remain after the last whole global batch."""
        self.samples, self.me, self.seed, self.shuffle, self.drop_last = samples, me, seed, shuffle, drop_last
        self._whole, rest = divmod(samples, me.global_batch)  # blocks that are whole global batches
        self._last = [rest] if rest and not drop_last else []  # sizes of the blocks after those
        if self._last and self._whole and (4 * rest < me.global_batch or rest < me.world_size):
            both = me.global_batch + rest
            self._whole, self._last = self._whole - 1, [both] if both < 2 * me.world_size else [both - both // 2, both // 2]
        self.steps = self._whole + len(self._last)
        if self.steps < 1:
            raise ValueError("%d samples are too few for one step of %d" % (samples, me.global_batch))
        self._parts = {block: me.part(block) for block in map(self.block, range(max(0, self._whole - 1), self.steps))}
        self.set_epoch(1)

    def set_epoch(self, epoch: int, first_step: int = 0, ranges: Optional[Ranges] = None) -> None:
        """Sets the epoch, which determines the permutation, and the first step, or the ranges of steps."""
        self.epoch, self.ranges = epoch, [[first_step, self.steps]] if ranges is None else ranges

    def block(self, step: int) -> int:
        """Returns the size of a step's block."""
        return self.me.global_batch if step < self._whole else self._last[step - self._whole]

    def parts(self, step: int) -> List[int]:
        """Returns the sizes of this rank's micro-batches of a step."""
        return _evenly(self._parts[self.block(step)][1], self.me.micro_batch)

    def __len__(self) -> int:
        return sum(len(self.parts(step)) for step in _numbers(self.ranges))

    def __iter__(self) -> Iterator[List[int]]:
        order = _permutation(self.samples, self.seed + self.epoch) if self.shuffle else range(self.samples)
        for first, end in self.ranges:
            block_begin = sum(map(self.block, range(first)))
            for step in range(first, end):
                begin = block_begin + self._parts[self.block(step)][0]
                for size in self.parts(step):
                    yield [int(index) for index in order[begin:begin + size]]
                    begin += size
                block_begin += self.block(step)


def _numbers(ranges: Ranges) -> Iterator[int]:
    for first, end in ranges:
        yield from range(first, end)


def _after(ranges: Ranges, step: int) -> Ranges:
    """Returns the ranges of steps without one of them."""
    cut = [part for first, end in ranges for part in ([first, min(step, end)], [max(step + 1, first), end])]
    return [[first, end] for first, end in cut if first < end]


def _without(ranges: Ranges, rest: Ranges) -> Ranges:
    """Returns the steps of ranges that are not among the last of them."""
    left = set(_numbers(rest))
    return [[step, step + 1] for step in _numbers(ranges) if step not in left]


def _evenly(samples: int, most: int) -> List[int]:
    """Returns the sizes of as few parts of at most `most` samples as possible, as even as possible, larger ones first."""
    parts = -(-samples // most)
    return [(samples + k) // parts for k in reversed(range(parts))]


def _permutation(samples: int, seed: int) -> Sequence[Any]:
    if torch is None:
        return random.Random(seed).sample(range(samples), samples)
    # Of the CPU, whatever torch.set_default_device says.
    return torch.randperm(samples, generator=torch.Generator().manual_seed(seed), device="cpu")  # type: ignore[no-any-return]


def scale_loss(loss: Any, me: Rank, count: float, total: float, reduction: str = "mean") -> Any:
    """Returns the loss weighted so that the gradient that DDP averages is that of the whole batch.

    `count` is the number of items in the loss of this rank (samples, or tokens with a label), and `total` is the sum
    of the counts of all micro-batches of all ranks in this step. With W ranks, a mean loss gets the weight W * count
    / total and a summed loss gets W / total, because DDP divides by W. If a count can be 0, use a sum: the mean of
    nothing is NaN.
    """
    if reduction not in ("mean", "sum"):
        raise ValueError("reduction must be mean or sum, not %r" % reduction)
    share = count if reduction == "mean" else float(count > 0)
    return loss * (me.world_size * share / max(total, 1e-300))


class Step:
    """One step of the optimizer. Iterate over it for this rank's micro-batches; the last backward pass synchronises."""

    def __init__(self, training: Training, number: int, passes: Iterable[Pass], total: float) -> None:
        self.size = training.sampler.block(number)  # samples that all ranks take in this step
        self.is_last = number + 1 == training.sampler.steps  # whether it is the last step of the epoch
        self.total = total  # what the losses of all ranks are taken over: samples, or the sum of the counts
        self._training, self._passes, self._last = training, passes, len(training.sampler.parts(number)) - 1
        self._batch, self._count, self._begun = None, 0.0, False

    def __iter__(self) -> Iterator[Any]:
        if self._begun and not isinstance(self._passes, list):
            raise RuntimeError("the micro-batches of this step are no longer available; to iterate over them again, use steps(..., keep=True)")
        self._begun, timer = True, self._training.timer
        self._training._settle()
        for k, (self._batch, size, self._count) in enumerate(self._passes):
            with self._training._pass(exchange=k == self._last):
                timer.start()
                yield self._batch
                timer.stop(size)

    def scale(self, loss: Any, reduction: str = "mean") -> Any:
        """Returns the loss of the current micro-batch, weighted so that the averaged gradient is correct."""
        training = self._training
        if reduction == "mean":
            training._warn_of_ignored(self._batch)
        scaled = scale_loss(loss, training.me, self._count, self.total, reduction)
        if self._count > 0:  # the mean of nothing is not a number
            training.loss += scaled.detach().double() * self.total / training.me.world_size
            training.counted += self._count
        return scaled


class Timer:
    """Times forward and backward passes without the wait for other ranks, and without waiting for the GPU.

    A pass begins when its batch is handed out and ends when the gradients of this rank are there: at the last mark,
    which a communication hook of DDP makes when a bucket of gradients is about to be exchanged; where nothing is
    exchanged, when the next batch is asked for. On GPUs these are events in the stream, read when they have happened.
    """

    def __init__(self, device: Any) -> None:
        self._cuda = device.type == "cuda"
        self._begin: Any = None
        self._end: Any = None
        self._running: Deque[Tuple[Any, Any, int]] = deque()
        self.passes: List[Tuple[int, float]] = []  # samples and seconds of each pass that has ended

    def _now(self) -> Any:
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def start(self) -> None:
        self._begin, self._end = self._now(), None

    def mark(self) -> None:
        self._end = self._now()

    def stop(self, samples: int) -> None:
        self._running.append((self._begin, self._now() if self._end is None else self._end, samples))
        while self._running and (not self._cuda or self._running[0][1].query()):
            self._collect()

    def flush(self) -> List[Tuple[int, float]]:
        """Returns the passes since the last call, having waited for them."""
        if self._cuda:
            torch.cuda.synchronize()
        while self._running:
            self._collect()
        passes, self.passes = self.passes, []
        return passes

    def _collect(self) -> None:
        begin, end, samples = self._running.popleft()
        self.passes.append((samples, begin.elapsed_time(end) / 1000 if self._cuda else end - begin))


class _Sink:
    """A file for torch, which makes another error of one in writing, or aborts the process: the first one is kept here."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.problem: Optional[OSError] = None

    def write(self, data: Any) -> int:
        try:
            if self.problem is None:
                self.file.write(data)
        except OSError as error:
            self.problem = error
        return len(data)

    def flush(self) -> None:
        """The file is flushed when all is written."""


class Refused(RuntimeError):
    """A checkpoint that cannot be loaded, or a value that cannot be saved in one."""


def encode(value: Any, name: str) -> Any:
    """Returns a value in a form that every torch since 1.13 reads with `weights_only=True`; `decode` returns the value.

    Numbers, texts, lists, dicts and tensors stay as they are; whatever else there can be becomes a tuple: its kind, then its parts.
    A method that a learning-rate scheduler keeps in its state is left out, because the next scheduler has its own.
    Raises Refused for anything else, with its place after `name`.
    """
    if isinstance(value, (float, bytes)):  # torch 1.13 reads neither
        return ("float", float(value).hex()) if isinstance(value, float) else ("bytes", value.decode("latin-1"))
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout in (torch.strided, torch.sparse_coo, torch.sparse_csr) and not value.is_quantized:
        return value.detach()
    if type(value) is list:
        return [encode(inner, "%s[%d]" % (name, k)) for k, inner in enumerate(value)]
    if type(value) in (tuple, set, torch.Size):
        return ("set" if type(value) is set else "tuple", *(encode(inner, "%s[%d]" % (name, k)) for k, inner in enumerate(value)))
    if type(value) in (dict, collections.OrderedDict, collections.Counter):
        pairs = [(encode(key, name + "'s keys"), encode(inner, "%s[%r]" % (name, key))) for key, inner in value.items() if not _is_of_scheduler(inner)]
        if type(value) is not collections.OrderedDict:
            return dict(pairs) if type(value) is dict else ("counter", dict(pairs))
        ordered = collections.OrderedDict(pairs)
        ordered.__dict__.update({key: encode(inner, "%s.%s" % (name, key)) for key, inner in value.__dict__.items()})  # a module's versions
        return ordered
    if type(value).__module__ == "numpy" and str(getattr(value, "dtype", "")) in ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64"):
        return ("array" if value.shape else "scalar", torch.from_numpy(sys.modules["numpy"].array(value)))
    kind = getattr(value, "named", None) or "%s.%s" % (type(value).__module__, type(value).__qualname__)
    raise Refused("%s is a %s, not a number, text, list, dict or tensor" % (name, kind))


def decode(value: Any) -> Any:
    """Returns what `encode` was given."""
    if type(value) is list:
        return [decode(inner) for inner in value]
    if type(value) in (dict, collections.OrderedDict):
        own = type(value)((decode(key), decode(inner)) for key, inner in value.items())
        if type(value) is collections.OrderedDict:
            own.__dict__.update({key: decode(inner) for key, inner in value.__dict__.items()})
        return own
    if type(value) is not tuple:
        return value
    kind, *parts = value
    if kind in ("array", "scalar"):
        return parts[0].numpy() if kind == "array" else parts[0].numpy()[()]
    makers: Dict[str, Callable[[Any], Any]] = {
        "float": lambda parts: float.fromhex(parts[0]), "bytes": lambda parts: parts[0].encode("latin-1"), "tuple": lambda parts: tuple(map(decode, parts)),
        "set": lambda parts: set(map(decode, parts)), "counter": lambda parts: collections.Counter(decode(parts[0]))}
    return makers[kind](parts)


def _is_of_scheduler(value: Any) -> bool:
    """Returns whether this is a method of a learning-rate scheduler, as OneCycleLR has in its state before torch 2.1."""
    if isinstance(value, _StandIn):  # in a checkpoint of hsched 0.1.0: what getattr would have made of a scheduler
        return value.named in ("__builtin__.getattr", "builtins.getattr") and getattr(value.parts[0], "named", "").startswith("torch.optim.")
    if isinstance(value, weakref.WeakMethod):
        value = value()
    kinds = torch.optim.lr_scheduler
    is_own = isinstance(getattr(value, "__self__", None), getattr(kinds, "LRScheduler", kinds._LRScheduler))
    return isinstance(value, (types.MethodType, types.FunctionType)) and (is_own or str(value.__module__).startswith("torch.optim."))


def read_plain(path: str) -> Any:
    """Returns what `encode` was given, from a file of `torch.save`, without running anything that the file says.

    Raises Refused, which says why, where that is not what the file holds, or somebody else may have put it there.
    """
    try:
        with open(path, "rb") as file:
            _check_owner(path, file)
            if file.read(4) != b"PK\x03\x04":  # torch would read other, older forms
                raise Refused("it is not a complete file of torch.save")
            file.seek(0)
            if "constants.pkl" in torch._C.PyTorchFileReader(file).get_all_records():  # before 2.6 torch would run it
                raise Refused("it is a program (TorchScript)")
            file.seek(0)
            try:
                saved = torch.load(file, map_location="cpu", weights_only=True)
            except Exception as error:  # its text advises weights_only=False
                file.seek(0)
                saved = _FirstFormat(file).load()  # says what is wrong with it in plain words, or reads what hsched 0.1.0 wrote
                if "format" in dict(encode(saved, "its content")):
                    raise Refused("torch %s does not load it with weights_only=True" % torch.__version__) from error
            if type(saved) is not dict:
                raise Refused("it contains a %s" % type(saved).__name__)
            if saved.get("format", 1) not in range(1, FORMAT + 1):
                raise Refused("its format is %r, but this hsched_ddp.py reads only up to %d: use the hsched_ddp.py of the hsched that wrote it" % (saved["format"], FORMAT))
            return decode(saved if "format" in saved else encode(saved, "its content"))
    except Refused as error:
        raise Refused("%s was refused: %s" % (path, error)) from error.__cause__
    except Exception as error:
        raise Refused("%s cannot be read: %s" % (path, str(error) or type(error).__name__)) from error


def _check_owner(path: str, file: Any) -> None:
    """Refuses a file of another user where others than this one can put files."""
    folder, me = os.stat(os.path.dirname(path) or "."), os.geteuid()
    owners = {os.lstat(path).st_uid, os.fstat(file.fileno()).st_uid} - {me}
    if owners and (folder.st_uid not in (me, 0) or folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)) and os.environ.get("HSCHED_TRUST_CHECKPOINT") != "1":
        raise Refused("it belongs to user %d, and other users can write to its directory; if you trust it, set HSCHED_TRUST_CHECKPOINT=1 in the shell "
                      "in which you submit or run the job" % owners.pop())


class _StandIn:
    """Stands for what a file names beside plain values. That is neither imported nor made, and nothing of it runs."""

    named = ""

    def __new__(cls, *parts: Any) -> Any:
        made = super().__new__(cls)
        made.parts = parts
        return made

    def __init__(self, *parts: Any) -> None:
        """All is done."""

    def __setstate__(self, state: Any) -> None:
        """Its state is of no use."""

    __setitem__ = append = extend = lambda self, *values: None


class _FirstFormat(pickle.Unpickler):
    """Reads files of hsched 0.1.0, which torch 1.13 does not load with `weights_only=True`: it reads no floats."""

    def __init__(self, file: Any) -> None:
        self._archive = zipfile.ZipFile(file)
        own = [name for name in self._archive.namelist() if name.endswith("/data.pkl")]
        if len(own) != 1:
            raise Refused("it is not a file of torch.save")
        self._folder, self._storages = own[0][:-len("data.pkl")], {}  # type: ignore[var-annotated]
        super().__init__(io.BytesIO(self._archive.read(own[0])), encoding="utf-8")

    def find_class(self, module: str, name: str) -> Any:
        makers: Dict[str, Any] = {
            "collections.OrderedDict": collections.OrderedDict, "collections.Counter": lambda *parts: collections.Counter(*parts), "torch.Size": tuple,
            "torch._utils._rebuild_parameter": lambda data, *more: data,
            "torch._utils._rebuild_tensor_v2": lambda storage, offset, size, stride, *more: storage.as_strided(size, stride, offset)}
        kinds = {"Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32", "Short": "int16",
                 "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64", "ComplexDouble": "complex128"}
        makers.update({"torch.%sStorage" % kind: getattr(torch, own) for kind, own in kinds.items()})
        return makers.get("%s.%s" % (module, name)) or type(name, (_StandIn,), {"named": "%s.%s" % (module, name)})

    def persistent_load(self, pid: Any) -> Any:
        _, kind, key, _, _ = pid
        if key not in self._storages:
            data = bytearray(self._archive.read("%sdata/%s" % (self._folder, key)))
            self._storages[key] = torch.frombuffer(data, dtype=kind) if data else torch.empty(0, dtype=kind)
        return self._storages[key]


@contextlib.contextmanager
def new_file(path: str, check: Callable[[], None] = lambda: None) -> Iterator[Any]:
    """Yields a new file, which takes the place of `path` when it is whole and on disk, unless `check` raises then.

    Others may be able to write the directory: nobody can guess its name meanwhile, and no link of theirs is followed.
    """
    temporary = "%s.%s.tmp" % (path, secrets.token_hex(8))
    number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with open(number, "wb") as file:
            yield file
            file.flush()
            os.fsync(number)
        check()
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _remove_left(path: str) -> None:
    """Removes what killed processes of this user left of new files for `path`: what nobody has written to for an hour."""
    folder, name = os.path.split(path)
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder or "."):
            if entry.name.startswith(name + ".") and entry.name.endswith(".tmp") and entry.is_file(follow_symlinks=False):
                data = entry.stat(follow_symlinks=False)
                if data.st_uid == os.geteuid() and time.time() - data.st_mtime > 3600:
                    os.unlink(entry.path)


class _Moved:
    """Tensors of a device whose values are kept in the host's memory for a while.

    Their storages are emptied, not replaced, so that all who refer to the tensors still do: optimizers, views, DDP.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._kept: List[Tuple[Any, Any]] = []

    def take(self, tensors: Iterable[Any]) -> None:
        """Moves the values of the device's tensors to the host, each storage once, and frees them on the device."""
        for tensor in tensors:
            storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage().untyped()  # before torch 2.0
            if tensor.device != self._device or len(storage) == 0:  # empty: moved already
                continue
            values = self._bytes(storage).to("cpu", copy=True)
            try:
                storage.resize_(0)
            except RuntimeError:
                continue  # memory of somebody else, such as an array of numpy: stays
            self._kept.append((storage, values))
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def put_back(self) -> None:
        for storage, values in self._kept:
            storage.resize_(len(values))
            self._bytes(storage).copy_(values)
        self._kept = []

    def _bytes(self, storage: Any) -> Any:
        return torch.empty(0, dtype=torch.uint8, device=self._device).set_(storage)


def _tensors(part: Any) -> Iterator[Any]:
    """Yields the tensors in what `state_dict` returns."""
    if isinstance(part, torch.Tensor):
        yield part
    elif isinstance(part, Mapping) or isinstance(part, (list, tuple)):
        for inner in part.values() if isinstance(part, Mapping) else part:
            yield from _tensors(inner)


class Training:
    """The loop over epochs and steps: weights losses, measures speeds, reports, saves checkpoints and stops on request."""

    def __init__(self, me: Rank, sampler: BatchSampler, model: Any = None, comm_hook: Optional[Callable[[Any, Any], Any]] = None,
                 save_every: int = 1, models: Iterable[Any] = (), **stateful: Any) -> None:
        """`model` is a DistributedDataParallel model, compiled or not; with one rank, it may be any module. If
        several models are trained together, as in a GAN, pass all of them in `models`.

        `stateful` (optimizer=..., scheduler=..., scaler=...) contains everything else that belongs in a checkpoint,
        each with `state_dict` and `load_state_dict`. A checkpoint is written every `save_every` epochs, at a stop and
        at the end. DDP allows one communication hook, which this class uses: pass your own as `comm_hook`; its state
        is None.
        """
        self.models = [own for own in (model, *(other for other in models if other is not model)) if own is not None]
        if not self.models:
            raise ValueError("Training needs a model, or several models as models=[...]")
        self.me, self.sampler, self.model, self.save_every = me, sampler, self.models[0], save_every
        self.timer = Timer(me.device)
        self._group = me.group if me.control is None else me.control
        self.epoch = 0  # epochs done
        self.left: Ranges = [[0, sampler.steps]]  # steps still to do of the epoch after those
        self.measure: Optional[Callable[[], float]] = None  # says how good a model is, the lower the better: for copies
        self.metrics: Dict[str, float] = {}  # reported with the epoch, beside the loss; the same on all ranks, please
        self._unreported: Optional[Dict[str, Any]] = None  # the line of an epoch between its end and its report
        # The epoch's loss so far on this rank, as a sum over what is counted, the count, and the samples.
        self.loss, self.counted, self._samples = 0.0, 0.0, 0
        self.path = os.path.join(me.checkpoint_dir, "hsched-ddp.pt")
        if me.rank == 0:
            _remove_left(self.path)
        self._looks_for_ignored = me.rank == 0  # whether to warn of labels that are not counted
        whole = [_uncompiled(own) for own in self.models]
        self._ddp = [own for own in whole if isinstance(own, DistributedDataParallel)]
        if len(self._ddp) < len(whole) and me.world_size > 1:
            kinds = ", ".join(type(own).__name__ for own in whole)
            raise ValueError("with several ranks, wrap the model in DistributedDataParallel (got %s)" % kinds)
        self._modules = [_uncompiled(own.module) if isinstance(own, DistributedDataParallel) else own for own in whole]
        names = ["model"] + ["model %d" % number for number in range(2, len(whole) + 1)]
        self.stateful = dict(stateful, **dict(zip(names, self._modules)))
        for name, part in self.stateful.items():
            if _has_ddp(part):
                raise ValueError("%s contains a DistributedDataParallel model: pass that model in models=[...], "
                                 "or give %s its .module; otherwise the ranks would hang" % (name, name))
        self._asked = self._sum([0.0], later=True)
        for own in self._ddp:
            own.register_comm_hook(None, self._hook(comm_hook))
        self.copies: Any = None  # the copies of this training, where hsched trains it as several
        if os.environ.get("HSCHED_COPY"):
            if me.world_size > 1:
                raise ValueError("a copy of a training must be one process, but there are %d ranks" % me.world_size)
            from hsched_copies import Copies
            self.copies = Copies(self, os.environ)

    def _hook(self, comm_hook: Optional[Callable[[Any, Any], Any]]) -> Any:
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

        def marked(state, bucket):  # type: ignore[no-untyped-def]  # DDP wants no types, or its own
            self.timer.mark()
            return comm_hook(state, bucket) if comm_hook else allreduce_hook(self.me.group, bucket)
        return marked

    @property
    def step(self) -> int:
        """Number of finished steps in the current epoch."""
        return self.sampler.steps - sum(end - first for first, end in self.left)

    @step.setter
    def step(self, done: int) -> None:
        self.left = [[done, self.sampler.steps]]

    @property
    def global_step(self) -> int:
        """Number of finished steps in all epochs."""
        return self.epoch * self.sampler.steps + self.step

    def epochs(self) -> Iterator[int]:
        """Yields the remaining epochs, counted from 1. Saves a checkpoint and reports after each one.

        Rank 0 reports last, after the checkpoint is written: its line marks the epoch as done.
        """
        gate = self.me.gate
        self._check_states()
        if self.copies:
            self.copies.enter()
        if gate and self.epoch < self.me.epochs:
            gate.parks = True
            gate.say("running")
        while self.epoch < self.me.epochs:
            self.loss, self.counted, self._samples, self.metrics = 0.0, 0.0, 0, {}
            begin, epoch = time.monotonic(), self.epoch + 1
            yield epoch
            line = dict(self._line(time.monotonic() - begin), epoch=epoch)
            self._unreported = line
            if self.copies:
                self.copies.begin_epoch()
            else:
                self.epoch, self.left = epoch, [[0, self.sampler.steps]]
            # Rank 0 alone looks whether to wait: all ranks do so after the same epoch, with its checkpoint written.
            number, want = gate.read() if gate and self.me.rank == 0 else (0, "go")
            asked = self._sum([float(stop_requested()), float(want in _PARKED), float(number)]).tolist()
            stopping, parking = asked[0] > 0, asked[1] > 0 and self.epoch < self.me.epochs
            if self.copies:
                self.copies.save()
            elif stopping or parking or self.epoch % self.save_every == 0 or self.epoch == self.me.epochs:
                self.save()
            if self.me.rank != 0:
                self.me.report(line)
            self._sum([0.0])
            if self.me.rank == 0:
                self.me.report(line)
            self._unreported = None
            if stopping and self.epoch < self.me.epochs:
                self.leave(SAVED)
            if parking:
                self._park()
            elif gate and asked[2] != gate.number:
                gate.number = int(asked[2])
                gate.say("running")
        if self.copies:
            self.copies.finish()

    def pause(self, seconds: float) -> None:
        """Waits for other copies. Exits if a stop was requested."""
        if stop_requested():
            self.leave(SAVED)
        time.sleep(seconds)

    def leave(self, status: int) -> None:
        """Exits without waiting for other copies."""
        if self.copies:
            self.copies.leave()
        leave(status)

    def _park(self) -> None:
        """Waits until hsched lets the training go on. What is on the device stays there, or goes to the host's memory.

        A stop, or a wait that takes too long, ends the training: its checkpoint is written.
        """
        moved = _Moved(self.me.device)

        def enter(state: str) -> None:
            if state == "offloaded":
                moved.take(_tensors([part.state_dict() for part in self.stateful.values()]))
                moved.take(own for module in self._modules for own in (*module.buffers(), *(p.grad for p in module.parameters() if p.grad is not None)))
            elif state == "parked":
                moved.put_back()
                if self.me.device.type == "cuda":
                    torch.cuda.empty_cache()  # what no tensor needs between epochs

        leaving = self.me.gate.hold(_PARKED, enter)
        if self._sum([float(leaving)]) > 0:
            leave(SAVED)  # without what was moved: the device may have another user
        moved.put_back()
        self.me.gate.say("running")

    def steps(self, loader: Iterable[Any], count: Optional[Callable[[Any], float]] = None, keep: bool = False) -> Iterator[Step]:
        """Yields the remaining steps of the epoch. `loader` must use the sampler of this training.

        `count` returns the number of items in the loss of a micro-batch if these are not samples, such as tokens with
        a label.
        With `keep`, you can iterate over a step several times, for example to train models in turn. Without `keep`
        and `count`, each micro-batch is loaded when it is needed. If a rank receives the stop signal, all ranks save
        after the same step and exit with status 85.
        """
        if getattr(loader, "_is_accelerate_prepared", False) or type(loader).__module__.split(".")[0] == "accelerate":
            raise ValueError("accelerate has prepared this loader and would divide its batches again: pass the "
                             "original DataLoader to steps(), without preparing it")
        if getattr(loader, "batch_sampler", self.sampler) is not self.sampler:
            raise ValueError("the loader has a different sampler: create it with batch_sampler=sampler")
        self._looks_for_ignored &= count is None
        for ranges in self.copies.rounds() if self.copies else [self.left]:
            yield from self._steps_of(ranges, loader, count, keep)

    def _steps_of(self, ranges: Ranges, loader: Iterable[Any], count: Optional[Callable[[Any], float]], keep: bool) -> Iterator[Step]:
        """Yields the steps of some ranges."""
        self.sampler.set_epoch(self.epoch + 1, ranges=ranges)
        state, rest = _random_state(self.me.device), ranges
        batches = iter(loader)
        if self.step > 0:  # beginning to load draws a random number, which was drawn before the stop
            _set_random_state(state, self.me.device)
        for done, number in enumerate(_numbers(ranges)):
            if self._stop_agreed():
                if self.copies:
                    self.copies.hand_in(_without(ranges, rest))
                else:
                    self.save()
                self.leave(SAVED)
            if self.copies:
                self.copies.before_step(done)
                loss, counted = self.loss + 0.0, self.counted
            passes: Iterable[Pass] = self._passes(batches, self.sampler.parts(number), count)
            if count or keep:
                passes = list(passes)
            total = float(self._sum([sum(own for _, _, own in passes)])) if count else float(self.sampler.block(number))
            self._samples, rest = self._samples + sum(self.sampler.parts(number)), _after(rest, number)
            self.left = _after(self.left, number)
            yield Step(self, number, passes, total)
            for _ in passes:  # what the step was left with: the next one begins with its own
                pass
            if self.copies:
                self.copies.note_loss(self.loss - loss, self.counted - counted)
                if self.copies.time_is_up():
                    break
        if self.copies:
            self.copies.hand_in(_without(ranges, rest))

    def _passes(self, batches: Iterator[Any], sizes: List[int], count: Optional[Callable[[Any], float]]) -> Iterator[Pass]:
        """Yields the passes of a step as their micro-batches are loaded."""
        missing = object()
        for size in sizes:
            batch = next(batches, missing)
            if batch is missing:
                raise ValueError("the loader ended before the end of the epoch (%d steps)" % self.sampler.steps)
            yield batch, size, float(count(batch) if count else size)

    def _warn_of_ignored(self, batch: Any) -> None:
        if self._looks_for_ignored and _has_ignored(batch):
            self._looks_for_ignored = False
            warnings.warn("some labels are -100, which losses ignore, but hsched weights ranks by their number of samples: count the "
                          "labels with steps(loader, count=lambda batch: int((batch[1] != -100).sum()))", stacklevel=3)

    def probe(self, loss_of: Callable[[Any], Any], loader: Any, times: int = 3) -> List[Tuple[int, float]]:
        """Times passes at two batch sizes, the micro-batch and half of it, and reports them: (samples, seconds) pairs.

        `loss_of` returns the loss of a batch from the loader. Gradients, buffers and random states are restored, so
        that the training does not change. Call it on all ranks, before the first epoch.
        """
        state = _random_state(self.me.device)
        parameters = [parameter for module in self._modules for parameter in module.parameters()]
        buffers = [buffer for module in self._modules for buffer in module.buffers()]
        gradients, before = [parameter.grad for parameter in parameters], [buffer.clone() for buffer in buffers]
        pairs = []
        # Two sizes on every rank, if they are the same: some layers exchange statistics in every pass.
        for size in (max(1, self.me.micro_batch // 2), self.me.micro_batch):
            batch = loader.collate_fn([loader.dataset[k % self.sampler.samples] for k in range(size)])
            for again in range(times + 1):
                for parameter in parameters:
                    parameter.grad = None
                with self._pass(exchange=False):
                    self.timer.flush()
                    self.timer.start()
                    loss_of(batch).backward()
                    self.timer.stop(size)
                pairs += [(size, round(seconds, 9)) for _, seconds in self.timer.flush()[:again]]  # the first one warms up
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
        for buffer, value in zip(buffers, before):
            buffer.copy_(value)
        _set_random_state(state, self.me.device)
        self.me.report({"probe": pairs, "rank": self.me.rank})
        self._sum([0.0])  # so that no epoch begins with the wait for a slower rank's probe
        if os.environ.get("HSCHED_PROBE"):
            leave()  # hsched probe wants nothing else
        return pairs

    @contextlib.contextmanager
    def _pass(self, exchange: bool) -> Iterator[None]:
        """The context of a forward and backward pass in which the models exchange gradients and buffers, or nothing.

        DDP would send buffers in a step's first pass. Where ranks make unequal numbers of passes, several models would
        then exchange in another order on each rank, and wait for each other for ever.
        """
        with contextlib.ExitStack() as stack:
            for own in self._ddp:
                own.require_forward_param_sync = exchange
                if not exchange:
                    if own.static_graph:
                        raise ValueError("torch supports neither micro-batches nor probes with static_graph=True: remove that option")
                    stack.enter_context(own.no_sync())
            yield

    def _settle(self) -> None:
        """Lets the models agree now on the buckets for their gradients, which DDP would do in some later forward pass."""
        for own in self._ddp:
            own.reducer._rebuild_buckets()

    def save(self) -> None:
        """Replaces the checkpoint atomically, on all ranks or none. All ranks must call this, between steps."""
        states: List[Any] = [None] * self.me.world_size
        dist.all_gather_object(states, _random_state(self.me.device), group=self._group)
        problem: Optional[Exception] = None
        if self.me.rank == 0:
            try:
                saved = dict(self._position(), format=FORMAT, epoch=self.epoch, step=self.step, left=self.left, global_step=self.global_step,
                             plan=self.me.plan, **encode({"unreported": self._unreported, "random": states}, "it"), state=self._states())
                os.makedirs(self.me.checkpoint_dir, exist_ok=True)
                with new_file(self.path, _check_fence) as file:
                    sink = _Sink(file)
                    torch.save(saved, sink)
                    if sink.problem:
                        raise sink.problem
            except Exception as error:  # of the disk, or of something that cannot be in a checkpoint
                problem = error
        if self._sum([float(problem is not None)]) > 0:
            raise RuntimeError("rank 0 cannot write the checkpoint %s: %s" % (self.path, problem or "see the output of rank 0")) from problem

    def resume(self) -> bool:
        """Resumes from the checkpoint and returns whether there was one. All ranks must call this; their number may change."""
        saved: Dict[str, Any] = {"global_step": -1}
        problem: Optional[Exception] = None
        if os.path.exists(self.path):
            try:
                saved = read_plain(self.path)
                lacking = [key for key in (*self._position(), "epoch", "step", "global_step", "random", "state") if key not in saved]
                if lacking:
                    raise Refused("%s was refused: it lacks %s" % (self.path, ", ".join(lacking)))
            except Refused as error:
                problem = error
        if self._sum([float(problem is not None)]) > 0:
            raise RuntimeError("the checkpoint %s; to start over, remove it or set another checkpoint directory" % (problem or "was refused by another rank")) from None
        if self._sum([float(saved["global_step"])]) != saved["global_step"] * self.me.world_size:
            raise RuntimeError("the ranks read different checkpoints: %s must be on a file system that all nodes share" % self.path)
        if saved["global_step"] < 0:
            return False
        for key, value in self._position().items():
            if saved[key] != value:
                raise ValueError("%s was written with %s %s, but this training has %s; to start over, remove it or set another checkpoint directory"
                                 % (self.path, key, saved[key], value))
        for name, part in self.stateful.items():
            part.load_state_dict(saved["state"][name])
        self.epoch, self.left = saved["epoch"], saved.get("left", [[saved["step"], self.sampler.steps]])
        if self.me.rank < len(saved["random"]):
            _set_random_state(saved["random"][self.me.rank], self.me.device)
        if self.me.rank == 0 and saved.get("unreported") and self.epoch > self.me.epochs_done:
            self.me.report(saved["unreported"])  # the end may have come between the checkpoint and the report
        return True

    def restore(self) -> None:
        """Goes back to the last checkpoint, if there is one, and discards later progress."""
        if not self.resume():
            self.epoch, self.left = 0, [[0, self.sampler.steps]]

    def _states(self) -> Dict[str, Any]:
        """Returns the states of all parts as a checkpoint has them."""
        return {name: self._encoded(name, part.state_dict()) for name, part in self.stateful.items()}

    def _encoded(self, name: str, state: Any) -> Any:
        try:
            return encode(state, "its state")
        except Refused as error:
            raise Refused("%s cannot be saved in a checkpoint: %s; change its state_dict() to return only these" % (name, error)) from None

    def _check_states(self) -> None:
        """Refuses now what could not be saved after the epoch."""
        for name, part in self.stateful.items():
            state = None  # of a part that is not ready: it may be when it is saved
            if not isinstance(part, torch.nn.Module):
                with contextlib.suppress(Exception):
                    state = part.state_dict()
            self._encoded(name, state)

    def _position(self) -> Dict[str, Any]:
        """What must be the same for a step's number to mean the same."""
        names = ("samples", "seed", "shuffle", "drop_last")
        return dict({name: getattr(self.sampler, name) for name in names}, global_batch=self.me.global_batch)

    def _line(self, epoch_s: float) -> Dict[str, Any]:
        passes, micro_batch = self.timer.flush(), _evenly(self.me.batch, self.me.micro_batch)[0]
        whole = [seconds for samples, seconds in passes if samples == micro_batch]
        whole = whole[2:] or whole[1:] or whole  # the first one warms up, in the second one DDP orders its buckets
        loss, count = self._sum([float(self.loss), self.counted]).tolist()
        metrics = dict({"loss": loss / count if count else math.nan}, **self.metrics)
        return {"epoch": self.epoch + 1, "rank": self.me.rank, "samples": self._samples,
                "compute_s": round(sum(seconds for _, seconds in passes), 6), "epoch_s": round(epoch_s, 6), "batch": self.me.batch,
                "micro_batch": micro_batch, "step_s": round(sum(whole) / len(whole), 9) if whole else None,
                "metrics": {name: float(value) for name, value in metrics.items()}}

    def _sum(self, values: List[float], later: bool = False) -> Any:
        """Returns the sums over all ranks as a tensor; all ranks meet here, unless it is for later."""
        sums = torch.tensor(values, dtype=torch.float64, device="cpu")  # a GPU would have to end all its work first
        work = dist.all_reduce(sums, group=self._group, async_op=later)
        return (work, sums) if later else sums

    def _stop_agreed(self) -> bool:
        """Returns whether a rank had been asked to stop a step ago: the answer takes that long, and nobody waits for it."""
        (work, asked), self._asked = self._asked, self._sum([float(stop_requested())], later=True)
        work.wait()
        return bool(asked > 0)


def _uncompiled(model: Any) -> Any:
    return getattr(model, "_orig_mod", model)


def _has_ddp(part: Any, depth: int = 2) -> bool:
    """Returns whether something, or what it holds as attributes or items, contains a model in DistributedDataParallel."""
    if isinstance(part, torch.nn.Module) and any(isinstance(inner, DistributedDataParallel) for inner in part.modules()):
        return True
    held = part if isinstance(part, (list, tuple)) else (part if isinstance(part, dict) else getattr(part, "__dict__", {})).values()
    return depth > 0 and any(_has_ddp(own, depth - 1) for own in held)


def _has_ignored(batch: Any) -> bool:
    """Returns whether a batch, on the CPU, has labels of -100, which torch's losses ignore."""
    if isinstance(batch, torch.Tensor):
        return batch.dtype == torch.int64 and batch.device.type == "cpu" and bool((batch == -100).any())
    values = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, (list, tuple)) else ()
    return any(map(_has_ignored, values))


def _random_state(device: Any) -> Dict[str, Any]:
    state: Dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if "numpy" in sys.modules:
        kind, key, *rest = sys.modules["numpy"].random.get_state()
        state["numpy"] = (kind, key.tolist(), *rest)  # not as an array: those of numpy 2 cannot be read by numpy 1
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def _set_random_state(state: Dict[str, Any], device: Any) -> None:
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(state["numpy"])
    if "cuda" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
