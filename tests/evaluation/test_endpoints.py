from __future__ import annotations

import json

import numpy as np
import pytest

from meor.errors import EmptyCellError, NonFiniteError
from meor.evaluation.endpoints import (
    ENDPOINTS,
    MARK,
    METRICS,
    Endpoint,
    Overall,
    Undefined,
    by_update,
    cell_keys,
    endpoint,
    endpoints,
    key,
    measure,
    note,
    overall,
    to_json,
)
from meor.evaluation.rank import Ranks
from meor.stream.occurrence import Occurrences
from meor.typing import Role, Side

H, TN, QN, S = Role.HISTORICAL, Role.TARGET_NEWCOMER, Role.QUERY_NEWCOMER, Role.SETTLED


def ranks(update: int, side: Side, rows: list[tuple[Role, int, int]]) -> Ranks:
    n = len(rows)
    role = np.array([row[0] for row in rows], dtype=np.int8)
    asked = Occurrences(update, side, np.zeros((n, 3), dtype=np.int64), np.zeros(n, dtype=np.int64), role)
    return Ranks(asked, np.array([row[1] for row in rows]), np.array([row[2] for row in rows]))


def full() -> list[Ranks]:
    return [
        ranks(1, Side.HEAD, [(H, 1, 2), (TN, 0, 4), (QN, 3, 5), (S, 1, 1)]),
        ranks(1, Side.TAIL, [(H, 1, 1), (H, 2, 4), (TN, 0, 1), (QN, 1, 1), (S, 2, 2)]),
    ]


def test_cells_weigh_the_same_whatever_their_size():
    found = endpoint("H_cur", full())
    assert found.value == (1 / 2 + (1 + 1 / 4) / 2) / 2
    assert [(cell.update, cell.side, cell.size) for cell in found.cells] == [
        (1, Side.HEAD, 1),
        (1, Side.TAIL, 2),
    ]


def test_each_endpoint_reads_its_own_role_and_universe():
    values = {name: endpoint(name, full()).value for name in ENDPOINTS}
    assert values == {
        "H_cur": 0.5625,
        "H_old": (1 + 0.75) / 2,
        "D_MCI": (1 + 0.75) / 2 - 0.5625,
        "A_TN": (0.25 + 1) / 2,
        "A_QN": (0.2 + 1) / 2,
        "settled_cur": 0.75,
        "settled_old": 0.75,
    }


def test_hits_stand_beside_mrr_under_keys_of_their_own():
    found = endpoints(full())
    assert set(found) == {key(name, metric) for name in ENDPOINTS for metric in METRICS}
    assert found["H_cur_hits@1"].value == (0 + 0.5) / 2
    assert found["H_old_hits@1"].value == (1 + 0.5) / 2
    assert found["D_MCI_hits@1"].value == 0.5
    assert found["A_TN_hits@3"].value == 0.5


def test_an_empty_declared_cell_raises_and_is_named():
    with pytest.raises(EmptyCellError, match=r"A_TN .* update 1, side head holds no target-newcomer query"):
        endpoint("A_TN", [ranks(1, Side.HEAD, [(H, 1, 1)])])
    with pytest.raises(EmptyCellError, match=r"H_cur .* update 2, side tail was not ranked"):
        endpoint("H_cur", full(), cells=[*cell_keys([1]), (2, Side.TAIL)])
    with pytest.raises(EmptyCellError, match="D_MCI is undefined"):
        endpoint("D_MCI", [ranks(1, Side.HEAD, [(TN, 0, 1)])])
    with pytest.raises(EmptyCellError, match="no cell was declared"):
        endpoint("H_cur", [])


def test_an_undefined_endpoint_is_null_with_a_reason_and_the_others_stay():
    found = endpoints([ranks(1, Side.HEAD, [(H, 1, 2)])])
    written = json.loads(json.dumps(to_json({"test": found}), allow_nan=False))["test"]
    assert written["H_cur"] == {
        "value": 0.5,
        "cells": [{"update": 1, "side": "head", "size": 1, "value": 0.5}],
    }
    assert written["A_TN"]["value"] is None
    assert "target-newcomer" in written["A_TN"]["reason"]
    assert set(written["A_TN"]) == {"value", "reason"}
    assert isinstance(found["A_TN"], Undefined)
    assert isinstance(found["D_MCI"], Endpoint)


def test_declared_cells_leave_the_others_out():
    both = [*full(), ranks(2, Side.HEAD, [(H, 1, 10)])]
    assert endpoint("H_cur", both, cells=[(2, Side.HEAD)]).value == 0.1


def test_a_cell_given_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        endpoint("H_cur", [*full(), *full()])


@pytest.mark.parametrize("bad", [[0], [1, 0], [1.0, np.nan], [np.inf]])
def test_what_is_no_rank_never_becomes_a_mean(bad):
    with pytest.raises(NonFiniteError):
        measure(np.array(bad))


def test_no_query_has_no_mean_and_an_unknown_metric_is_named():
    with pytest.raises(EmptyCellError):
        measure(np.array([], dtype=np.int64))
    with pytest.raises(ValueError, match="median"):
        measure(np.array([1]), "median")


def test_an_endpoint_has_the_name_under_which_it_is_found():
    found = endpoints([ranks(1, Side.HEAD, [(S, 1, 1)])])
    undefined = {name: each for name, each in found.items() if isinstance(each, Undefined)}
    assert "H_cur_hits@10" in undefined
    assert all(each.name == name for name, each in undefined.items())
    whole = endpoints(full())
    assert {"D_MCI", "D_MCI_hits@10", "H_old_hits@1"} <= set(whole)
    assert all(each.name == name for name, each in whole.items())


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
