"""Answers against NumPy: a float32 product with argpartition, and nothing exact about it.

A store of ENTITY after its last update, ComplEx 200 with random rows. One query goes through ASGI without a
socket, from the request to the bytes of the answer; 10,000 queries go through `Answers.top_ids`, which leaves
out reading and printing. Both are measured in turn in one process.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import torch

from benchmarks.evaluation import random_model
from benchmarks.timing import alternate
from meor.compiled import set_threads
from meor.run.config import Config
from meor.serve.app import make_app
from meor.store.answers import Answers
from meor.store.folder import Store, create
from meor.store.settings import GateSettings
from meor.store.version import Content
from meor.stream.snapshot import Stream
from meor.typing import Side

K, MANY, BLOCK = 10, 10_000, 512


def against_numpy(stream: Stream) -> dict[str, object]:
    model = random_model("complex", len(stream.entities), len(stream.relations))
    set_threads(torch.get_num_threads())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        create(path, Content(stream, model, model, Config(stream="ENTITY"), GateSettings()))
        answers = Answers.of(Store.open(path).version())
        return {**_one(path, answers), **_many(answers)}


def _one(path: Path, answers: Answers) -> dict[str, object]:
    narrow = answers.model.entity.numpy().astype(np.float32)
    query = narrow[7] * narrow[11]
    head, relation = answers.stream.entities.label(7), answers.stream.relations.label(3)
    words = urlencode({"head": head, "relation": relation, "k": K}).encode()

    def plain() -> Any:
        return np.argpartition(-(narrow @ query), K)[:K]

    with asyncio.Runner() as runner:
        ask = _asking(make_app(path), words)
        assert len(json.loads(runner.run(ask()))["answers"]) == K
        found = alternate({"numpy": plain, "served": lambda: runner.run(ask())}, repeats=201)
    return {
        "one query, numpy, ms": 1e3 * found["numpy"],
        "one query, served, ms": 1e3 * found["served"],
        "one query, ratio (bar: 3)": found["served"] / found["numpy"],
    }


def _asking(app: Any, words: bytes) -> Callable[[], Any]:
    """A request to /v1/predict, as a server would hand it over."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/v1/predict",
        "raw_path": b"/v1/predict",
        "query_string": words,
        "root_path": "",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }

    async def ask() -> bytes:
        got = []

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            got.append(message.get("body", b""))

        await app(dict(scope), receive, send)
        return b"".join(got)

    return ask


def _many(answers: Answers) -> dict[str, object]:
    draw = np.random.default_rng(0)
    anchor = draw.integers(0, answers.n_current, MANY)
    relation = draw.integers(0, len(answers.stream.relations), MANY)
    narrow = answers.model.entity.numpy().astype(np.float32)
    query = answers.model.query_array(anchor, relation, Side.TAIL).astype(np.float32)

    def plain() -> Any:
        """In blocks: 10,000 rows of scores at once would not fit a cache, nor perhaps the memory."""
        for first in range(0, MANY, BLOCK):
            score = query[first : first + BLOCK] @ narrow.T
            best = np.argpartition(score, score.shape[1] - K, axis=1)[:, -K:]
        return best

    found = alternate(
        {"numpy": plain, "exact": lambda: answers.top_ids(anchor, relation, Side.TAIL, K)}, repeats=3
    )
    return {
        "10,000 queries, numpy, s": found["numpy"],
        "10,000 queries, exact, s": found["exact"],
        "10,000 queries, ratio (bar: 1.3)": found["exact"] / found["numpy"],
    }
