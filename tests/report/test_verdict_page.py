"""The page of an admission: everything its verdict says, with labels that cannot be markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from meor.errors import InputError
from meor.report.html import page_of, render
from meor.report.verdict_page import verdict_page
from meor.storage.json_file import to_json

HOSTILE = "<script>alert(1)</script>\x1b[31m"


def verdict(**changes: Any) -> dict[str, Any]:
    rule = {
        "rule": "D_MCI",
        "limit": 0.01,
        "kind": "at most",
        "value": 0.0192,
        "low": 0.0164,
        "high": 0.0221,
        "queries": 3204,
        "outcome": "broken",
    }
    row = {
        "head": "?",
        "relation": "knows",
        "tail": HOSTILE,
        "answer": "Ann",
        "rank_old": 1,
        "rank_current": 3,
        "lost": 2 / 3,
        "left_its_top": 2,
        "newcomers_ahead": [HOSTILE, "Bob"],
    }
    return {
        "verdict": "refused",
        "forced": False,
        "reason": "",
        "made_from": "0001-0123456789ab",
        "batch": {"facts": {"train": 9, "valid": 0, "test": 0}, "newcomers": 2},
        "protected": {"source": "held-out", "queries": 3204},
        "rules": [rule],
        "worst": [row],
        "blame": [{"newcomer": HOSTILE, "answers": 7, "charge": 0.00412, "facts": 3}],
        "what_if": {
            "found": True,
            "newcomers": [HOSTILE],
            "facts_that_would_wait": 3,
            "D_MCI": 0.009,
            "A_TN": 0.2,
        },
        "learned": {"facts_not_learned": 4},
        **changes,
    }


def test_the_page_of_a_folder_says_what_the_verdict_says(tmp_path: Path) -> None:
    (tmp_path / "verdict.json").write_bytes(to_json(verdict()))
    text = render(page_of(tmp_path))
    assert "<script>alert" not in text
    assert "\x1b" not in text
    for words in (
        "refused",
        "9 facts and 2 newcomers",
        "3,204 protected queries",
        "0.0164 to 0.0221",
        "If 1 newcomer waited",
        "4 facts between known entities",
        "Bob",
    ):
        assert words in text, words


def test_an_admission_that_cost_nothing(tmp_path: Path) -> None:
    quiet = verdict(verdict="admitted", worst=[], blame=[], what_if={"found": False, "newcomers": []})
    text = render(verdict_page(quiet))
    assert "No protected answer lost rank" in text
    assert "Nobody needs to wait" in text
    forced = render(verdict_page(verdict(verdict="flagged", forced=True, reason="launch <b>day")))
    assert "admitted by force" in forced
    assert "launch &lt;b&gt;day" in forced


def test_something_else_is_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "verdict.json").write_text('{"verdict": "admitted"}')
    with pytest.raises(InputError, match="is not a verdict"):
        page_of(tmp_path)
