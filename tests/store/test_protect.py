"""Protected queries: golden files, held-out facts, samples; and the interval of what they cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.tiny_run import tiny_stream

from meor.errors import MeorError
from meor.store.admit import Request, admit
from meor.store.protect import protected
from meor.store.rules import Rule, interval, verdict_of
from meor.stream.snapshot import Snapshot
from meor.study.bounds import t_interval
from meor.typing import Side


def test_the_first_that_is_there_is_protected() -> None:
    stream = tiny_stream()
    assert protected(stream, 100).source == "held-out"
    np.testing.assert_array_equal(protected(stream, 100).sides[0].fact, stream.prefix(2, ["test"]))
    none = np.zeros((0, 3), np.int64)
    without = replace(stream, snapshots=tuple(Snapshot(s.train, s.valid, none) for s in stream.snapshots))
    np.testing.assert_array_equal(protected(without, 100).sides[1].fact, stream.prefix(2, ["valid"]))
    bare = replace(stream, snapshots=tuple(Snapshot(s.train, none, none) for s in stream.snapshots))
    few = protected(bare, 10)
    assert few.source == "sample"
    assert len(few) == 20
    assert sum(each.weight.sum() for each in few.sides) == pytest.approx(1)
    np.testing.assert_array_equal(few.sides[0].fact, protected(bare, 10).sides[0].fact)


def test_a_golden_file_is_read(tmp_path: Path) -> None:
    golden = tmp_path / "golden.tsv"
    golden.write_text(
        "head\trelation\ttail\tanswer\te0\n".replace("\te0", "") + "e0\tr0\t?\te1\n?\tr1\te4\te2\t3\t3\n"
    )
    found = protected(tiny_stream(), 5, golden)
    assert found.source == "golden"
    assert not found.estimated
    head, tail = found.sides
    assert (head.side, tail.side) == (Side.HEAD, Side.TAIL)
    assert head.fact.tolist() == [[2, 1, 4]]
    assert (head.keep.tolist(), head.weight.tolist()) == ([3], [0.75])
    assert tail.fact.tolist() == [[0, 0, 1]]
    assert (tail.keep.tolist(), tail.weight.tolist()) == ([0], [0.25])


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "no query"),
        ("e0\tr0\t?\tnobody\n", "line 1: the store has no entity 'nobody'"),
        ("e0\tnothing\t?\te1\n", "no relation 'nothing'"),
        ("e0\tr0\te1\te1\n", "not a query"),
        ("?\tr0\t?\te1\n", "not a query"),
        ("e0\tr0\t?\n", "not a query"),
        ("e0\tr0\t?\te1\tmany\n", "'many' is no number"),
        ("e0\tr0\t?\te1\t-3\n", "no number from 0"),
        ("e0\tr0\t?\te1\t2.5\n", "whole number"),
        ("e0\tr0\t?\te1\t1\t0\n", "weight is above 0"),
        ("e0\tr0\t?\te1\t1\tnan\n", "no number"),
        ("e0\tr0\t?\t\x1b[31m\n", r"'\\x1b\[31m'"),
    ],
)
def test_a_golden_file_that_cannot_be_kept_says_where(tmp_path: Path, text: str, match: str) -> None:
    (tmp_path / "golden.tsv").write_text(text)
    with pytest.raises(MeorError, match=match) as error:
        protected(tiny_stream(), 5, tmp_path / "golden.tsv")
    assert "golden.tsv" in str(error.value)


def test_an_answer_that_must_stay_in_its_top_k_refuses(store: Path, batch: Path, tmp_path: Path) -> None:
    """The worst answer of an admission is protected by the rank it had."""
    told = admit(store, Request(batch, dry_run=True, budget=1.0)).verdict["worst"][0]
    golden = tmp_path / "golden.tsv"

    def keep(k: int) -> dict[str, object]:
        line = (told["head"], told["relation"], told["tail"], told["answer"], str(k))
        golden.write_text("\t".join(line) + "\n")
        found = admit(store, Request(batch, protect=golden, dry_run=True, budget=1.0)).verdict
        return {**found, "rule": found["rules"][1]}

    left = keep(told["rank_old"])
    assert left["verdict"] == "refused"
    assert left["rule"]["value"] == 1  # type: ignore[index]
    assert left["worst"][0]["left_its_top"] == told["rank_old"]  # type: ignore[index]
    assert left["what_if"]["found"]  # type: ignore[index]
    assert keep(told["rank_current"])["verdict"] == "admitted"
    never = keep(told["rank_old"] - 1) if told["rank_old"] > 1 else None
    assert never is None or never["verdict"] == "admitted"  # it cannot leave where it never was


def test_the_interval_is_students_t() -> None:
    values = np.random.default_rng(0).exponential(size=40)
    wanted = t_interval(values.tolist())
    mean, low, high = interval(values, np.ones(40), np.arange(40), 0.95)
    assert mean == pytest.approx(values.mean())
    assert (low, high) == pytest.approx((wanted.low, wanted.high))
    paired = interval(np.repeat(values, 2), np.ones(80), np.repeat(np.arange(40), 2), 0.95)
    assert paired == pytest.approx((mean, low, high))  # the two queries of a fact are one observation
    assert interval(values[:1], np.ones(1), np.arange(1), 0.95) == (values[0],) * 3


def test_outcomes() -> None:
    def rule(value: float, low: float, high: float, at_most: bool = True) -> Rule:
        return Rule("x", 0.5, at_most, value, low, high, 9)

    assert rule(0.4, 0.3, 0.5).outcome == "held"
    assert rule(0.4, 0.3, 0.6).outcome == "uncertain"
    assert rule(0.6, 0.5, 0.7).outcome == "uncertain"
    assert rule(0.6, 0.51, 0.7).outcome == "broken"
    assert rule(0.6, 0.5, 0.7, at_most=False).outcome == "held"
    assert rule(0.4, 0.3, 0.49, at_most=False).outcome == "broken"
    assert verdict_of([rule(0.4, 0.3, 0.5), rule(0.4, 0.3, 0.6)]) == "flagged"
    assert verdict_of([rule(0.4, 0.3, 0.6), rule(0.6, 0.51, 0.7)]) == "refused"
    assert verdict_of([]) == "admitted"
