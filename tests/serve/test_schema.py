"""Bar 7: 2,000 requests that schemathesis makes of the OpenAPI document. None ends in a 500."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import Unsatisfiable
from tests.serve.conftest import TOKEN
from tests.serve.server import Server

schemathesis: Any = pytest.importorskip("schemathesis", reason="it comes with `make setup-bench`")
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]

REQUESTS, PER_KIND = 2000, 160
KNOWN = {
    "head": ("e0", "e3", "e31", "?"),
    "answer": ("e1", "e31"),
    "q": ("e", "31"),
    "tail": ("?", "e1"),
    "relation": ("r0", "r1"),
    "version": ("1", "0001"),
}
OFTEN = 0.7


def name_known(values: Any, chance: random.Random) -> None:
    """Put labels of the store in place: random text is hardly ever one, and would end in a 404."""
    if isinstance(values, list):
        for value in values:
            name_known(value, chance)
    elif isinstance(values, dict):
        for name, value in values.items():
            if name in KNOWN and chance.random() < OFTEN:
                values[name] = chance.choice(KNOWN[name])
            else:
                name_known(value, chance)


def ask(operation: Any, mode: Any, seen: Counter[tuple[str, int]]) -> None:
    chance = random.Random(operation.label)

    @seeded(14)
    @settings(
        max_examples=PER_KIND,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def each(case: Any) -> None:
        name_known(case.query, chance)
        name_known(case.body, chance)
        answer = case.call(headers={"Authorization": f"Bearer {TOKEN}"})
        seen[operation.label, answer.status_code] += 1
        if answer.status_code == 503:
            assert operation.label == "GET /health/ready"  # the only one that may say so
        assert answer.status_code < 500 or answer.status_code == 503, case.as_curl_command()
        assert b"Traceback" not in answer.content

    try:
        each()
    except Unsatisfiable:
        assert mode is schemathesis.GenerationMode.NEGATIVE  # a path without parameters cannot be misused


def test_no_request_of_the_document_ends_in_a_500(store: Path) -> None:
    server, seen = Server(store, TOKEN), Counter[tuple[str, int]]()
    try:
        document = schemathesis.openapi.from_url(f"{server.address}/openapi.json")
        for found in document.get_all_operations():
            for mode in schemathesis.GenerationMode:
                ask(found.ok(), mode, seen)
    finally:
        server.stop()
    for (label, status), count in sorted(seen.items()):
        print(f"{label}: {count} times {status}")
    assert sum(seen.values()) >= REQUESTS
    assert seen["GET /v1/predict", 200] > 10
    assert seen["GET /v1/explain", 200] > 10
    assert seen["POST /v1/predict", 200] > 10
