"""Undefined endpoints keep what their other cells give: null stays null, and a partial mean says so."""

from __future__ import annotations

import json

import numpy as np
import pytest

from meor.evaluation.endpoints import (
    MARK,
    Overall,
    Undefined,
    by_update,
    cell_keys,
    endpoints,
    note,
    overall,
    to_json,
)
from meor.evaluation.rank import Ranks
from meor.stream.occurrence import Occurrences
from meor.typing import Role, Side


def ranked(update: int, side: Side, rows: list[tuple[Role, int]]) -> Ranks:
    """Queries of these roles at these ranks, the same among old entities."""
    fact = np.array([(at, 0, at + 1) for at in range(len(rows))], dtype=np.int64).reshape(-1, 3)
    role = np.array([each for each, _ in rows], dtype=np.int8)
    rank = np.array([each for _, each in rows], dtype=np.int64)
    asked = Occurrences(update, side, fact, np.zeros(len(rows), dtype=np.int64), role)
    return Ranks(asked, np.where(role == Role.TARGET_NEWCOMER, 0, rank), rank)


OLD, NEW = (Role.HISTORICAL, 2), Role.TARGET_NEWCOMER


@pytest.fixture
def written() -> dict:
    """Update 2 admits nobody, and update 3 has newcomers as answers on one side only."""
    ranks = [
        ranked(1, Side.HEAD, [OLD, (NEW, 1)]),
        ranked(1, Side.TAIL, [OLD, (NEW, 2)]),
        ranked(2, Side.HEAD, [OLD]),
        ranked(2, Side.TAIL, [OLD]),
        ranked(3, Side.HEAD, [OLD, (NEW, 4)]),
        ranked(3, Side.TAIL, [OLD]),
    ]
    found = endpoints(ranks, cells=cell_keys([1, 2, 3]))
    assert isinstance(found["A_TN"], Undefined)
    return json.loads(json.dumps(to_json({"test": found}), allow_nan=False))["test"]


def test_an_undefined_endpoint_keeps_its_null_and_reason_and_adds_the_cells_that_exist(written) -> None:
    told = written["A_TN"]
    assert told["value"] is None
    assert told["reason"].startswith("A_TN is undefined: its cell update 2, side head")
    assert told["mean_over_existing_cells"] == (1 + 0.5 + 0.25) / 3
    assert [(cell["update"], cell["side"], cell["value"]) for cell in told["cells"]] == [
        (1, "head", 1.0),
        (1, "tail", 0.5),
        (3, "head", 0.25),
    ]
    assert told["empty_cells"] == [
        {"update": 2, "side": "head"},
        {"update": 2, "side": "tail"},
        {"update": 3, "side": "tail"},
    ]
    assert set(written["A_QN"]) == {"value", "reason"}, "where no cell exists there is nothing to add"
    assert set(written["H_cur"]) == {"value", "cells"}, "a defined endpoint is as it was"


def test_the_overall_is_over_the_cells_that_exist_and_marked(written) -> None:
    assert overall(written["A_TN"]) == Overall((1 + 0.5 + 0.25) / 3, 3, 6)
    assert overall(written["A_TN"]).mark == MARK
    assert overall(written["H_cur"]) == Overall(0.5, 6, 6)
    assert overall(written["H_cur"]).mark == ""
    assert overall(written["A_QN"]).value is None
    assert overall(written["A_QN"]).mark == ""


def test_every_update_with_a_query_has_a_value_and_half_of_one_is_marked(written) -> None:
    found = by_update(written["A_TN"])
    assert found == {1: Overall(0.75, 2, 2), 3: Overall(0.25, 1, 2)}
    assert [found[update].mark for update in (1, 3)] == ["", MARK]


def test_the_footnote_counts_cells_and_is_absent_without_a_mark(written) -> None:
    assert note([("A_TN", overall(written["A_TN"])), ("H_cur", overall(written["H_cur"]))]) == (
        "† over the cells that exist (A_TN 3 of 6); the others hold no query."
    )
    assert note([("H_cur", overall(written["H_cur"]))]) == ""


def test_displacement_over_existing_cells_follows_from_the_cells_of_both_universes() -> None:
    only = [ranked(1, Side.HEAD, [(NEW, 1)]), ranked(2, Side.HEAD, [OLD])]
    found = endpoints(only)
    lost = found["D_MCI"]
    assert isinstance(lost, Undefined)
    assert "D_MCI is undefined: its cell update 1" in lost.reason
    assert [cell.value for cell in lost.cells] == [0.0]
    assert lost.empty == ((1, Side.HEAD),)
