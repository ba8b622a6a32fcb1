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
from .replicas import join
from .report import append_line


started: Optional[Rank] = None  # this process, after `init`; None without torch


@dataclass(frozen=True)
class Rank:
    """This process: its rank, its share of each global batch, and its device."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    batches: Tuple[int, ...]  # samples of a global batch, by replica
    micro_batch: int  # maximum samples in one forward and backward pass of this rank
    epochs: int
    epochs_done: int
    job: str
    run: str
    plan: str
    gpu_type: str
    checkpoint_dir: str
    report_file: str  # where this rank reports; empty if it does not
    grace_s: float  # seconds between a stop request and the end
    device: Any = None  # the torch.device to compute on
    group: Any = None  # the ranks' process group; None is torch's default
    control: Any = None  # a group of the same ranks that never waits for a GPU; None is `group`
    gate: Any = None  # the Gate through which hsched parks this job; None if it does not
    member: Optional[Tuple[int, int, int]] = None  # in a job with replicas: the number of this rank's replica, its place there, and the replica's size
    replica_sizes: Tuple[int, ...] = ()  # ranks of each replica, once they have met; () without replicas
    replica_group: Any = None  # the process group of this rank's replica
    replica_mesh: Any = None  # the same as a DeviceMesh of one dimension; None before torch 2.2, or 2.4 if sizes differ
    mesh: Any = None  # the DeviceMesh (replicas, size), if all replicas have one size, from torch 2.2 on
    peers: Any = None  # the process group of the ranks at this place in all replicas; None if sizes differ
    peers_control: Any = None  # a group of the same ranks that never waits for a GPU; None is `peers`

    @property
    def batch(self) -> int:
        """Local batch: the samples of each global batch that this rank takes together with the other ranks of its replica."""
        return self.batches[self.replica]

    @property
    def in_replicas(self) -> bool:
        """Whether the job or the program sets the number of ranks of a replica."""
        return self.member is not None

    @property
    def shares_model(self) -> bool:
        """Whether any replica has several ranks."""
        return max(self.replica_sizes, default=self.replica_size) > 1

    @property
    def replicas(self) -> int:
        """Number of replicas; in a job without replicas, the number of ranks."""
        return len(self.batches)

    @property
    def replica(self) -> int:
        """The number of the replica that this rank belongs to; in a job without replicas, the rank."""
        return self.rank if self.member is None else self.member[0]

    @property
    def replica_rank(self) -> int:
        """The position of this rank in its replica."""
        return 0 if self.member is None else self.member[1]

    @property
    def replica_size(self) -> int:
        """Number of ranks in this rank's replica, which all take the same samples."""
        return 1 if self.member is None else self.member[2]

    @property
    def global_batch(self) -> int:
        """Samples per global batch."""
        return sum(self.batches)

    def edges(self, block: int) -> List[int]:
        """Returns the starts of the replicas' parts of a block of samples, and the end of the last one; [replicas + 1].

        In a whole global batch, each part is the replica's batch. Any other block is divided in proportion. If possible, each
        part has at least two samples (or one, if the replica's batch is one), or else at least one. Parts can be empty only if
        the block has fewer samples than there are replicas.
        """
        least = [min(batch, 2) for batch in self.batches]
        if sum(least) > block:
            least = [int(block >= self.replicas)] * self.replicas
        edges, edge, before, after = [0], 0, 0, sum(least)
        for batch, low in zip(self.batches, least):
            before, after = before + batch, after - low
            edge = max(edge + low, before * block // self.global_batch)
            edges.append(min(edge, block - after))
        return edges

    def part(self, block: int) -> Tuple[int, int]:
        """Returns the start of this rank's part of a block of samples, and its size."""
        edges = self.edges(block)
        return edges[self.replica], edges[self.replica + 1] - edges[self.replica]

    def report(self, line: Mapping[str, Any]) -> None:
        """Appends a JSON line to this rank's report, if there is one. Numbers that are not finite become null.

        Only the first rank of a replica reports.
        """
        if self.report_file and self.replica_rank == 0:
            moved = self.gate.reports if self.gate else ""
            append_line(os.path.join(moved, os.path.basename(self.report_file)) if moved else self.report_file, line)


def read_rank(env: Mapping[str, str], global_batch: Optional[int] = None, epochs: int = 1, replica_size: Optional[int] = None) -> Rank:
    """Returns the rank described by the variables of hsched or of torchrun; without either, the world size is 1.

    `global_batch`, `epochs` and `replica_size` apply only if hsched does not set them.
    """
    alone = "RANK" not in env  # setup lines see some of the variables, but are not ranks
    rank, world_size = (0, 1) if alone else (int(env["RANK"]), int(env["WORLD_SIZE"]))
    planned = env.get("HSCHED_GLOBAL_BATCH")
    whole = int(planned) if planned else global_batch
    if not whole or whole < 1:
        raise ValueError("the global batch is not set: call init(global_batch=...)")
    is_told = bool(planned) and not alone
    member = _member(env, is_told, rank, world_size, replica_size)
    if is_told:
        batches = tuple(int(batch) for batch in env["HSCHED_BATCHES"].split(","))
    else:
        parts = world_size // (member[2] if member else 1)
        batches = tuple((k + 1) * whole // parts - k * whole // parts for k in range(parts))
    replica = member[0] if member else rank
    fits = replica < len(batches) <= world_size if member else len(batches) == world_size
    if not fits or sum(batches) != whole or min(batches) < 1:
        raise ValueError("HSCHED_BATCHES %s does not split %d samples over %d ranks" % (batches, whole, world_size))
    return Rank(
        rank=rank, world_size=world_size,
        local_rank=0 if alone else int(env.get("LOCAL_RANK", 0)),
        local_world_size=1 if alone else int(env.get("LOCAL_WORLD_SIZE", 1)),
        member=member, batches=batches, micro_batch=max(1, batches[replica] if alone else int(env.get("HSCHED_MICRO_BATCH", batches[replica]))),
        epochs=int(env.get("HSCHED_EPOCHS", epochs)), epochs_done=int(env.get("HSCHED_EPOCHS_DONE", 0)),
        job=env.get("HSCHED_JOB", ""), run=env.get("HSCHED_RUN", ""), plan=env.get("HSCHED_PLAN", ""),
        gpu_type=env.get("HSCHED_GPU_TYPE", ""), checkpoint_dir=env.get("HSCHED_CHECKPOINT_DIR", "checkpoints"),
        report_file=env.get("HSCHED_REPORT", ""), grace_s=float(env.get("HSCHED_STOP_GRACE_S", 0)),
    )


def _member(env: Mapping[str, str], is_told: bool, rank: int, world_size: int, replica_size: Optional[int]) -> Optional[Tuple[int, int, int]]:
    """Returns `Rank.member`: as set by hsched, or else for replicas of equal size with consecutive ranks."""
    if is_told and "HSCHED_REPLICA" in env:
        replica, place, size = (int(env["HSCHED_REPLICA" + name]) for name in ("", "_RANK", "_SIZE"))
        if replica < 0 or not 0 <= place < size <= world_size:
            raise ValueError("HSCHED_REPLICA %d, HSCHED_REPLICA_RANK %d and HSCHED_REPLICA_SIZE %d do not go together in a world of %d ranks"
                             % (replica, place, size, world_size))
        return replica, place, size
    if replica_size is None:
        return None
    size = 1 if world_size == 1 else replica_size
    if is_told and size > 1:
        raise ValueError("hsched gave each rank samples of its own, but this program has replicas of %d ranks: set replica: {gpus: %d} in the job file" % (size, size))
    if size < 1 or world_size % size:
        raise ValueError("%d ranks do not make replicas of %d" % (world_size, size))
    return rank // size, rank % size, size


def init(global_batch: Optional[int] = None, epochs: int = 1, backend: Optional[str] = None, timeout_s: float = 1800.0,
         replica_size: Optional[int] = None) -> Rank:
    """Handles the stop signal, chooses the device, and initialises the process group. Call it once, before anything else.

    `global_batch`, `epochs` and `replica_size`, the number of ranks that hold one copy of the model together, apply only
    if hsched does not set them; a single process is a replica of one rank. The default backend is NCCL on GPUs; it is gloo
    on CPUs, and on MIG slices, because NCCL cannot form a ring over them. With NCCL, the ranks also form a gloo group to
    agree on stops and counts. Without torch, there is no device and no process group.

    If hsched starts the job early (HSCHED_GATE), this waits until the job may use its device.
    """
    global started
    me = read_rank(os.environ, global_batch, epochs, replica_size)
    signal.signal(signal.SIGUSR1, on_stop)  # for threads that already exist
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # child processes inherit this and survive the signal
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
    store = None if "RANK" in os.environ else dist.HashStore()  # there are no other ranks, and perhaps no MASTER_ADDR
    try:
        dist.init_process_group(backend, rank=me.rank, world_size=me.world_size, timeout=timeout, store=store)
    except RuntimeError as error:
        if "libuv" not in str(error):
            raise
        # Since 2.4, PyTorch uses libuv for the rendezvous, even in builds without it, such as Debian's.
        os.environ["USE_LIBUV"] = "0"
        dist.init_process_group(backend, rank=me.rank, world_size=me.world_size, timeout=timeout, store=store)
    me = me if backend == "gloo" else replace(me, control=dist.new_group(timeout=timeout, backend="gloo"))
    started = me = replace(me, **join(me, timeout, backend)) if me.in_replicas else me
    if len(set(me.batches)) > 1 and not me.shares_model:
        look(me.batch, me.rank)
    return me


def _device(me: Rank) -> Any:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        return torch.device("cpu")
    index = me.local_rank if count > 1 else 0  # at some sites, each rank sees only its own device
    if index >= count:
        raise RuntimeError("rank %d has local rank %d, but sees only %d GPUs on its node" % (me.rank, me.local_rank, count))
    return torch.device("cuda", index)
