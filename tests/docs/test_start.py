"""What docs/start.md says the first run prints is what it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from meor import Config, RunView, start
from meor.evaluation.displacement import worst
from meor.evaluation.endpoints import by_update, overall
from meor.run.trainer import Resources
from meor.typing import Split

PAGE = (Path(__file__).parents[2] / "docs" / "start.md").read_text()


@pytest.mark.long
def test_the_first_run_prints_the_figures_of_the_page(tmp_path: Path) -> None:
    found = start(Config(stream="world"), tmp_path / "run", resources=Resources(cache=tmp_path / "cache"))
    for name, printed in re.findall(r"^([HDA]_\w+)((?: +0\.\d{4}){5}) ", PAGE, re.M):
        endpoint = found["test"].pop(name)
        values = [each.value for each in (*by_update(endpoint).values(), overall(endpoint))]
        # Another processor adds in another order, and an update may stop a little earlier or later.
        assert values == pytest.approx([float(value) for value in printed.split()], abs=0.02), name
    view = RunView.open(tmp_path / "run")
    (lost,) = worst(view.ranks(1)[Split.TEST], 1)
    assert lost.old == 1
    assert 5 <= lost.cur <= 12
    assert view.labels("entity")[lost.answer] == "Letters on the Sunken Island"
    assert "H_cur" not in found["test"]  # every row of the page was read
