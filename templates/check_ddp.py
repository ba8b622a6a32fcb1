"""The checks of `hsched check-ddp`: real ranks of unequal size, against one process that does it all.

hsched gives this text to Python's standard input, after two lines that set PACKAGE (paths and texts of hsched_ddp) and
DEVICE ("cpu" or "cuda"). It prints one JSON object. Nothing is left on the disk.
"""
import datetime
import importlib
import importlib.util
import itertools
import json
import os
import platform
import signal
import socket
import sys
import tempfile
import traceback
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

RANKS = 4
LIMITS = {"gradient float64": 1e-6, "gradient float32": 1e-4, "extra passes": 1e-6, "shared statistics": 1e-6, "order of samples": 0.0,
          "stopped and resumed": 1e-9}
"""The largest acceptable relative error (for the order, the number of differences)."""
PLAIN = "plain DDP"
"""The control: the same batches without weights, where an error must show."""
PLAIN_AT_LEAST = 1e-2

SHARES = {2: [(31, 1), (1, 31), (20, 12)], 3: [(31, 1, 8), (5, 3, 8)], 4: [(31, 1, 1, 7), (10, 2, 3, 1)]}
"""Batches of the ranks, by the number of ranks."""

TIMEOUT_S = 120.0
"""The longest that a rank waits for another one."""


class Worst:
    """The largest error of each check so far, and the number of comparisons."""

    def __init__(self) -> None:
        self.errors = {}  # type: Dict[str, float]
        self.cases = {}  # type: Dict[str, int]

    def add(self, name: str, error: float) -> None:
        error = error if error == error else float("inf")
        self.errors[name] = max(self.errors.get(name, 0.0), error)
        self.cases[name] = self.cases.get(name, 0) + 1


