"""New shares for a running training: the file that hsched writes, and the conditions for adopting it."""
from __future__ import annotations

import json
import sys
from typing import Any, Dict, List, NamedTuple, Optional

from .core import Rank
from .sampler import evenly

SCHEMA = "hsched.shares/1"


class Shares(NamedTuple):
    """The content of the file; ranks, global batch and GPUs do not change."""

    version: int
    batches: List[int]  # samples of a global batch, by replica; [replicas]
    micro: List[int]  # maximum samples in one pass, by replica; [replicas]

    def numbers(self) -> List[float]:
        """Returns the shares as numbers that ranks can exchange; [1 + 2 * replicas]."""
        return [float(own) for own in (self.version, *self.batches, *self.micro)]


def of_numbers(numbers: List[float]) -> Shares:
    """Returns the shares from the result of `numbers`."""
    version, *rest = [int(own) for own in numbers]
    return Shares(version, rest[:len(rest) // 2], rest[len(rest) // 2:])


class SharesFile:
    """The file of new shares, for the rank that reads it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.version = 0  # of the shares that ranks have adopted
        self._said = ""

    def read(self, me: Rank, equal_passes: bool, busy: str = "") -> Optional[Shares]:
        """Returns shares that are newer than the adopted ones; None if there are none. Prints the reason for a refusal once.

        `equal_passes` requires the same number of passes on each rank; `busy` is the reason why no shares can be adopted now.
        """
        try:
            with open(self.path, encoding="utf-8") as file:
                content = json.load(file)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            return self._refuse("the file cannot be read (%s)" % error)
        problem = _problem(content, me)
        if problem:
            return self._refuse(problem)
        if content["version"] <= self.version:
            return None
        shares = Shares(content["version"], content["batches"], content["micro"])
        if equal_passes and len({len(evenly(batch, most)) for batch, most in zip(shares.batches, shares.micro)}) > 1:
            return self._refuse("SyncBatchNorm lets all ranks meet in every pass, and they would make unequal numbers of passes")
        return self._refuse("version %d: %s" % (shares.version, busy)) if busy else shares

    def _refuse(self, why: str) -> None:
        text = "hsched: the shares in %s were refused, and nothing changes: %s" % (self.path, why)
        if text != self._said:
            print(text, file=sys.stderr, flush=True)
        self._said = text


def _problem(content: Any, me: Rank) -> str:
    """Returns why a file does not contain shares for this training; empty if it does."""
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        return "its schema is not %s" % SCHEMA
    if content.get("run") != me.run:
        return "it is for run %r, but this is %r" % (content.get("run"), me.run)
    if not _are_counts([content.get("version")]):
        return "its version is %r, not a number from 1" % (content.get("version"),)
    lists: Dict[str, Any] = {name: content.get(name) for name in ("batches", "micro")}
    for name, own in lists.items():
        if not isinstance(own, list) or len(own) != me.replicas or not _are_counts(own):
            return "%s is %r, not a number from 1 for each of %d %s" % (name, own, me.replicas, "replicas" if me.in_replicas else "ranks")
    if sum(lists["batches"]) != me.global_batch:
        return "its batches are %d samples together, but the global batch is %d" % (sum(lists["batches"]), me.global_batch)
    return ""


def _are_counts(values: List[Any]) -> bool:
    return all(type(own) is int and 0 < own < 1 << 53 for own in values)
