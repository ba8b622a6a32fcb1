"""The exchange of gradients and buffers between ranks, once per optimizer step, regardless of the passes of a rank.

DistributedDataParallel (DDP) exchanges in the first backward pass after an armed forward pass. It hangs if ranks make
unequal numbers of passes and one of those is a forward pass alone. Therefore, DDP is never armed here, and this module
averages the gradients at the end of a step. Averaging twice gives the same average, so it may do so more than once.

Buckets of gradients are sent during the backward pass, as in DDP, once all ranks have seen that each parameter gets its
gradient exactly once in the last micro-batch. If a parameter then gets another one, it is averaged at the end.
"""
from __future__ import annotations

from typing import AbstractSet, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from .core import Rank
from .optional import dist, torch

BUCKET_BYTES = 25 << 20  # size of a bucket of gradients, as in DDP
SPARSE = 1 << 16  # added, for each rank with a sparse gradient, to the number of ranks with a gradient


class Bucket:
    """Gradients that are sent together, with the interface for communication hooks of DDP (torch.distributed.GradBucket)."""

    def __init__(self, index: int, parameters: List[Any]) -> None:
        self._index, self._parameters, self._is_last = index, parameters, False
        self._flat: Any = None  # the gradients one after the other; [elements]
        self.work: Any = None  # the handle to wait for their arrival
        self.waits_for = 0  # parameters that lack their gradient in this step

    def index(self) -> int:
        return self._index

    def is_last(self) -> bool:
        return self._is_last

    def parameters(self) -> List[Any]:
        return self._parameters

    def buffer(self) -> Any:
        return self._flat

    def set_buffer(self, flat: Any) -> None:
        self._flat = flat

    def gradients(self) -> List[Any]:
        """Returns the parts of the buffer, in the parameters' shapes."""
        sizes = [parameter.numel() for parameter in self._parameters]
        return [part.view_as(parameter) for part, parameter in zip(self._flat.split(sizes), self._parameters)]

    def send(self, hook: Callable[[Any, Any], Any]) -> None:
        """Starts to average the current gradients; a parameter without one adds zeros."""
        self._flat = torch.cat([_dense(own).reshape(-1) for own in self._parameters])
        self.work = hook(None, self)

    def receive(self, late: Mapping[Any, Any], used: AbstractSet[Any], sparse: AbstractSet[Any]) -> None:
        """Waits for the averages, and stores them, plus gradients that came too late to be sent, in the parameters."""
        answer = self.work.wait()
        self._flat, self.work = answer[0] if isinstance(answer, (list, tuple)) else answer, None
        for own, mean in zip(self._parameters, self.gradients()):
            if own in late:
                mean = mean + late[own]
            if own not in used:
                continue
            if own in sparse:
                own.grad = mean.to_sparse(1)
            elif own.grad is None:
                own.grad = mean.clone()
            else:
                own.grad.copy_(mean)
        self._flat = None


def _dense(parameter: Any) -> Any:
    """Returns a parameter's gradient, or zeros."""
    gradient = parameter.grad
    if gradient is None:
        return torch.zeros_like(parameter)
    return gradient.to_dense() if gradient.is_sparse else gradient.detach()


