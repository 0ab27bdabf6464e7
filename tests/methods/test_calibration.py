"""Calibration against explicit calibrated scores, sorted one query at a time."""

from __future__ import annotations

from pathlib import Path

import numba
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from meor.backbone import BACKBONES, Model
from meor.errors import NonFiniteError
from meor.evaluation.rank import rank_update
from meor.methods.calibrated_rank import Universe, counts_under
from meor.methods.calibration import Calibration, Calibrator, ScaleSummary, calibration_bytes, summarise
from meor.methods.calibration_grid import (
    ENOUGH,
    GRID,
    IDENTITY,
    LEVELS,
    MARGIN,
    Fit,
    Tried,
    best_transform,
    choose,
    grid_at,
)
from meor.stream.occurrence import EvaluationFilter, Occurrences, occurrences
from meor.stream.snapshot import Stream, build_stream
from meor.typing import SIDES, SPLITS, Role, Side, Split

NAMES = sorted(BACKBONES)


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(before)


def three_snapshots(seed: int = 0, n: int = 20, per: int = 60) -> Stream:
    draw = np.random.default_rng(seed)
    seen: set = set()
    snapshots = []
    for index in range(3):
        total, old = n * (index + 1), n * index
        train = [
            (f"e{i}", f"r{i % 3}", f"e{draw.integers(max(old, 1)) if old else (i + 1) % n}")
            for i in range(old, total)
        ]
        more = []
        while len(more) < per:
            one, other = draw.integers(old, total), draw.integers(total)
            pair = (one, other) if draw.random() < 0.5 else (other, one)
            more.append((f"e{pair[0]}", f"r{min(draw.geometric(0.5) - 1, 2)}", f"e{pair[1]}"))
        facts = [fact for fact in dict.fromkeys(train + more) if fact not in seen]
        seen |= set(facts)
        keep = [fact for fact in facts if fact in set(train)]
        rest = [fact for fact in facts if fact not in set(train)]
        third = len(rest) // 3
        snapshots.append(
            {
                Split.TRAIN: keep + rest[: third // 2],
                Split.VALID: rest[third // 2 : 2 * third],
                Split.TEST: rest[2 * third :],
            }
        )
    return build_stream("three", snapshots)


def model_of(stream: Stream, name: str, seed: int, through: int) -> Model:
    draw = torch.Generator().manual_seed(seed)
    backbone = BACKBONES[name]
    entity = torch.randn(len(stream.entities), backbone.width(3), generator=draw, dtype=torch.float64)
    columns = backbone.relation_columns(backbone.width(3))
    relation = torch.randn(len(stream.relations), columns, generator=draw, dtype=torch.float64)
    return Model(backbone, entity[: stream.entity_counts[through]], relation)


def random_calibration(stream: Stream, seed: int, through: int) -> Calibration:
    draw = np.random.default_rng(seed)
    shape = (2, len(stream.relations))
    fits = []
    for cohort in range(1, through + 1):
        chosen = draw.integers(len(GRID), size=shape)
        alpha, offset = (np.array([pair[at] for pair in GRID])[chosen] for at in (0, 1))
        none = np.zeros(shape, np.int64)
        fits.append(Fit(cohort, alpha, offset, none.astype(np.int8), none, none))
    return Calibration(tuple(fits))


class ByHand:
    """Every raw score of an update once; then transform, sort and read the place of the answer."""

    def __init__(self, stream: Stream, model: Model, update: int, splits: tuple[Split, ...] = SPLITS):
        self.known = {tuple(one) for one in stream.prefix(update, splits).tolist()}
        self.n_old, self.n_cur = stream.entity_counts[update - 1], stream.entity_counts[update]
        self.cohort = stream.entities.admitted_at
        self.model = model
        self.seen: dict = {}

    def candidates(self, fact: list[int], side: Side) -> list[tuple[int, float]]:
        """(entity, raw score) of everything that may compete, the answer included."""
        if (*fact, side) not in self.seen:
            asked = np.array([fact] * self.n_cur)
            asked[:, side.answer_column] = np.arange(self.n_cur)
            anchor, of = np.array(fact)[[side.anchor_column]], np.array(fact)[[1]]
            raw = self.model.score(anchor, of, side, np.arange(self.n_cur))[0].tolist()
            answer = fact[side.answer_column]
            self.seen[(*fact, side)] = [
                (e, raw[e])
                for e in range(self.n_cur)
                if e == answer or tuple(asked[e].tolist()) not in self.known
            ]
        return self.seen[(*fact, side)]

    def rank(self, fact: list[int], side: Side, table: list[tuple[float, float]]) -> tuple[int, int]:
        """Old and current rank under (alpha, offset) by cohort."""
        scored = []
        for e, raw in self.candidates(fact, side):
            alpha, offset = table[self.cohort[e]]
            scored.append((-(alpha * raw + offset), e))
        order = [e for _, e in sorted(scored)]
        answer = fact[side.answer_column]
        old = [e for e in order if e < self.n_old]
        return (old.index(answer) + 1 if answer < self.n_old else 0), order.index(answer) + 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("update", [1, 2])
def test_calibrated_ranks_are_those_of_calibrated_scores(name, update):
    stream = three_snapshots(1)
    model = model_of(stream, name, 1, update)
    calibration = random_calibration(stream, 1, update)
    calibrator = Calibrator(stream, run=0)
    summary = calibrator.summary(update, model)
    hand = ByHand(stream, model, update)
    for ranks in calibrator.ranks(update, model, calibration, summary=summary):
        side = ranks.occurrences.side
        for fact, old, cur in zip(ranks.occurrences.fact.tolist(), ranks.old, ranks.cur, strict=True):
            tau = summary.tau[side, fact[1]]
            own = [(fit.alpha[side, fact[1]], fit.offset[side, fact[1]] * tau) for fit in calibration.fits]
            assert (old, cur) == hand.rank(fact, side, [(1.0, 0.0), *own])


@pytest.mark.parametrize("name", NAMES)
def test_without_transforms_or_without_a_scale_ranks_are_replays(name):
    stream = three_snapshots(2)
    model = model_of(stream, name, 2, 2)
    plain = rank_update(stream, model, 2)
    none = np.full((2, len(stream.relations)), np.nan)
    nothing = ScaleSummary(none, np.zeros(none.shape, np.int8))
    calibrator = Calibrator(stream, run=0)
    for calibration, summary in (
        (Calibration(), calibrator.summary(2, model)),
        (random_calibration(stream, 3, 2), nothing),
    ):
        for one, other in zip(plain, calibrator.ranks(2, model, calibration, summary=summary), strict=True):
            assert np.array_equal(one.old, other.old)
            assert np.array_equal(one.cur, other.cur)
    affine = random_calibration(stream, 3, 2).affine(2, np.array([0, 1]), Side.HEAD, nothing)
    assert (affine.alpha == 1).all()
    assert (affine.offset == 0).all()


def tried_by_hand(stream, model, earlier: Calibration, summary: ScaleSummary) -> dict:
    """role -> (side, relation, reciprocal rank under each transform, and raw) of every validation query."""
    hand = ByHand(stream, model, 2, (Split.TRAIN, Split.VALID))  # a fit sees no test fact
    rows: dict = {Role.HISTORICAL: [], Role.TARGET_NEWCOMER: []}
    before = earlier.fits[0]
    for side in SIDES:
        asked = occurrences(stream, 2, side, Split.VALID)
        for fact, role in zip(asked.fact.tolist(), asked.role.tolist(), strict=True):
            if role not in rows:
                continue
            tau = summary.tau[side, fact[1]]
            kept = before.alpha[side, fact[1]], before.offset[side, fact[1]] * tau
            found = [1 / hand.rank(fact, side, [(1.0, 0.0), kept, (a, g * tau)])[1] for a, g in GRID]
            raw = 1 / hand.rank(fact, side, [(1.0, 0.0)] * 3)[1]
            rows[role].append((side, fact[1], found, raw))
    return rows


def decide_by_hand(rows: dict, side: Side, relation: int) -> tuple:
    """Coefficients, level and sizes for one relation and side."""
    tests = (
        lambda row: row[0] == side and row[1] == relation,
        lambda row: row[0] == side,
        lambda row: True,
    )
    for level, test in zip(LEVELS, tests, strict=False):
        historical, target = ([row for row in of if test(row)] for of in rows.values())
        if len(historical) >= 5 and len(target) >= 5:
            h = np.mean([row[2] for row in historical], axis=0)
            a = np.mean([row[2] for row in target], axis=0)
            allowed = [t for t in range(25) if a[t] >= np.mean([row[3] for row in target]) - 0.005]
            top = max((h[t] for t in allowed), default=0.0)
            best = [t for t in allowed if h[t] == pytest.approx(top, rel=1e-14)]
            chosen = IDENTITY if IDENTITY in best or not best else best[0]
            return GRID[chosen], level, len(historical), len(target)
    return (1.0, 0.0), "identity", 0, 0


@pytest.mark.parametrize("name", NAMES)
def test_a_cohort_is_fitted_as_the_definition_says(name):
    """All 25 transforms by hand for every group, with the earlier cohort's transform applied."""
    stream = three_snapshots(4, n=14, per=60)
    model = model_of(stream, name, 4, 2)
    calibrator = Calibrator(stream, run=0)
    earlier = random_calibration(stream, 4, 1)
    summary = calibrator.summary(2, model)
    fit = calibrator.admit(2, model, earlier, summary).fits[-1]
    rows = tried_by_hand(stream, model, earlier, summary)
    levels = set()
    for side in SIDES:
        for relation in range(len(stream.relations)):
            expected, level, n_historical, n_target = decide_by_hand(rows, side, relation)
            levels.add(level)
            at = side, relation
            assert LEVELS[fit.level[at]] == level
            assert (fit.alpha[at], fit.offset[at]) == expected
            assert (fit.n_historical[at], fit.n_target[at]) == (n_historical, n_target)
    assert len(levels) >= 2, "a test of one level only"


def test_the_best_transform_keeps_newcomers_and_prefers_the_identity():
    historical, target, raw = np.zeros((1, 25)), np.full((1, 25), 0.5), np.array([0.5])
    assert best_transform(historical, target, raw) == IDENTITY
    historical[0, 3] = 1.0
    assert best_transform(historical, target, raw) == 3
    target[0, 3] = 0.4951
    assert best_transform(historical, target, raw) == 3
    target[0, 3] = 0.4949
    assert best_transform(historical, target, raw) == IDENTITY
    assert best_transform(historical, target - 0.1, raw) == IDENTITY


def test_scales_fall_back_from_relation_to_side_to_update_to_none():
    tau, relation = np.array([1.0, 3.0, 10.0]), np.array([0, 0, 1])
    found = summarise(tau, relation, np.array([0, 0, 0], np.int8), 3)
    assert found.tau[0].tolist() == [2.0, 10.0, 3.0]
    assert found.level.tolist() == [[0, 0, 1], [2, 2, 2]]
    assert found.tau[1].tolist() == [3.0, 3.0, 3.0]
    nothing = summarise(tau[:0], relation[:0], np.zeros(0, np.int8), 2)
    assert np.isnan(nothing.tau).all()
    assert (nothing.level == 3).all()


def test_a_cohort_with_too_few_validation_queries_keeps_its_scores():
    base = [(f"e{i}", "r", f"e{(i + 1) % 6}") for i in range(6)]
    stream = build_stream("few", [{Split.TRAIN: base}, {Split.TRAIN: [("n", "r", "e0")]}])
    model = model_of(stream, "complex", 0, 1)
    fit = Calibrator(stream, run=0).admit(1, model, Calibration()).fits[0]
    assert (fit.alpha == 1).all()
    assert (fit.offset == 0).all()
    assert {LEVELS[level] for level in fit.level.ravel()} == {"identity"}


def test_coefficients_and_their_level_are_written(tmp_path: Path):
    stream = three_snapshots(5)
    model = model_of(stream, "complex", 5, 1)
    calibrator = Calibrator(stream, run=0)
    summary = calibrator.summary(1, model)
    fit = calibrator.admit(1, model, Calibration(), summary).fits[0]
    (tmp_path / "calibration.parquet").write_bytes(calibration_bytes(fit, summary))
    rows = pq.read_table(tmp_path / "calibration.parquet").to_pylist()
    assert len(rows) == 2 * len(stream.relations)
    for row in rows:
        side = Side.HEAD if row["side"] == "head" else Side.TAIL
        assert row["alpha"] == fit.alpha[side, row["relation"]]
        assert row["g"] == fit.offset[side, row["relation"]]
        assert row["level"] == LEVELS[fit.level[side, row["relation"]]]
        assert row["tau"] == summary.tau[side, row["relation"]]


def test_a_model_that_is_no_number_is_refused():
    stream = three_snapshots(6)
    model = model_of(stream, "complex", 6, 1)
    calibrator = Calibrator(stream, run=0)
    summary = calibrator.summary(1, model)
    model.entity[0, 0] = torch.nan
    with pytest.raises(NonFiniteError):
        calibrator.ranks(1, model, Calibration(), summary=summary)


def test_the_grid_is_the_papers():
    assert sorted({alpha for alpha, _ in GRID}) == [0.5, 0.75, 1.0, 1.25, 1.5]
    assert sorted({offset for _, offset in GRID}) == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert len(set(GRID)) == len(GRID) == 25
    assert GRID[IDENTITY] == (1.0, 0.0)
    assert (MARGIN, ENOUGH) == (0.005, 5)


def test_without_a_scale_every_transform_of_the_grid_is_the_identity():
    alpha, offset = grid_at(np.array([0.0, 2.0, 0.25]))
    assert alpha.shape == offset.shape == (3, len(GRID))
    assert (alpha[0] == 1).all()
    assert (offset[0] == 0).all()
    assert [tuple(pair) for pair in zip(alpha[1], offset[1] / 2.0, strict=True)] == list(GRID)
    assert [tuple(pair) for pair in zip(alpha[2], offset[2] / 0.25, strict=True)] == list(GRID)


def tried(side: int, historical: int, target: int, best: int) -> Tried:
    """Queries of relation `side` that a transform of their own helps, and newcomers that do not mind."""
    gain = np.zeros(len(GRID))
    gain[best] = 0.1
    return Tried(
        np.full(historical, side),
        np.tile(0.5 + gain, (historical, 1)),
        np.full(target, side),
        np.full((target, len(GRID)), 0.5),
        np.full(target, 0.5),
    )


@pytest.mark.parametrize(
    ("historical", "target", "level"), [(5, 5, "relation"), (4, 5, "cohort"), (5, 4, "cohort")]
)
def test_a_group_decides_from_five_queries_of_each_kind_on(historical, target, level):
    fit = choose(1, [tried(0, historical, target, 3), tried(1, 9, 8, 7)], 2)
    assert LEVELS[fit.level[0, 0]] == level
    assert LEVELS[fit.level[1, 1]] == "relation"
    assert (fit.alpha[1, 1], fit.offset[1, 1]) == GRID[7]
    assert (fit.n_historical[1, 1], fit.n_target[1, 1]) == (9, 8)
    assert LEVELS[fit.level[1, 0]] == "side"
    own = (historical, target) if level == "relation" else (historical + 9, target + 8)
    assert (fit.n_historical[0, 0], fit.n_target[0, 0]) == own


def test_too_few_queries_anywhere_leave_the_identity():
    fit = choose(1, [tried(0, 2, 9, 3), tried(1, 2, 9, 7)], 2)
    assert (fit.alpha == 1).all()
    assert (fit.offset == 0).all()
    assert {LEVELS[each] for each in fit.level.ravel()} == {"identity"}


def test_known_answers_at_the_edges_of_a_cohort_are_left_out():
    stream = three_snapshots(2)
    model = model_of(stream, "distmult", 2, 2)
    first, end = stream.entity_counts[1], stream.entity_counts[2]
    known = EvaluationFilter.through(stream, 2)
    universe = Universe.of(model, stream.entity_counts, known)
    # Queries (?, r, t) whose known heads hold the first newcomer or the last; entity 0 stands for the answer.
    edge = stream.prefix(2)[np.isin(stream.prefix(2)[:, 0], [first, end - 1])]
    fact = np.column_stack([np.zeros(len(edge), np.int64), edge[:, 1:]])
    asked = Occurrences(2, Side.HEAD, fact, np.zeros(len(fact), np.int64), np.zeros(len(fact), np.int8))
    everyone = np.full((len(fact), 1), -1e300)
    found = counts_under(universe, universe.queries(asked), 2, everyone, inclusive=False)[:, 0]
    for (_, relation, tail), count in zip(fact, found, strict=True):
        answers = known.on(Side.HEAD).of(tail, relation)
        assert count == end - first - ((answers >= first) & (answers < end)).sum()
    assert {first, end - 1} <= set(edge[:, 0])


def test_ties_with_a_threshold_count_where_they_are_asked_for():
    stream = three_snapshots(2)
    model = model_of(stream, "distmult", 2, 2)
    universe = Universe.of(
        model, stream.entity_counts, EvaluationFilter.from_facts(np.empty((0, 3), np.int64), 3)
    )
    fact = np.array([[0, 0, 1], [3, 1, 2]])
    asked = Occurrences(2, Side.TAIL, fact, np.zeros(2, np.int64), np.zeros(2, np.int8))
    queries = universe.queries(asked)
    raw = universe.raw_scores(queries.row, universe.bounds[2], universe.bounds[3])
    threshold = np.sort(raw, axis=1)[:, [0, 5, -1]]  # each is the score of some candidate
    for inclusive in (False, True):
        found = counts_under(universe, queries, 2, threshold, inclusive=inclusive)
        above = raw[:, None] >= threshold[:, :, None] if inclusive else raw[:, None] > threshold[:, :, None]
        assert found.tolist() == above.sum(2).tolist()
