"""The values of a checkpoint, in a form that every version of torch reads without executing code, and the reader of the first format."""
from __future__ import annotations

import collections
import io
import pickle
import sys
import types
import weakref
import zipfile
from typing import Any, Callable, Dict

from .optional import torch


class Refused(RuntimeError):
    """A checkpoint that cannot be loaded, or a value that cannot be saved in one."""


def encode(value: Any, name: str) -> Any:
    """Returns a value in a form that every torch since 1.13 reads with `weights_only=True`; `decode` returns the value.

    None, booleans, integers, strings, lists, dicts and tensors keep their types; other supported values, such as floats,
    become a tuple: the kind, then the parts.
    A method in the state of a learning-rate scheduler is left out, because the next scheduler has its own.
    Raises Refused for anything else, with its position after `name`.
    """
    if isinstance(value, (float, bytes)):  # torch 1.13 reads neither
        return ("float", float(value).hex()) if isinstance(value, float) else ("bytes", value.decode("latin-1"))
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout in (torch.strided, torch.sparse_coo, torch.sparse_csr) and not value.is_quantized:
        return value.detach()
    if type(value) is list:
        return [encode(inner, "%s[%d]" % (name, k)) for k, inner in enumerate(value)]
    if type(value) in (tuple, set, torch.Size):
        return ("set" if type(value) is set else "tuple", *(encode(inner, "%s[%d]" % (name, k)) for k, inner in enumerate(value)))
    if type(value) in (dict, collections.OrderedDict, collections.Counter):
        pairs = [(encode(key, name + "'s keys"), encode(inner, "%s[%r]" % (name, key))) for key, inner in value.items() if not is_of_scheduler(inner)]
        if type(value) is not collections.OrderedDict:
            return dict(pairs) if type(value) is dict else ("counter", dict(pairs))
        ordered = collections.OrderedDict(pairs)
        ordered.__dict__.update({key: encode(inner, "%s.%s" % (name, key)) for key, inner in value.__dict__.items()})  # the versions of a module
        return ordered
    if type(value).__module__ == "numpy" and str(getattr(value, "dtype", "")) in ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64"):
        return ("array" if value.shape else "scalar", torch.from_numpy(sys.modules["numpy"].array(value)))
    kind = getattr(value, "named", None) or "%s.%s" % (type(value).__module__, type(value).__qualname__)
    raise Refused("%s is a %s, not a number, text, list, dict or tensor" % (name, kind))


def decode(value: Any) -> Any:
    """Returns the argument of `encode` from its result."""
    if type(value) is list:
        return [decode(inner) for inner in value]
    if type(value) in (dict, collections.OrderedDict):
        own = type(value)((decode(key), decode(inner)) for key, inner in value.items())
        if type(value) is collections.OrderedDict:
            own.__dict__.update({key: decode(inner) for key, inner in value.__dict__.items()})
        return own
    if type(value) is not tuple:
        return value
    kind, *parts = value
    if kind in ("array", "scalar"):
        return parts[0].numpy() if kind == "array" else parts[0].numpy()[()]
    makers: Dict[str, Callable[[Any], Any]] = {
        "float": lambda parts: float.fromhex(parts[0]), "bytes": lambda parts: parts[0].encode("latin-1"), "tuple": lambda parts: tuple(map(decode, parts)),
        "set": lambda parts: set(map(decode, parts)), "counter": lambda parts: collections.Counter(decode(parts[0]))}
    return makers[kind](parts)


def is_of_scheduler(value: Any) -> bool:
    """Returns whether this is a method of a learning-rate scheduler; OneCycleLR has one in its state before torch 2.1."""
    if isinstance(value, StandIn):  # in a checkpoint of hsched 0.1.0, in place of a getattr of a scheduler
        return value.named in ("__builtin__.getattr", "builtins.getattr") and getattr(value.parts[0], "named", "").startswith("torch.optim.")
    if isinstance(value, weakref.WeakMethod):
        value = value()
    kinds = torch.optim.lr_scheduler
    is_own = isinstance(getattr(value, "__self__", None), getattr(kinds, "LRScheduler", kinds._LRScheduler))
    return isinstance(value, (types.MethodType, types.FunctionType)) and (is_own or str(value.__module__).startswith("torch.optim."))


class StandIn:
    """Stands for an object in a file that is not a plain value. The object is neither imported nor created, and its code does not run."""

    named = ""
    parts: Any = ()

    def __new__(cls, *parts: Any) -> Any:
        made = super().__new__(cls)
        made.parts = parts
        return made

    def __init__(self, *parts: Any) -> None:
        """Does nothing."""

    def __setstate__(self, state: Any) -> None:
        """Ignores the state."""

    __setitem__ = append = extend = lambda self, *values: None


class FirstFormat(pickle.Unpickler):
    """Reads files of hsched 0.1.0, which torch 1.13 cannot load with `weights_only=True` because they contain floats."""

    def __init__(self, file: Any) -> None:
        self._archive = zipfile.ZipFile(file)
        own = [name for name in self._archive.namelist() if name.endswith("/data.pkl")]
        if len(own) != 1:
            raise Refused("it is not a file of torch.save")
        self._folder, self._storages = own[0][:-len("data.pkl")], {}  # type: ignore[var-annotated]
        super().__init__(io.BytesIO(self._archive.read(own[0])), encoding="utf-8")

    def find_class(self, module: str, name: str) -> Any:
        makers: Dict[str, Any] = {
            "collections.OrderedDict": collections.OrderedDict, "collections.Counter": lambda *parts: collections.Counter(*parts), "torch.Size": tuple,
            "torch._utils._rebuild_parameter": lambda data, *more: data,
            "torch._utils._rebuild_tensor_v2": lambda storage, offset, size, stride, *more: storage.as_strided(size, stride, offset)}
        kinds = {"Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32", "Short": "int16",
                 "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64", "ComplexDouble": "complex128"}
        makers.update({"torch.%sStorage" % kind: getattr(torch, own) for kind, own in kinds.items()})
        return makers.get("%s.%s" % (module, name)) or type(name, (StandIn,), {"named": "%s.%s" % (module, name)})

    def persistent_load(self, pid: Any) -> Any:
        _, kind, key, _, _ = pid
        if key not in self._storages:
            data = bytearray(self._archive.read("%sdata/%s" % (self._folder, key)))
            self._storages[key] = torch.frombuffer(data, dtype=kind) if data else torch.empty(0, dtype=kind)
        return self._storages[key]
