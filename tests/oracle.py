"""Slow, obvious answers to compare with: Python numbers, whole lists, one sort a query.

Nothing here shares code with what it judges. Scores are exact for rows of small dyadic numbers, so ties
are real ties and every order of summation agrees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from meor.backbone import BACKBONES, Model
from meor.stream.occurrence import Occurrences
from meor.stream.snapshot import Stream, build_stream
from meor.typing import SPLITS, Side, Split


def score(name: str, head, relation, tail) -> float:
    """The score of one fact, from the definition."""
    if name in ("transe-l2", "transdot", "rotate"):
        return _by_translation(name, head, relation, tail)
    if name == "complex":
        half = len(head) // 2
        h, r, t = ([complex(row[i], row[half + i]) for i in range(half)] for row in (head, relation, tail))
        return sum((a * b * c.conjugate()).real for a, b, c in zip(h, r, t, strict=True))
    if name == "distmult":
        return sum(float(a) * float(b) * float(c) for a, b, c in zip(head, relation, tail, strict=True))
    return -sum(abs(float(a) + float(b) - float(c)) for a, b, c in zip(head, relation, tail, strict=True))


def _square(z: complex) -> float:
    return z.real * z.real + z.imag * z.imag  # exact, unlike abs(z) ** 2


def _by_translation(name: str, head, relation, tail) -> float:
    if name == "transdot":
        return sum((a + b) * c for a, b, c in zip(head, relation, tail, strict=True))
    if name == "rotate":
        half = len(head) // 2
        h, r, t = ([complex(row[i], row[half + i]) for i in range(half)] for row in (head, relation, tail))
        gaps = [_square(a * b - c) for a, b, c in zip(h, r, t, strict=True)]
    else:
        gaps = [(a + b - c) ** 2 for a, b, c in zip(head, relation, tail, strict=True)]
    return -(sum(gaps) ** 0.5)


def scores(model: Model, asked: Occurrences, n: int) -> list[list[float]]:
    """[Q][n] the whole score matrix."""
    entity, relation = model.entity.tolist(), model.relation.tolist()
    if model.backbone.name == "transe-inverse":
        return _through_inverse(entity, relation, asked, n)
    found = []
    for fact in asked.fact.tolist():
        row = []
        for e in range(n):
            head = e if asked.side is Side.HEAD else fact[0]
            tail = e if asked.side is Side.TAIL else fact[2]
            row.append(score(model.backbone.name, entity[head], relation[fact[1]], entity[tail]))
        found.append(row)
    return found


def _through_inverse(entity, relation, asked: Occurrences, n: int) -> list[list[float]]:
    """The head is the tail of the inverse fact; every row is divided by its length."""
    unit = [_unit(row) for row in entity]
    found = []
    for fact in asked.fact.tolist():
        half = len(relation[fact[1]]) // 2
        parts = relation[fact[1]][:half], relation[fact[1]][half:]
        vector = _unit(parts[0] if asked.side is Side.TAIL else parts[1])
        anchor = unit[fact[asked.side.anchor_column]]
        found.append([score("transe", anchor, vector, unit[e]) for e in range(n)])
    return found


def _unit(row: list[float]) -> list[float]:
    length = sum(value * value for value in row) ** 0.5
    return [value / max(length, 1e-12) for value in row]


@dataclass
class Judged:
    """Ranks of one query in both universes, and the newcomers before the answer, best first."""

    old: int | None
    cur: int
    ahead: list[int]
    tied: int
    greater: int


def eligible(fact, side: Side, known: set, n: int) -> list[int]:
    answer = fact[0] if side is Side.HEAD else fact[2]
    found = []
    for e in range(n):
        candidate = (e, fact[1], fact[2]) if side is Side.HEAD else (fact[0], fact[1], e)
        if e == answer or candidate not in known:
            found.append(e)
    return found


def judge(model: Model, asked: Occurrences, known_facts, n_old: int, n_cur: int) -> list[Judged]:
    """Sort the eligible candidates by (-score, id) and read the answer's place, in both universes."""
    known = {tuple(fact) for fact in np.asarray(known_facts).tolist()}
    found = []
    for fact, row in zip(asked.fact.tolist(), scores(model, asked, n_cur), strict=True):
        answer = fact[asked.side.answer_column]
        order = sorted(eligible(fact, asked.side, known, n_cur), key=lambda e: (-row[e], e))
        cur = order.index(answer)
        old = [e for e in order if e < n_old]
        found.append(
            Judged(
                old=old.index(answer) + 1 if answer < n_old else None,
                cur=cur + 1,
                ahead=[e for e in order[:cur] if e >= n_old],
                tied=sum(row[e] == row[answer] for e in order) - 1,
                greater=sum(row[e] > row[answer] for e in order),
            )
        )
    return found


def dyadic_model(
    name: str, n: int, m: int, rng: np.random.Generator, *, dim: int = 3, levels: int = 3
) -> Model:
    """Rows of few small dyadic values: many ties, exact sums."""
    backbone = BACKBONES[name]
    shapes = (n, backbone.width(dim)), (m, backbone.relation_columns(backbone.width(dim)))
    if not backbone.compares_stored_rows:  # roots are not dyadic: no tie that rounding breaks
        entity, relation = (torch.from_numpy(rng.normal(size=shape)) for shape in shapes)
        return Model(backbone, entity, relation)
    entity, relation = (torch.from_numpy(rng.integers(-levels, levels + 1, shape) / 4.0) for shape in shapes)
    if name == "rotate":  # quarter turns, which no rounding touches
        turn = torch.from_numpy(rng.integers(0, 4, (m, dim)))
        relation = torch.cat(
            [(turn == 0) * 1.0 - (turn == 2) * 1.0, (turn == 1) * 1.0 - (turn == 3) * 1.0], 1
        )
    return Model(backbone, entity, relation)


def small_stream(
    rng: np.random.Generator,
    *,
    snapshots: int = 3,
    base: int = 6,
    admitted: int = 3,
    facts: int = 14,
    relations: int = 2,
) -> Stream:
    """A random stream that obeys the rules: every entity and relation appears in train first, no duplicates.

    An update may admit nobody, and may hold facts between old entities (settled queries).
    """
    seen: set[tuple[str, str, str]] = set()
    content = []
    n = 0
    for index in range(snapshots):
        old, n = n, n + (base if index == 0 else int(rng.integers(0, admitted + 1)))
        splits: dict[Split, list[tuple[str, str, str]]] = {split: [] for split in SPLITS}
        for e in range(old, n):
            other = int(rng.integers(0, n))
            _put(splits, seen, Split.TRAIN, (f"e{e}", f"r{e % relations}", f"e{other}"))
        for r in range(relations):
            _put(
                splits,
                seen,
                Split.TRAIN,
                (f"e{int(rng.integers(0, n))}", f"r{r}", f"e{int(rng.integers(0, n))}"),
            )
        for _ in range(facts):
            head, tail = (int(x) for x in rng.integers(0, n, 2))
            split = SPLITS[int(rng.integers(0, 3))]
            _put(splits, seen, split, (f"e{head}", f"r{int(rng.integers(0, relations))}", f"e{tail}"))
        content.append(splits)
    return build_stream("small", content)


def _put(splits, seen, split, fact) -> None:
    if fact not in seen:
        seen.add(fact)
        splits[split].append(fact)
