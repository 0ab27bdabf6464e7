"""Cells and pairs: which runs a study needs, and the proof that the runs of a pair share their inputs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from meor.methods import METHODS, NONE, former_name, is_penalized
from meor.methods.coefficient import ALWAYS, MULTIPLES
from meor.methods.comparison import sample_records
from meor.run.config import Config
from meor.run.layout import LOG, MODEL, update_name
from meor.run.pair import UNSHARED
from meor.run.prepare import grown, host_of, update_of
from meor.run.records_file import comparison_of
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.study.plan import BALANCE, VALIDATED, Study, folder_name
from meor.study.rows import Group
from meor.training.host import Update
from meor.training.initialise import rows_sha256
from meor.training.training import Training

TEST, VALID = "test", "valid"
HASHED = 64
"""Occurrences of an update whose references are hashed."""


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One run of a study. Rules that end in the same coefficient share one cell."""

    stream: str
    backbone: str
    host: str
    preset: str
    seed: int
    method: str
    multiple: float | None = None  # of the balanced coefficient; None without a coefficient
    coefficient: float | None = None  # a given number instead
    split: str = TEST

    @property
    def group(self) -> Group:
        return Group(self.stream, self.backbone, self.host, self.preset)

    @property
    def name(self) -> str:
        """A path below the study's folder of runs, and what a person is told when it fails."""
        weight = "" if self.multiple in (None, 1.0) else f"-x{self.multiple:g}"
        if self.coefficient is not None:
            weight = f"-c{self.coefficient!r}"
        ending = "" if self.split == TEST else f"-{self.split}"
        folder = f"{folder_name(self.stream)}-{self.host}-{self.backbone}-{self.preset}"
        return f"{folder}/pair-{self.seed}/{self.method}{weight}{ending}"

    @property
    def former_name(self) -> str:
        """The same path as earlier versions named it: their studies go on where they stopped."""
        return replace(self, method=former_name(self.method)).name

    @property
    def alone(self) -> Cell:
        """The host alone: the run of the pair that the others start from."""
        return replace(self, method=NONE, multiple=None, coefficient=None)

    def config(self, plan: Study, coefficient: float | None = None, begins: int = 1) -> Config:
        config = plan.config(
            self.stream,
            self.backbone,
            self.host,
            self.preset,
            self.method,
            self.seed,
            coefficient=coefficient,
            coefficient_from=begins,
        )
        return config.for_selection() if self.split == VALID else config


def groups(plan: Study) -> list[Group]:
    return [
        Group(stream, backbone, host, preset)
        for stream in plan.stream
        for backbone in plan.backbone
        for host in plan.host
        for preset in plan.preset
    ]


def alone_cells(plan: Study) -> list[Cell]:
    """What everything else starts from: the host alone in each pair, pairs for selection included."""
    found = []
    for group in groups(plan):
        found += [_cell(group, seed, NONE) for seed in plan.seeds]
        found += [replace(_cell(group, seed, NONE), split=VALID) for seed in plan.selection_seeds]
    return found


def method_cells(plan: Study) -> list[Cell]:
    """Every other run whose coefficient needs no choice."""
    found = []
    for group in groups(plan):
        for seed in plan.seeds:
            for method in plan.methods:
                if METHODS[method].kind == "transform":
                    found.append(_cell(group, seed, method))
                elif is_penalized(method):
                    found += _weighted(plan, _cell(group, seed, method))
    return found


def selection_cells(plan: Study, multiples: Sequence[float] = MULTIPLES[:ALWAYS]) -> list[Cell]:
    """Runs on pairs outside the study, judged on validation facts only (decision 34)."""
    return [
        cell
        for group in groups(plan)
        for method in plan.penalized
        for multiple in multiples
        for cell in trial_cells(plan, group, method, multiple)
    ]


