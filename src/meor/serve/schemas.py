"""The bodies of requests and answers, as the OpenAPI document shows them. Every size is bounded."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

LONGEST_LABEL = 2000
MOST_QUERIES = 1000
MOST_ANSWERS = 1000
MOST_FACTS = 200_000

Label = Annotated[str, Field(min_length=1, max_length=LONGEST_LABEL)]
Count = Annotated[int, Field(ge=1, le=MOST_ANSWERS)]
Universe = Literal["old", "current"]
KnownAnswers = Literal["include", "exclude"]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class QueryBody(Body):
    head: Label
    relation: Label
    tail: Label = "?"


class PredictBody(Body):
    queries: Annotated[list[QueryBody], Field(min_length=1, max_length=MOST_QUERIES)]
    k: Count = 10
    universe: Universe = "current"
    known: KnownAnswers = "include"
    version: Label | None = None


class AdmissionBody(Body):
    """A batch; `split` of a fact is train unless a fourth cell says valid or test."""

    facts: Annotated[
        list[Annotated[list[Label], Field(min_length=3, max_length=4)]], Field(max_length=MOST_FACTS)
    ]
    hold_back: Annotated[list[Label], Field(max_length=MOST_FACTS)] = []
    golden: Annotated[
        list[Annotated[list[Label], Field(min_length=4, max_length=6)]], Field(max_length=MOST_FACTS)
    ] = []
    budget: Share | None = None
    floor: Share | None = None
    new_relations: bool = False
    dry_run: bool = False
    force: bool = False
    reason: Annotated[str, Field(max_length=LONGEST_LABEL)] = ""


class RollbackBody(Body):
    version: Label | None = None
    reason: Annotated[str, Field(max_length=LONGEST_LABEL)] = ""


class AnswerOut(BaseModel):
    rank: int
    label: str
    score: float
    known: bool
    newcomer: bool
    admitted_at: int


class AnswersOut(BaseModel):
    version: str
    head: str
    relation: str
    tail: str
    answers: list[AnswerOut]


class PredictionsOut(BaseModel):
    version: str
    results: list[AnswersOut]


class ModelsOut(BaseModel):
    current: str
    answering: str
    versions: list[str]


class JobOut(BaseModel):
    job: str
    state: Literal["running", "done", "failed"]
    exit_code: int | None
    progress: list[str]
    verdict: dict[str, Any] | None


class ErrorOut(BaseModel):
    error: str
