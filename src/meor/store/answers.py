"""A version that answers: the best answers of a query, by label, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any, Literal, get_args

import numpy as np

from meor.backbone import Geometry, Model
from meor.backbone.base import GAMMA
from meor.errors import InputError
from meor.escape import LONGEST, terminal
from meor.evaluation.tally import wide_rows
from meor.search.queries import Known
from meor.search.screen import Candidates
from meor.search.top import NOBODY, top
from meor.store.version import Version
from meor.stream.occurrence import EvaluationFilter
from meor.stream.snapshot import Stream, Vocabulary
from meor.typing import SIDES, Floats, Ids, Side

ASKED = "?"
Universe = Literal["old", "current"]
KnownAnswers = Literal["include", "exclude"]
MANY_LABELS = 200_000
"""With more, the nearest label would take seconds to find."""


@dataclass(frozen=True, slots=True)
class Query:
    """Two labels, and which end is asked for."""

    anchor: str
    relation: str
    side: Side

    @classmethod
    def of(cls, head: str, relation: str, tail: str = ASKED) -> Query:
        if (head == ASKED) == (tail == ASKED):
            raise InputError(
                f"({', '.join(terminal(part, LONGEST) for part in (head, relation, tail))}) does not ask for "
                "exactly one end",
                remedy=f"Write {ASKED} for the head or for the tail",
            )
        return cls(tail, relation, Side.HEAD) if head == ASKED else cls(head, relation, Side.TAIL)

    @property
    def parts(self) -> tuple[str, str, str]:
        if self.side is Side.HEAD:
            return ASKED, self.relation, self.anchor
        return self.anchor, self.relation, ASKED


@dataclass(frozen=True, slots=True)
class Answer:
    rank: int
    label: str
    score: float
    known: bool  # a fact of the store says so
    newcomer: bool  # admitted last
    admitted_at: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Answers:
    """Rows prepared once for many queries. Nothing in it changes, so threads may share it."""

    def __init__(self, stream: Stream, model: Model, name: str = "") -> None:
        self.stream, self.model, self.name = stream, model, name
        counts = stream.entity_counts
        self.n_old, self.n_current = counts[-2] if len(counts) > 1 else counts[-1], counts[-1]
        self.candidates = Candidates.prepare(
            model.backbone.scoring, wide_rows(model, slice(0, self.n_current))
        )
        self.known = EvaluationFilter.through(stream, len(stream.snapshots) - 1)
        self._constant = GAMMA if model.backbone.geometry is Geometry.L1 else 0.0

    def __repr__(self) -> str:
        return f"Answers of {self.name or 'a model'}: {self.n_current:,} entities"

    @classmethod
    def of(cls, version: Version) -> Answers:
        return cls(version.stream(), version.model(), version.name)

    def top(
        self,
        head: str,
        relation: str,
        k: int = 10,
        *,
        tail: str = ASKED,
        universe: Universe = "current",
        known: KnownAnswers = "include",
    ) -> list[Answer]:
        """The k best answers of one query: `top("Ann", "works for")`; or "?" and `tail="Acme"`."""
        return self.top_each([Query.of(head, relation, tail)], k, universe=universe, known=known)[0]

    def top_each(
        self,
        queries: Sequence[Query],
        k: int = 10,
        *,
        universe: Universe = "current",
        known: KnownAnswers = "include",
    ) -> list[list[Answer]]:
        """The same for many queries."""
        found: list[list[Answer]] = [[] for _ in queries]
        for side in SIDES:
            rows = [row for row, query in enumerate(queries) if query.side is side]
            if not rows:
                continue
            anchor, relation = self.ids_of([queries[row] for row in rows])
            best, score = self.top_ids(anchor, relation, side, k, universe=universe, known=known)
            start, end = self.known.on(side).bounds(anchor, relation)
            for at, row in enumerate(rows):
                true = set(self.known.on(side).answer[start[at] : end[at]].tolist())
                found[row] = self._answers(best[at], score[at], true)
        return found

    def top_ids(
        self,
        anchor: Ids,
        relation: Ids,
        side: Side,
        k: int,
        *,
        universe: Universe = "current",
        known: KnownAnswers = "include",
    ) -> tuple[Ids, Floats]:
        """[Q, k] ids and scores, best first; -1 where nobody is left."""
        _check(k, universe, known)
        size = self.n_old if universe == "old" else self.n_current
        nothing = np.zeros(len(anchor), np.int64)
        index = self.known.on(side)
        out = Known(nothing, nothing, index.answer)
        if known == "exclude":
            out = Known(*index.bounds(anchor, relation), index.answer)
        query = self.model.query_array(anchor, relation, side)
        best, score = top(self.candidates, query, out, min(k, size), size)
        return best, score + self._constant

    def ids_of(self, queries: Sequence[Query]) -> tuple[Ids, Ids]:
        entities, relations = self.stream.entities, self.stream.relations
        anchor = [id_of(entities, query.anchor, "entity") for query in queries]
        relation = [id_of(relations, query.relation, "relation") for query in queries]
        return np.array(anchor, np.int64), np.array(relation, np.int64)

    def _answers(self, best: Ids, score: Floats, true: set[int]) -> list[Answer]:
        entities = self.stream.entities
        return [
            Answer(
                rank,
                entities.label(id),
                value,
                id in true,
                id >= self.n_old,
                entities.admitted_at[id],
            )
            for rank, (id, value) in enumerate(zip(best.tolist(), score.tolist(), strict=True), 1)
            if id != NOBODY
        ]


def id_of(known: Vocabulary, label: str, kind: str) -> int:
    """The id of a label; the error for an unknown one suggests the nearest."""
    if label in known:
        return known.id(label)
    near = get_close_matches(label[:200], known.labels, n=1, cutoff=0.6) if len(known) < MANY_LABELS else []
    remedy = f"The nearest is {near[0]!r}" if near else "Check the spelling"
    raise InputError(f"there is no {kind} {label[:200]!r}", remedy=remedy)


def _check(k: int, universe: str, known: str) -> None:
    if k < 1:
        raise InputError(f"{k} answers", remedy="Ask for at least 1")
    for name, value, allowed in (
        ("universe", universe, get_args(Universe)),
        ("known", known, get_args(KnownAnswers)),
    ):
        if value not in allowed:
            raise InputError(f"{name} is {value!r}", remedy=f"Use {' or '.join(allowed)}")
