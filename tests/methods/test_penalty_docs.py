"""The examples of docs/penalty.md run as they stand, and the first one fits a screen."""

from __future__ import annotations

import re
from pathlib import Path

import torch

PAGE = Path(__file__).parents[2] / "docs" / "penalty.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)


def test_every_example_runs_and_the_first_takes_under_30_lines():
    torch.manual_seed(0)
    names: dict = {}
    for text in EXAMPLES:
        exec(compile(text, str(PAGE), "exec"), names)
    lines = [line for line in EXAMPLES[0].splitlines() if line.strip()]
    assert len(lines) < 30
    assert torch.isfinite(names["loss"])
    assert names["newcomers"].trained.grad is not None


def test_the_penalty_of_the_example_is_active_and_moves_newcomers_down():
    """Without it the newcomers' pressure on old answers ends higher."""
    ends = []
    for coefficient in ("0.0", "0.1"):
        torch.manual_seed(0)
        names: dict = {}
        exec(
            compile(EXAMPLES[0].replace("0.1 * penalty", f"{coefficient} * penalty"), str(PAGE), "exec"),
            names,
        )
        with torch.no_grad():
            every = range(len(names["old_facts"]))
            ends.append(float(names["penalty"].of_scores(names["score"], list(every))))
    assert 0 <= ends[1] < ends[0]
