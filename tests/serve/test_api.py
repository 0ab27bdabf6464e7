"""The server: exact answers that name their version, bounded requests, and writing by token alone."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.serve.conftest import TOKEN, Asking, facts_of

from meor.serve.app import make_app
from meor.store.admit import Request, admit
from meor.store.answers import Answers
from meor.store.folder import Store
from meor.store.rollback import rollback


def write(path: Path, facts: list[list[str]]) -> Path:
    path.write_text("".join("\t".join(fact) + "\n" for fact in facts))
    return path


def until(wanted: Any, look: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while look() != wanted and time.monotonic() < end:
        time.sleep(0.02)
    assert look() == wanted


def test_answers_are_those_of_the_version_they_name(asking: Asking, store: Path) -> None:
    model = Answers.of(Store.open(store).version())
    for universe in ("old", "current"):
        for known in ("include", "exclude"):
            told = asking.get(
                "/v1/predict", head="e3", relation="r1", k=7, universe=universe, known=known
            ).json()
            wanted = model.top("e3", "r1", 7, universe=universe, known=known)  # type: ignore[arg-type]
            assert told["version"] == model.name
            assert told["answers"] == [answer.to_json() for answer in wanted]
    body = {
        "queries": [{"head": "e3", "relation": "r1"}, {"head": "?", "relation": "r0", "tail": "e9"}],
        "k": 7,
    }
    many = asking.post("/v1/predict", body, token=None).json()
    assert many["results"][0]["answers"] == [answer.to_json() for answer in model.top("e3", "r1", 7)]
    assert many["results"][1]["head"] == "?"
    explained = asking.get("/v1/explain", head="e3", relation="r1").json()
    assert explained["subject"] == model.name
    assert explained["rank_current"] >= explained["rank_old"] >= 1


def test_a_store_that_changes_beneath_the_server_is_followed(
    asking: Asking, store: Path, tmp_path: Path
) -> None:
    first = Store.open(store).current()
    admit(store, Request(write(tmp_path / "batch.tsv", facts_of(2))))
    second = Store.open(store).current()

    def answering() -> str:
        return str(asking.get("/v1/predict", head="e0", relation="r0").json()["version"])

    until(second, answering)
    by_number = asking.get("/v1/predict", head="e0", relation="r0", version="1").json()
    assert by_number["version"] == first
    rollback(store)
    until(first, answering)
    (store / "CURRENT").write_text("0009-0123456789ab\n")
    until(503, lambda: asking.get("/health/ready").status_code)
    assert answering() == first  # what is loaded goes on answering
    assert "names no version" in asking.get("/health/ready").json()["problem"]
    rollback(store, "2")
    until(200, lambda: asking.get("/health/ready").status_code)
    assert answering() == second


def test_an_admission_over_http(asking: Asking, store: Path) -> None:
    first = Store.open(store).current()
    body = {"facts": facts_of(2), "dry_run": False, "reason": "week 2"}
    begun = asking.post("/v1/admissions", body)
    assert begun.status_code == 202
    again = asking.post("/v1/admissions", body)
    assert again.status_code == 409
    job = begun.json()["job"]
    until("done", lambda: asking.get(f"/v1/admissions/jobs/{job}").json()["state"], 120)
    told = asking.get(f"/v1/admissions/jobs/{job}").json()
    assert told["exit_code"] in (0, 4)
    assert told["verdict"]["batch"]["newcomers"] == 8
    models = asking.get("/v1/models").json()
    assert models["current"] == models["answering"] != first
    assert asking.get("/v1/admissions").json()["entries"][-1]["reason"] == "week 2"
    back = asking.post("/v1/rollback", {"reason": "test"}).json()
    assert back["current"] == back["answering"] == first
    assert asking.post("/v1/rollback", {}).status_code == 400  # there is nothing before the first
    assert asking.post("/v1/rollback", {"version": "77"}).status_code == 404


def test_what_writes_needs_the_token(asking: Asking, store: Path) -> None:
    before = Store.open(store).log()
    for token in (None, "", "another token", TOKEN + "x", "\u00e9"):
        if token is not None and not token.isascii():
            continue
        for path, body in (("/v1/rollback", {}), ("/v1/admissions", {"facts": facts_of(2)})):
            assert asking.post(path, body, token=token).status_code == 401
    reading = Asking(make_app(store))
    assert reading.post("/v1/rollback", {}).status_code == 403
    assert Store.open(store).log() == before


def test_requests_are_bounded(asking: Asking) -> None:
    assert asking("POST", "/v1/predict", content=b"x" * (10 << 20)).status_code == 413

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(12):
            yield b" " * (1 << 20)

    assert asking("POST", "/v1/predict", content=endless()).status_code == 413
    query = {"head": "e0", "relation": "r0"}
    assert asking.post("/v1/predict", {"queries": [query] * 1001}).status_code == 422
    assert asking.get("/v1/predict", head="e0", relation="r0", k=100000).status_code == 422
    assert asking.get("/v1/predict", head="x" * 3000, relation="r0").status_code == 422


@pytest.mark.parametrize(
    ("method", "path", "more", "status"),
    [
        ("GET", "/v1/predict?head=nobody&relation=r0", {}, 404),
        ("GET", "/v1/predict?head=e0&relation=r0&tail=e1", {}, 400),
        ("GET", "/v1/predict?head=e0&relation=r0&version=99", {}, 404),
        ("GET", "/v1/predict?head=%00%1b[31m&relation=r0", {}, 404),
        ("GET", "/v1/predict?head=%ff%fe&relation=r0", {}, 404),
        ("GET", "/v1/explain?head=e0&relation=r0&update=50", {}, 404),
        ("GET", "/v1/explain?head=e0&relation=r0&answer=nobody", {}, 404),
        ("POST", "/v1/predict", {"content": b"{"}, 422),
        ("POST", "/v1/predict", {"content": b'{"queries": [{"head": "\\ud800", "relation": "r0"}]}'}, 422),
        ("POST", "/v1/predict", {"content": b'{"queries": [], "x": "\\ud800"}'}, 422),
        ("POST", "/v1/predict", {"content": b"[" * 100_000}, 400),
        ("GET", "/v1/admissions/jobs/x", {}, 404),
        ("DELETE", "/v1/predict", {}, 405),
        ("GET", "/nothing", {}, 404),
    ],
)
def test_a_bad_request_is_an_error_of_one_sentence(
    asking: Asking, method: str, path: str, more: dict[str, Any], status: int
) -> None:
    found = asking(method, path, headers={"content-type": "application/json"}, **more)
    assert found.status_code == status
    told = found.json()["error"]
    assert told.isprintable()
    assert len(told) < 1000


def test_facts_that_a_line_cannot_carry_are_refused(asking: Asking) -> None:
    for label, status in (("a\tb", 400), ("a\nb", 400), ("a\x00", 400), ("a\ud800", 422)):
        content = json.dumps({"facts": [[label, "r0", "e1"]]})
        headers = {"Authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        assert asking("POST", "/v1/admissions", content=content, headers=headers).status_code == status


def test_headers_hosts_health_and_metrics(asking: Asking, store: Path) -> None:
    found = asking.get("/health/live")
    assert found.json() == {"live": True}
    policy = found.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "http" not in policy.replace("https", "")
    assert found.headers["x-content-type-options"] == "nosniff"
    assert Asking(asking.app, "evil.example").get("/health/live").status_code == 421
    assert Asking(make_app(store, hosts=None), "any.example").get("/health/live").status_code == 200
    assert asking.get("/health/ready").json()["ready"]
    told = asking.get("/metrics").text
    assert 'meor_requests_total{route="/health/live",status="200"} 1.0' in told
    assert "meor_version 1.0" in told
    paths = asking.get("/openapi.json").json()["paths"]
    assert {"/v1/predict", "/v1/explain", "/v1/models", "/v1/admissions", "/v1/rollback"} <= set(paths)
    assert asking.get("/docs").status_code == 404


WORDS = (
    "e0",
    "r0",
    "?",
    "",
    "x" * 2500,
    "\x00",
    "\u202e<b>",
    "e39",
    "-1",
    "1e9",
    "null",
    "0001",
    "é",
    "%",
    "7",
)
PATHS = (
    *("/v1/predict", "/v1/explain", "/v1/entities", "/v1/models", "/v1/admissions", "/v1/rollback"),
    *("/", "/entity", "/answers", "/why", "/history", "/verdict/1", "/verdict/x", "/v1/admissions/jobs/1"),
)
NAMES = (
    *("head", "relation", "tail", "k", "universe", "known", "version", "answer", "update"),
    *("q", "label", "anchor", "side"),
)


def random_request(rng: np.random.Generator, asking: Asking) -> Any:
    """Something near what the OpenAPI document allows, and often beyond it."""

    def draw() -> str:
        return WORDS[rng.integers(len(WORDS))]

    path = PATHS[rng.integers(len(PATHS))]
    params = {name: draw() for name in rng.permutation(NAMES)[: rng.integers(0, 8)]}
    if rng.random() < 0.6:
        return asking(
            "GET", path, params={**params, "head": "e1", "relation": "r1"} if rng.random() < 0.3 else params
        )
    values: list[Any] = [
        draw(),
        1,
        None,
        [],
        {},
        [draw()],
        True,
        -1.5,
        [{"head": draw(), "relation": draw()}],
    ]
    keys = [*NAMES, "queries", "facts", "reason", "budget", "force"]
    body = {key: values[rng.integers(len(values))] for key in rng.permutation(keys)[: rng.integers(0, 6)]}
    return asking("POST", path, json=body)


def fuzz(asking: Asking, count: int) -> set[int]:
    rng = np.random.default_rng(14)
    return {random_request(rng, asking).status_code for _ in range(count)}


def test_no_request_is_answered_with_500(asking: Asking) -> None:
    statuses = fuzz(asking, 250)
    assert {200, 400, 401, 404, 422} <= statuses
    assert max(statuses) < 500


@pytest.mark.long
def test_no_request_of_2000_is_answered_with_500(asking: Asking) -> None:
    assert max(fuzz(asking, 2000)) < 500
