"""A batch of facts on its way into a store: what is new in it, what is not, and what waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from meor.errors import InputError
from meor.evaluation.foreign_file import read_rows
from meor.store.graph import Batch
from meor.stream.columns import FactTable
from meor.stream.files import read_facts
from meor.stream.snapshot import LabelFact, Stream
from meor.stream.source import shown
from meor.typing import SPLITS, Split


@dataclass(frozen=True, slots=True)
class Incoming:
    """What is to be admitted, what waits, and what was counted on the way."""

    facts: Batch
    waiting: Batch
    held_back: tuple[str, ...]  # labels that wait
    newcomers: tuple[str, ...]
    new_relations: tuple[str, ...]
    repeated: int  # facts that the file holds twice
    known: int  # facts that the store has already
    offered: int  # facts that had waited

    @property
    def size(self) -> int:
        return sum(map(len, self.facts.values()))

    def to_json(self) -> dict[str, Any]:
        return {
            "facts": {split.value: len(self.facts[split]) for split in SPLITS},
            "newcomers": len(self.newcomers),
            "new_relations": list(self.new_relations),
            "repeated": self.repeated,
            "already_known": self.known,
            "had_waited": self.offered,
            "held_back": list(self.held_back),
            "facts_that_wait": sum(map(len, self.waiting.values())),
        }


def read_batch(
    path: Path,
    stream: Stream,
    waiting: Batch,
    *,
    hold_back: Path | None = None,
    new_relations: bool = False,
    columns: str | None = None,
) -> Incoming:
    """The facts of a file and those that waited. Whatever cannot be admitted is an error with its line."""
    table = read_facts(path, columns=columns)
    facts, repeated, known = _fresh(table, stream)
    offered = _offer(facts, waiting, stream)
    if not any(facts.values()):
        told = f"{known:,} are known already" if known else "the file holds none"
        raise InputError(f"no new fact to admit: {told}", remedy="Give a file with new facts", path=path)
    if not new_relations:
        _refuse_new_relations(table, facts, stream)
    held = () if hold_back is None else _labels(hold_back, newcomers_of(facts, stream))
    kept, left, labels = held_apart(facts, stream, held)
    if not kept[Split.TRAIN]:
        problem = "holding these back leaves no fact to learn" if held else "no train fact to admit"
        raise InputError(
            problem, remedy="Hold back fewer" if held else "Add train facts", path=hold_back or path
        )
    _require_trained(table, kept, stream)
    relations = dict.fromkeys(of for part in kept.values() for _, of, _ in part if of not in stream.relations)
    return Incoming(
        kept, left, labels, newcomers_of(kept, stream), tuple(relations), repeated, known, offered
    )


def newcomers_of(facts: Batch, stream: Stream) -> tuple[str, ...]:
    """In the order in which they get their ids."""
    ends = (end for split in SPLITS for fact in facts.get(split, ()) for end in (fact[0], fact[2]))
    return tuple(dict.fromkeys(end for end in ends if end not in stream.entities))


def held_apart(
    facts: Batch, stream: Stream, labels: Iterable[str]
) -> tuple[dict[Split, list[LabelFact]], dict[Split, list[LabelFact]], tuple[str, ...]]:
    """Facts that stay, facts that wait, and who waits: a newcomer left without a fact waits too."""
    waits = dict.fromkeys(labels)
    newcomers = newcomers_of(facts, stream)
    while True:
        kept = {
            split: [fact for fact in part if fact[0] not in waits and fact[2] not in waits]
            for split, part in facts.items()
        }
        trained = {end for fact in kept[Split.TRAIN] for end in (fact[0], fact[2])}
        more = [label for label in newcomers if label not in trained and label not in waits] if waits else []
        if not more:
            break
        waits.update(dict.fromkeys(more))
    if waits:
        learned = {of for _, of, _ in kept[Split.TRAIN]}
        kept = {
            split: [fact for fact in part if fact[1] in stream.relations or fact[1] in learned]
            for split, part in kept.items()
        }
    stays = {split: set(part) for split, part in kept.items()}
    left = {split: [fact for fact in part if fact not in stays[split]] for split, part in facts.items()}
    return kept, left, tuple(waits)


def _fresh(table: FactTable, stream: Stream) -> tuple[dict[Split, list[LabelFact]], int, int]:
    """Facts that the store does not have, each once; how many were repeated, how many are known."""
    found: dict[Split, list[LabelFact]] = {split: [] for split in SPLITS}
    splits: Sequence[Split] = table.split or [Split.TRAIN] * len(table.facts)
    have = _known_facts(stream, table.facts)
    seen: set[LabelFact] = set()
    known = 0
    for fact, split in zip(table.facts, splits, strict=True):
        if fact in seen:
            continue
        seen.add(fact)
        if fact in have:
            known += 1
        else:
            found[split].append(fact)
    return found, len(table.facts) - len(seen), known


def _known_facts(stream: Stream, facts: Iterable[LabelFact]) -> set[LabelFact]:
    ids = {tuple(fact) for fact in stream.prefix(len(stream.snapshots) - 1).tolist()}
    entities, relations = stream.entities, stream.relations
    return {
        (head, of, tail)
        for head, of, tail in facts
        if head in entities
        and tail in entities
        and of in relations
        and (entities.id(head), relations.id(of), entities.id(tail)) in ids
    }


def _offer(facts: dict[Split, list[LabelFact]], waiting: Batch, stream: Stream) -> int:
    """What waited is offered again, after what came now."""
    there = {fact for part in facts.values() for fact in part}
    have = _known_facts(stream, [fact for part in waiting.values() for fact in part])
    offered = 0
    for split, part in waiting.items():
        again = [fact for fact in part if fact not in there and fact not in have]
        facts[split].extend(again)
        offered += len(again)
    return offered


def _refuse_new_relations(table: FactTable, facts: Batch, stream: Stream) -> None:
    new = {of for part in facts.values() for _, of, _ in part if of not in stream.relations}
    for fact, number in zip(table.facts, table.numbers, strict=True):
        if fact[1] in new:
            near = get_close_matches(fact[1], stream.relations.labels, n=1, cutoff=0.6)
            guess = f"The nearest is {shown(near[0])}. " if near else ""
            raise table.origin.error(
                f"the store has no relation {shown(fact[1])}",
                f"{guess}Correct it, or admit new relations with --new-relations",
                number,
            )


def _require_trained(table: FactTable, facts: Mapping[Split, Sequence[LabelFact]], stream: Stream) -> None:
    """Held-out facts may only name what a train fact has named."""
    train = facts[Split.TRAIN]
    entities = {end for fact in train for end in (fact[0], fact[2])}
    relations = {of for _, of, _ in train}
    line = dict(zip(table.facts, table.numbers, strict=True))
    for split in (Split.VALID, Split.TEST):
        for fact in facts[split]:
            ends = [end for end in (fact[0], fact[2]) if end not in stream.entities and end not in entities]
            of = fact[1] not in stream.relations and fact[1] not in relations
            if ends or of:
                what = f"relation {shown(fact[1])}" if of else f"entity {shown(ends[0])}"
                problem = f"{what} appears in {split.value} and in no train fact"
                raise table.origin.error(problem, "Give it a train fact, or remove this one", line.get(fact))


def _labels(path: Path, newcomers: Sequence[str]) -> tuple[str, ...]:
    """The labels of a file, one per line."""
    there = set(newcomers)
    found: dict[str, None] = {}
    for number, (label,) in read_rows(path, ("label",)):
        if label not in there:
            raise InputError(
                f"{shown(label)} is no newcomer of this batch",
                remedy="Write one newcomer per line",
                path=path,
                line=number,
            )
        found[label] = None
    return tuple(found)