def load_helper(folder: str) -> Any:
    """Imports the package from a folder that only this check has."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.join(folder, "package"))
    return importlib.import_module("hsched_ddp")


def lay_out(folder: str) -> None:
    """Writes the package below a folder."""
    for path, text in PACKAGE.items():  # type: ignore[name-defined]
        whole = os.path.join(folder, "package", path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", encoding="utf-8") as file:
            file.write(text)


class Bench:
    """One process's side of all checks."""

    def __init__(self, helper: Any, torch: Any) -> None:
        self.helper, self.torch, self.worst = helper, torch, Worst()
        on_gpu = DEVICE == "cuda"  # type: ignore[name-defined]
        self.backend = "nccl" if on_gpu and torch.cuda.device_count() >= RANKS else "gloo"
        self.me = helper.init(global_batch=RANKS, backend=self.backend, timeout_s=TIMEOUT_S)
        if on_gpu and self.me.device.type != "cuda":
            raise RuntimeError("torch sees no GPU")
        self.groups = {world: self.group(world, self.backend) for world in SHARES}
        self.controls = {world: self.group(world, "gloo") for world in SHARES}

    def group(self, world: int, backend: str) -> Any:
        return self.torch.distributed.new_group(list(range(world)), datetime.timedelta(seconds=TIMEOUT_S), backend)

    def ranks(self, batches: Tuple[int, ...], micro_batch: Optional[int], **more: Any) -> Optional[Any]:
        """Returns this process as a rank of a world with these batches; None if the world is too small to include it."""
        if self.me.rank >= len(batches):
            return None
        world = len(batches)
        return self.helper.replace(self.me, world_size=world, batches=batches, group=self.groups[world],
                                   control=self.controls[world], micro_batch=micro_batch or batches[self.me.rank], **more)

    def whole(self, batches: Tuple[int, ...], **more: Any) -> Any:
        """Returns the world of one rank that takes whole batches."""
        size = sum(batches)
        return self.helper.replace(self.me, rank=0, world_size=1, batches=(size,), micro_batch=size, **more)

    def data(self, samples: int, dtype: Any, ignored: float = 0.5) -> Any:
        """Inputs, and five labels for each sample. The fraction `ignored` of the labels does not count, but the first of each sample does."""
        torch = self.torch
        noise = torch.Generator().manual_seed(7)
        inputs = torch.randn(samples, 6, generator=noise, dtype=torch.float64)
        labels = torch.randint(0, 3, (samples, 5), generator=noise)
        labels[:, 1:][torch.rand(samples, 4, generator=noise) < ignored] = -100
        return torch.utils.data.TensorDataset(inputs.to(dtype), labels)

    def model(self, dtype: Any, dropout: float = 0.0) -> Any:
        nn = self.torch.nn
        self.torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 15))
        model.register_buffer("sent", self.torch.zeros(1))  # DDP sends buffers from rank 0 to the others
        return model.to(self.me.device, dtype)

    def normalised(self, group: Any = None) -> Any:
        """Returns a model that normalises over the samples of all ranks, as SyncBatchNorm does on GPUs, or of this rank
        if there is no group."""
        torch, model = self.torch, self.model(self.torch.float64)

        class Total(torch.autograd.Function):  # type: ignore[name-defined,misc]
            @staticmethod
            def forward(context: Any, values: Any) -> Any:
                total = values.clone()
                torch.distributed.all_reduce(total, group=group)
                return total

            @staticmethod
            def backward(context: Any, gradient: Any) -> Any:
                return Total.forward(context, gradient)

        class Norm(torch.nn.Module):  # type: ignore[name-defined,misc]
            def forward(self, inputs: Any) -> Any:
                sums = torch.cat([inputs.sum(0), inputs.square().sum(0), inputs.new_full((1,), len(inputs))])
                sums = Total.apply(sums) if group else sums
                means = sums[:-1].reshape(2, -1) / sums[-1]
                return (inputs - means[0]) / (means[1] - means[0].square() + 1e-5).sqrt()
        return torch.nn.Sequential(model[0], Norm(), *model[1:])

    def loss(self, model: Any, batch: Any, reduction: str) -> Any:
        inputs, labels = (part.to(self.me.device) for part in batch)
        outputs = model(inputs).reshape(-1, 5, 3).transpose(1, 2)
        return self.torch.nn.functional.cross_entropy(outputs, labels, reduction=reduction)

    def wrapped(self, model: Any, me: Any) -> Any:
        return self.torch.nn.parallel.DistributedDataParallel(model, process_group=me.group)

    def gradient(self, model: Any) -> Any:
        return self.torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    def expected(self, model: Any, data: Any, batches: Tuple[int, ...]) -> Iterator[Any]:
        """Yields the gradient of each whole batch's mean loss, by one process."""
        for indices in self.helper.BatchSampler(len(data), self.whole(batches), seed=5):
            model.zero_grad()
            self.loss(model, data[indices], "mean").backward()
            yield self.gradient(model)

    def error(self, got: Any, wanted: Any) -> float:
        return float((got - wanted).norm() / wanted.norm())

    def check_gradients(self, name: str, dtype: Any, batches: Tuple[int, ...], micro_batch: Optional[int], reduction: str) -> None:
        me = self.ranks(batches, micro_batch)
        if me is None:
            return
        data = self.data(2 * me.global_batch + 2, dtype)  # the last two steps share what is left
        models = [self.wrapped(self.model(dtype), me) for _ in range(2)]  # side by side, as those of a GAN
        sampler = self.helper.BatchSampler(len(data), me, seed=5)
        training = self.helper.Training(me, sampler, models=models)
        loader = self.torch.utils.data.DataLoader(data, batch_sampler=sampler)
        expected = self.expected(self.model(dtype), data, batches)
        steps = training.steps(loader, count=lambda batch: int((batch[1] != -100).sum()))
        for step, wanted in zip(steps, expected):
            for model in models:
                model.zero_grad()
            for batch in step:
                for model in models:
                    step.scale(self.loss(model, batch, reduction), reduction).backward()
            for model in models:
                self.worst.add(name, self.error(self.gradient(model), wanted))

    def check_extra_passes(self, batches: Tuple[int, ...]) -> None:
        """Makes forward passes without a backward pass and second backward passes, in unequal numbers on the ranks."""
        me = self.ranks(batches, 3)
        if me is None:
            return
        data = self.data(2 * me.global_batch + 2, self.torch.float64)
        generator, critic = (self.wrapped(self.model(self.torch.float64), me) for _ in range(2))
        sampler = self.helper.BatchSampler(len(data), me, seed=5)
        training = self.helper.Training(me, sampler, models=[generator, critic])
        expected = self.expected(self.model(self.torch.float64), data, batches)
        steps = training.steps(self.torch.utils.data.DataLoader(data, batch_sampler=sampler), count=lambda batch: int((batch[1] != -100).sum()))
        for step, wanted in zip(steps, expected):
            generator.zero_grad()
            critic.zero_grad()
            for batch in step:
                critic(batch[0].to(me.device)).detach()
                for model in (generator, critic, generator):
                    step.scale(self.loss(model, batch, "mean"), "mean").backward()
                generator(batch[0].to(me.device)).argmax()
            self.worst.add("extra passes", self.error(self.gradient(critic), wanted))
            self.worst.add("extra passes", self.error(self.gradient(generator), 2 * wanted))

    def check_statistics(self, batches: Tuple[int, ...]) -> None:
        """Trains, in a loop without Training, a model whose outputs depend on the samples of all ranks."""
        me = self.ranks(batches, None)
        if me is None:
            return
        data = self.data(2 * me.global_batch + 2, self.torch.float64, ignored=0.0)
        model = self.wrapped(self.normalised(me.group), me)
        sampler = self.helper.BatchSampler(len(data), me, seed=5)
        expected = self.expected(self.normalised(), data, batches)
        for step, (indices, wanted) in enumerate(zip(sampler, expected)):
            model.zero_grad()
            loss = self.loss(model, data[indices], "mean")
            self.helper.scale_loss(loss, me, len(indices), sampler.block(step)).backward()
            self.worst.add("shared statistics", self.error(self.gradient(model), wanted))

    def check_plain(self, batches: Tuple[int, ...]) -> None:
        me = self.ranks(batches, None)
        if me is None:
            return
        data, model = self.data(me.global_batch, self.torch.float64), self.model(self.torch.float64)
        wanted = next(self.expected(self.model(self.torch.float64), data, batches))
        indices = next(iter(self.helper.BatchSampler(len(data), me, seed=5)))
        self.loss(self.wrapped(model, me), data[indices], "mean").backward()
        self.worst.add(PLAIN, self.error(self.gradient(model), wanted))

    def check_order(self) -> None:
        for batches, left in itertools.product(itertools.chain(*SHARES.values()), (0, 1, 5)):
            samples = 3 * sum(batches) + left
            whole = self.helper.BatchSampler(samples, self.whole(batches), seed=2)
            samplers = [self.helper.BatchSampler(samples, self.helper.replace(self.whole(batches), rank=rank, batches=batches,
                                                                              world_size=len(batches), micro_batch=3), seed=2)
                        for rank in range(len(batches))]
            rows = [iter(sampler) for sampler in samplers]
            wrong = sum(sampler.steps != whole.steps for sampler in samplers)
            for step, block in enumerate(whole):
                parts = [[next(row) for _ in sampler.parts(step)] for sampler, row in zip(samplers, rows)]
                wrong += sum(not all(part) for part in parts) + (list(itertools.chain(*itertools.chain(*parts))) != block)
            self.worst.add("order of samples", float(wrong + (sorted(itertools.chain(*whole)) != list(range(samples)))))

    def curve(self, me: Any, dropout: float, limit: Optional[int] = None) -> List[float]:
        """Trains from the checkpoint, if there is one, and returns the loss after every step; saves and stops after `limit` steps."""
        torch = self.torch
        data, model = self.data(3 * me.global_batch + 9, torch.float64), self.model(torch.float64, dropout)
        torch.manual_seed(me.rank)
        optimizer = torch.optim.SGD(model.parameters(), lr=3.0, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
        sampler = self.helper.BatchSampler(len(data), me)
        parts = {"optimizer": optimizer, "scheduler": scheduler}
        training = self.helper.Training(me, sampler, self.wrapped(model, me), save_every=100, **parts)
        training.resume()
        loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)
        losses = []
        for _ in training.epochs():
            for step in training.steps(loader):
                optimizer.zero_grad()
                for batch in step:
                    # The samples have different numbers of counted labels, so the mean is taken over positions.
                    loss = self.loss(training.model, batch, "sum") / 5
                    step.scale(loss, "sum").backward()
                optimizer.step()
                scheduler.step()
                model.eval()
                with torch.no_grad():
                    losses.append(float(self.loss(model, data[:], "mean")))
                model.train()
                if len(losses) == limit:
                    training.save()
                    return losses
        return losses

    def check_resume(self, folder: str, parts: List[Any], dropout: float = 0.0) -> None:
        """Compares a training by the ranks of the first part with one by those of each part in turn."""
        at = {"checkpoint_dir": folder, "epochs": 3}
        first = self.ranks(*parts[0][:2], **dict(at, checkpoint_dir=os.path.join(folder, "whole")))
        whole = self.curve(first, dropout) if first else []
        got = []  # type: List[float]
        for batches, micro_batch, limit in parts:
            me = self.ranks(batches, micro_batch, **at)
            if me is not None:
                got += self.curve(me, dropout, limit)
            self.torch.distributed.barrier()  # those that are not in this world wait for its checkpoint
        if self.me.rank == 0:
            error = max(abs(a - b) / a for a, b in zip(whole, got))
            self.worst.add("stopped and resumed", error if len(got) == len(whole) else float("inf"))

    def run(self, folder: str) -> Dict[str, Any]:
        self.check_order()
        for batches, micro_batch, reduction in itertools.product(itertools.chain(*SHARES.values()), (None, 3), ("mean", "sum")):
            self.check_gradients("gradient float64", self.torch.float64, batches, micro_batch, reduction)
            self.check_gradients("gradient float32", self.torch.float32, batches, micro_batch, reduction)
        for batches in itertools.chain(*SHARES.values()):
            self.check_extra_passes(batches)
            self.check_statistics(batches)
            self.check_plain(batches)
        self.check_resume(os.path.join(folder, "a"), [((31, 1, 1, 7), None, 4), ((13, 27), 6, 3), ((4, 30, 6), 5, None)])
        # Each rank has its own random numbers, which must also resume where they stopped.
        self.check_resume(os.path.join(folder, "b"), [((13, 27), 6, 2), ((13, 27), 6, 5), ((13, 27), 6, None)], 0.3)
        return {"errors": self.worst.errors, "cases": self.worst.cases, "torch": self.torch.__version__,
                "device": self.me.device.type, "backend": self.backend}


