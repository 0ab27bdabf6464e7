"""The last lines of the demo say what its pairs show, what is lost, and what they leave open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from meor.cli.demo import _verdict


def made(improved: bool, **means: tuple[float, bool]) -> Any:
    effects = {"H_cur": SimpleNamespace(improved=improved)}
    for name in ("H_old", "A_TN", "A_QN"):
        mean, preserved = means.get(name, (0.0, True))
        effects[name] = SimpleNamespace(mean=mean, preserved=preserved)
    return type("Made", (dict,), {"pairs": (0, 1, 2)})(effects)


@pytest.mark.parametrize(
    ("effects", "said"),
    [
        (made(True), "It gains H_cur;\n  nothing else falls by more than 0.005"),
        (made(False), "It is not shown to gain H_cur;\n  nothing else falls"),
        (made(True, A_TN=(-0.03, False)), "a trade: A_TN falls by more than 0.005 in the mean"),
        (made(True, A_TN=(0.0002, False)), "3 pairs do not show that A_TN keeps within 0.005"),
        (
            made(True, A_TN=(0.0002, False), A_QN=(0.0002, False)),
            "3 pairs do not show that A_TN and A_QN keep within 0.005",
        ),
        (
            made(True, A_TN=(-0.03, False), A_QN=(0.0, False)),
            "falls by more than 0.005 in the mean;\n  3 pairs do not show",
        ),
    ],
)
def test_a_loss_and_a_doubt_are_told_apart(effects: Any, said: str) -> None:
    told = _verdict(effects)
    assert said in told
    assert told.endswith("(95 % bounds).")
    assert ("trade" in told) == ("falls by more than" in said and "nothing" not in said)
    assert all(len(line) <= 80 for line in told.splitlines())
