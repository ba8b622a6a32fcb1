"""Steps in which ranks make unequal passes, and what users wrap around them: gradients must be those of one process."""
from typing import Any, Callable, Dict, List, Optional, Sequence

import hsched_ddp
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from world import World, difference

SHARES, MICRO = (6, 2), (3, 2)
"""Two passes on the first rank, one on the second."""


def data(samples: int = 40, seed: int = 7) -> TensorDataset:
    draw = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(samples, 6, generator=draw), torch.randint(0, 3, (samples,), generator=draw))


def network(seed: int = 3, hidden: int = 16, dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, hidden), nn.Tanh(), nn.Dropout(dropout), nn.Linear(hidden, 3))


Body = Callable[[Any, Any, Any], None]
"""The handling of a step by a program: the training, the step, the optimizer."""


def plain(training: Any, step: Any, optimizer: Any) -> None:
    optimizer.zero_grad()
    for inputs, labels in step:
        step.scale(functional.cross_entropy(training.model(inputs), labels)).backward()
    optimizer.step()


def trained(world: World, me: Any, body: Body, make: Callable[[], nn.Module] = network, wrap: Callable[[Any], Any] = lambda model: model,
            optimizer: Callable[[Any], Any] = lambda own: torch.optim.AdamW(own, lr=0.05), epochs: int = 2, options: Optional[Dict[str, Any]] = None, samples: int = 43, loader: Optional[Dict[str, Any]] = None, **more: Any) -> List[Any]:
    """Trains and returns the parameters and buffers."""
    model = world.wrapped(make(), me, **(options or {}))
    me = hsched_ddp.replace(me, epochs=epochs, checkpoint_dir=world.path("checkpoints of %d" % me.world_size))
    stepper = optimizer(model.parameters())
    sampler = hsched_ddp.BatchSampler(samples, me)
    training = hsched_ddp.Training(me, sampler, wrap(model), optimizer=stepper, **more)
    batches = DataLoader(data(samples), batch_sampler=sampler, **(loader or {}))
    for _ in training.epochs():
        for step in training.steps(batches):
            body(training, step, stepper)
    return [*model.module.parameters(), *model.module.buffers()]


def compare(world: World, body: Body, shares: Sequence[int] = SHARES, micro: Optional[Sequence[int]] = MICRO, **more: Any) -> Optional[float]:
    """Returns how far the weights of ranks are from those of one process; fails unless they are equal on all ranks."""
    me = world.rank(shares, micro)
    together = trained(world, me, body, **more) if me else None
    if together is not None:
        first = [own.detach().clone() for own in together]
        for own in first:
            torch.distributed.broadcast(own, 0, group=me.group)
        assert difference(together, first) == 0.0, "ranks have different weights"
    alone = world.alone(sum(shares))
    return difference(together, trained(world, alone, body, **more)) if alone and together else None


def micro_batches(world: World) -> Optional[float]:
    return compare(world, plain)


