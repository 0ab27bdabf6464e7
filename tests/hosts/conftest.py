import pytest
from tests.training.conftest import stream

__all__ = ["stream"]


@pytest.fixture(autouse=True)
def short_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """IncDE's second stage begins after one pass instead of 21, so that runs of two passes reach it."""
    monkeypatch.setattr("meor.hosts.incde.FIRST_STAGE", 1)
    monkeypatch.setattr("meor.hosts.incde.LEAST", 1)
