"""Cut a static or dated graph into a growth stream.

With `random` and `degree`, entities join one by one, each attached to the graph so far if that is possible:
in random order, or the best-connected first. A fact enters with the later of its two ends. With `date`, facts
enter in order of their dates. Within a snapshot, facts are set aside for valid and test at random, but never
the one by which an entity or relation is first seen.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from meor.errors import ConfigError, StreamError
from meor.random import generator
from meor.stream.files import check_target, name_of, read_facts, write_stream
from meor.stream.rules import check_choice
from meor.stream.snapshot import LabelFact, Stream, Vocabulary, build_stream
from meor.stream.source import Report, warn
from meor.typing import Facts, Ids, Split

By = Literal["random", "degree", "date"]


@dataclass(frozen=True, slots=True)
class Shares:
    """The share of each snapshot that is set aside; the default is that of the paper's streams."""

    valid: float = 0.2
    test: float = 0.2

    def __post_init__(self) -> None:
        if not (self.valid >= 0 and self.test >= 0 and self.valid + self.test < 1):
            problem = f"shares of {self.valid} for valid and {self.test} for test leave nothing for train"
            raise ConfigError(
                problem, remedy="Choose two shares that are not negative and sum to less than 1"
            )


DEFAULT_SHARES = Shares()


def grow_file(
    facts_path: Path | str,
    out: Path | str,
    snapshots: int = 5,
    by: By = "random",
    seed: int = 0,
    *,
    columns: str | None = None,
    report: Report | None = None,
) -> Stream:
    """Read the facts of one file, cut them, and write the stream to the new folder `out`."""
    check_choice("by", by, get_args(By))
    check_target(Path(out))
    table = read_facts(facts_path, dated=by == "date", columns=columns, report=report)
    if not table.facts:
        raise table.origin.error("the file holds no fact", "Add facts")
    dates = table.date if by == "date" else None
    if table.date and dates is None:
        (report or warn)(f"{facts_path} holds dates that are not used: --by date cuts by them")
    name = Path(out).name or name_of(facts_path)
    stream = grow(table.facts, snapshots, by, seed, dates=dates, name=name, report=report)
    write_stream(stream, out)
    return stream


def grow(
    facts: Sequence[LabelFact],
    snapshots: int = 5,
    by: By = "random",
    seed: int = 0,
    *,
    dates: Sequence[int] | Sequence[str] | None = None,
    shares: Shares = DEFAULT_SHARES,
    name: str = "grown",
    report: Report | None = None,
) -> Stream:
    """Cut facts into a stream of `snapshots`, each with newcomers where the graph allows.

    `dates` (for `by="date"`) hold one sortable value per fact; facts of one date stay together. Equal facts
    count once, at their first date; `report` gets a sentence that says how many were left out.
    """
    check_choice("by", by, get_args(By))
    if snapshots < 1:
        raise ConfigError(f"{snapshots} snapshots", remedy="Ask for at least 1")
    if (dates is None) == (by == "date") or (dates is not None and len(dates) != len(facts)):
        remedy = 'Give one date per fact with by="date" only'
        raise ConfigError("dates do not go with the facts", remedy=remedy)
    tell = report or warn
    moment = None if dates is None else np.unique(np.asarray(dates), return_inverse=True)[1].astype(np.int64)
    rows = _distinct(facts, moment)
    if repeats := len(facts) - len(rows):
        tell(f"dropped {repeats:,} duplicate fact{'s' * (repeats > 1)}")
    kept = [facts[row] for row in rows]
    ids = _ids(kept)
    if moment is None:
        moment = _joining_order(ids, by, seed)[ids[:, [0, 2]]].max(axis=1, initial=0)
        when = _cut(ids, moment, snapshots, weigh="entities")
    else:
        when = _cut(ids, moment[rows], snapshots, weigh="facts")
    cut = _set_aside(ids, when, snapshots, shares, seed)
    _check_splits(cut, shares, tell)
    labelled: list[dict[Split, Sequence[LabelFact]]] = [
        {split: [kept[row] for row in chosen] for split, chosen in parts.items()} for parts in cut
    ]
    return build_stream(name, labelled)


def _distinct(facts: Sequence[LabelFact], moment: Ids | None) -> list[int]:
    """The first row of each fact, in order of date, then of appearance."""
    order = range(len(facts)) if moment is None else np.argsort(moment, kind="stable").tolist()
    first: dict[LabelFact, int] = {}
    for row in order:
        first.setdefault(facts[row], row)
    return list(first.values())


