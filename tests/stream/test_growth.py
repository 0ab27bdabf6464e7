"""A cut graph is a valid stream: everything is kept, seen in train first, and grows at every snapshot."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meor.errors import ConfigError, StreamError
from meor.random import generator
from meor.stream.files import read_stream
from meor.stream.growth import Shares, grow, grow_file
from meor.stream.snapshot import LabelFact, Stream
from meor.typing import SPLITS, Split

QUIET = lambda _: None  # noqa: E731


def graph(n: int = 200, facts: int = 1200, seed: int = 0) -> list[LabelFact]:
    """Hubs and tails: low numbers are chosen more often."""
    draw = generator("test", "graph", seed)
    ends = (n * draw.random((facts, 2)) ** 2).astype(int)
    relation = draw.integers(0, 5, facts)
    rows = {(f"e{h}", f"r{r}", f"e{t}") for (h, t), r in zip(ends.tolist(), relation.tolist(), strict=True)}
    return sorted(rows)


def labels(stream: Stream, split: Split | None = None) -> list[list[LabelFact]]:
    entity, relation = stream.entities.labels, stream.relations.labels
    chosen = SPLITS if split is None else [split]
    return [
        [(entity[h], relation[r], entity[t]) for h, r, t in snapshot.facts(chosen).tolist()]
        for snapshot in stream.snapshots
    ]


def assert_seen_in_train_first(stream: Stream) -> None:
    seen: set[str] = set()
    for train, valid, test in zip(*(labels(stream, split) for split in SPLITS), strict=True):
        seen |= {("entity", end) for h, _, t in train for end in (h, t)}  # type: ignore[misc]
        seen |= {("relation", r) for _, r, _ in train}  # type: ignore[misc]
        for head, relation, tail in valid + test:
            assert {("entity", head), ("entity", tail), ("relation", relation)} <= seen


@pytest.mark.parametrize("by", ["random", "degree", "date"])
def test_a_cut_keeps_every_fact_and_grows_at_every_snapshot(by: str) -> None:
    facts = graph()
    dates = np.sort(generator("test", "dates").integers(0, 60, len(facts))).tolist() if by == "date" else None
    stream = grow(facts, 5, by, seed=3, dates=dates, report=QUIET)  # type: ignore[arg-type]
    assert sorted(fact for snapshot in labels(stream) for fact in snapshot) == sorted(facts)
    assert len(stream.snapshots) == 5
    assert all(len(stream.newcomers(update)) > 0 for update in range(5))
    assert all(len(snapshot.train) for snapshot in stream.snapshots)
    assert sum(len(s.test) for s in stream.snapshots) / len(facts) == pytest.approx(0.2, abs=0.05)
    assert_seen_in_train_first(stream)


@settings(max_examples=150, deadline=None)
@given(
    ends=st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 2), st.integers(0, 12)), min_size=1, max_size=40
    ),
    snapshots=st.integers(1, 8),
    by=st.sampled_from(["random", "degree", "date"]),
    seed=st.integers(0, 5),
    shares=st.sampled_from([Shares(), Shares(0, 0), Shares(0.49, 0.5), Shares(0, 0.5)]),
)
def test_any_graph_is_cut_into_a_valid_stream_or_refused(
    ends: list[tuple[int, int, int]], snapshots: int, by: str, seed: int, shares: Shares
) -> None:
    facts = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in ends]
    dates = [h + t for h, _, t in ends] if by == "date" else None
    try:
        stream = grow(facts, snapshots, by, seed, dates=dates, shares=shares, report=QUIET)  # type: ignore[arg-type]
    except StreamError:
        return
    assert sorted(fact for snapshot in labels(stream) for fact in snapshot) == sorted(set(facts))
    assert len(stream.snapshots) == snapshots
    assert all(len(snapshot.train) for snapshot in stream.snapshots)
    if by != "date":
        assert all(len(stream.newcomers(update)) for update in range(snapshots))
    assert_seen_in_train_first(stream)


def test_the_seed_decides_everything() -> None:
    facts = graph()
    first, again, other = (grow(facts, 5, "random", seed).content_hash() for seed in (0, 0, 1))
    assert first == again != other


def test_newcomers_attach_to_what_is_there() -> None:
    chain = [(f"e{n}", "r", f"e{n + 1}") for n in range(300)]
    chain += [(f"e{n}", "s", f"e{n + 1}") for n in range(300)]
    stream = grow(chain, 4, "random", 1)
    assert stream.entity_counts == pytest.approx((75, 150, 225, 301), abs=2)


def test_degree_lets_the_best_connected_join_first() -> None:
    stream = grow(graph(), 5, "degree")
    everything = stream.prefix(4)[:, [0, 2]].ravel()
    degree = np.bincount(everything, minlength=len(stream.entities))
    means = [degree[list(stream.newcomers(update))].mean() for update in range(5)]
    assert means == sorted(means, reverse=True)


def test_dates_are_never_torn_apart_nor_out_of_order() -> None:
    facts = graph()
    dates = {fact: f"20{n % 37:02d}-01-01" for n, fact in enumerate(facts)}
    stream = grow(facts, 5, "date", dates=list(dates.values()), report=QUIET)
    spans = [{dates[fact] for fact in snapshot} for snapshot in labels(stream)]
    assert all(max(before) < min(after) for before, after in pairwise(spans))


def test_dates_without_newcomers_still_make_updates() -> None:
    facts = [(f"e{a}", f"r{r}", f"e{b}") for r in range(4) for a in range(6) for b in range(6)]
    stream = grow(facts, 4, "date", dates=[int(fact[1][1]) for fact in facts])
    assert stream.entity_counts == (6, 6, 6, 6)


def test_a_repeated_fact_counts_once_at_its_first_date() -> None:
    facts = [*graph(), ("e0", "late", "e1"), ("e0", "late", "e1")]
    dates = [2] * (len(facts) - 2) + [3, 1]
    told: list[str] = []
    stream = grow(facts, 2, "date", dates=dates, report=told.append)
    assert labels(stream)[0] == [("e0", "late", "e1")]
    assert told[0] == "dropped 1 duplicate fact"


def test_a_graph_too_small_is_refused_with_what_it_allows() -> None:
    with pytest.raises(StreamError, match=r"1 steps at most, 5 snapshots.*fewer"):
        grow([("a", "r", "b")])
    with pytest.raises(StreamError, match="at most"):
        grow([])
    with pytest.raises(StreamError, match="2 steps at most"):
        grow(graph(), 3, "date", dates=[n % 2 for n in range(len(graph()))])


def test_a_star_cannot_spare_a_test_fact_and_that_is_said() -> None:
    star = [("hub", "r", f"e{n}") for n in range(60)]
    with pytest.raises(StreamError, match=r"no fact can be spared for valid"):
        grow(star)
    assert len(grow(star, shares=Shares(0, 0)).snapshots) == 5


@pytest.mark.parametrize(
    "options",
    [
        {"snapshots": 0},
        {"by": "size"},
        {"by": "date"},
        {"dates": [1]},
        {"by": "date", "dates": [1, 2]},
    ],
)
def test_wrong_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        grow([("a", "r", "b")], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("shares", [(-0.1, 0.2), (0.5, 0.5), (float("nan"), 0.2)])
def test_wrong_shares_are_refused(shares: tuple[float, float]) -> None:
    with pytest.raises(ConfigError):
        Shares(*shares)


class TestFile:
    def test_a_file_becomes_a_folder_that_reads_back_the_same(self, tmp_path: Path) -> None:
        source = tmp_path / "facts.tsv"
        source.write_text("".join("\t".join(fact) + "\n" for fact in graph()))
        stream = grow_file(source, tmp_path / "deep/out", 5, "degree", 7)
        again = read_stream(tmp_path / "deep/out")
        assert again.name == stream.name == "out"
        assert again.content_hash() == stream.content_hash()
        assert sorted(p.name for p in (tmp_path / "deep").iterdir()) == ["out"]

    def test_dates_come_from_their_column(self, tmp_path: Path) -> None:
        source = tmp_path / "facts.csv"
        rows = [",".join((*fact, f"20{n * 40 // 1200:02d}-05")) for n, fact in enumerate(graph())]
        source.write_text("head,relation,tail,date\n" + "\n".join(rows))
        stream = grow_file(source, tmp_path / "out", 3, "date", report=QUIET)
        assert len(stream.snapshots) == 3

    def test_nothing_is_written_when_the_graph_is_refused(self, tmp_path: Path) -> None:
        source = tmp_path / "facts.tsv"
        source.write_text("a\tr\tb\n")
        with pytest.raises(StreamError):
            grow_file(source, tmp_path / "out")
        assert sorted(p.name for p in tmp_path.iterdir()) == ["facts.tsv"]

    def test_an_existing_target_is_not_touched(self, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        with pytest.raises(StreamError, match="already exists"):
            grow_file(tmp_path / "facts.tsv", tmp_path / "out")
