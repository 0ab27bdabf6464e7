"""Rows that are stored narrower, or do not fit, are widened a tile at a time; not a rank depends on it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.evaluation.test_rank import EVERY, frozen_models, lively_stream

from meor.backbone import Backbone, Geometry, Model
from meor.evaluation import tally
from meor.evaluation.blame import blame, newcomers_ahead
from meor.evaluation.rank import rank_update
from meor.stream.occurrence import EvaluationFilter

MIB = 2**20


def _narrow(model: Model) -> Model:
    """As a file of float32 rows gives it; relation rows in float64 make every score one."""
    return replace(model, entity=model.entity.float())


def _uneven(model: Model) -> Model:
    """Rows that float32 holds, whose products it does not."""
    rng = np.random.default_rng(0)
    entity = torch.from_numpy(rng.normal(size=model.entity.shape).astype(np.float32)).double()
    relation = torch.from_numpy(rng.normal(size=model.relation.shape))
    return replace(model, entity=entity, relation=relation)


@EVERY
@pytest.mark.parametrize("screened", ["tied", "uneven"])
def test_ranks_and_blame_of_float32_rows_are_those_of_the_same_rows_in_float64(
    backbone: Backbone, screened: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "TILE_BYTES", 100)  # a few rows per tile
    monkeypatch.setattr(tally, "SMALLEST_TILE", 2)
    stream = lively_stream(4)
    wide = frozen_models(stream, backbone, 4)[-1]
    wide = _uneven(wide) if screened == "uneven" else wide
    narrow = _narrow(wide)
    assert len(list(tally.tile_slices(narrow, *_newcomers(stream)))) > 1
    known = EvaluationFilter.through(stream, 3)
    for one, other in zip(rank_update(stream, wide, 3), rank_update(stream, narrow, 3), strict=True):
        np.testing.assert_array_equal(one.old, other.old)
        np.testing.assert_array_equal(one.cur, other.cur)
        first, second = blame(stream, wide, one), blame(stream, narrow, other)
        assert first.displaced.sum() > 0
        np.testing.assert_array_equal(first.displaced, second.displaced)
        np.testing.assert_array_equal(first.charge, second.charge)
        np.testing.assert_array_equal(first.dearest, second.dearest)
        ahead = (
            list(newcomers_ahead(model, one.occurrences, known, stream.newcomers(3)))
            for model in (wide, narrow)
        )
        for mine, theirs in zip(*ahead, strict=True):
            for name in ("query", "start", "id", "score"):
                np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))


def _newcomers(stream) -> tuple[int, int]:  # type: ignore[no-untyped-def]
    return stream.entity_counts[2], stream.entity_counts[3]


@EVERY
def test_rows_that_do_not_fit_the_budget_are_ranked_in_tiles(
    backbone: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = lively_stream(5)
    model = frozen_models(stream, backbone, 5)[-1]
    whole = rank_update(stream, model, 3)
    monkeypatch.setattr(tally, "SMALLEST_TILE", 4)
    n, width = model.entity.shape
    as_bytes = backbone.geometry is Geometry.L1
    memory = tally.RankingPlan(64, 5, width, False, n, as_bytes).bytes
    assert tally.RankingPlan.within(memory, n, width, as_bytes=as_bytes).rows < 6
    tiled = rank_update(stream, model, 3, memory=memory)
    assert all(np.array_equal(one.cur, other.cur) for one, other in zip(whole, tiled, strict=True))
    assert all(np.array_equal(one.old, other.old) for one, other in zip(whole, tiled, strict=True))


CHILD = """
import re, sys
from pathlib import Path
import numpy as np
from meor.evaluation.blame import blame
from meor.evaluation.external import load_external
from meor.evaluation.rank import rank_update
from meor.stream.snapshot import build_stream
from meor.typing import Split

def kib(name):
    return int(re.search(name + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

def audited(folder, n):
    old = n - n // 10
    base = [(f"e{i}", "r", f"e{i + 1}") for i in range(0, old, 2)]
    new = [(f"e{i}", "r", f"e{i - old}") for i in range(old, n)]
    test = [(f"e{i}", "r", f"e{i + 7}") for i in range(50)]
    stream = build_stream("s", [{Split.TRAIN: base, Split.TEST: test}, {Split.TRAIN: new}])
    before = kib("VmRSS")
    files = folder / "entity.npy", folder / "relation.npy", folder / "names.tsv"
    model = load_external(stream, "distmult", *files, through=1, widen=False)
    for ranks in rank_update(stream, model, 1):
        blame(stream, model, ranks)
    return before

folder = Path(sys.argv[1])
audited(folder / "small", 200)  # compiles what is needed
before = audited(folder / "large", int(sys.argv[2]))
print((kib("VmHWM") - before) // 1024)
"""


def test_the_memory_of_a_foreign_audit_follows_the_file_and_not_its_float64_copies(tmp_path: Path) -> None:
    """Two copies in float64 would be four files, beside the file itself."""
    large, width = 200_000, 200
    for name, rows in (("small", 200), ("large", large)):
        (tmp_path / name).mkdir()
        array = np.lib.format.open_memmap(tmp_path / name / "entity.npy", "w+", np.float32, (rows, width))
        for begin in range(0, rows, 10_000):
            part = array[begin : begin + 10_000]
            part[:] = np.random.default_rng(begin).standard_normal(part.shape, np.float32)
        array.flush()
        np.save(tmp_path / name / "relation.npy", np.ones((1, width), np.float32))
        order = np.random.default_rng(0).permutation(rows)
        lines = "".join(f"entity\t{row}\te{number}\n" for row, number in enumerate(order))
        (tmp_path / name / "names.tsv").write_text(f"{lines}relation\t0\tr\n")
    file_size = (tmp_path / "large" / "entity.npy").stat().st_size // MIB
    command = [sys.executable, "-c", CHILD, str(tmp_path), str(large)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 2 * file_size
