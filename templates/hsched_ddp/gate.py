"""The gate at which hsched makes a training wait, and the handling of its tensors in the meantime. docs/training.md has the protocol."""
from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

from .optional import torch
from .process import stop_requested

PARKED = {"park": "parked", "offload": "offloaded"}  # requests to wait, and the resulting state


class Gate:
    """The gate of a training: a file with hsched's last request, which is replaced atomically, and a pipe that wakes each rank.

    A rank never waits during an exchange with other ranks. docs/training.md has the protocol.
    """

    def __init__(self, path: str, rank: int, limit_s: float) -> None:
        self.path, self.limit_s, self.number = path, limit_s, 0
        self.parks = False  # whether this program waits when it is asked to
        self.reports = ""  # the folder for this rank's reports, if it has changed since the start
        self._own = "%s.%d" % (path, rank)
        self._bell: Optional[int] = None
        with contextlib.suppress(OSError):  # on a file system without pipes, the file is read once a second
            with contextlib.suppress(FileExistsError):
                os.mkfifo(self._own + ".bell")
            self._bell = os.open(self._own + ".bell", os.O_RDWR | os.O_NONBLOCK)

    def read(self) -> Tuple[int, str]:
        """Returns the number of hsched's last request, and the request: go, park or offload; 0 and go if there is none."""
        try:
            with open(self.path) as file:
                wish = json.load(file)
        except FileNotFoundError:
            return 0, "go"
        self.reports = str(wish.get("reports") or self.reports)
        return int(wish["number"]), str(wish["want"])

    def say(self, state: str) -> None:
        """Acknowledges the last request that this rank has read, and wakes hsched."""
        with open(self._own + ".tmp", "w") as file:
            json.dump({"number": self.number, "state": state, "pid": os.getpid(), "parks": self.parks, "memory": memory()}, file)
        os.replace(self._own + ".tmp", self._own)
        with contextlib.suppress(OSError):  # hsched does not listen
            bell = os.open(self.path + ".bell", os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(bell, b"!")
            finally:
                os.close(bell)

    def hold(self, states: Mapping[str, str], enter: Callable[[str], None] = lambda state: None) -> bool:
        """Waits until hsched resumes this rank; returns whether it has to end instead.

        `states` names the state for each request to wait; `enter` changes to the state before it is acknowledged. A rank has
        to end if it or another one was asked to stop, or if it has waited too long.
        """
        deadline, said = time.monotonic() + self.limit_s, (-1, "")
        while True:
            self.number, want = self.read()
            if want not in states:
                return False
            if stop_requested() or time.monotonic() > deadline or os.path.exists(self.path + ".stop"):
                with open(self.path + ".stop", "w"):  # the signal may have reached only this rank
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


def memory() -> Dict[str, int]:
    """Returns the peak host memory of this process and, if it uses a GPU, the total memory there and its reserved and peak memory, in bytes."""
    own = {"host": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        own.update(device=torch.cuda.mem_get_info()[1], held=torch.cuda.memory_reserved(), peak=torch.cuda.max_memory_reserved())
    return own


class Moved:
    """Tensors of a device whose values are kept in the host's memory for a while.

    Their storages are emptied, not replaced, so that references to the tensors stay valid: optimizers, views, DDP.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._kept: List[Tuple[Any, Any]] = []

    def take(self, tensors: Iterable[Any]) -> None:
        """Moves the values of the device's tensors to the host, each storage once, and frees them on the device."""
        for tensor in tensors:
            tensor = getattr(tensor, "_local_tensor", tensor)  # the local part of a DTensor
            storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage().untyped()  # before torch 2.0
            if tensor.device != self._device or len(storage) == 0:  # empty: already moved
                continue
            values = self._bytes(storage).to("cpu", copy=True)
            try:
                storage.resize_(0)
            except RuntimeError:
                continue  # memory that torch does not own, such as a NumPy array, stays
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


def tensors_in(part: Any) -> Iterator[Any]:
    """Yields the tensors in the result of `state_dict`."""
    if isinstance(part, torch.Tensor):
        yield part
    elif isinstance(part, Mapping) or isinstance(part, (list, tuple)):
        for inner in part.values() if isinstance(part, Mapping) else part:
            yield from tensors_in(inner)
