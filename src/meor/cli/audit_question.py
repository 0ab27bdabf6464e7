"""What `meor audit` asks: options from the command line, else a run's own settings, else the defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from meor.errors import InputError
from meor.evaluation.audit import Question
from meor.evaluation.protocols import FilterPrefix, Ties
from meor.stream.occurrence import ALL
from meor.stream.snapshot import Stream
from meor.typing import SIDES, SPLITS, Split

Choice = TypeVar("Choice")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options as they were written; None: not written."""

    update: int | None = None
    updates: str | None = None
    sides: str | None = None
    split: str | None = None
    ties: str | None = None
    filter_prefix: str | None = None
    filter_splits: str | None = None


def question_of(
    wanted: Wanted,
    stream: Stream,
    *,
    own: Mapping[str, Any] | None = None,
    updates: Iterable[int] | None = None,
) -> Question:
    """The question; `own` are a run's evaluation settings and `updates` those it has models of."""
    settings = own or {}
    sides = {side.label: side for side in SIDES}
    splits = {split.value: split for split in SPLITS}
    return Question(
        updates=_updates(wanted, stream, settings, tuple(stream.updates if updates is None else updates)),
        sides=_several("--sides", wanted.sides or settings.get("sides"), sides, SIDES),
        splits=_several("--split", wanted.split or settings.get("split"), splits, (Split.TEST,)),
        ties=_one("--ties", wanted.ties, Ties, Ties.ID),
        filter_prefix=_one(
            "--filter-prefix",
            wanted.filter_prefix or settings.get("filter_prefix"),
            FilterPrefix,
            FilterPrefix.CURRENT,
        ),
        filter_splits=_several(
            "--filter-splits", wanted.filter_splits or settings.get("filter_splits"), splits, SPLITS
        ),
        sample=int(settings.get("sample", ALL)),
    )


def _updates(
    wanted: Wanted, stream: Stream, settings: Mapping[str, Any], default: tuple[int, ...]
) -> tuple[int, ...]:
    if wanted.update is not None and wanted.updates is not None:
        raise InputError("--update and --updates were both given", remedy="Give one of them")
    said: Any = wanted.updates if wanted.update is None else str(wanted.update)
    last = len(stream.snapshots) - 1
    if said is None:
        chosen = tuple(u for u in default if u in (settings.get("updates") or default))
        if not chosen:
            raise InputError(
                f"{stream.name} has no update to audit: nobody was admitted after the base",
                remedy="Give a stream of two snapshots or more, or --update 0 for ranks at the base",
            )
        return chosen
    allowed = {str(update): update for update in range(last + 1)}
    return _several("--updates", said, allowed, ())


def _several(
    option: str, said: Any, allowed: Mapping[str, Choice], default: tuple[Choice, ...]
) -> tuple[Choice, ...]:
    """A comma-separated list in the order written, each at most once."""
    if said is None:
        return default
    words = (
        [word.strip() for word in said.split(",")] if isinstance(said, str) else [str(word) for word in said]
    )
    for word in words:
        if word not in allowed:
            raise InputError(f"{option} does not know {word!r}", remedy=f"Use {', '.join(allowed)}")
    if len(set(words)) < len(words):
        raise InputError(f"{option} names something twice", remedy="Name each once")
    return tuple(allowed[word] for word in words)


Rule = TypeVar("Rule", bound=Enum)


def _one(option: str, said: str | None, rules: type[Rule], default: Rule) -> Rule:
    if said is None:
        return default
    allowed = {str(rule.value): rule for rule in rules}
    if said not in allowed:
        raise InputError(f"{option} does not know {said!r}", remedy=f"Use {', '.join(allowed)}")
    return allowed[said]
