"""Text files from anywhere: facts with their place in the file, lines of bounded length, decoded strictly.

Every error names the file, the place in it and a remedy; a file is read to its end or refused.
"""

from __future__ import annotations

import gzip
import logging
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, cast

from meor.errors import StreamError
from meor.escape import visible
from meor.stream.snapshot import LabelFact
from meor.typing import Split

Report = Callable[[str], None]
"""Takes one sentence about something that was left out on purpose."""

NumberedRow = tuple[int, list[str]]
"""The line, row or statement of a file, and its cells."""

_SHOWN = 80
_log = logging.getLogger("meor.stream")

LINE_LIMIT = 1 << 20
"""Bytes of the longest line we read; a longer one is no fact."""

EXPANSION_FLOOR = 4 << 20
EXPANSION_RATIO = 100
"""A file may unpack to 4 MiB or 100 times its size, whichever is more; distinct facts stay far below."""

_ROWS_FLOOR = 1 << 17
_ROWS_A_BYTE = 4

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_GZIP = b"\x1f\x8b"
_NEVER_IN_A_LINE = re.compile("[\0\r\ufeff]")
_FORBIDDEN_NAMES = {"\0": "a NUL", "\r": "a carriage return", "\ufeff": "a byte order mark"}


def warn(sentence: str) -> None:
    """The default `Report`. Logs mostly end on a terminal, and the sentence may name a path."""
    _log.warning("%s", visible(sentence))


def shown(label: str) -> str:
    """A label inside a message: quoted, and short even if the file is hostile."""
    return repr(label if len(label) <= _SHOWN else label[:_SHOWN] + "...")


@dataclass(frozen=True, slots=True)
class Origin:
    """A file and the unit that numbers its facts: statements in Turtle, where a fact may span lines."""

    path: Path
    unit: Literal["line", "row", "statement"] = "line"

    def error(self, problem: str, remedy: str, number: int | None = None) -> StreamError:
        if self.unit == "line" or number is None:
            return StreamError(problem, remedy=remedy, path=self.path, line=number)
        return StreamError(f"{self.unit} {number}: {problem}", remedy=remedy, path=self.path)

    def place(self, number: int) -> str:
        return f"{self.path}, {self.unit} {number}"


@dataclass(frozen=True, slots=True)
class Part:
    """The facts of one split of one snapshot, as one file gives them."""

    snapshot: int
    split: Split
    origin: Origin
    facts: Sequence[LabelFact]
    numbers: Sequence[int]  # [F] the line, row or statement of each fact

    def error(self, row: int, problem: str, remedy: str) -> StreamError:
        return self.origin.error(problem, remedy, self.numbers[row])

    def place(self, row: int) -> str:
        return self.origin.place(self.numbers[row])


class LabelPool:
    """One string object per label, however often it is read: a stream repeats each label many times."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def fact(self, head: str, relation: str, tail: str) -> LabelFact:
        once = self._known.setdefault
        return once(head, head), once(relation, relation), once(tail, tail)


def check_regular(path: Path) -> int:
    """The size of a file that can be read to its end; a pipe or a device may never end, so it is refused."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise StreamError("no such file or folder", remedy="Check the path", path=path) from None
    except PermissionError:
        raise no_permission(path) from None
    except (OSError, ValueError) as error:
        raise StreamError(f"cannot be opened ({error})", remedy="Check the path", path=path) from None
    if stat.S_ISDIR(status.st_mode):
        raise StreamError("is a folder where a file is needed", remedy="Name a file inside it", path=path)
    if not stat.S_ISREG(status.st_mode):
        remedy = "Save its content to a file first"
        raise StreamError("is neither a file nor a folder", remedy=remedy, path=path)
    return status.st_size


def expansion_limit(size: int) -> int:
    return max(EXPANSION_FLOOR, EXPANSION_RATIO * size)


def row_limit(size: int) -> int:
    """A number of lines or rows that distinct facts in a file of this size never reach."""
    return max(_ROWS_FLOOR, _ROWS_A_BYTE * size)


def text_lines(path: Path) -> Iterator[str]:
    """Every line without its end (LF or CRLF); the first one is line 1."""
    origin = Origin(path)
    size = check_regular(path)
    limit, most_lines = expansion_limit(size), row_limit(size)
    total = number = 0
    with _opened(path) as source:
        while raw := _read_line(source, origin, number + 1):
            number += 1
            total += len(raw)
            if total > limit or number > most_lines:
                problem = f"expands from {size} bytes to more than {limit} bytes or {most_lines} lines"
                raise origin.error(problem, "Unpack it yourself if you trust it", number)
            yield _decode(raw, origin, number)


def tab_rows(path: Path) -> Iterator[NumberedRow]:
    """Every line that is not empty, as its cells; empty lines are allowed at the end only."""
    blank = 0
    for number, line in enumerate(text_lines(path), 1):
        if not line:
            blank = blank or number
            continue
        if blank:
            raise Origin(path).error("an empty line between facts", "Remove it", blank)
        yield number, line.split("\t")


def check_fact(fields: list[str], origin: Origin, number: int) -> None:
    """Three labels, none of them empty."""
    if len(fields) != 3:
        problem = f"{len(fields)} column{'s' * (len(fields) != 1)} where 3 are needed"
        raise origin.error(problem, "Write head, relation and tail with a tab between them", number)
    for name, value in zip(("head", "relation", "tail"), fields, strict=True):
        if not value or value.isspace():
            raise origin.error(f"the {name} is empty", "Give it a name or remove the fact", number)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        raw = path.open("rb")
    except PermissionError:
        raise no_permission(path) from None
    except OSError as error:
        raise StreamError(f"cannot be opened ({error})", remedy="Check the path", path=path) from None
    with raw:
        if path.suffix.lower() != ".gz":
            yield raw
            return
        with gzip.GzipFile(fileobj=raw) as unpacked:
            yield cast(BinaryIO, unpacked)


def no_permission(path: Path) -> StreamError:
    return StreamError("no permission to read it", remedy="Change its permissions or copy it", path=path)


def _read_line(source: BinaryIO, origin: Origin, number: int) -> bytes:
    try:
        raw = source.readline(LINE_LIMIT + 1)
    except EOFError:
        raise origin.error("the compressed file is cut off", "Fetch or compress it again", number) from None
    except (OSError, zlib.error) as error:
        raise origin.error(f"cannot be read ({error})", "Fetch or compress it again", number) from None
    if len(raw) > LINE_LIMIT:
        raise origin.error(f"a line longer than {LINE_LIMIT} bytes", "Write one fact per line", number)
    return raw


def _decode(raw: bytes, origin: Origin, number: int) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        remedy = "Save the file as UTF-8"
        if number == 1 and raw.startswith(_GZIP):
            remedy = "It looks gzip-compressed: end its name in .gz"
        elif number == 1 and raw.startswith(_UTF16):
            remedy = "It looks like UTF-16: save it as UTF-8"
        raise origin.error(f"byte {error.start + 1} is not UTF-8", remedy, number) from None
    if number == 1:
        text = text.removeprefix("\ufeff")
    text = text.removesuffix("\n").removesuffix("\r")
    found = _NEVER_IN_A_LINE.search(text)
    if found is not None:
        problem = f"{_FORBIDDEN_NAMES[found[0]]} inside the line"
        raise origin.error(problem, "Save the file as UTF-8 text with LF or CRLF line ends", number)
    return text
