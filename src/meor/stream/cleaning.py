"""Facts that a stream cannot hold: those that stand twice, and those held out although nothing trains them.

A valid or test fact may only name entities and relations that a train fact has named by its snapshot: what
was never trained cannot be ranked fairly. Such a fact is refused, dropped, or moved to the train facts of its
snapshot. Then its names are known, and later facts about them stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import get_args

from meor.errors import StreamError
from meor.escape import shell
from meor.stream.rules import Duplicates, Unseen, check_choice
from meor.stream.snapshot import LabelFact
from meor.stream.source import Part, shown
from meor.typing import Split

EXAMPLES = 5
"""Facts of each kind that a change shows."""

_MENDS = {"duplicates": "drop", "unseen": "move"}


@dataclass(frozen=True, slots=True)
class Change:
    """What was done to facts of one kind."""

    done: str
    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.done}; the first is {self.examples[0]}"


@dataclass(slots=True)
class _Faults:
    """How many facts break a rule, and the first of them: part, row, and what is wrong."""

    count: int = 0
    first: list[tuple[Part, int, str]] = field(default_factory=list)

    def add(self, part: Part, row: int, why: str = "") -> None:
        self.count += 1
        if len(self.first) < EXAMPLES:
            self.first.append((part, row, why))

    @property
    def many(self) -> str:
        return f"{self.count:,} such fact{'s' * (self.count > 1)} in the stream"


def cleaned(
    parts: Sequence[Part], duplicates: Duplicates, unseen: Unseen, source: Path | None = None
) -> tuple[list[Sequence[LabelFact]], list[Change]]:
    """The facts of each part that both rules keep, and what was changed.

    Parts come in admission order. `source` is the stream that the remedy of an error names.
    """
    check_choice("duplicates", duplicates, get_args(Duplicates))
    check_choice("unseen", unseen, get_args(Unseen))
    if _is_sound(parts):
        return [part.facts for part in parts], []
    sieve = _Sieve(parts, move=unseen == "move")
    broken = {
        "duplicates": sieve.twice.count and duplicates == "error",
        "unseen": sieve.early.count and unseen == "error",
    }
    if any(broken.values()):
        raise sieve.refusal([rule for rule, is_broken in broken.items() if is_broken], source)
    return sieve.kept, list(sieve.changes())


def _is_sound(parts: Sequence[Part]) -> bool:
    """Nearly every stream is, and this costs less than sorting its facts out."""
    total = sum(len(part.facts) for part in parts)
    if len(set(chain.from_iterable(part.facts for part in parts))) < total:
        return False
    entities: set[str] = set()
    relations: set[str] = set()
    for part in parts:
        heads, kinds, tails = zip(*part.facts, strict=True) if part.facts else ((), (), ())
        if part.split is Split.TRAIN:
            entities.update(heads, tails)
            relations.update(kinds)
        elif not (entities.issuperset(heads) and entities.issuperset(tails) and relations.issuperset(kinds)):
            return False
    return True


class _Sieve:
    """One pass in admission order: each fact once, at the first place where it is kept."""

    def __init__(self, parts: Sequence[Part], *, move: bool) -> None:
        self.parts, self.move = parts, move
        self.kept: list[Sequence[LabelFact]] = []
        self.twice, self.early = _Faults(), _Faults()
        self._entities: set[str] = set()
        self._relations: set[str] = set()
        self._seen: set[LabelFact] = set()
        train: list[LabelFact] = []
        for part in parts:
            held: list[LabelFact] = []
            train = held if part.split is Split.TRAIN else train
            self.kept.append(held)
            for row in range(len(part.facts)):
                self._place(part, row, held, train)

    def _place(self, part: Part, row: int, held: list[LabelFact], train: list[LabelFact]) -> None:
        fact = part.facts[row]
        if fact in self._seen:
            self.twice.add(part, row)
            return
        if held is not train and (unseen := self._unseen(fact)):
            self.early.add(part, row, unseen)
            if not self.move:
                return
            held = train
        self._seen.add(fact)
        held.append(fact)
        if held is train:
            self._entities.update((fact[0], fact[2]))
            self._relations.add(fact[1])

    def _unseen(self, fact: LabelFact) -> str:
        """The name that no train fact has named yet; empty if there is none."""
        head, relation, tail = fact
        if relation not in self._relations:
            return f"relation {shown(relation)}"
        return next((f"entity {shown(end)}" for end in (head, tail) if end not in self._entities), "")

    def _earlier(self, fact: LabelFact) -> str:
        """The first place where a fact stands."""
        return next(part.place(part.facts.index(fact)) for part in self.parts if fact in part.facts)

    def refusal(self, rules: Sequence[str], source: Path | None) -> StreamError:
        """The first fact that breaks a rule, how many do, and the command that helps."""
        faults = self.twice if rules[0] == "duplicates" else self.early
        part, row, why = faults.first[0]
        if faults is self.twice:
            fact = part.facts[row]
            why = f"the fact ({', '.join(map(shown, fact))}) is already at {self._earlier(fact)}"
        else:
            why = f"{why} appears in {part.split} of snapshot {part.snapshot} before any train fact names it"
        problem = f"{why}; {faults.many}"
        if len(rules) > 1:
            problem += f", and {self.early.count} that name what no train fact has named before"
        options = [word for rule in rules for word in (f"--{rule}", _MENDS[rule])]
        remedy = f"Correct the file, or give {' '.join(options)}"
        if source is not None:
            command, makes = self._command(source, options)
            remedy = f"`{shell(command)}` {makes}, or give this command {' '.join(options)}"
        return part.error(row, problem, remedy)

    def _command(self, source: Path, options: Sequence[str]) -> tuple[list[str], str]:
        if all(part.split is Split.TRAIN or not part.facts for part in self.parts) and source.is_file():
            # Nothing is held out: what is wanted is a stream, and cutting one drops duplicates by itself.
            return ["meor", "data", "grow", str(source), "OUT", "--by", "date"], "cuts it into a stream"
        return ["meor", "data", "clean", str(source), "OUT", *options], "writes a clean copy"

    def changes(self) -> Iterator[Change]:
        if self.twice.count:
            done = f"dropped {self.twice.count:,} duplicate {_facts(self.twice)}"
            examples = [
                _shown(part, row, f"also {self._earlier(part.facts[row])}")
                for part, row, _ in self.twice.first
            ]
            yield Change(done, self.twice.count, tuple(examples))
        if self.early.count:
            held = f"{self.early.count:,} valid or test {_facts(self.early)}"
            done = f"moved {held} to train" if self.move else f"dropped {held}"
            examples = [_shown(part, row, f"new is the {why}") for part, row, why in self.early.first]
            done += ", because no train fact had named what they name"
            yield Change(done, self.early.count, tuple(examples))


def _facts(faults: _Faults) -> str:
    return "fact" if faults.count == 1 else "facts"


def _shown(part: Part, row: int, why: str) -> str:
    return f"{part.place(row)}: {', '.join(map(shown, part.facts[row]))} ({why})"
