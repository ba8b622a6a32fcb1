"""The exchange of gradients and buffers between replicas of several ranks, once per optimizer step.

The program handles the exchange within a replica: FSDP, tensor or pipeline parallelism. If all replicas have the same size,
each rank averages its part of the model with its peers, the ranks at the same position in the other replicas. If sizes
differ, ranks hold different parts, and whole gradients are averaged, one bucket at a time.
"""
from __future__ import annotations

from typing import Any, Iterable, Iterator, List, Sequence, Tuple

from .core import Rank
from .exchange import BUCKET_BYTES, SPARSE
from .optional import DistributedDataParallel, dist, torch
from .replicas import sharded_tensors

_FIRST_WITH_FSDP = (2, 6)  # the first version of torch whose fully_shard is supported


class ReplicaExchange:
    """Keeps the gradients and buffers of some models equal in all replicas."""

    def __init__(self, me: Rank, models: List[Any]) -> None:
        self.me = me
        self._tensors = sharded_tensors()
        self._is_even = me.peers is not None
        self._group = me.peers if self._is_even else me.group
        self._control = (me.peers if me.peers_control is None else me.peers_control) if self._is_even else (me.group if me.control is None else me.control)
        self._parameters = list({id(own): own for model in models for own in model.parameters() if own.is_floating_point() or own.is_complex()}.values())
        self._buffers = list({id(own): own for model in models for own in model.buffers()}.values())
        self._sizes: Sequence[int] = [1] * me.replicas  # samples of each replica in this step
        self._is_inside = self._is_last_pass = self._is_off = False
        self._is_done = True  # whether the gradients of this step have been exchanged
        check_models(me, models, self._tensors)
        self._check_alike()
        with torch.no_grad():
            for bucket in self._in_buckets(self._parameters):
                self._copy(bucket, 0)
        self._share_buffers(0)

    def off(self, is_off: bool) -> None:
        """Sets whether gradients stay unchanged, for trial passes."""
        self._is_off = is_off

    def begin(self, sizes: Sequence[int]) -> None:
        """Starts the passes of a step on all ranks, with the samples of each replica."""
        self._sizes, self._is_done = sizes, False

    def begin_pass(self, is_last: bool) -> None:
        """Starts a pass of a step; `is_last` says whether it is this rank's last one."""
        self._is_inside, self._is_last_pass = True, is_last

    def before_optimizer(self) -> None:
        """Exchanges gradients for an optimizer that steps within the last pass; raises RuntimeError if it steps earlier, or if a replica has no samples."""
        if not self._is_inside:
            return
        if not self._is_last_pass:
            raise RuntimeError("optimizer.step() came before the last micro-batch of the step: call it after the loop over the micro-batches")
        if min(self._sizes) == 0:
            raise RuntimeError("optimizer.step() came in the loop over micro-batches, but a replica has no samples in this step: call it after the loop")
        self.finish()

    def abandon(self) -> None:
        """Ends the passes of a step that the program left early or did not start."""
        self._is_inside = self._is_last_pass = False

    def end(self) -> None:
        """Ends the passes of a step, on all ranks."""
        self.abandon()
        if not self._is_done:
            self.finish()

    def finish(self) -> None:
        """Averages the gradients over the replicas, and copies the buffers of the first replica with samples. All ranks must call this."""
        self._is_done = True
        if self.me.replicas == 1 or self._is_off:
            return
        with torch.no_grad():
            used, sparse = self._used()
            for bucket in self._in_buckets(used):
                self._average(bucket)
            for own in sparse:
                own.grad = own.grad.to_sparse(1)
        self._share_buffers(next(replica for replica, size in enumerate(self._sizes) if size))

    def _used(self) -> Tuple[List[Any], List[Any]]:
        """Returns the parameters with a gradient in any replica, and those with a sparse one. Other parameters get none, so that optimizers skip them."""
        facts = [0 if own.grad is None else 1 + SPARSE * own.grad.is_sparse for own in self._parameters]
        sums = torch.tensor(facts, dtype=torch.int64, device="cpu")
        dist.all_reduce(sums, group=self._control)
        counts = list(zip(self._parameters, sums.tolist()))
        return [own for own, count in counts if count], [own for own, count in counts if count >= SPARSE]

    def _average(self, bucket: List[Any]) -> None:
        """Averages the gradients of some parameters over the replicas."""
        for own in bucket:
            if own.grad is None:
                own.grad = torch.zeros_like(own)
            elif own.grad.is_sparse:
                own.grad = own.grad.to_dense()
            elif self._is_sharded(own) and own.grad.placements != own.placements:
                own.grad = own.grad.redistribute(placements=own.placements)
        flat = torch.cat([self._values(own.grad).reshape(-1) for own in bucket])
        flat.div_(self.me.replicas * (1 if self._is_even else self.me.replica_size))
        dist.all_reduce(flat, group=self._group)
        self._put(flat, [own.grad for own in bucket])

    def _copy(self, bucket: List[Any], source: int) -> None:
        """Copies the values of some tensors from one replica."""
        flat = torch.cat([self._values(own.detach()).reshape(-1) for own in bucket])
        dist.broadcast(flat, self._rank_of(source), group=self._group)
        self._put(flat, [own.detach() for own in bucket])

    def _rank_of(self, replica: int) -> int:
        """Returns the global rank that represents a replica in this rank's group."""
        if self._is_even:
            return int(dist.get_global_rank(self._group, replica))
        first = sum(self.me.replica_sizes[:replica])
        return first if self._group is None else int(dist.get_global_rank(self._group, first))

    def _is_sharded(self, tensor: Any) -> bool:
        return self._tensors is not None and isinstance(tensor, self._tensors.DTensor)

    def _values(self, tensor: Any) -> Any:
        """Returns the values of a tensor to exchange: this rank's part or, if replicas have different sizes, the whole tensor."""
        if not self._is_sharded(tensor):
            return tensor
        return tensor.to_local() if self._is_even else tensor.full_tensor()

    def _put(self, flat: Any, tensors: List[Any]) -> None:
        """Puts concatenated values back into the tensors from which `_values` took them."""
        begin = 0
        for own in tensors:
            is_sharded = self._is_sharded(own)
            held = own.to_local() if is_sharded else own
            count = held.numel() if self._is_even else own.numel()
            values, begin = flat[begin:begin + count], begin + count
            if is_sharded and not self._is_even:
                whole = self._tensors.DTensor.from_local(values.view(own.shape), own.device_mesh, [self._tensors.Replicate()] * own.device_mesh.ndim, run_check=False)
                values = whole.redistribute(placements=own.placements).to_local()
            held.copy_(values.view_as(held))

    def _in_buckets(self, tensors: Iterable[Any]) -> List[List[Any]]:
        """Returns groups of tensors of one type that are sent together, the last ones first."""
        groups: List[List[Any]] = []
        size = 0
        for own in reversed(list(tensors)):
            held = own.to_local() if self._is_sharded(own) and self._is_even else own
            more = held.numel() * held.element_size()
            if groups and size + more <= BUCKET_BYTES and (groups[-1][0].dtype, groups[-1][0].device) == (own.dtype, own.device):
                groups[-1].append(own)
                size += more
            else:
                groups.append([own])
                size = more
        return groups

    def _share_buffers(self, source: int) -> None:
        """Copies the buffers of one replica to the others."""
        if self.me.replicas == 1:
            return
        with torch.no_grad():
            for bucket in self._in_buckets(self._buffers):
                self._copy(bucket, source)

    def _check_alike(self) -> None:
        """Raises ValueError if the ranks that exchange tensors with this one hold different parameters or buffers; then all of them raise."""
        own = [(tuple(self._shape(one)), str(one.dtype)) for one in (*self._parameters, *self._buffers)]
        others: List[Any] = [None] * dist.get_world_size(self._control)
        dist.all_gather_object(others, own, group=self._control)
        if any(other != others[0] for other in others):
            raise ValueError("replicas hold different parts of the model: %s" % (
                "shard it alike in all of them" if self._is_even else "they have different numbers of ranks, so each parameter must be a DTensor "
                "(fully_shard or parallelize_module with mesh=me.replica_mesh), or be whole on every rank"))

    def _shape(self, tensor: Any) -> Any:
        return tensor.to_local().shape if self._is_even and self._is_sharded(tensor) else tensor.shape


