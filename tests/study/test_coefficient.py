from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from meor.objective.balance import Balance
from meor.run.config import Config
from meor.study import coefficient
from meor.study.coefficient import kept_balance, read_balance

FOUND = Balance(0.25, 1.0, 4.0, 64, 12)
REPLAY = SimpleNamespace(config=Config(), model=lambda update: None)


def test_a_balance_is_made_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def balanced(config: Config, stream: object, model: object) -> Balance:
        asked.append(config.method)
        return FOUND

    monkeypatch.setattr(coefficient, "balanced", balanced)
    for _ in range(2):
        assert kept_balance(tmp_path / "kept.json", REPLAY, None, "uor") == FOUND  # type: ignore[arg-type]
    assert asked == ["uor"]


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
        found = list(pool.map(lambda _: kept_balance(path, REPLAY, None, "meor"), range(8)))  # type: ignore[arg-type]
    assert found == [FOUND] * 8
    assert read_balance(path) == FOUND
    assert [each.name for each in tmp_path.iterdir()] == ["kept.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"coefficient": 1}'])
def test_a_file_that_is_no_balance_is_made_again(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "kept.json").write_bytes(content)
    assert read_balance(tmp_path / "kept.json") is None
    assert read_balance(tmp_path / "absent.json") is None
