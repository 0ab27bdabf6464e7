"""What must hold before facts become a stream; every error names the place and a remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from typing import Literal, NoReturn, get_args

from meor.errors import ConfigError, StreamError
from meor.stream.snapshot import LabelFact, Stream, build_stream
from meor.stream.source import Origin, Part, Report, shown
from meor.typing import SPLITS, Split

Duplicates = Literal["error", "drop"]


def check_choice(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name} is {shown(value)}", remedy=f"Choose one of {', '.join(allowed)}")


def duplicate_rule(text: str) -> Duplicates:
    """The rule that a word of the command line names."""
    check_choice("--duplicates", text, get_args(Duplicates))
    return "drop" if text == "drop" else "error"


def check_numbers(present: Iterable[int], origin: Origin) -> None:
    """Snapshots are 0, 1, 2, ... without a gap."""
    numbers = sorted(set(present))
    for expected, number in enumerate(numbers):
        if number != expected:
            have = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
            raise origin.error(
                f"snapshot {expected} is missing (found {have})", "Number snapshots 0, 1, 2, ..."
            )


def assemble(name: str, parts: Iterable[Part], duplicates: Duplicates, report: Report) -> Stream:
    """Check the parts in admission order and number their labels."""
    order = {split: index for index, split in enumerate(SPLITS)}
    ordered = sorted(parts, key=lambda part: (part.snapshot, order[part.split]))
    check_choice("duplicates", duplicates, get_args(Duplicates))
    kept = _without_duplicates(ordered, duplicates, report)
    _check_first_appearances(kept)
    snapshots: list[dict[Split, Sequence[LabelFact]]] = []
    for _, group in groupby(kept, key=lambda part: part.snapshot):
        snapshots.append({part.split: part.facts for part in group})
    return build_stream(name, snapshots)


def check_not_empty(part: Part) -> None:
    if part.split is Split.TRAIN and not part.facts:
        problem = f"snapshot {part.snapshot} has no train fact"
        raise StreamError(problem, remedy="Add facts or leave the snapshot out", path=part.origin.path)


def _without_duplicates(parts: Sequence[Part], duplicates: Duplicates, report: Report) -> list[Part]:
    """Each fact once, at its first place: so a fact of both train and test stays in train."""
    for part in parts:
        check_not_empty(part)
    total = sum(len(part.facts) for part in parts)
    if len(set(chain.from_iterable(part.facts for part in parts))) == total:
        return list(parts)
    first_place: dict[LabelFact, tuple[int, int]] = {}
    repeats: list[tuple[int, int]] = []
    kept: list[Part] = []
    for index, part in enumerate(parts):
        rows: list[int] = []
        for row, fact in enumerate(part.facts):
            if first_place.setdefault(fact, (index, row)) == (index, row):
                rows.append(row)
            else:
                repeats.append((index, row))
        facts, numbers = [part.facts[row] for row in rows], [part.numbers[row] for row in rows]
        kept.append(Part(part.snapshot, part.split, part.origin, facts, numbers))
    index, row = repeats[0]
    before, before_row = first_place[parts[index].facts[row]]
    earlier = parts[before].place(before_row)
    if duplicates == "error":
        _refuse_duplicates(parts[index], row, len(repeats), earlier)
    report(f"dropped {len(repeats)} duplicate facts; the first is {parts[index].place(row)}, also {earlier}")
    for part in kept:
        check_not_empty(part)
    return kept


def _refuse_duplicates(part: Part, row: int, count: int, earlier: str) -> NoReturn:
    fact = ", ".join(map(shown, part.facts[row]))
    problem = (
        f"the fact ({fact}) is already at {earlier}; {count} such duplicate{'s' * (count > 1)} in the stream"
    )
    raise part.error(row, problem, 'Remove them, or read with duplicates="drop" to keep the first of each')


def _check_first_appearances(parts: Sequence[Part]) -> None:
    """Entities and relations are admitted by train facts: valid and test may not add any."""
    entities: set[str] = set()
    relations: set[str] = set()
    for part in parts:
        if part.split is Split.TRAIN:
            for head, relation, tail in part.facts:
                entities.add(head)
                entities.add(tail)
                relations.add(relation)
            continue
        for row, (head, relation, tail) in enumerate(part.facts):
            if head not in entities or tail not in entities or relation not in relations:
                _refuse_unseen(part, row, entities, relations)


def _refuse_unseen(part: Part, row: int, entities: set[str], relations: set[str]) -> NoReturn:
    heads_and_tails = {end for fact in part.facts for end in (fact[0], fact[2])}
    unseen = len(heads_and_tails - entities) + len({fact[1] for fact in part.facts} - relations)
    head, relation, tail = part.facts[row]
    if relation not in relations:
        what = f"relation {shown(relation)}"
    else:
        what = f"entity {shown(head if head not in entities else tail)}"
    problem = f"{what} appears in {part.split.value} before any train fact ({unseen} such names here)"
    remedy = f"Move such a fact to the train facts of snapshot {part.snapshot}, or remove it"
    raise part.error(row, problem, remedy)