def trial_cells(plan: Study, group: Group, method: str, multiple: float) -> list[Cell]:
    """One multiple of a method, on every pair that chooses."""
    return [
        replace(_cell(group, seed, method), multiple=multiple, split=VALID) for seed in plan.selection_seeds
    ]


def validated_cells(plan: Study, chosen: dict[tuple[Group, str], float]) -> list[Cell]:
    """The runs of the validated rule: each method with the multiple that was chosen for it."""
    if VALIDATED not in plan.coefficient_rule:
        return []
    return [
        _validated(_cell(group, seed, method), chosen[group, method])
        for group in groups(plan)
        for seed in plan.seeds
        for method in plan.penalized
        if (group, method) in chosen
    ]


def _validated(cell: Cell, multiple: float) -> Cell:
    """A multiple of 0 says that no coefficient kept newcomers: the run is the host with a penalty unused."""
    return replace(cell, coefficient=0.0) if multiple == 0.0 else replace(cell, multiple=multiple)


def _weighted(plan: Study, cell: Cell) -> Iterator[Cell]:
    for rule in plan.coefficient_rule:
        if rule == BALANCE:
            yield from (replace(cell, multiple=multiple) for multiple in plan.multiples)
        elif rule != VALIDATED:
            yield replace(cell, coefficient=float(rule))


def _cell(group: Group, seed: int, method: str) -> Cell:
    return Cell(group.stream, group.backbone, group.host, group.preset, seed, method)


def input_hash(view: RunView, stream: Stream) -> str:
    """sha256 of what the runs of a pair share.

    Read: the run's settings but method and coefficient, the sha256 of its base's weights, the stream's
    content, and, as it was logged when it ran, the sha256 of each update's initial rows. Made again from
    these by the code that trains: each update's replay buffer, and every step of every pass, facts in their
    order and their negatives.
    """
    config = view.config
    shared = config.model_dump(mode="json", exclude={*UNSHARED, "stream", "data_dir", "base_model"})
    digest = hashlib.sha256(json.dumps(shared, sort_keys=True, allow_nan=False).encode())
    digest.update(stream.content_hash().encode())
    digest.update(view.manifest["sha256"][f"{update_name(0)}/{MODEL}"].encode())
    host, rows = host_of(config), _initial_rows(view)
    for number in stream.updates:
        update = update_of(config, stream, number)
        digest.update(np.ascontiguousarray(update.replay.fact).tobytes())
        digest.update((rows.get(number) or _made_again(view, update)).encode())
        Training.begin(host, view.model(number), update)
        for pass_number in range(host.stage.plan.passes):
            steps = host.steps(pass_number)
            for index in range(len(steps)):
                step = steps[index]
                for part in (step.batch.fact, step.batch.negative, step.batch.replaced, step.replay):
                    digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _initial_rows(view: RunView) -> dict[int, str]:
    """By update, what the run logged when it was grown; one that was stopped may say it twice."""
    view.verified(LOG)
    return {
        int(event["update"]): str(event["rows_sha256"])
        for event in view.events()
        if event.get("event") == "grown" and "rows_sha256" in event
    }


def _made_again(view: RunView, update: Update) -> str:
    """Initial rows whose line a power cut took from the log."""
    return rows_sha256(grown(view.config, view.model(update.number - 1), update, view.model(0)), update)


def reference_hash(view: RunView, stream: Stream) -> str | None:
    """sha256 of the ids a penalty compares with; methods with the same kind of reference share them all.

    At each update: who is eligible, every scale sample, and the references of 64 addressed occurrences (all
    would take longer than some runs; each is drawn from the same cells by its own address).
    """
    config = view.config
    if not is_penalized(config.method):
        return None
    digest = hashlib.sha256()
    for update in stream.updates:
        references = comparison_of(config, stream, update).references
        cohort = references.cohort
        drawn = references.draw(sample_records(cohort, HASHED)).id
        for part in (cohort.n_newcomers, cohort.n_pool, cohort.scale, drawn):
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
