"""O1: what ranking takes is what was planned, and a plan over the budget is refused before it is begun."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from meor.errors import MemoryBudgetError
from meor.evaluation.tally import LARGEST_BLOCK, SMALLEST_BLOCK, SMALLEST_TILE, RankingPlan

ROOT = Path(__file__).parents[2]
# Ranks random facts in a process of its own and prints by how much its memory grew at most, in bytes.
MEASURE = """
import json, resource, sys
import numpy as np, torch
from meor.backbone import BACKBONES, Model
from meor.evaluation.rank import rank
from meor.stream.occurrence import EvaluationFilter
from meor.stream.occurrence import occurrences
from meor.stream.snapshot import build_stream
from meor.typing import Side, Split

backbone, rows, width, queries, memory = sys.argv[1], *map(int, sys.argv[2:])
draw = np.random.default_rng(0)
pair = draw.integers(0, rows, (2 * queries, 2)).tolist()
test = [(f"e{head}", "r", f"e{tail}") for head, tail in dict.fromkeys(map(tuple, pair))][:queries]
train = [(f"e{i}", "r", f"e{(i + 1) % rows}") for i in range(rows)]
test = [fact for fact in test if (int(fact[0][1:]) + 1) % rows != int(fact[2][1:])]
stream = build_stream("random", [{Split.TRAIN: train, Split.TEST: test}])
entity = torch.randn(rows, width, dtype=torch.float64)
model = Model(BACKBONES[backbone], entity, torch.randn(1, width, dtype=torch.float64))
known = EvaluationFilter.through(stream, 0)
asked = occurrences(stream, 0, Side.TAIL, Split.TEST)
if memory:
    rank(model, asked.select(np.arange(64)), known, (rows, rows))  # libraries are loaded, kernels compiled


def kept():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return {name: int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM")}


open("/proc/self/clear_refs", "w").write("5")  # the peak is counted from here
before = kept()["VmRSS"]
try:
    rank(model, asked, known, (rows, rows), memory=memory or 1 << 20)
    said = ""
except Exception as error:
    said = type(error).__name__
print(json.dumps({"peak": kept()["VmHWM"] - before, "queries": len(asked), "said": said}))
"""


def measured(*given: object) -> dict[str, int | str]:
    words = [sys.executable, "-c", MEASURE, *map(str, given)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found: dict[str, int | str] = json.loads(done.stdout)
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("backbone", "rows", "width", "memory"),
    [
        ("complex", 60_000, 200, 1 << 30),
        ("complex", 120_000, 200, 1 << 30),
        ("distmult", 60_000, 500, 1 << 30),
        ("complex", 120_000, 400, 230 << 20),  # the budget cuts the block
        ("transe", 100_000, 256, 1 << 30),
    ],
)
def test_the_peak_of_ranking_is_within_20_percent_of_the_plan(
    backbone: str, rows: int, width: int, memory: int
) -> None:
    found = measured(backbone, rows, width, 3000, memory)
    assert found["said"] == ""
    plan = RankingPlan.within(memory, rows, width, as_bytes=backbone == "transe")
    planned = replace(plan, queries=min(plan.queries, int(found["queries"]))).bytes
    print(f"{backbone} {rows} x {width}: planned {planned >> 20} MiB, peak {int(found['peak']) >> 20} MiB")
    assert planned <= memory
    assert 0.8 * planned <= int(found["peak"]) <= 1.2 * planned


def test_a_budget_that_is_too_small_is_refused_before_rows_are_copied() -> None:
    found = measured("complex", 20_000, 200, 100, 0)
    assert found["said"] == "MemoryBudgetError"
    assert int(found["peak"]) < 4 << 20, "the rows alone have 32 MB, and their screen 16"


def test_the_plan_grows_with_rows_width_and_queries() -> None:
    plan = RankingPlan(0, 1000, 40, False, 1000)
    assert plan.bytes == 4 * 1000 * 40 + 4 * 1024 * 1000
    assert replace(plan, rows=5000, candidates=5000).bytes == 4 * 5000 * 40 + 4 * 1024 * 2048
    assert replace(plan, queries=3).bytes - plan.bytes == 3 * (40 * 28 + 256)
    assert replace(plan, widened=True).bytes - plan.bytes == 8 * 1000 * 40
    assert replace(plan, as_bytes=True).bytes == 1000 * 40


def test_a_block_is_what_the_budget_leaves() -> None:
    plan = RankingPlan(SMALLEST_BLOCK, 1000, 40, False, 1000)
    assert RankingPlan.within(plan.bytes, 1000, 40) == plan
    with pytest.raises(MemoryBudgetError, match=f"needs {plan.bytes:,}"):
        RankingPlan.within(plan.bytes - 1, 1000, 40)
    assert RankingPlan.within(replace(plan, queries=700).bytes, 1000, 40).queries == 700
    assert RankingPlan.within(1 << 40, 1000, 40).queries == LARGEST_BLOCK == 8192
    many = replace(plan, rows=5000, candidates=5000)  # exactly enough to prepare all rows at once
    assert RankingPlan.within(many.bytes, 5000, 40) == many


def test_rows_that_do_not_fit_at_once_are_cut_into_tiles() -> None:
    least = RankingPlan(SMALLEST_BLOCK, SMALLEST_TILE, 40, False, 100_000)
    plan = RankingPlan.within(least.bytes, 100_000, 40)
    assert (plan.queries, plan.rows) == (SMALLEST_BLOCK, SMALLEST_TILE) == (64, 1024)
    with pytest.raises(MemoryBudgetError):
        RankingPlan.within(least.bytes - 1, 100_000, 40)
    wide = RankingPlan.within(1 << 30, 1_000_000, 200, widened=True)
    assert wide.bytes <= 1 << 30
    assert wide.rows < 1_000_000
