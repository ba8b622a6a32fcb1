"""Merging of the copies of a job, and the files that they exchange: weights as safetensors.

Sums are computed in float64 in the order of the copies and rounded to the tensor's type, so that all copies get the
same bits.
"""
from __future__ import annotations

import ctypes
import hashlib
import json
import math
import struct
from typing import Any, Dict, Iterable, Mapping, Optional, Sequence

import torch

from .checkpoint import new_file

_TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
          "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}
_NAMES = {own: name for name, own in _TYPES.items()}


class MergeError(ValueError):
    """What a copy wrote cannot be merged."""


def merge_tensors(name: str, parts: Sequence[Any], weights: Sequence[float]) -> Any:
    """Returns the weighted mean of floating-point tensors, computed in float64, or the maximum of counters.

    Counters are integers with at most one element, and floats named `step`. Raises MergeError if other integers, the
    shapes or the types differ, or if a number is not finite.
    """
    first = parts[0]
    if any(part.shape != first.shape or part.dtype != first.dtype for part in parts):
        raise MergeError("%s has different shapes or types in different copies" % name)
    if not first.dtype.is_floating_point:
        if first.numel() <= 1 and first.dtype != torch.bool:
            return torch.stack([part.reshape(()) for part in parts]).max().reshape(first.shape)
        if any(not torch.equal(part, first) for part in parts):
            raise MergeError("%s holds integers that differ between copies" % name)
        return first.clone()
    if any(not bool(torch.isfinite(part).all()) for part in parts):
        raise MergeError("%s has numbers that are not finite" % name)
    if name.rsplit(".", 1)[-1] == "step":  # some optimizers count in floats
        return torch.stack(list(parts)).max(dim=0).values
    return _mean([part.double() for part in parts], weights).to(first.dtype)


def _mean(parts: Sequence[Any], weights: Sequence[float]) -> Any:
    total = parts[0] * weights[0]
    for part, weight in zip(parts[1:], weights[1:]):
        total = total + part * weight
    return total


def merge_weights(models: Sequence[Mapping[str, Any]], steps: Sequence[int]) -> Dict[str, Any]:
    """Returns the weights of copies with the given numbers of steps; the variances of BatchNorm are those of the mixture."""
    taken = [(model, own) for model, own in zip(models, steps) if own > 0]
    if not taken:
        raise MergeError("no copy has trained a step")
    total, first = sum(own for _, own in taken), taken[0][0]
    weights = [own / total for _, own in taken]
    if any(set(model) != set(first) for model, _ in taken):
        raise MergeError("the copies have different tensors")
    merged = {}
    for name in first:
        parts = [model[name] for model, _ in taken]
        merged[name] = merge_tensors(name, parts, weights)
        mean = name[: -len("running_var")] + "running_mean"
        if name.rsplit(".", 1)[-1] == "running_var" and mean in first:
            means = [model[mean].double() for model, _ in taken]
            centre = _mean(means, weights)  # a mean of squares minus the squared mean would lose digits
            merged[name] = _mean([part.double() + (own - centre) ** 2 for part, own in zip(parts, means)], weights).to(parts[0].dtype)
    return merged


def merge_states(name: str, parts: Sequence[Any], weights: Sequence[float]) -> Any:
    """Returns the merged state of optimizers; values that are neither tensors nor step counts come from the copy with
    the most steps."""
    first = parts[0]
    if any(type(part) is not type(first) for part in parts):
        raise MergeError("%s has different types in different copies" % name)
    if isinstance(first, torch.Tensor):
        return merge_tensors(name, parts, weights)
    if isinstance(first, dict):
        if any(part.keys() != first.keys() for part in parts):
            raise MergeError("%s has different keys in different copies" % name)
        return {key: merge_states("%s.%s" % (name, key), [part[key] for part in parts], weights) for key in first}
    if isinstance(first, (list, tuple)):
        if any(len(part) != len(first) for part in parts):
            raise MergeError("%s has different lengths in different copies" % name)
        return type(first)(merge_states("%s.%d" % (name, k), own, weights) for k, own in enumerate(zip(*parts)))
    if name.rsplit(".", 1)[-1] == "step":
        return max(parts)
    return parts[max(range(len(parts)), key=lambda k: (weights[k], -k))]


def write_safetensors(path: str, tensors: Mapping[str, Any]) -> str:
    """Writes tensors durably as a safetensors file; returns its SHA-256."""
    header: Dict[str, Any] = {}
    parts, end = [], 0
    for name in sorted(tensors):
        own = tensors[name].detach().to("cpu").contiguous()
        size = own.numel() * own.element_size()
        header[name] = {"dtype": _NAMES[own.dtype], "shape": list(own.shape), "data_offsets": [end, end + size]}
        parts.append(own)
        end += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    chunks = [struct.pack("<Q", len(text)), text]
    return write_file(path, chunks + [ctypes.string_at(own.data_ptr(), own.numel() * own.element_size()) for own in parts])


def read_safetensors(path: str) -> Dict[str, Any]:
    """Returns the tensors of a safetensors file."""
    with open(path, "rb") as file:
        content = bytearray(file.read())
    try:
        (size,) = struct.unpack_from("<Q", content)
        header = json.loads(content[8:8 + size].decode())
        tensors = {}
        for name, own in header.items():
            if name == "__metadata__":
                continue
            kind, shape, (begin, end) = _TYPES[own["dtype"]], own["shape"], own["data_offsets"]
            data = content[8 + size + begin:8 + size + end]
            count = math.prod(shape)
            if len(data) != count * torch.empty(0, dtype=kind).element_size():
                raise ValueError("%s is truncated" % name)
            tensors[name] = torch.frombuffer(data, dtype=kind, count=count).reshape(shape) if count else torch.empty(shape, dtype=kind)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, RuntimeError, struct.error) as error:
        raise MergeError("%s is not a safetensors file: %s" % (path, error)) from error
    return tensors


def write_file(path: str, chunks: Iterable[bytes]) -> str:
    """Replaces a file atomically and durably; returns its SHA-256."""
    digest = hashlib.sha256()
    with new_file(path) as file:
        for chunk in chunks:
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


def read_json(path: str) -> Optional[Dict[str, Any]]:
    """Returns the JSON object in a file; None if there is none, for example because the file does not exist or is incomplete."""
    try:
        with open(path, "rb") as file:
            content = json.loads(file.read())
        return content if isinstance(content, dict) else None
    except (OSError, ValueError, RecursionError):
        return None
