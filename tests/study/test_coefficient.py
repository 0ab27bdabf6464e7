from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from meor.methods.coefficient import Balance
from meor.run.config import Config
from meor.study import coefficient
from meor.study.coefficient import kept_balance, read_balance

FOUND = Balance(0.25, 1.0, 4.0, 64, 32, 1)
STREAM = SimpleNamespace(updates=(1, 2, 3))
REPLAY = SimpleNamespace(config=Config(), model=lambda update: None)


def test_a_balance_is_made_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def balanced(config: Config, *_: object) -> Balance:
        asked.append(config.method)
        return FOUND

    monkeypatch.setattr(coefficient, "balanced", balanced)
    for _ in range(2):
        assert kept_balance(tmp_path / "kept.json", REPLAY, STREAM, "uor") == FOUND  # type: ignore[arg-type]
    assert asked == ["uor"]


def test_the_first_update_with_enough_active_records_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def balanced(config: Config, stream: object, update: int, replay: object) -> Balance:
        asked.append(update)
        return replace(FOUND, update=update, coefficient=0.25 if update == 2 else 0.0, active=9 * update)

    monkeypatch.setattr(coefficient, "balanced", balanced)
    found = kept_balance(tmp_path / "kept.json", REPLAY, STREAM, "meor")  # type: ignore[arg-type]
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
        found = list(pool.map(lambda _: kept_balance(path, REPLAY, STREAM, "meor"), range(8)))  # type: ignore[arg-type]
    assert found == [FOUND] * 8
    assert read_balance(path) == FOUND
    assert [each.name for each in tmp_path.iterdir()] == ["kept.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"coefficient": 1}'])
def test_a_file_that_is_no_balance_is_made_again(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "kept.json").write_bytes(content)
    assert read_balance(tmp_path / "kept.json") is None
    assert read_balance(tmp_path / "absent.json") is None
