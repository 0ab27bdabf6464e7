"""What a pickle of a model may name, as records that do nothing: nobody looks a name up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from meor.escape import terminal

ROOMS: Final = ("pykeen.", "torch.nn.", "class_resolver.", "meor.pykeen.")
"""Packages whose classes and functions a model may be made of; the last one where `to_pykeen` made it."""

NAMES: Final = {
    "collections": {"OrderedDict", "defaultdict"},
    "functools": {"partial"},
    "builtins": {"set", "frozenset", "getattr"},
    "torch": {"Size", "device"},
    "torch._C": {"_VariableFunctionsClass"},
    "torch._utils": {"_rebuild_tensor_v2", "_rebuild_parameter"},
}
STORAGES: Final = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "ComplexDoubleStorage": "<c16",
    "ComplexFloatStorage": "<c8",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "BoolStorage": "|b1",
}
DTYPES: Final = {"float16", "float32", "float64", "complex64", "complex128", "int64", "int32", "bool"}


class RefusedPickle(Exception):  # noqa: N818  (its message becomes part of a ModelError)
    """The pickle asks for something that no model needs, or is damaged."""


@dataclass(frozen=True, slots=True)
class Name:
    """A class or function that was named; nobody looks it up."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(slots=True)
class Made:
    """An object as the file describes it: whose it is, its arguments and its state."""

    of: Name
    args: tuple[Any, ...] = ()
    state: Any = None


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a tensor's numbers lie."""

    key: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor: its storage, and which numbers of it."""

    storage: Stored
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def admitted(module: Any, name: Any) -> Name:
    if not isinstance(module, str) or not isinstance(name, str):
        raise RefusedPickle("a name in it is no text")
    known = NAMES.get("builtins" if module == "__builtin__" else module, set())
    numbers = module == "torch" and (name in STORAGES or name in DTYPES)
    if not (name in known or numbers or module.startswith(ROOMS)):
        shown = terminal(f"{module[:80]}.{name[:80]}")
        raise RefusedPickle(f"it names {shown}, which no model needs")
    return Name(module, name)


def reduced(of: Name, args: tuple[Any, ...]) -> Any:
    """The few calls whose result is data; every other call stays a description."""
    if of.name == "OrderedDict":
        if args:
            raise RefusedPickle("a dictionary in it comes with arguments")
        return {}
    if of.name == "_rebuild_parameter":
        return args[0]
    if of.name == "_rebuild_tensor_v2":
        storage, offset, shape, stride = args[:4]
        if not isinstance(storage, Stored) or not all(_counts(each) for each in ((offset,), shape, stride)):
            raise RefusedPickle("a tensor in it is not described by whole numbers")
        return Placed(storage, offset, shape, stride)
    if of.name == "getattr" and (not args or args[0] != Name("torch._C", "_VariableFunctionsClass")):
        raise RefusedPickle("it asks for an attribute, which no model needs")
    return Made(of, args)


def _counts(values: Any) -> bool:
    return isinstance(values, tuple) and all(type(each) is int and 0 <= each < 2**48 for each in values)
