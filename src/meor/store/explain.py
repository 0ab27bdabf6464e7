"""Why an answer stands where it does: both ranks, who came before it, and the facts that placed them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from meor.backbone import Model
from meor.errors import InputError
from meor.evaluation.blame import newcomers_ahead
from meor.evaluation.rank import rank
from meor.evaluation.tally import DEFAULT_MEMORY, tally
from meor.methods.comparison import Comparison, Settings
from meor.methods.penalty import penalty_records
from meor.run.config import Config
from meor.run.view import RunView
from meor.store.answers import Query, id_of
from meor.store.folder import Store
from meor.store.graph import through
from meor.store.layout import is_store
from meor.stream.occurrence import EvaluationFilter, Occurrences
from meor.stream.snapshot import Stream
from meor.typing import Facts, Ids, Role, Side, Split

NAMED = 25
"""Displacers, and facts of each, that are listed at most."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A graph and the model that answers for it."""

    name: str  # of the version, or the run's update
    stream: Stream
    model: Model
    config: Config

    @classmethod
    def of(cls, path: Path, *, version: str | None = None, update: int | None = None) -> Subject:
        """A store answers with one model; a run has one per update."""
        if is_store(path):
            found = Store.open(path).version(version)
            return cls(found.name, found.stream(), found.model(), found.config())
        if version is not None:
            raise InputError("a run has no versions", remedy="Leave out --version")
        view = RunView.open(path)
        if not view.updates or (update is not None and update not in view.updates):
            there = f"0 to {view.updates[-1]}" if view.updates else "none yet"
            raise InputError(f"{path} has no update {update}", remedy=f"Choose one of {there}")
        chosen = view.updates[-1] if update is None else update
        stream = through(view.stream(), chosen)
        return cls(f"update-{chosen}", stream, view.model(chosen), view.config)


def explain(
    subject: Subject, query: Query, *, answer: str | None = None, update: int | None = None
) -> dict[str, Any]:
    """One answer of a query, before and after an update (by default the last one that admitted somebody)."""
    stream = subject.stream
    at = _update(stream, update)
    anchor = id_of(stream.entities, query.anchor, "entity")
    relation = id_of(stream.relations, query.relation, "relation")
    known = EvaluationFilter.through(stream, len(stream.snapshots) - 1)
    chosen, how = _answer(subject, known, anchor, relation, query.side, answer)
    fact = np.array([[chosen, relation, anchor] if query.side is Side.HEAD else [anchor, relation, chosen]])
    asked = _occurrence(at, query.side, fact)
    newcomers = range(stream.entity_counts[at - 1] if at else 0, stream.entity_counts[at])
    is_new = at > 0 and chosen >= newcomers.start
    ranks = rank(subject.model, asked, known, (newcomers.start, newcomers.stop))
    old, cur = int(ranks.old[0]) if at and not is_new else None, int(ranks.cur[0])
    head, of, tail = query.parts
    return {
        "subject": subject.name,
        "head": head,
        "relation": of,
        "tail": tail,
        "answer": stream.entities.label(chosen),
        "answer_chosen": how,
        "known": chosen in known.on(query.side).of(anchor, relation),
        "admitted_at": stream.entities.admitted_at[chosen],
        "update": at,
        "rank_old": old,
        "rank_current": cur,
        "lost": None if old is None else 1 / old - 1 / cur,
        "rank_by_admission": _by_admission(subject, known, asked, chosen),
        "displacers": _displacers(subject, known, asked, newcomers, old, cur) if at else [],
        "pressure": _pressure(subject, at, fact, query.side) if old is not None else None,
    }


def _update(stream: Stream, wanted: int | None) -> int:
    last = len(stream.snapshots) - 1
    if wanted is not None:
        if not 0 <= wanted <= last:
            raise InputError(f"there is no update {wanted}", remedy=f"Choose one of 0 to {last}")
        return wanted
    return next((at for at in range(last, 0, -1) if len(stream.newcomers(at))), last)


