"""Admit a batch: validate, grow, refine, rank, judge, stage, switch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from meor.errors import InputError
from meor.evaluation.groups import Groups, read_groups
from meor.evaluation.tally import DEFAULT_MEMORY
from meor.run.trainer import Watcher
from meor.storage.disk import Disk
from meor.storage.json_file import to_json
from meor.store.batch import Incoming, read_batch
from meor.store.folder import Store, Writer, taken
from meor.store.graph import extended
from meor.store.judging import Gained, Judged, gained, judge, rules_of
from meor.store.layout import HOLD_BACK, VERDICT
from meor.store.protect import Protected, protected
from meor.store.refining import Refined, refined
from meor.store.rules import EXIT, Rule, verdict_of
from meor.store.settings import GateSettings
from meor.store.verdict import blame, means, problem_of, told_rules, what_if, worst
from meor.store.version import Content
from meor.stream.occurrence import EvaluationFilter
from meor.stream.snapshot import Stream
from meor.typing import Ids


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of one admission."""

    facts: Path
    protect: Path | None = None
    groups: Path | None = None
    hold_back: Path | None = None
    new_relations: bool = False
    dry_run: bool = False
    force: bool = False
    reason: str = ""
    budget: float | None = None
    floor: float | None = None
    sample: int | None = None
    columns: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: dict[str, Any]
    version: str | None  # the new one, where one answers now
    folder: str | None  # of the verdict, inside the store
    refining_seconds: float
    judging_seconds: float

    @property
    def exit_code(self) -> int:
        return 0 if self.verdict["forced"] else EXIT[self.verdict["verdict"]]


def admit(
    path: Path,
    request: Request,
    *,
    memory: int = DEFAULT_MEMORY,
    watcher: Watcher | None = None,
    disk: Disk | None = None,
) -> Outcome:
    """One admission. A dry run writes nothing; else the store is taken for as long as it lasts."""
    if request.force and not request.reason.strip():
        raise InputError("--force needs a reason", remedy="Say why with --reason TEXT")
    watcher = watcher or Watcher()
    with nullcontext() if request.dry_run else taken(path, disk) as writer:
        store = Store.open(path)
        version = store.version()
        content = version.content()
        trial = _Trial(content, request, memory, watcher)
        told = {**trial.verdict(), "made_from": version.name, "dry_run": request.dry_run}
        if writer is None:
            return Outcome(told, None, None, *trial.seconds)
        return _commit(writer, version.name, trial, told)


def _commit(writer: Writer, before: str, trial: _Trial, told: dict[str, Any]) -> Outcome:
    fields = {
        "source": trial.request.facts.name,
        "newcomers": len(trial.incoming.newcomers),
        "facts": trial.incoming.size,
        "D_MCI": told["endpoints"]["D_MCI"],
        "A_TN": told["endpoints"]["A_TN"],
        "reason": trial.request.reason,
        "held_back": len(trial.incoming.held_back),
    }
    files = {VERDICT: to_json(told)}
    if told["what_if"]["newcomers"]:
        files[HOLD_BACK] = "".join(f"{label}\n" for label in told["what_if"]["newcomers"]).encode()
    name = None if told["verdict"] == "refused" else writer.add(trial.next(told))
    folder = writer.keep(files)
    writer.record(told["verdict"], current=name or before, version=name, verdict=folder, **fields)
    return Outcome(told, name, folder, *trial.seconds)


class _Trial:
    """A batch on top of a version, trained and judged, and nothing written."""

    def __init__(self, content: Content, request: Request, memory: int, watcher: Watcher) -> None:
        self.content, self.request = content, request
        self.memory, self.watcher = memory, watcher
        given = {"budget": request.budget, "floor": request.floor, "sample": request.sample}
        self.gate: GateSettings = content.gate.changed(**given)
        self.took: dict[str, float] = {"refine": 0.0, "judge": 0.0}
        known = content.stream
        self.incoming: Incoming = read_batch(
            request.facts,
            known,
            content.waiting,
            hold_back=request.hold_back,
            new_relations=request.new_relations,
            columns=request.columns,
        )
        self.protected: Protected = protected(known, self.gate.sample, request.protect)
        self.stream: Stream = extended(known, self.incoming.facts)
        self.groups: Groups | None = (
            None if request.groups is None else read_groups(request.groups, self.stream)
        )

    @property
    def seconds(self) -> tuple[float, float]:
        return self.took["refine"], self.took["judge"]

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.took[name] += time.perf_counter() - began

    def verdict(self) -> dict[str, Any]:
        """Train and judge; the content of verdict.json."""
        with self._timed("refine"):
            self.refined: Refined = refined(
                self.content, self.stream, memory=self.memory, watcher=self.watcher
            )
        self.watcher.phase("evaluate", len(self.stream.snapshots) - 1)
        with self._timed("judge"):
            before = self.content.model if self.refined.moves_old_rows else None
            model = self.refined.model
            known = EvaluationFilter.through(self.stream, len(self.stream.snapshots) - 1)
            found = judge(self.stream, (model, before), known, self.protected, memory=self.memory)
            gain = gained(self.stream, model, known, self.gate.sample, memory=self.memory)
            estimated = self.protected.estimated
            rules = rules_of(found, gain, self.gate, estimated=estimated, groups=self.groups)
            return self._told(found, gain, rules)

    def _told(self, found: Judged, gain: Gained | None, rules: list[Rule]) -> dict[str, Any]:
        verdict = verdict_of(rules)
        waits: dict[str, Any] = {"found": False, "newcomers": []}
        if verdict == "refused":
            problem = problem_of(self.stream, found, gain, self.gate, self._group_rows(found))
            waits = what_if(problem, self.stream)
        forced = verdict == "refused" and self.request.force
        return {
            "verdict": "flagged" if forced else verdict,
            "forced": forced,
            "reason": self.request.reason,
            "batch": self.incoming.to_json(),
            "protected": {"source": self.protected.source, "queries": len(self.protected)},
            "gate": self.gate.model_dump(mode="json"),
            "endpoints": means(found, gain),
            "A_TN_on": None if gain is None else "held-out facts" if gain.held_out else "its own train facts",
            "rules": told_rules(rules),
            "worst": worst(found, self.stream),
            "blame": blame(found, self.stream),
            "what_if": waits,
            "learned": {
                "steps": self.refined.steps,
                "facts_not_learned": self.refined.unlearned,
                "coefficient": self.refined.coefficient,
            },
        }

    def _group_rows(self, found: Judged) -> list[Ids]:
        if self.groups is None:
            return []
        of = self.groups.of[found.answer]
        return [np.flatnonzero(of == number) for number in np.unique(of)]

    def next(self, told: dict[str, Any]) -> Content:
        """The version that an admission makes."""
        return replace(
            self.content,
            stream=self.stream,
            model=self.refined.model,
            coefficient=self.refined.coefficient,
            verdict=told,
            waiting=self.incoming.waiting,
        )
