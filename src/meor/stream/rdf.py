"""N-Triples and Turtle through pyoxigraph (the extra `rdf`).

A fact needs two entities with lasting names. Literals are values, and a blank node has no name outside
its file (Turtle's get a new one at every read), so such statements are skipped and counted; with
`literals="error"` they stop the reading.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Literal, cast

from meor.errors import StreamError
from meor.stream.records import LabelPool, Origin, Report
from meor.stream.snapshot import LabelFact
from meor.stream.text import EXPANSION_RATIO, check_regular, expansion_limit, text_lines

Literals = Literal["skip", "error"]


def rdf_facts(
    path: Path, pool: LabelPool, *, turtle: bool, literals: Literals, report: Report
) -> tuple[Origin, list[LabelFact], list[int]]:
    """Facts and where each stands: its line (N-Triples) or statement (Turtle); labels are bare IRIs."""
    origin = Origin(path, "statement" if turtle else "line")
    feed = _Feed(text_lines(path))
    limit = expansion_limit(check_regular(path))
    facts: list[LabelFact] = []
    numbers: list[int] = []
    skipped = total = 0
    for index, triple in enumerate(_statements(feed, path, turtle)):
        number = index + 1 if turtle else feed.statement_lines[index]
        labels = _labels(triple)
        if labels is None:
            skipped += 1
            _refuse(origin, number, literals)
            continue
        # A prefix lets a short file write very long names.
        total += sum(map(len, labels))
        if total > limit:
            problem = f"its names expand to more than {EXPANSION_RATIO} times its size"
            raise origin.error(problem, "Shorten the prefixes", number)
        facts.append(pool.fact(*labels))
        numbers.append(number)
    if skipped:
        report(f"{path}: skipped {skipped} statements about literals or blank nodes")
    return origin, facts, numbers


def _refuse(origin: Origin, number: int, literals: Literals) -> None:
    if literals == "error":
        remedy = 'Remove the statement, or read with literals="skip"'
        raise origin.error("a literal or blank node is no entity", remedy, number)


def _labels(triple: Any) -> tuple[str, str, str] | None:
    from pyoxigraph import NamedNode

    if isinstance(triple.subject, NamedNode) and isinstance(triple.object, NamedNode):
        return triple.subject.value, triple.predicate.value, triple.object.value
    return None


def _statements(feed: _Feed, path: Path, turtle: bool) -> Iterator[Any]:
    try:
        from pyoxigraph import RdfFormat, parse
    except ImportError:
        remedy = 'Install the extra: pip install "meor[rdf]"'
        raise StreamError("reading RDF needs the package pyoxigraph", remedy=remedy, path=path) from None
    read = 0
    try:
        form = RdfFormat.TURTLE if turtle else RdfFormat.N_TRIPLES
        for triple in parse(input=cast(IO[bytes], feed), format=form):
            read += 1
            yield triple
    except SyntaxError as error:
        # The parser notices an unfinished N-Triples statement one line too late.
        unknown = turtle or read >= len(feed.statement_lines)
        line = error.lineno if unknown else feed.statement_lines[read]
        problem = f"not valid {'Turtle' if turtle else 'N-Triples'} ({error.msg[:200]})"
        raise StreamError(problem, remedy="Correct the statement", path=path, line=line) from None
    except (ValueError, OSError) as error:
        raise StreamError(f"cannot be read ({error})", remedy="Check the file", path=path) from None


class _Feed:
    """The file as the parser wants it, out of checked lines; remembers on which lines N-Triples stand."""

    _BLOCK = 1 << 16

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = enumerate(lines, 1)
        self._block = b""
        self._at = 0
        self.statement_lines = array("q")

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; nothing at the end."""
        if self._at == len(self._block):
            self._block, self._at = self._next_block(), 0
        stop = len(self._block) if size < 0 else self._at + size
        chunk = self._block[self._at : stop]
        self._at += len(chunk)
        return chunk

    def _next_block(self) -> bytes:
        lines: list[str] = []
        held = 0
        for number, line in self._lines:
            text = line.lstrip(" \t")
            if text and not text.startswith("#"):
                self.statement_lines.append(number)
            lines.append(line)
            held += len(line) + 1
            if held >= self._BLOCK:
                break
        return "".join(f"{line}\n" for line in lines).encode()
