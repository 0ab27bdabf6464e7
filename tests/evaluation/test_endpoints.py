from __future__ import annotations

import json

import numpy as np
import pytest

from meor.errors import EmptyCellError, NonFiniteError
from meor.evaluation.endpoints import (
    ENDPOINTS,
    METRICS,
    Endpoint,
    Undefined,
    cell_keys,
    endpoint,
    endpoints,
    key,
    measure,
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
