from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.study.study_rows import row

from meor.errors import StudyError
from meor.methods.coefficient import MULTIPLES as GRID
from meor.methods.coefficient import Balance
from meor.run.config import Config
from meor.study import coefficient
from meor.study.coefficient import choose, kept_balance, next_multiple, read_balance
from meor.study.rows import Group

GROUP = Group("ENTITY", "complex", "replay", "practical")
MULTIPLES = GRID[:6]
FOUND = Balance(0.25, 1.0, 4.0, 64, 32, 1)
STREAM = SimpleNamespace(updates=(1, 2, 3))
ALONE = SimpleNamespace(config=Config(), model=lambda update: None)


def test_a_balance_is_made_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def balanced(config: Config, *_: object) -> Balance:
        asked.append(config.method)
        return FOUND

    monkeypatch.setattr(coefficient, "balanced", balanced)
    for _ in range(2):
        assert kept_balance(tmp_path / "kept.json", ALONE, STREAM, "uor") == FOUND  # type: ignore[arg-type]
    assert asked == ["uor"]


def test_the_first_update_with_enough_active_records_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def balanced(config: Config, stream: object, update: int, replay: object) -> Balance:
        asked.append(update)
        return replace(FOUND, update=update, coefficient=0.25 if update == 2 else 0.0, active=9 * update)

    monkeypatch.setattr(coefficient, "balanced", balanced)
    found = kept_balance(tmp_path / "kept.json", ALONE, STREAM, "meor")  # type: ignore[arg-type]
    assert (found.update, found.coefficient) == (2, 0.25)
    assert asked == [1, 2]


def test_cells_that_balance_at_once_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(8)

    def balanced(*_: object) -> Balance:
        together.wait(timeout=30)
        return FOUND

    monkeypatch.setattr(coefficient, "balanced", balanced)
    with ThreadPoolExecutor(8) as pool:
        path = tmp_path / "kept.json"
        found = list(pool.map(lambda _: kept_balance(path, ALONE, STREAM, "meor"), range(8)))  # type: ignore[arg-type]
    assert found == [FOUND] * 8
    assert read_balance(path) == FOUND
    assert [each.name for each in tmp_path.iterdir()] == ["kept.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"coefficient": 1}'])
def test_a_file_that_is_no_balance_is_made_again(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "kept.json").write_bytes(content)
    assert read_balance(tmp_path / "kept.json") is None
    assert read_balance(tmp_path / "absent.json") is None


def grid(values: dict[float, tuple[float, float]], pair: int = 1_000_000):  # type: ignore[no-untyped-def]
    """Runs of MEOR by multiple: H_cur and A_TN."""
    return [
        row("meor", pair, multiple=multiple, H_cur=cur, D_MCI=0.25 - cur, A_TN=acquired)
        for multiple, (cur, acquired) in values.items()
    ]


def test_the_highest_h_cur_that_keeps_newcomers_is_chosen() -> None:
    rows = [row("none", 1_000_000)]  # H_cur .2, A_TN .1
    points = [(0.201, 0.1), (0.21, 0.096), (0.22, 0.0951), (0.23, 0.09), (0.24, 0.05), (0.3, 0.0)]
    values = dict(zip(MULTIPLES, points, strict=True))
    found = choose([*rows, *grid(values)], GROUP, "meor")
    assert found.multiple == 10.0
    assert [each.admitted for each in found.candidates] == [True, True, True, False, False, False]
    assert (found.none.H_cur, found.none.A_TN) == (0.2, 0.1)


def test_the_margin_itself_is_admitted_and_equals_go_to_the_smaller() -> None:
    rows = [row("none", 1_000_000, A_TN=0.5)]
    values = dict.fromkeys(MULTIPLES, (0.21, 0.495))
    assert choose([*rows, *grid(values)], GROUP, "meor").multiple == 1.0


def test_without_an_admissible_multiple_the_penalty_is_not_used() -> None:
    values = dict.fromkeys(MULTIPLES, (0.3, 0.01))
    assert choose([row("none", 1_000_000), *grid(values)], GROUP, "meor").multiple == 0.0


def test_pairs_are_averaged_before_the_choice() -> None:
    rows = [row("none", 1_000_000), row("none", 1_000_001)]
    one = dict.fromkeys(MULTIPLES, (0.2, 0.1)) | {3.0: (0.25, 0.1), 10.0: (0.24, 0.1)}
    other = dict.fromkeys(MULTIPLES, (0.2, 0.1)) | {3.0: (0.2, 0.1), 10.0: (0.24, 0.1)}
    assert choose([*rows, *grid(one), *grid(other, 1_000_001)], GROUP, "meor").multiple == 10.0


def test_a_multiple_with_a_failed_run_is_not_judged() -> None:
    values = {multiple: (0.2 + multiple / 1e4, 0.1) for multiple in MULTIPLES[:3]}
    found = choose([row("none", 1_000_000), *grid(values)], GROUP, "meor")
    assert [each.multiple for each in found.candidates] == [1.0, 3.0, 10.0]
    assert found.multiple == 10.0


def test_nothing_is_chosen_from_nothing() -> None:
    with pytest.raises(StudyError, match="No selection pair"):
        choose([], GROUP, "meor")
    with pytest.raises(StudyError, match="A_TN is undefined"):
        choose([row("none", 1_000_000, A_TN=None)], GROUP, "meor")


def test_the_grid_goes_on_while_the_last_two_multiples_are_best_and_no_further_than_100000() -> None:
    replay = [row("none", 1_000_000)]

    def next_after(values: dict[float, tuple[float, float]]) -> float | None:
        rows = [*replay, *grid(values)]
        return next_multiple(rows, choose(rows, GROUP, "meor"))

    rising = {multiple: (0.2 + at / 1000, 0.1) for at, multiple in enumerate(GRID)}
    through_300 = {multiple: rising[multiple] for multiple in MULTIPLES}
    assert next_after(through_300) == 1000.0
    assert next_after(rising) is None
    assert next_after(through_300 | {300.0: (0.2, 0.1)}) == 1000.0  # one in vain is not two
    assert next_after(through_300 | {100.0: (0.2, 0.1), 300.0: (0.3, 0.0)}) is None
    assert next_after({1.0: (0.21, 0.1), 10.0: (0.22, 0.1)}) is None  # a failed cell


def test_multiples_of_a_coefficient_of_0_are_not_tried_further() -> None:
    rows = [row("none", 1_000_000)]
    rows += [replace(each, coefficient=0.0) for each in grid(dict.fromkeys(MULTIPLES, (0.2, 0.1)))]
    assert next_multiple(rows, choose(rows, GROUP, "meor")) is None
