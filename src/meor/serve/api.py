"""/v1: answers, explanations, versions, admissions and rollbacks, as JSON."""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from meor.errors import MeorError
from meor.serve.jobs import Jobs
from meor.serve.schemas import (
    LONGEST_LABEL,
    AdmissionBody,
    AnswersOut,
    ErrorOut,
    JobOut,
    KnownAnswers,
    ModelsOut,
    PredictBody,
    PredictionsOut,
    RollbackBody,
    Universe,
)
from meor.serve.state import Served
from meor.store.answers import Answer, Answers
from meor.store.answers import Query as Asked
from meor.store.explain import explain
from meor.store.rollback import rollback

Text = Annotated[str, Query(min_length=1, max_length=LONGEST_LABEL)]
Optional = Annotated[str | None, Query(min_length=1, max_length=LONGEST_LABEL)]
FOUND = 20
_EXPLAINING = threading.Lock()  # counting shares one buffer between calls

PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorOut, "description": "The request cannot be answered; the error says why."},
    404: {"model": ErrorOut, "description": "No such label, version or job."},
    409: {"model": ErrorOut, "description": "The store is being written."},
    413: {"model": ErrorOut, "description": "The request is too large."},
    422: {"model": ErrorOut, "description": "The request is not of this form."},
}
WRITING: dict[int | str, dict[str, Any]] = {
    **PROBLEMS,
    401: {"model": ErrorOut, "description": "What writes needs the token."},
    403: {"model": ErrorOut, "description": "The server was started without a token."},
}


class RefusedError(MeorError):
    """A request without the right to write."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def as_json(content: Any, status: int = 200) -> Response:
    """Plain ASCII, so that no label can break it."""
    return Response(json.dumps(content, allow_nan=False), status, media_type="application/json")


def predicted(version: str, query: Asked, answers: list[Answer]) -> dict[str, Any]:
    head, relation, tail = query.parts
    found = [answer.to_json() for answer in answers]
    return {"version": version, "head": head, "relation": relation, "tail": tail, "answers": found}


def token_check(token: str | None) -> Callable[..., None]:
    def check(authorization: Annotated[str | None, Header()] = None) -> None:
        if token is None:
            raise RefusedError("This server only reads: it was started without a token.", 403)
        given = (authorization or "").encode(errors="replace")
        if not hmac.compare_digest(given, f"Bearer {token}".encode()):
            raise RefusedError("Give the token as `Authorization: Bearer TOKEN`.", 401)

    return check


def reading(served: Served, jobs: Jobs) -> APIRouter:
    api = APIRouter(prefix="/v1", responses=PROBLEMS)

    @api.get("/predict", response_model=AnswersOut)
    async def predict(
        head: Text,
        relation: Text,
        tail: Text = "?",
        k: Annotated[int, Query(ge=1, le=1000)] = 10,
        universe: Universe = "current",
        known: KnownAnswers = "include",
        version: Optional = None,
    ) -> Response:
        """The best answers of one query; `?` is the end that is asked for."""
        query = Asked.of(head, relation, tail)
        # A query of the loaded version takes less time than handing it to a thread; loading another does not.
        answers = served.current() if version is None else await run_in_threadpool(served.version, version)
        found = answers.top_each([query], k, universe=universe, known=known)[0]
        return as_json(predicted(answers.name, query, found))

    @api.post("/predict", response_model=PredictionsOut)
    def predict_many(body: PredictBody) -> Response:
        """The same for up to 1,000 queries."""
        queries = [Asked.of(each.head, each.relation, each.tail) for each in body.queries]
        answers = served.version(body.version)
        found = answers.top_each(queries, body.k, universe=body.universe, known=body.known)
        results = [predicted(answers.name, *each) for each in zip(queries, found, strict=True)]
        return as_json({"version": answers.name, "results": results})

    @api.get("/explain")
    def explained(
        head: Text,
        relation: Text,
        tail: Text = "?",
        answer: Optional = None,
        update: Annotated[int | None, Query(ge=0, le=10**6)] = None,
        version: Optional = None,
    ) -> Response:
        """Both ranks of an answer, who came before it, and the facts that placed them."""
        return as_json(explanation(served, Asked.of(head, relation, tail), answer, update, version))

    @api.get("/entities")
    def entities(q: Text) -> Response:
        """Entities whose label holds the text, in any case."""
        answers = served.current()
        return as_json({"version": answers.name, "entities": search(answers, q)})

    @api.get("/models", response_model=ModelsOut)
    def models() -> Response:
        """Every version, the one the store names, and the one that answers here."""
        store = served.store
        return as_json(
            {"current": store.current(), "answering": served.current().name, "versions": store.names()}
        )

    @api.get("/admissions")
    def admissions() -> Response:
        """The log of the store, oldest first."""
        return as_json({"current": served.store.current(), "entries": served.store.log()})

    @api.get("/admissions/jobs/{job}", response_model=JobOut)
    def job_of(job: str) -> Response:
        """How far an admission is, and its verdict at the end."""
        return as_json(jobs.find(job).to_json())

    return api


def writing(served: Served, jobs: Jobs, token: str | None) -> APIRouter:
    api = APIRouter(prefix="/v1", responses=WRITING, dependencies=[Depends(token_check(token))])

    @api.post("/admissions", response_model=JobOut, status_code=202)
    def begin(body: AdmissionBody) -> Response:
        """Begin an admission in a child process; its job says how far it is."""
        return as_json(jobs.begin(body).to_json(), 202)

    @api.post("/rollback")
    def go_back(body: RollbackBody) -> Response:
        """Let an earlier version answer again."""
        before, after = rollback(served.store.path, body.version, reason=body.reason)
        served.follow_now()
        return as_json({"before": before, "current": after, "answering": served.current().name})

    return api


def explanation(
    served: Served, query: Asked, answer: str | None, update: int | None, version: str | None
) -> dict[str, Any]:
    with _EXPLAINING:
        return explain(served.subject(version), query, answer=answer, update=update)


def search(answers: Answers, text: str, limit: int = FOUND) -> list[dict[str, Any]]:
    """Labels that begin with the text come first."""
    wanted = text.casefold()
    begins: list[int] = []
    holds: list[int] = []
    for id, label in enumerate(answers.stream.entities.labels):
        at = label.casefold().find(wanted)
        if at == 0:
            begins.append(id)
        elif at > 0 and len(holds) < limit:
            holds.append(id)
        if len(begins) == limit:
            break
    found = (begins + holds)[:limit]
    return [
        {
            "label": answers.stream.entities.label(id),
            "newcomer": id >= answers.n_old,
            "admitted_at": answers.stream.entities.admitted_at[id],
        }
        for id in found
    ]
