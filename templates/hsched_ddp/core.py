"""This process as a rank: its share of each global batch, its device and its process group."""
from __future__ import annotations

import datetime
import os
import re
import signal
import sys
from dataclasses import dataclass, replace
from typing import Any, List, Mapping, Optional, Tuple

from .gate import PARKED, Gate
from .noticing import look
from .optional import dist, torch
from .process import SAVED, on_stop
from .report import append_line


started: Optional[Rank] = None  # this process, since `init`


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

    def edges(self, block: int) -> List[int]:
        """Returns where the ranks' parts of a block of samples begin, and the end of the last one; [world_size + 1].

        Of a whole global batch, each part is the rank's batch. Any other block is divided in proportion. If possible, no
        part has only one sample, or at least none is empty.
        """
        least = [min(batch, 2) for batch in self.batches]
        if sum(least) > block:
            least = [int(block >= self.world_size)] * self.world_size
        edges, edge, before, after = [0], 0, 0, sum(least)
        for batch, low in zip(self.batches, least):
            before, after = before + batch, after - low
            edge = max(edge + low, before * block // self.global_batch)
            edges.append(min(edge, block - after))
        return edges

    def part(self, block: int) -> Tuple[int, int]:
        """Returns where this rank's part of a block of samples begins, and its size."""
        edges = self.edges(block)
        return edges[self.rank], edges[self.rank + 1] - edges[self.rank]

    def report(self, line: Mapping[str, Any]) -> None:
        """Appends a JSON line to this rank's report, if there is one. Numbers that are not finite become null."""
        if self.report_file:
            moved = self.gate.reports if self.gate else ""
            append_line(os.path.join(moved, os.path.basename(self.report_file)) if moved else self.report_file, line)


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
    global started
    me = read_rank(os.environ, global_batch, epochs)
    signal.signal(signal.SIGUSR1, on_stop)  # for threads that were there before
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # what is started from now on inherits this, and outlives the signal
    if os.environ.get("HSCHED_GATE"):
        me = replace(me, gate=Gate(os.environ["HSCHED_GATE"], me.rank, float(os.environ.get("HSCHED_GATE_LIMIT_S", timeout_s))))
        if me.gate.hold(dict.fromkeys(PARKED, "waiting")):
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
    if len(set(me.batches)) > 1:
        look(me.batch, me.rank)
    started = me if backend == "gloo" else replace(me, control=dist.new_group(timeout=timeout, backend="gloo"))
    return started


def _device(me: Rank) -> Any:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        return torch.device("cpu")
    index = me.local_rank if count > 1 else 0  # some sites show each rank its own device alone
    if index >= count:
        raise RuntimeError("rank %d has local rank %d, but sees only %d GPUs on its node" % (me.rank, me.local_rank, count))
    return torch.device("cuda", index)
