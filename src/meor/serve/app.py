"""The application: /v1, health, metrics and the explorer, behind the limits of every request."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException

from meor import __version__
from meor.errors import InputError, MeorError, StoreError
from meor.escape import visible
from meor.serve.api import RefusedError, as_json, reading, writing
from meor.serve.explorer import explorer
from meor.serve.jobs import Jobs
from meor.serve.limits import App, Limits, Message, Receive, Scope, Send
from meor.serve.state import Served

LARGEST_REQUEST = 8 << 20
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)


class Metrics:
    """What /metrics tells. A registry of its own: two servers in one process do not mix."""

    def __init__(self, served: Served) -> None:
        self.registry, self.served = CollectorRegistry(), served
        self.requests = Counter(
            "meor_requests", "Requests by route and status", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "meor_request_seconds", "Time to answer", ["route"], buckets=BUCKETS, registry=self.registry
        )
        self.version = Gauge("meor_version", "Number of the version that answers", registry=self.registry)
        self.entities = Gauge("meor_entities", "Entities of that version", registry=self.registry)

    def text(self) -> bytes:
        answers = self.served.current()
        self.version.set(int(answers.name.partition("-")[0] or 0))
        self.entities.set(answers.n_current)
        return generate_latest(self.registry)


def make_app(
    store: Path,
    *,
    token: str | None = None,
    hosts: frozenset[str] | None = LOOPBACK,
    largest: int = LARGEST_REQUEST,
    place: Path | None = None,
) -> App:
    """`hosts` are the names it answers under (None: any); batches lie in `place` while they are admitted."""
    served = Served(store)
    jobs = Jobs(store, place or store.absolute().parent, served.follow_now)
    metrics = Metrics(served)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        jobs.close()

    app = FastAPI(
        title="meor",
        version=__version__,
        description="Answers from a versioned embedding of a growing knowledge graph.",
        docs_url=None,  # both would load scripts from another host
        redoc_url=None,
        lifespan=life,
    )
    _explain_errors(app)
    app.include_router(reading(served, jobs))
    app.include_router(writing(served, jobs, token))
    app.include_router(explorer(served))

    @app.get("/health/live", tags=["health"])
    def live() -> Response:
        """The process answers."""
        return as_json({"live": True})

    @app.get("/health/ready", tags=["health"], responses={503: {"description": "It cannot."}})
    def ready() -> Response:
        """The store's current version is the one that answers here."""
        answering = served.current().name
        told = {"ready": served.problem is None, "answering": answering, "problem": served.problem}
        return as_json(told, 200 if served.problem is None else 503)

    @app.get("/metrics", tags=["health"])
    def measured() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    return Limits(_Counted(app, metrics), largest=largest, hosts=hosts)  # type: ignore[arg-type]


def _explain_errors(app: FastAPI) -> None:
    """Every error of ours is a sentence; what we did not foresee names itself and nothing of the machine."""

    @app.exception_handler(MeorError)
    async def explained(_: Request, error: MeorError) -> Response:
        text = visible(str(error))
        status = 400
        if isinstance(error, RefusedError):
            status = error.status
        elif isinstance(error, InputError) and text.startswith("there is no "):
            status = 404
        elif isinstance(error, StoreError):
            written = "another process" in text or "is running" in text
            status = 409 if written else 404 if "names no version" in text else 400
        return as_json({"error": text}, status)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return as_json({"error": visible(f"{where}: {first['msg']}")}, 422)

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        found = as_json({"error": str(error.detail)}, error.status_code)
        found.headers.update(headers)
        return found


class _Counted:
    """Counts and times every request by its route."""

    def __init__(self, app: App, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status = time.perf_counter(), "none"

        async def seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self.app(scope, receive, seen)
        finally:
            if scope["type"] == "http":
                route = getattr(scope.get("route"), "path", "other")
                self.metrics.requests.labels(route, status).inc()
                self.metrics.seconds.labels(route).observe(time.perf_counter() - began)
