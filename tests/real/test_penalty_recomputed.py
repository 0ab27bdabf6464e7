"""One whole update's penalty on FBInc-S, recomputed slowly from the paper alone.

Nothing of ours is used but the loading of ids and draws. Facts, known answers, cohorts, scales, pressures
and the loss are written out with Python numbers, lists and loops, from Equations new-cohort to uor.
"""

from __future__ import annotations

import math
import os
import statistics
from pathlib import Path

import numba
import numpy as np
import pytest
import torch

from meor.backbone import BACKBONES
from meor.methods.comparison import Comparison
from meor.methods.penalty import Penalty
from meor.methods.registry import penalties
from meor.stream.registry import open_stream
from meor.training.loss import Embedding
from meor.typing import Split

DATA = os.environ.get("MEOR_DATA")
needs_data = pytest.mark.skipif(
    DATA is None or not Path(DATA, "FBInc-S").is_dir(), reason="MEOR_DATA does not name a folder with FBInc-S"
)

FACTS, DIM, UPDATE, SEED = 64, 8, 1, 5
BETA, J, K, ETA, EPSILON = 5.0, 4, 256, 0.1, 1e-8


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Waking threads for so little work would take most of the time."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(before)


def complex_score(head: list[float], relation: list[float], tail: list[float]) -> float:
    """Re <h, r, conj(t)>, halves being real and imaginary parts."""
    n = len(head) // 2
    total = []
    for i in range(n):
        h = complex(head[i], head[n + i])
        r = complex(relation[i], relation[n + i])
        t = complex(tail[i], tail[n + i])
        total.append((h * r * t.conjugate()).real)
    return math.fsum(total)


def quartile(ordered: list[float], share: float) -> float:
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def deviation(scores: list[float]) -> float:
    middle = statistics.median(scores)
    return statistics.median([abs(score - middle) for score in scores])


def aggregate(gaps: list[float], how: str) -> float:
    above = [max(gap, 0.0) for gap in gaps]
    if how == "max":
        return max(above)
    return math.log(math.fsum(math.exp(BETA * gap) for gap in above) / len(above)) / BETA


class Occurrence:
    def __init__(self, fact: tuple[int, int, int], side: str, train: set, n_old: int, n_cur: int):
        self.fact, self.side = fact, side
        head, relation, tail = fact
        self.answer = head if side == "head" else tail
        known = set()
        for e in range(n_cur):
            asked = (e, relation, tail) if side == "head" else (head, relation, e)
            if asked in train:
                known.add(e)
        out = known | {self.answer}
        self.out = out
        self.newcomers = [e for e in range(n_old, n_cur) if e not in out]
        self.pool = [e for e in range(n_old) if e not in out]

    def score(self, entity, relation, e: int) -> float:
        h, r, t = self.fact
        head, tail = (e, t) if self.side == "head" else (h, e)
        return complex_score(entity[head], relation[r], entity[tail])


def build():
    stream = open_stream("FBInc-S", data_dir=Path(DATA or "."))
    past = stream.prefix(UPDATE - 1, [Split.TRAIN])
    buffer = past[np.random.default_rng(SEED).choice(len(past), FACTS, replace=False)]
    draw = torch.Generator().manual_seed(SEED)
    entity = torch.randn(stream.entity_counts[UPDATE], 2 * DIM, generator=draw, dtype=torch.float64)
    relation = torch.randn(stream.relation_counts[UPDATE], 2 * DIM, generator=draw, dtype=torch.float64)
    entity[stream.entity_counts[UPDATE - 1] :] *= 1.5
    return stream, buffer, entity, relation


@pytest.fixture(scope="module")
def setting():
    stream, buffer, entity, relation = build()
    train = {tuple(fact) for fact in stream.prefix(UPDATE, [Split.TRAIN]).tolist()}
    n_old, n_cur = stream.entity_counts[UPDATE - 1], stream.entity_counts[UPDATE]
    occurrences = [
        Occurrence(tuple(fact), side, train, n_old, n_cur)
        for fact in buffer.tolist()
        for side in ("head", "tail")
    ]
    rows, relations = entity.tolist(), relation.tolist()
    score = [[one.score(rows, relations, e) for e in range(n_cur)] for one in occurrences]
    return stream, buffer, entity, relation, occurrences, score


def scales(occurrences: list[Occurrence], samples: list[list[int]], score) -> list[float]:
    tau = []
    for x, one in enumerate(occurrences):
        ordered = sorted(score[x][e] for e in samples[x])
        iqr = quartile(ordered, 0.75) - quartile(ordered, 0.25)
        mad = 0.0
        tests = (
            lambda y, one=one: (occurrences[y].fact[1], occurrences[y].side) == (one.fact[1], one.side),
            lambda y, one=one: occurrences[y].side == one.side,
            lambda y: True,
        )
        for test in tests:
            members = [y for y in range(len(occurrences)) if samples[y] and test(y)]
            pool = [score[y][e] for y in members for e in samples[y]]
            if len(members) >= 2 and len(pool) >= 256:
                mad = deviation(pool)
                break
        tau.append(max(iqr, ETA * mad, EPSILON))
    return tau