def extra_forward(world: World) -> Optional[float]:
    """An accuracy from a second forward pass with gradients, in the loop over micro-batches and after it."""
    def body(training: Any, step: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        for inputs, labels in step:
            step.scale(functional.cross_entropy(training.model(inputs), labels)).backward()
            training.model(inputs).argmax(1)
        optimizer.step()
        training.model(torch.zeros(1, 6))
    return compare(world, body)


def two_backward_passes(world: World) -> Optional[float]:
    """Two losses of a micro-batch, each with its own pass."""
    def body(training: Any, step: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        for inputs, labels in step:
            step.scale(functional.cross_entropy(training.model(inputs), labels)).backward()
            step.scale(training.model(inputs).pow(2).mean()).backward()
        optimizer.step()
    return compare(world, body)


def sometimes_two_backward_passes(world: World) -> Optional[float]:
    """A second backward pass that comes when gradients are on their way: every third step."""
    def body(training: Any, step: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        for inputs, labels in step:
            step.scale(functional.cross_entropy(training.model(inputs), labels)).backward()
            if training.global_step % 3 == 2:
                step.scale(training.model(inputs).pow(2).mean()).backward()
        optimizer.step()
    return compare(world, body)


def backward_after_the_loop(world: World) -> Optional[float]:
    def body(training: Any, step: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        losses = [step.scale(functional.cross_entropy(training.model(inputs), labels)) for inputs, labels in step]
        sum(losses).backward()
        optimizer.step()
    return compare(world, body)


def optimizer_in_the_loop(world: World) -> Optional[float]:
    """A program without micro-batches that steps in the loop over them."""
    def body(training: Any, step: Any, optimizer: Any) -> None:
        for inputs, labels in step:
            optimizer.zero_grad()
            step.scale(functional.cross_entropy(training.model(inputs), labels)).backward()
            optimizer.step()
    return compare(world, body, micro=None)


class Switched(nn.Module):
    """A network with a part that is used only for some inputs, and a part that is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.extra, self.never = network(), network(4), nn.Linear(2, 2)

    def forward(self, inputs: Any) -> Any:
        outputs = self.body(inputs)
        chosen = inputs[:, 0] > 0.8
        return outputs.index_add(0, chosen.nonzero().reshape(-1), self.extra(inputs[chosen])) if chosen.any() else outputs


def unused_parameters(world: World) -> Optional[float]:
    """find_unused_parameters with micro-batches, which torch 1.13 itself gets wrong."""
    return compare(world, plain, make=Switched, options={"find_unused_parameters": True})


def static_graph(world: World) -> Optional[float]:
    return compare(world, plain, options={"static_graph": True})


def bucket_view(world: World) -> Optional[float]:
    return compare(world, plain, options={"gradient_as_bucket_view": True})


def frozen_part(world: World) -> Optional[float]:
    """A part that is frozen when the model is wrapped, and thaws later."""
    def make() -> nn.Module:
        model = network()
        model[0].requires_grad_(False)
        return model

    def body(training: Any, step: Any, optimizer: Any) -> None:
        inner = training.model.module
        inner[0].requires_grad_(training.epoch > 0)
        plain(training, step, optimizer)
    return compare(world, body, make=make)


def clipping(world: World) -> Optional[float]:
    def body(training: Any, step: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        for inputs, labels in step:
            step.scale(functional.cross_entropy(training.model(inputs), labels)).backward()
        nn.utils.clip_grad_norm_(training.model.parameters(), 0.05)
        optimizer.step()
    return compare(world, body, shares=(5, 2, 1), micro=(2, 2, 1))


def many_buckets(world: World) -> Optional[float]:
    """Gradients that travel in several buckets during the backward pass."""
    hsched_ddp.exchange.BUCKET_BYTES = 300
    return compare(world, plain, shares=(5, 2, 1), micro=(2, 2, 1))


class Words(nn.Module):
    """A table of words with sparse gradients."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.table, self.head = nn.Embedding(9, 4, sparse=True), nn.Linear(4, 3)

    def forward(self, inputs: Any) -> Any:
        return self.head(torch.tanh(self.table((inputs.abs() * 3).long().clamp(max=8)).sum(1)))


def sparse_gradients(world: World) -> Optional[float]:
    def make_optimizer(parameters: Any) -> Any:
        return torch.optim.SGD(parameters, lr=0.1)
    return compare(world, plain, make=Words, optimizer=make_optimizer)


def own_hook(world: World) -> Optional[float]:
    """A communication hook of torch's, without compression, that replaces the all-reduce."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    me = world.rank(SHARES, MICRO)
    calls: List[int] = []

    def hook(state: Any, bucket: Any) -> Any:
        calls.append(bucket.index())
        return default_hooks.allreduce_hook(me.group, bucket)
    figure = compare(world, plain, comm_hook=hook)
    assert me is None or calls
    return figure


def adversarial(world: World, freeze: bool) -> Optional[float]:
    """A GAN: the discriminator's step with detached samples, then the generator's through the discriminator."""
    def train(me: Any) -> List[Any]:
        me = hsched_ddp.replace(me, epochs=2, checkpoint_dir=world.path("gan of %d" % me.world_size))
        torch.manual_seed(5)
        generator = world.wrapped(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 6)), me)
        critic = world.wrapped(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)), me)
        optimizers = [torch.optim.Adam(own.parameters(), lr=0.01) for own in (generator, critic)]
        noise = torch.randn(43, 4, generator=torch.Generator().manual_seed(1))
        sampler = hsched_ddp.BatchSampler(43, me)
        training = hsched_ddp.Training(me, sampler, models=[generator, critic], first=optimizers[0], second=optimizers[1])
        loader = DataLoader(TensorDataset(data(43).tensors[0], noise), batch_sampler=sampler)
        for _ in training.epochs():
            for step in training.steps(loader, keep=True):
                critic.requires_grad_(True)
                critic.zero_grad()
                for real, drawn in step:
                    fake = generator(drawn).detach()
                    loss = functional.softplus(-critic(real)).mean() + functional.softplus(critic(fake)).mean()
                    step.scale(loss).backward()
                optimizers[1].step()
                critic.requires_grad_(not freeze)
                generator.zero_grad()
                for _, drawn in step:
                    step.scale(functional.softplus(-critic(generator(drawn))).mean()).backward()
                optimizers[0].step()
        return [*generator.module.parameters(), *critic.module.parameters()]
    me, alone = world.rank(SHARES, MICRO), world.alone(8)
    together = train(me) if me else None
    return difference(together, train(alone)) if alone and together else None


def gan(world: World) -> Optional[float]:
    return adversarial(world, False)


def gan_with_a_frozen_discriminator(world: World) -> Optional[float]:
    return adversarial(world, True)


CASES = [micro_batches, extra_forward, two_backward_passes, sometimes_two_backward_passes, backward_after_the_loop, optimizer_in_the_loop, unused_parameters,
         static_graph, bucket_view, frozen_part, clipping, many_buckets, sparse_gradients, own_hook, gan, gan_with_a_frozen_discriminator]
