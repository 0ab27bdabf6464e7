"""Bar 2: versions swapped under load. Every answer is exactly that of the version it names."""

from __future__ import annotations

import http.client
import json
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from tests.serve.conftest import TOKEN
from tests.serve.server import Server

from meor.run.config import Config
from meor.store.create import content_of_facts
from meor.store.folder import Store, create
from meor.store.settings import GateSettings
from meor.stream.registry import open_stream

pytestmark = pytest.mark.long
CONNECTIONS, ADMISSIONS, ROLLBACKS, PREDICTIONS = 16, 20, 5, 20_000


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A store of the world's first snapshot."""
    stream = open_stream("world")
    lines = [
        f"{stream.entities.label(h)}\t{stream.relations.label(r)}\t{stream.entities.label(t)}\n"
        for h, r, t in stream.snapshots[0].train.tolist()
    ]
    (tmp_path / "world.tsv").write_text("".join(lines))
    config = Config.gather(sets=["dim=16", "base.epochs=20", "base.learning_rate=0.01", "refine.passes=3"])
    create(tmp_path / "store", content_of_facts(tmp_path / "world.tsv", config, GateSettings(budget=1.0)))
    return tmp_path / "store"


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


class Clients:
    """Connections that ask without a pause until they are told to end."""

    def __init__(self, port: int, queries: list[tuple[str, str]]) -> None:
        self.port, self.queries = port, queries
        self.ended, self.errors = threading.Event(), 0
        self.seen: dict[tuple[str, int], str] = {}  # version and query -> the answers it gave
        self.lock, self.count = threading.Lock(), 0
        self.threads = [threading.Thread(target=self._work, args=(n,)) for n in range(CONNECTIONS)]

    def _work(self, number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        at = number * 7919
        while not self.ended.is_set():
            query = at % len(self.queries)
            head, relation = self.queries[query]
            path = "/v1/predict?" + urlencode({"head": head, "relation": relation})
            status, told = ask(connection, "GET", path)
            answers = json.dumps(told.get("answers"))
            with self.lock:
                self.count += 1
                known = self.seen.setdefault((told.get("version", ""), query), answers)
                self.errors += status != 200 or known != answers
            at += 1
        connection.close()


def batch(stream: Any, number: int) -> list[list[str]]:
    draw = np.random.default_rng(number)
    facts = stream.snapshots[0].train
    return [
        [f"newcomer {number}.{n}", stream.relations.label(int(of)), stream.entities.label(int(tail))]
        for n in range(6)
        for _, of, tail in facts[draw.choice(len(facts), 3)]
    ]


def admit_and_roll_back(port: int, stream: Any) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    for number in range(ADMISSIONS):
        status, job = ask(connection, "POST", "/v1/admissions", {"facts": batch(stream, number)})
        assert status == 202, job
        while job["state"] == "running":
            time.sleep(0.1)
            _, job = ask(connection, "GET", f"/v1/admissions/jobs/{job['job']}")
        assert job["exit_code"] in (0, 4), job
        assert job["verdict"]["batch"]["newcomers"] >= 5
        if number % (ADMISSIONS // ROLLBACKS) == 3:
            status, told = ask(connection, "POST", "/v1/rollback", {})
            assert (status, told["current"] == told["answering"]) == (200, True)


def test_swap_under_load(world: Path) -> None:
    stream, server = open_stream("world"), Server(world, TOKEN)
    train = stream.snapshots[0].train
    chosen = train[np.random.default_rng(0).choice(len(train), 200, replace=False)]
    queries = [(stream.entities.label(int(h)), stream.relations.label(int(r))) for h, r, _ in chosen]
    clients = Clients(server.port, queries)
    for thread in clients.threads:
        thread.start()
    try:
        admit_and_roll_back(server.port, stream)
        while clients.count < PREDICTIONS:
            time.sleep(0.2)
    finally:
        clients.ended.set()
        for thread in clients.threads:
            thread.join()
        server.stop()
    assert clients.errors == 0
    models = {name: Store.open(world).model(name) for name in {name for name, _ in clients.seen}}
    for (name, query), answers in clients.seen.items():
        assert answers == json.dumps([each.to_json() for each in models[name].top(*queries[query])])
    assert len(models) > ADMISSIONS // 2
    print(f"{clients.count} predictions, {len(models)} versions, {clients.errors} errors")
