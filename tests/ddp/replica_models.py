"""Models for replicas, one divided among the ranks of a replica by hand and one whole in each rank, with their checkpoints."""
import os
from typing import Any, List

import torch
from torch import distributed, nn


class ByHand(nn.Module):
    """Two layers whose hidden units are divided among the ranks of a replica, and a norm that all of these ranks have.

    Needs only process groups.
    """

    def __init__(self, me: Any, hidden: int = 8) -> None:
        super().__init__()
        torch.manual_seed(3)
        first, second = torch.randn(hidden, 6) / 3, torch.randn(3, hidden) / 3
        own = slice(me.replica_rank * hidden // me.replica_size, (me.replica_rank + 1) * hidden // me.replica_size)
        self.first, self.second, self.group = nn.Parameter(first[own]), nn.Parameter(second[:, own]), me.replica_group
        self.norm = nn.BatchNorm1d(6, track_running_stats=True)
        self.norm.eval()  # its statistics would be those of a replica's samples alone
        self.register_buffer("seen", torch.zeros(1))

    def train(self, mode: bool = True) -> Any:
        return self

    def forward(self, inputs: Any) -> Any:
        if torch.is_grad_enabled():
            self.seen += 1.0  # type: ignore[operator]
        hidden = torch.tanh(Shared.apply(self.norm(inputs), self.group) @ self.first.t())
        return Added.apply(hidden @ self.second.t(), self.group)


class Shared(torch.autograd.Function):
    """A tensor that all ranks of a replica use: its gradient is the sum of their gradients."""

    @staticmethod
    def forward(context: Any, values: Any, group: Any) -> Any:
        context.group = group
        return values.clone()

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        gradient = gradient.clone()
        distributed.all_reduce(gradient, group=context.group)
        return gradient, None


class Added(torch.autograd.Function):
    """A sum over the ranks of a replica."""

    @staticmethod
    def forward(context: Any, values: Any, group: Any) -> Any:
        values = values.clone()
        distributed.all_reduce(values, group=group)
        return values

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        return gradient, None


def gathered(tensor: Any, dim: int, me: Any) -> Any:
    """Returns a tensor of which each rank of a replica has a part."""
    parts = [torch.empty_like(tensor) for _ in range(me.replica_size)]
    distributed.all_gather(parts, tensor.detach().contiguous(), group=me.replica_group)
    return torch.cat(parts, dim)


class HandCheckpoint:
    """A checkpoint of `ByHand`: the first rank writes whole weights, and each rank takes its part. Without momentum there is nothing else."""

    def __init__(self, me: Any, model: ByHand, fails: bool = False) -> None:
        self.me, self.model, self.fails = me, model, fails

    def whole(self) -> List[Any]:
        model = self.model
        return [gathered(model.first, 0, self.me), gathered(model.second, 1, self.me), model.norm.weight.detach(), model.norm.bias.detach()]

    def save(self, folder: str) -> None:
        whole = self.whole()
        if self.fails and self.me.replica_rank == 1:
            raise OSError("the disk is full")
        if self.me.rank == 0:
            torch.save(whole, os.path.join(folder, "weights.pt"))

    def load(self, folder: str) -> None:
        first, second, weight, bias = torch.load(os.path.join(folder, "weights.pt"))
        size, place = self.me.replica_size, self.me.replica_rank
        with torch.no_grad():
            for own, part in zip((self.model.first, self.model.second, self.model.norm.weight, self.model.norm.bias),
                                 (first.chunk(size, 0)[place], second.chunk(size, 1)[place], weight, bias)):
                own.copy_(part)


class Sparse(nn.Module):
    """A model whose table of rows has sparse gradients, whole in each rank."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.table, self.layer = nn.Embedding(4, 3, sparse=True), nn.Linear(6, 3)

    def forward(self, inputs: Any) -> Any:
        rows = (inputs[:, 0] > 0).long() * 2 + (inputs[:, 1] > 0).long()
        return self.table(rows) + self.layer(inputs)


class WholeCheckpoint:
    """A checkpoint of a model that each rank has whole."""

    def __init__(self, me: Any, model: nn.Module) -> None:
        self.me, self.model = me, model

    def whole(self) -> List[Any]:
        return [own.detach() for own in self.model.parameters()]

    def save(self, folder: str) -> None:
        if self.me.rank == 0:
            torch.save(self.model.state_dict(), os.path.join(folder, "weights.pt"))

    def load(self, folder: str) -> None:
        self.model.load_state_dict(torch.load(os.path.join(folder, "weights.pt")))