def check_models(me: Rank, models: Iterable[Any], tensors: Any) -> None:
    """Raises ValueError for models that replicas of several ranks cannot train."""
    for model in models:
        for kind in _kinds(model):
            if kind == "FullyShardedDataParallel":
                raise ValueError("the model is in FullyShardedDataParallel: use fully_shard(model, mesh=me.replica_mesh), with torch 2.6 or later")
            if kind == "FSDPModule" and _version() < _FIRST_WITH_FSDP:
                raise ValueError("fully_shard works with Training from torch 2.6 on, and this is torch %s: install a newer torch, or hold the whole model "
                                 "on each GPU (a job without the key replica)" % torch.__version__)
        if any(isinstance(inner, DistributedDataParallel) for inner in model.modules()):
            raise ValueError("the model is in DistributedDataParallel, but replicas have several ranks: pass the model itself, and Training averages its gradients between replicas")
        for name, own in model.named_parameters():
            if tensors is not None and isinstance(own, tensors.DTensor):
                _check_mesh(me, name, own.device_mesh.mesh.flatten().tolist())


def _check_mesh(me: Rank, name: str, ranks: List[int]) -> None:
    """Raises ValueError if a parameter is sharded over ranks other than those of this replica."""
    first = me.rank - me.replica_rank
    inside = range(first, first + me.replica_size)
    if not set(ranks) <= set(inside):
        raise ValueError("%s is sharded over ranks %s, but this replica has ranks %d to %d: pass mesh=me.replica_mesh to fully_shard or parallelize_module, and "
                         "Training averages gradients between replicas" % (name, ranks, inside[0], inside[-1]))


def _kinds(model: Any) -> Iterator[str]:
    """Yields the names of the classes in a model."""
    for inner in model.modules():
        yield from (kind.__name__ for kind in type(inner).__mro__)


def _version() -> Any:
    """Returns the first two numbers of torch's version."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2])
