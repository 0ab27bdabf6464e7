"""What a pickle says, as plain data: it is read by a machine of our own, which can build and call nothing.

Python's unpickler looks names up and calls them, so a hostile file can run anything. Here a name stays a
name (`Name`), and an object stays what it was made of (`Made`). Names that no embedding needs are refused,
so that a hostile file ends in a sentence and not in a model.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from meor.escape import terminal
from meor.evaluation.inert_names import STORAGES, Made, Name, RefusedPickle, Stored, admitted, reduced

MOST_STEPS: Final = 5_000_000
"""Opcodes; the largest PyKEEN model takes some ten thousand, since tensors lie outside the pickle."""


def read_pickle(data: bytes) -> Any:
    """The content of a pickle, or a `RefusedPickle`."""
    try:
        return _Machine().run(data)
    except RefusedPickle:
        raise
    except Exception as error:  # damage shows in more ways than can be listed
        said = terminal(str(error)[:120]) or type(error).__name__
        raise RefusedPickle(f"it is damaged ({said})") from None


_WORTH: Final[dict[str, Callable[[], Any]]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": list,  # a set's members are kept in a list: nothing of the file is hashed but keys
}
_PLAIN: Final = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES"),
}
_IGNORED: Final = {"PROTO", "FRAME"}


@dataclass(slots=True)
class _Machine:
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)
    marks: list[int] = field(default_factory=list)

    def run(self, data: bytes) -> Any:
        for step, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if step > MOST_STEPS:
                raise RefusedPickle("it is longer than any model needs")
            name = opcode.name
            if name == "STOP":
                (content,) = self.stack
                return content
            if name in _PLAIN:
                self.stack.append(argument)
            elif name in _WORTH:
                self.stack.append(_WORTH[name]())
            elif name not in _IGNORED:
                step_of = getattr(self, f"_{name.lower()}", None)
                if step_of is None:
                    raise RefusedPickle(f"it uses the opcode {name}, which no model needs")
                step_of(argument)
        raise RefusedPickle("it has no end")

    def _mark(self, _: Any) -> None:
        self.marks.append(len(self.stack))

    def _since_mark(self) -> list[Any]:
        at = self.marks.pop()
        items = self.stack[at:]
        del self.stack[at:]
        return items

    def _tuple(self, _: Any) -> None:
        self.stack.append(tuple(self._since_mark()))

    def _last(self, count: int) -> None:
        items = tuple(self.stack[-count:])
        if len(items) < count:
            raise RefusedPickle("it is damaged (a tuple without members)")
        del self.stack[-count:]
        self.stack.append(items)

    def _tuple1(self, _: Any) -> None:
        self._last(1)

    def _tuple2(self, _: Any) -> None:
        self._last(2)

    def _tuple3(self, _: Any) -> None:
        self._last(3)

    def _append(self, _: Any) -> None:
        item = self.stack.pop()
        self._members().append(item)

    def _appends(self, _: Any) -> None:
        items = self._since_mark()
        self._members().extend(items)

    _additems = _appends

    def _members(self) -> list[Any]:
        if type(self.stack[-1]) is not list:
            raise RefusedPickle("it adds members to what is no list")
        return self.stack[-1]

    def _setitem(self, _: Any) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set([key, value])

    def _setitems(self, _: Any) -> None:
        self._set(self._since_mark())

    def _set(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict or len(items) % 2:
            raise RefusedPickle("it sets items of what is no dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | int | Name | None):  # deep tuples can take years to hash
                raise RefusedPickle("a key is neither text nor a number")
            target[key] = value

    def _memoize(self, _: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def _put(self, argument: Any) -> None:
        self.memo[int(argument)] = self.stack[-1]

    def _get(self, argument: Any) -> None:
        self.stack.append(self.memo[int(argument)])

    _binput = _long_binput = _put
    _binget = _long_binget = _get

    def _global(self, argument: Any) -> None:
        module, _, name = argument.partition(" ")
        self.stack.append(admitted(module, name))

    def _stack_global(self, _: Any) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.stack.append(admitted(module, name))

    def _binpersid(self, _: Any) -> None:
        kind, storage, key, _place, _count = self.stack.pop()
        if kind != "storage" or not isinstance(storage, Name) or storage.name not in STORAGES:
            raise RefusedPickle("it keeps numbers in a form that no model has")
        self.stack.append(Stored(str(key), STORAGES[storage.name]))

    def _newobj(self, _: Any) -> None:
        args, of = self.stack.pop(), self.stack.pop()
        self.stack.append(Made(_called(of, args), args))

    def _build(self, _: Any) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Made):
            self.stack[-1].state = state
        elif type(self.stack[-1]) is not dict:  # an ordered dictionary may carry torch's remarks
            raise RefusedPickle("it gives a state to what has none")

    def _reduce(self, _: Any) -> None:
        args, of = self.stack.pop(), self.stack.pop()
        self.stack.append(reduced(_called(of, args), args))


def _called(of: Any, args: Any) -> Name:
    if not isinstance(of, Name) or not isinstance(args, tuple):
        raise RefusedPickle("it calls something without a name")
    return of
