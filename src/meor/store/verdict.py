"""What a verdict says, by name: the cost, the worst answers, who is to blame, who might wait."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from meor.store.holdback import Problem, smallest
from meor.store.judging import Gained, Judged, Lists
from meor.store.rules import Rule
from meor.store.settings import GateSettings
from meor.stream.snapshot import Stream
from meor.typing import SIDES, Floats, Ids

WORST, BLAMED, AHEAD = 20, 20, 10
"""So many answers, newcomers, and newcomers ahead of an answer are named."""


def means(found: Judged, gain: Gained | None) -> dict[str, float | None]:
    """The endpoints of the admission, over the protected queries and the batch."""
    old, cur = (float((found.weight / rank).sum()) for rank in (found.old, found.cur))
    before = float((found.weight / found.before).sum())
    gained = None if gain is None else float((gain.weight / gain.cur).sum())
    return {"H_before": before, "H_old": old, "H_cur": cur, "D_MCI": old - cur, "A_TN": gained}


def worst(found: Judged, stream: Stream) -> list[dict[str, Any]]:
    """The answers that lost most, by weight; must-keep answers that left their top k come first."""
    left = found.must_stay & (found.cur > found.keep)
    order = np.lexsort((-found.weight * found.lost, ~left))
    n_old = stream.entity_counts[-2]
    told = []
    for q in order[:WORST]:
        if found.cur[q] == found.old[q]:
            continue
        ahead = found.ahead.id[found.ahead.start[q] : found.ahead.start[q + 1]]
        told.append(
            {
                **named_query(stream, found.fact[q], int(found.side[q])),
                "rank_old": int(found.old[q]),
                "rank_current": int(found.cur[q]),
                "lost": float(found.lost[q]),
                "left_its_top": int(found.keep[q]) if left[q] else None,
                "newcomers_ahead": [stream.entities.label(n_old + int(n)) for n in ahead[:AHEAD]],
            }
        )
    return told


def named_query(stream: Stream, fact: Ids, side: int) -> dict[str, str]:
    head, relation, tail = (int(part) for part in fact)
    entity = stream.entities.label
    answer = fact[SIDES[side].answer_column]
    return {
        "head": "?" if side == 0 else entity(head),
        "relation": stream.relations.label(relation),
        "tail": entity(tail) if side == 0 else "?",
        "answer": entity(int(answer)),
    }


def charges(found: Judged, size: int) -> tuple[Ids, Floats]:
    """How many answers each newcomer stands ahead of, and its even share of D_MCI."""
    count = np.diff(found.ahead.start)
    share = found.weight * found.lost / np.maximum(count, 1)
    query = np.repeat(np.arange(len(count)), count)
    displaced = np.bincount(found.ahead.id, minlength=size).astype(np.int64)
    charge = np.bincount(found.ahead.id, weights=share[query], minlength=size).astype(np.float64)
    return displaced, charge


def blame(found: Judged, stream: Stream) -> list[dict[str, Any]]:
    """The newcomers that cost most. Charges of all newcomers sum to D_MCI."""
    newcomers = stream.newcomers(len(stream.snapshots) - 1)
    displaced, charge = charges(found, len(newcomers))
    train = stream.snapshots[-1].train
    ends = np.concatenate([train[:, 0], train[train[:, 0] != train[:, 2], 2]])  # a loop is one fact
    facts = np.bincount(ends, minlength=stream.entity_counts[-1])
    order = np.lexsort((-displaced, -charge))[:BLAMED]
    return [
        {
            "newcomer": stream.entities.label(newcomers.start + int(n)),
            "answers": int(displaced[n]),
            "charge": float(charge[n]),
            "facts": int(facts[newcomers.start + n]),
        }
        for n in order
        if displaced[n]
    ]


def problem_of(
    stream: Stream, found: Judged, gain: Gained | None, gate: GateSettings, groups: list[Ids]
) -> Problem:
    """The gate as a question of who waits; `groups` holds the protected rows of each group that is judged."""
    n_old, size = stream.entity_counts[-2], stream.entity_counts[-1] - stream.entity_counts[-2]
    costs = [found.weight / found.weight.sum()]
    for rows in groups:
        part = np.zeros(len(found.old))
        part[rows] = found.weight[rows] / found.weight[rows].sum()
        costs.append(part)
    nothing = np.zeros(0, np.int64)
    empty = Lists(np.zeros(1, np.int64), nothing)
    return Problem(
        found.old,
        _matrix(found.ahead, size),
        np.array(costs),
        gate.budget,
        np.where(found.must_stay & (found.old <= found.keep), found.keep, 0),
        nothing if gain is None else gain.others,
        _matrix(empty if gain is None else gain.ahead, size),
        _ends(np.zeros((0, 3), np.int64) if gain is None else gain.fact, n_old),
        np.zeros(0) if gain is None else gain.weight,
        0.0 if gain is None else gate.floor,
        _ends(stream.snapshots[-1].train, n_old),
    )


def _matrix(lists: Lists, size: int) -> sparse.csr_array:
    shape = len(lists.start) - 1, size
    return sparse.csr_array((np.ones(len(lists.id), np.int64), lists.id, lists.start), shape=shape)


def _ends(fact: Ids, n_old: int) -> Ids:
    """The newcomers of each fact, counted from the first; -1 where an end is old."""
    return np.where(fact[:, [0, 2]] >= n_old, fact[:, [0, 2]] - n_old, -1)


def what_if(problem: Problem, stream: Stream) -> dict[str, Any]:
    """Who might wait, and what that changes."""
    waits = smallest(problem)
    lost = None if waits is None else ((problem.fact >= 0) & waits[problem.fact]).any(1)
    if waits is None or lost is None or lost.all():  # if every fact waits, nothing is admitted
        return {"found": False, "newcomers": []}
    n_old = stream.entity_counts[-2]
    found = problem.measure(waits)
    return {
        "found": True,
        "newcomers": [stream.entities.label(n_old + int(n)) for n in np.flatnonzero(waits)],
        "facts_that_would_wait": int(lost.sum()),
        "D_MCI": float(found.costs[0]),
        "A_TN": found.gain if len(problem.gain) else None,
    }


def told_rules(rules: list[Rule]) -> list[dict[str, Any]]:
    return [rule.to_json() for rule in rules]
