"""A server of the tiny ring, asked through ASGI without a socket."""

from __future__ import annotations

import asyncio
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.tiny_run import each_step, tiny_config, tiny_stream

from meor.run.session import start
from meor.store.create import content_of_run
from meor.store.folder import create
from meor.store.settings import GateSettings
from meor.stream.files import write_stream

NEEDED = ("fastapi", "uvicorn", "prometheus_client", "httpx")
MISSING = [name for name in NEEDED if find_spec(name) is None]
# test_extra.py says what is missing; the others could not even be imported.
USING = ("api", "command", "explorer", "browser", "schema", "swap")
collect_ignore = [f"test_{name}.py" for name in USING] if MISSING else []
TOKEN = "a token of the test"


class Asking:
    """A client. What the application raises is raised here too, so a 500 cannot hide."""

    def __init__(self, app: Any, host: str = "localhost") -> None:
        self.app, self.host = app, host

    def __call__(self, method: str, path: str, **more: Any) -> Any:
        import httpx

        async def ask() -> Any:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{self.host}") as client:
                return await client.request(method, path, **more)

        return asyncio.run(ask())

    def get(self, path: str, **params: Any) -> Any:
        return self("GET", path, params=params or None)

    def post(self, path: str, body: Any, token: str | None = TOKEN) -> Any:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return self("POST", path, json=body, headers=headers)


@pytest.fixture(scope="session")
def made_ring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    write_stream(tiny_stream(), folder / "ring")
    config = tiny_config("refine.learning_rate=0.3", stream=folder / "ring")
    start(config, folder / "run", resources=each_step(folder / "cache"))
    create(folder / "store", content_of_run(folder / "run", GateSettings(budget=1.0), update=1))
    return folder / "store"


@pytest.fixture
def store(made_ring: Path, tmp_path: Path) -> Path:
    shutil.copytree(made_ring, tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def asking(store: Path, tmp_path: Path) -> Asking:
    from meor.serve.app import make_app

    return Asking(make_app(store, token=TOKEN, place=tmp_path / "place"))


def facts_of(update: int) -> list[list[str]]:
    stream = tiny_stream()
    return [
        [stream.entities.label(h), stream.relations.label(r), stream.entities.label(t)]
        for h, r, t in stream.snapshots[update].train.tolist()
    ]