class Exchange:
    """Keeps the gradients and buffers of some DDP models equal on all ranks."""

    def __init__(self, me: Rank, models: List[Any], comm_hook: Optional[Callable[[Any, Any], Any]]) -> None:
        """`comm_hook` gets None and a bucket, and returns a future of the averaged buffer; by default all-reduce."""
        self.me, self._models = me, models
        self._control = me.group if me.control is None else me.control
        self._hook = comm_hook or self._all_reduce
        self._parameters: List[Any] = []
        self._buckets: List[Bucket] = []  # those that are sent during the last pass of this step; if empty, all are sent after it
        self._place: Dict[Any, int] = {}  # the bucket of each parameter
        self._next = 0  # the first bucket that has not been sent
        self._used: List[Any] = []  # the parameters that had gradients in the last step, on any rank
        self._count: Dict[Any, int] = {}  # number of times that each got a gradient in the last pass of this step
        self._late: Dict[Any, Any] = {}  # gradients that came after the bucket was sent
        self._is_regular = False  # whether all ranks could have sent during the last pass of the last step
        self._is_last_pass = self._is_inside = False
        self._is_done = True  # whether the gradients of this step have been exchanged
        self._sizes: Sequence[int] = [1] * me.world_size  # samples of each rank in this step
        self._is_queued = False  # whether an exchange follows the current backward pass
        self._is_pending = False  # whether a gradient has come since the last exchange
        self._is_off = False
        self._handles: List[Any] = []
        for model in models:
            self._take_over(model)

    def _take_over(self, model: Any) -> None:
        """Ensures that DDP exchanges nothing by itself."""
        model.require_backward_grad_sync = model.require_forward_param_sync = False
        model._static_graph_delay_allreduce_enqueued = True  # DDP does this once with static_graph, synchronised or not
        earlier = getattr(model, "_hsched_exchange", None)
        if earlier is not None:
            earlier.remove()
        model._hsched_exchange = self
        if self.me.world_size == 1:
            return
        ignored = set(getattr(model, "parameters_to_ignore", ()))
        for name, own in model.module.named_parameters():
            is_known = any(own is other for other in self._parameters)  # another model shares it
            if name not in ignored and not is_known and (own.is_floating_point() or own.is_complex()):
                self._parameters.append(own)
                self._watch(own)

    def _watch(self, parameter: Any) -> None:
        """Registers hooks that run before and after a gradient is added to that of a parameter."""
        frozen = not parameter.requires_grad
        parameter.requires_grad_(True)
        with torch.enable_grad():
            node = parameter.view_as(parameter).grad_fn.next_functions[0][0]
        before = parameter.register_hook(lambda gradient: self._before(parameter, gradient))
        after = node.register_hook(lambda *unused: self._after(parameter))
        parameter.requires_grad_(not frozen)
        self._handles += [before, after, node]  # torch drops a node without references

    def remove(self) -> None:
        """Removes the hooks: another Training has the models."""
        for handle in self._handles:
            if hasattr(handle, "remove"):
                handle.remove()
        self._handles, self._parameters, self._is_off = [], [], True

    # During the passes

    def off(self, is_off: bool) -> None:
        """Sets whether gradients stay unchanged, for trial passes."""
        self._is_off = is_off

    def begin(self, sizes: Sequence[int]) -> None:
        """Starts the passes of a step on all ranks, with the samples of each rank; [world_size]."""
        self._sizes, self._is_done = sizes, False
        all_have_samples = min(sizes) > 0
        self._count, self._late, self._next = {}, {}, 0
        self._buckets = self._in_buckets(self._used) if self._is_regular and all_have_samples else []
        self._place = {own: bucket.index() for bucket in self._buckets for own in bucket.parameters()}
        for bucket in self._buckets:
            bucket.waits_for = len(bucket.parameters())

    def begin_pass(self, is_last: bool) -> None:
        """Starts a pass of a step; `is_last` says whether it is this rank's last one."""
        self._is_inside, self._is_last_pass = True, is_last

    def _before(self, parameter: Any, gradient: Any) -> None:
        if self._is_last_pass and self._place.get(parameter, self._next) < self._next:
            earlier = self._late.get(parameter)
            self._late[parameter] = gradient.detach().clone() if earlier is None else earlier + gradient.detach()

    def _after(self, parameter: Any) -> None:
        if self._is_off:
            return
        if not self._is_inside:  # a backward pass outside the steps, or after the micro-batches of one
            if not self._is_queued:
                torch.autograd.Variable._execution_engine.queue_callback(self.finish)  # type: ignore[attr-defined]
            self._is_queued = True
            return
        self._is_pending = True
        if not self._is_last_pass:
            return
        self._count[parameter] = self._count.get(parameter, 0) + 1
        if self._count[parameter] == 1 and parameter in self._place:
            self._buckets[self._place[parameter]].waits_for -= 1
            while self._next < len(self._buckets) and self._buckets[self._next].waits_for == 0:
                self._send(self._buckets[self._next])

    def _send(self, bucket: Bucket) -> None:
        bucket._is_last = bucket.index() == len(self._buckets) - 1
        bucket.send(self._hook)
        self._next += 1

    # At the end of a step

    def before_optimizer(self) -> None:
        """Exchanges gradients for an optimizer that steps within the last pass; raises RuntimeError if it steps earlier, or if a rank has no samples."""
        if not self._is_inside:
            return
        if not self._is_last_pass:
            raise RuntimeError("optimizer.step() came before the last micro-batch of the step: call it after the loop over the micro-batches")
        if min(self._sizes) == 0:
            raise RuntimeError("optimizer.step() came in the loop over micro-batches, but a rank has no samples in this step: call it after the loop")
        self.finish()

    def abandon(self) -> None:
        """Ends the passes of a step that the program left early or did not start."""
        self._is_inside = self._is_last_pass = self._is_pending = False

    def end(self) -> None:
        """Ends the passes of a step, on all ranks."""
        self._is_inside = self._is_last_pass = False
        if self._is_pending or not self._is_done:
            self.finish()

    def finish(self) -> None:
        """Averages the gradients over the ranks, and copies the buffers of the first rank with samples. All ranks must call this."""
        self._is_pending, self._is_queued, self._is_done = False, False, True
        if self.me.world_size == 1 or self._is_off:
            return
        for bucket in self._buckets[self._next:]:
            self._send(bucket)
        used, sparse, is_late, self._is_regular = self._agree()
        with torch.no_grad():
            for bucket in self._buckets:
                bucket.receive(self._late, set(used), sparse)
            rest = self._in_buckets(used if is_late else [own for own in used if own not in self._place])
            for bucket in rest:
                bucket.send(self._hook)
            for bucket in rest:
                bucket.receive({}, set(used), sparse)
        self._used, self._buckets, self._place, self._next, self._late = used, [], {}, 0, {}
        self._share_buffers(next(rank for rank, size in enumerate(self._sizes) if size))

    def _agree(self) -> Tuple[List[Any], AbstractSet[Any], bool, bool]:
        """Returns the parameters with a gradient on any rank, those with a sparse one, whether any came too late, and whether all were regular and none was sparse."""
        is_regular = min(self._sizes) > 0 and all(self._count.get(own) == (1 if own.grad is not None else None) for own in self._parameters)
        facts = [int(bool(self._late)), int(is_regular)]
        facts += [0 if own.grad is None else 1 + SPARSE * own.grad.is_sparse for own in self._parameters]
        told = torch.tensor(facts, dtype=torch.int64, device="cpu")
        dist.all_reduce(told, group=self._control)
        late, regular, *users = told.tolist()
        used = [own for own, count in zip(self._parameters, users) if count]
        sparse = {own for own, count in zip(self._parameters, users) if count >= SPARSE}
        return used, sparse, late > 0, regular == self.me.world_size and not sparse

    def _in_buckets(self, parameters: Sequence[Any]) -> List[Bucket]:
        """Returns buckets of parameters, the last ones first, because their gradients come first."""
        groups: List[List[Any]] = []
        sizes: List[int] = []
        for own in reversed(parameters):
            size = own.numel() * own.element_size()
            fits = groups and sizes[-1] + size <= BUCKET_BYTES and (groups[-1][0].dtype, groups[-1][0].device) == (own.dtype, own.device)
            if fits:
                groups[-1].append(own)
                sizes[-1] += size
            else:
                groups.append([own])
                sizes.append(size)
        return [Bucket(index, group) for index, group in enumerate(groups)]

    def _all_reduce(self, state: Any, bucket: Bucket) -> Any:
        flat = bucket.buffer().div_(self.me.world_size)
        return dist.all_reduce(flat, group=self.me.group, async_op=True).get_future()

    def _shared_buffers(self) -> Iterable[Any]:
        for model in self._models:
            ignored = set(getattr(model, "parameters_to_ignore", ()))
            for name, own in model.module.named_buffers() if model.broadcast_buffers else ():
                if name not in ignored:
                    yield own

    def _share_buffers(self, source: int) -> None:
        """Copies the buffers of one rank to the others."""
        buffers = list(self._shared_buffers())
        source = source if self.me.group is None else dist.get_global_rank(self.me.group, source)
        with torch.no_grad():
            for kind in sorted({(str(own.dtype), str(own.device)) for own in buffers}):
                group = [own for own in buffers if (str(own.dtype), str(own.device)) == kind]
                flat = torch.cat([own.detach().reshape(-1) for own in group])
                dist.broadcast(flat, source, group=self.me.group)
                for own, values in zip(group, flat.split([own.numel() for own in group])):
                    own.copy_(values.view_as(own))
