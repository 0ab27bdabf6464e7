"""What must hold before facts become a stream; every error names the place and a remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from meor.errors import StreamError
from meor.stream.cleaning import Change, cleaned
from meor.stream.rules import Duplicates, Unseen
from meor.stream.snapshot import LabelFact, Stream, build_stream
from meor.stream.source import Origin, Part
from meor.typing import SPLITS, Split


def check_numbers(present: Iterable[int], origin: Origin) -> None:
    """Snapshots are 0, 1, 2, ... without a gap."""
    numbers = sorted(set(present))
    for expected, number in enumerate(numbers):
        if number != expected:
            have = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
            raise origin.error(
                f"snapshot {expected} is missing (found {have})", "Number snapshots 0, 1, 2, ..."
            )


def assemble(
    name: str, parts: Iterable[Part], duplicates: Duplicates, unseen: Unseen, source: Path | None = None
) -> tuple[Stream, list[Change]]:
    """The stream of the facts that the rules keep, in admission order, and what was changed."""
    order = {split: index for index, split in enumerate(SPLITS)}
    ordered = sorted(parts, key=lambda part: (part.snapshot, order[part.split]))
    if unseen != "move":  # a snapshot may get its train facts from what is moved
        for part in ordered:
            _check_train(part, part.facts)
    kept, changes = cleaned(ordered, duplicates, unseen, source)
    snapshots: dict[int, dict[Split, Sequence[LabelFact]]] = {}
    for part, facts in zip(ordered, kept, strict=True):
        _check_train(part, facts)
        snapshots.setdefault(part.snapshot, {})[part.split] = facts
    return build_stream(name, list(snapshots.values())), changes


def _check_train(part: Part, facts: Sequence[LabelFact]) -> None:
    if part.split is Split.TRAIN and not facts:
        left = f" left: all {len(part.facts)} are duplicates" if part.facts else ""
        problem = f"snapshot {part.snapshot} has no train fact{left}"
        raise StreamError(problem, remedy="Add facts or leave the snapshot out", path=part.origin.path)