def _answer(
    subject: Subject, known: EvaluationFilter, anchor: int, relation: int, side: Side, label: str | None
) -> tuple[int, str]:
    """The named answer, else the known one with the highest score, else the best of all."""
    stream, model = subject.stream, subject.model
    if label is not None:
        return id_of(stream.entities, label, "entity"), "named"
    true = known.on(side).of(anchor, relation)
    candidates = true if len(true) else np.arange(len(stream.entities))
    score = model.score(np.array([anchor]), np.array([relation]), side, candidates)[0].detach().numpy()
    how = "the best known answer" if len(true) else "the best answer; none is known"
    return int(candidates[np.lexsort((candidates, -score))[0]]), how


def _occurrence(update: int, side: Side, fact: Facts) -> Occurrences:
    role = np.array([Role.HISTORICAL], np.int8)
    return Occurrences(update, side, fact.astype(np.int64), np.zeros(1, np.int64), role)


def _by_admission(
    subject: Subject, known: EvaluationFilter, asked: Occurrences, answer: int
) -> list[dict[str, int]]:
    """Its rank among all entities admitted by then, from its own admission on, with this model."""
    counts = subject.stream.entity_counts
    ranges = list(zip((0, *counts), counts, strict=False))
    ahead = tally(subject.model, asked, known, ranges, counts[-1], DEFAULT_MEMORY)
    ranks = 1 + np.cumsum([each[0, :2].sum() for each in ahead])
    return [{"update": at, "rank": int(ranks[at])} for at, count in enumerate(counts) if answer < count]


def _displacers(
    subject: Subject,
    known: EvaluationFilter,
    asked: Occurrences,
    newcomers: range,
    old: int | None,
    cur: int,
) -> list[dict[str, Any]]:
    """Newcomers above the answer, highest score first. The blame is split evenly, as in an audit."""
    stream, model = subject.stream, subject.model
    found = list(newcomers_ahead(model, asked, known, newcomers))
    ids = found[0].id if found else np.zeros(0, np.int64)
    score = found[0].score if found else np.zeros(0)
    own = float(_score(model, asked, asked.answer)[0])
    shares = None if old is None else (1 / old - 1 / cur) / max(cur - old, 1)
    train = stream.snapshots[asked.update].train
    own_scores = _score(model, asked, ids)
    return [
        {
            "newcomer": stream.entities.label(int(ids[n])),
            "gap": float(own_scores[n]) - own,
            "share": shares,
            "rank_without": cur - 1,
            "facts": placed(stream, train, int(ids[n])),
        }
        for n in np.lexsort((ids, -score))[:NAMED]
    ]


def _score(model: Model, asked: Occurrences, candidates: Ids) -> Ids:
    return np.asarray(
        model.score(asked.anchor, asked.relation, asked.side, candidates)[0].detach().double().numpy()
    )


def placed(stream: Stream, train: Facts, entity: int) -> list[Sequence[str]]:
    """The train facts of an entity: what its row was learned from."""
    own = train[(train[:, 0] == entity) | (train[:, 2] == entity)][:NAMED]
    return [
        (stream.entities.label(head), stream.relations.label(of), stream.entities.label(tail))
        for head, of, tail in own.tolist()
    ]


def _pressure(subject: Subject, update: int, fact: Facts, side: Side) -> dict[str, Any] | None:
    """What newcomers press, beside what matched old entities press: the penalty's own quantities."""
    chosen = subject.config.penalty
    settings = Settings(
        beta=chosen.beta,
        draws=chosen.draws,
        scale_sample=chosen.scale_sample,
        signature=chosen.signature,
        eta=chosen.mad_weight,
        epsilon=chosen.epsilon,
    )
    seed = subject.config.seed
    stream = through(subject.stream, update)
    rows = stream.entity_counts[-1], stream.relation_counts[-1]
    model = Model(subject.model.backbone, subject.model.entity[: rows[0]], subject.model.relation[: rows[1]])
    if len(stream.prefix(update, [Split.TRAIN])) == 0 or fact[0, 1] >= rows[1]:
        return None
    comparison = Comparison.build(stream, update, fact, run=seed, settings=settings)
    at = int(side)
    if not comparison.eligible[at]:
        return None
    found = penalty_records(comparison, model)
    drawn = comparison.drawn(np.array([at]))[0]
    matched = np.unique(drawn[drawn >= 0])
    return {
        "scale": float(found.scale.tau[at]),
        "newcomers": float(found.new[at]),
        "matched_old": float(found.reference[at]),
        "excess": float(found.excess[at]),
        "matched": [stream.entities.label(int(e)) for e in matched[:NAMED]],
    }