def _ids(facts: Sequence[LabelFact]) -> Facts:
    entities, relations = Vocabulary(), Vocabulary()
    rows = [(entities.admit(h, 0), relations.admit(r, 0), entities.admit(t, 0)) for h, r, t in facts]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _joining_order(ids: Facts, by: By, seed: int) -> Ids:
    """[E] when each entity joins: next is the first in line among those that touch the graph so far."""
    ends = ids[:, [0, 2]]
    n = int(ends.max(initial=-1)) + 1
    line = generator("growth", "order", seed).permutation(n)
    if by == "degree":
        degree = np.bincount(ends.ravel(), minlength=n)
        line = line[np.argsort(-degree[line], kind="stable")]
    rank = np.empty(n, dtype=np.int64)
    rank[line] = np.arange(n)
    near, start = _neighbours(ends, n)
    place, joined = np.zeros(n, dtype=np.int64), 0
    waiting = np.zeros(n, dtype=bool)
    for first in line.tolist():
        if waiting[first]:
            continue
        waiting[first] = True
        frontier = [(int(rank[first]), first)]
        while frontier:
            _, entity = heapq.heappop(frontier)
            place[entity], joined = joined, joined + 1
            around = near[start[entity] : start[entity + 1]]
            fresh = np.unique(around[~waiting[around]])
            waiting[fresh] = True
            for other in fresh.tolist():
                heapq.heappush(frontier, (int(rank[other]), other))
    return place


def _neighbours(ends: Ids, n: int) -> tuple[Ids, Ids]:
    source = np.concatenate([ends[:, 0], ends[:, 1]])
    near = np.concatenate([ends[:, 1], ends[:, 0]])[np.argsort(source, kind="stable")]
    return near, np.concatenate([[0], np.cumsum(np.bincount(source, minlength=n))])


def _cut(ids: Facts, moment: Ids, snapshots: int, weigh: Literal["entities", "facts"]) -> Ids:
    """[F] the snapshot of each fact: snapshots of about equal weight, with newcomers in each if possible.

    Facts of one moment stay together.
    """
    ends = ids[:, [0, 2]]
    admitted = np.full(int(ends.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(admitted, ends.ravel(), np.repeat(moment, 2))
    # A step begins where an entity joins, so that every snapshot has newcomers.
    steps = np.unique(admitted)
    if len(steps) < snapshots:
        steps = np.unique(moment)
    if len(steps) < snapshots:
        problem = f"the graph can grow in {len(steps)} steps at most, {snapshots} snapshots are wanted"
        raise StreamError(problem, remedy="Ask for fewer snapshots or give more facts")
    weighed = admitted if weigh == "entities" else moment
    step_of = np.searchsorted(steps, weighed, side="right") - 1
    total = np.cumsum(np.bincount(step_of, minlength=len(steps)))
    firsts = [0]
    for index in range(1, snapshots):
        wanted = int(np.searchsorted(total, total[-1] * index / snapshots)) + 1
        firsts.append(min(max(wanted, firsts[-1] + 1), len(steps) - (snapshots - index)))
    return np.searchsorted(steps[firsts], moment, side="right") - 1


def _set_aside(
    ids: Facts, when: Ids, snapshots: int, shares: Shares, seed: int
) -> list[dict[Split, list[int]]]:
    """Rows of train, valid and test of each snapshot; the first fact of an entity or relation is train."""
    seen_entity: set[int] = set()
    seen_relation: set[int] = set()
    cut: list[dict[Split, list[int]]] = []
    for snapshot in range(snapshots):
        rows = np.flatnonzero(when == snapshot)
        shuffled = rows[generator("growth", "split", seed, snapshot).permutation(len(rows))]
        train: list[int] = []
        free: list[int] = []
        for row, (head, relation, tail) in zip(shuffled.tolist(), ids[shuffled].tolist(), strict=True):
            known = head in seen_entity and tail in seen_entity and relation in seen_relation
            (free if known else train).append(row)
            seen_entity.update((head, tail))
            seen_relation.add(relation)
        n_valid, n_test = round(shares.valid * len(rows)), round(shares.test * len(rows))
        spare = len(free) - (not train)  # a snapshot without a train fact would be no update
        if n_valid + n_test > spare:
            n_valid = int(spare * shares.valid / (shares.valid + shares.test))
            n_test = spare - n_valid
        valid, test = free[:n_valid], free[n_valid : n_valid + n_test]
        train += free[n_valid + n_test :]
        cut.append({Split.TRAIN: sorted(train), Split.VALID: sorted(valid), Split.TEST: sorted(test)})
    return cut


def _check_splits(cut: Sequence[dict[Split, list[int]]], shares: Shares, tell: Report) -> None:
    for split, share in ((Split.VALID, shares.valid), (Split.TEST, shares.test)):
        empty = [str(index) for index, parts in enumerate(cut) if not parts[split]]
        if share and len(empty) == len(cut):
            problem = (
                f"no fact can be spared for {split}: every one is needed to show an entity or relation first"
            )
            raise StreamError(problem, remedy="Ask for fewer snapshots or give more facts")
        if share and empty:
            tell(f"snapshots without {split} facts: {', '.join(empty)}")