@needs_data
@pytest.mark.real
@pytest.mark.parametrize("kind", sorted(penalties()))
def test_one_whole_update_agrees_with_the_paper_to_1e_12(setting, kind):
    stream, buffer, entity, relation, occurrences, score = setting
    comparison = Comparison.build(stream, UPDATE, buffer, run=SEED, variant=penalties()[kind])
    cohort = comparison.cohort
    samples = [cohort.scale_of(x).tolist() for x in range(len(occurrences))]
    tau = scales(occurrences, samples, score)
    how = "max" if kind == "mmr" else "smooth"

    pressed, references = {}, {}
    for x, one in enumerate(occurrences):
        assert cohort.newcomers_of(x).tolist() == one.newcomers
        assert len(samples[x]) == len(set(samples[x])) == min(K, len(one.pool))
        assert set(samples[x]) <= set(one.pool)
        if not (one.newcomers and one.pool):
            assert not comparison.eligible[x]
            continue
        gap = [(score[x][e] - score[x][one.answer]) / tau[x] for e in range(len(score[x]))]
        new = aggregate([gap[e] for e in one.newcomers], how)
        reference = 0.0
        if kind != "uncentered":
            draws = comparison.references.draws_of(int(comparison.partner[x])).tolist()
            assert len(draws) == J
            if kind == "shuffled":
                assert comparison.partner[x] != x
                draws = [[e for e in draw if e not in one.out] for draw in draws]
            else:
                assert all(len(draw) == len(one.newcomers) for draw in draws)
                assert all(e in set(one.pool) for draw in draws for e in draw)
            kept = [aggregate([gap[e] for e in draw], how) for draw in draws if draw]
            reference = math.fsum(kept) / len(kept)
        pressed[x], references[x] = new, reference

    losses = {"head": [], "tail": []}
    for x, new in pressed.items():
        whose = int(comparison.value_of[x])
        assert (whose != x) == (kind == "shuffled-values")
        losses[occurrences[x].side].append((x, max(new - references[whose], 0.0) ** 2))

    backbone = BACKBONES["complex"]
    n_old, m_old = stream.entity_counts[UPDATE - 1], stream.relation_counts[UPDATE - 1]
    whole = losses["head"] + losses["tail"]
    for part in (losses["head"], losses["tail"], whole):
        expected = math.fsum(value for _, value in part) / len(part)
        assert expected > 0, "a test of nothing"
        index = np.array([x for x, _ in part])
        for fast in (True, False):
            tables = Embedding.of(entity.clone(), n_old), Embedding.of(relation.clone(), m_old)
            found = Penalty(comparison, backbone, fast=fast).over(*tables, index).item()
            assert found == pytest.approx(expected, rel=1e-12)
        moving = Embedding.of(entity.clone()), Embedding.of(relation.clone())
        general = Penalty(comparison, backbone).over(*moving, index).item()
        assert general == pytest.approx(expected, rel=1e-12)


@needs_data
@pytest.mark.real
def test_the_buffer_reaches_every_pool_of_the_scale(setting):
    """The buffer above is meant to use relation pools and a fallback."""
    stream, buffer, entity, relation, *_ = setting
    comparison = Comparison.build(stream, UPDATE, buffer, run=SEED)
    tables = (
        Embedding.of(entity.clone(), stream.entity_counts[UPDATE - 1]),
        Embedding.of(relation.clone(), stream.relation_counts[UPDATE - 1]),
    )
    frozen = Penalty(comparison, BACKBONES["complex"]).frozen(*tables)
    assert set(frozen.scale.mad_pool.tolist()) >= {0, 1}


@needs_data
@pytest.mark.real
@pytest.mark.parametrize("change", ["permute", "negate", "randomise"])
def test_changing_every_score_changes_no_id(setting, change):
    stream, buffer, entity, relation, *_ = setting
    backbone = BACKBONES["complex"]

    def ids(rows: torch.Tensor, of: torch.Tensor) -> list[np.ndarray]:
        found = []
        for variant in penalties().values():
            comparison = Comparison.build(stream, UPDATE, buffer, run=SEED, variant=variant)
            table = Embedding.of(rows.clone(), stream.entity_counts[UPDATE - 1])
            other = Embedding.of(of.clone(), stream.relation_counts[UPDATE - 1])
            Penalty(comparison, backbone)(table, other, np.arange(FACTS))
            drawn = comparison.references.draw(np.arange(len(comparison.cohort)))
            found += [comparison.cohort.scale, drawn.id, drawn.level, comparison.eligible, comparison.partner]
        return found

    draw = torch.Generator().manual_seed(1)
    changed = {
        "permute": (entity[torch.randperm(len(entity), generator=draw)], relation),
        "negate": (entity, -relation),
        "randomise": (torch.randn(entity.shape, generator=draw, dtype=torch.float64), relation),
    }[change]
    before, after = ids(entity, relation), ids(*changed)
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    per = len(before) // len(penalties())
    named = dict(zip(penalties(), [before[at : at + per] for at in range(0, len(before), per)], strict=True))
    for name in ("mmr", "uncentered"):
        assert all(np.array_equal(a, b) for a, b in zip(named["meor"], named[name], strict=True))