def work(rank: int, port: int, folder: str) -> Dict[str, Any]:
    for name in list(os.environ):
        if name.startswith("HSCHED_"):
            del os.environ[name]
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if DEVICE == "cpu":  # type: ignore[name-defined]
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import torch
    torch.set_num_threads(1)
    return Bench(load_helper(folder), torch).run(folder)


def start(rank: int, port: int, folder: str) -> Tuple[int, int]:
    """Starts a rank; returns its process and where to read its answer."""
    source, sink = os.pipe()
    child = os.fork()  # torch is not loaded yet
    if child:
        os.close(sink)
        return child, source
    status = 1
    try:
        answer = work(rank, port, folder)
        status = 0
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        said = "".join(traceback.format_exception_only(type(error), error)).strip()
        answer = {"problem": "rank %d: %s (%s:%d)" % (rank, said, place.filename, place.lineno)}
    os.write(sink, json.dumps(answer).encode())
    os._exit(status)


def answers(folder: str) -> List[Dict[str, Any]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = dict(start(rank, port, folder) for rank in range(RANKS))
    left = set(ranks)
    order = []
    while left:
        child, status = os.wait()
        left.discard(child)
        order.append(child)
        if status != 0:  # the others would wait for it
            for other in left:
                os.kill(other, signal.SIGKILL)
    texts = [os.read(ranks[child], 1 << 16).decode() for child in order]
    return [json.loads(text) if text else {"problem": "a rank died without an error message"} for text in texts]


def main() -> Dict[str, Any]:
    result = {"python": platform.python_version(), "torch": None, "problem": None, "checks": []}  # type: Dict[str, Any]
    if importlib.util.find_spec("torch") is None:
        return dict(result, problem="no module named torch")
    with tempfile.TemporaryDirectory() as folder:
        lay_out(folder)
        ranks = answers(folder)
    result["problem"] = next((rank["problem"] for rank in ranks if "problem" in rank), None)
    if result["problem"] is None:
        result.update((key, ranks[0][key]) for key in ("torch", "device", "backend"))
        for name in list(LIMITS) + [PLAIN]:
            worst = min(max(rank["errors"].get(name, 0.0) for rank in ranks), sys.float_info.max)  # JSON has no infinity
            check = {"name": name, "error": worst, "cases": max(rank["cases"].get(name, 0) for rank in ranks)}
            check.update({"limit": None, "right": worst >= PLAIN_AT_LEAST} if name == PLAIN else
                         {"limit": LIMITS[name], "right": worst <= LIMITS[name]})
            result["checks"].append(check)
    return result


if __name__ == "__main__":
    json.dump(main(), sys.stdout)
