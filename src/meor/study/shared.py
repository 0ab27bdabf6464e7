"""What the runs of a pair share: the steps that its host alone decided, and hashes that prove the rest."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from meor.errors import StudyError
from meor.methods import needs_coefficient
from meor.methods.comparison import sample_records
from meor.run.config import Config
from meor.run.layout import LOG, MODEL, update_name
from meor.run.pair import UNSHARED
from meor.run.prepare import grown, host_of, update_of
from meor.run.records_file import comparison_of
from meor.run.settings import LENGTH, STOPPING, Refine
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.training.host import Update
from meor.training.initialise import rows_sha256
from meor.training.training import Training

START = frozenset({"newcomer_init", "replay_size", "buffer"})
"""Of `refine`: what an update starts from. The rest of it says how it is trained."""

HASHED = 64
"""Occurrences of an update whose references are hashed."""


def pair_hash(view: RunView, stream: Stream) -> str:
    """sha256 of what makes runs a pair: stream, base, seed, initial rows, buffers, and how they are judged.

    Read: the run's settings that are no method's own, the sha256 of its base's weights, the stream's content,
    and, as it was logged when it ran, the sha256 of each update's initial rows. Made again from these: each
    update's replay buffer.
    """
    config = view.config
    apart = {*UNSHARED, "dial", "penalty", "refine", "stream", "data_dir", "base_model"}
    shared = config.model_dump(mode="json", exclude=apart)
    shared["refine"] = config.refine.model_dump(mode="json", include=set(START))
    digest = _digest(shared)
    digest.update(stream.content_hash().encode())
    digest.update(view.manifest["sha256"][f"{update_name(0)}/{MODEL}"].encode())
    rows = _initial_rows(view)
    for number in stream.updates:
        update = update_of(config, stream, number)
        digest.update(np.ascontiguousarray(update.replay.fact).tobytes())
        digest.update((rows.get(number) or _made_again(view, stream, update)).encode())
    return digest.hexdigest()


def schedule_hash(view: RunView, stream: Stream) -> str:
    """sha256 of how a run was trained: its rate, and every step that made its rows.

    Made again by the code that trains: facts in their order, and their negatives.
    """
    config, host = view.config, host_of(view.config)
    digest = _digest(config.refine.model_dump(mode="json", exclude={*START, *LENGTH, *STOPPING, "classes"}))
    for number, passes in passes_made(view, stream).items():
        update = update_of(config, stream, number)
        training, opened = Training.begin(host, view.model(number), update), True
        while opened:
            for pass_number in range(min(passes, host.stage.plan.passes)):
                steps = host.steps(pass_number)
                for step in (steps[index] for index in range(len(steps))):
                    for part in (step.batch.fact, step.batch.negative, step.batch.replaced, step.replay):
                        digest.update(np.ascontiguousarray(part).tobytes())
            opened = training.open_next_stage()
    return digest.hexdigest()


def passes_made(view: RunView, stream: Stream) -> dict[int, int]:
    """By update, the passes that made its rows: up to the best validation where it stopped by itself."""
    if not view.config.refine.validate_steps:
        host = host_of(view.config)
        return {number: host.plan_of(Update.of(stream, number)).passes for number in stream.updates}
    kept = {event["update"]: event["kept_pass"] for event in _events(view, "updated")}
    if missing := [number for number in stream.updates if number not in kept]:
        raise StudyError(
            f"{view.path}: {LOG} has lost the line of update {missing[0]}, which says how long it was "
            "trained. Remove the folder; the study's command makes the run again."
        )
    # An update that brings no row to train makes no pass; a schedule says at least one.
    return {number: max(1, kept[number]) for number in stream.updates}


def scheduled(config: Config, alone: RunView, stream: Stream, times: float = 1.0) -> Config:
    """The same run, trained for as long as the pair's host alone was, or `times` as long."""
    if not config.refine.validate_steps and times == 1.0:
        return config
    passes = tuple(max(1, round(times * made)) for made in passes_made(alone, stream).values())
    said = {**config.refine.model_dump(), "schedule": passes, "validate_steps": 0}
    said.pop("steps", None)
    # Read, not copied: how it would have stopped by itself is gone, as in the run's own config.yaml.
    return config.model_copy(update={"refine": Refine.model_validate(said)})


def _digest(content: dict[str, Any]) -> hashlib._Hash:
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode())


def _events(view: RunView, name: str) -> list[dict[str, Any]]:
    view.verified(LOG)
    return [event for event in view.events() if event.get("event") == name]


def _initial_rows(view: RunView) -> dict[int, str]:
    """By update, what the run logged when it was grown; one that was stopped may say it twice."""
    return {
        int(event["update"]): str(event["rows_sha256"])
        for event in _events(view, "grown")
        if "rows_sha256" in event
    }


def _made_again(view: RunView, stream: Stream, update: Update) -> str:
    """Initial rows whose line a power cut took from the log."""
    models = view.model(update.number - 1), update, view.model(0)
    return rows_sha256(grown(view.config, stream, *models), update)


def reference_hash(view: RunView, stream: Stream) -> str | None:
    """sha256 of the ids a penalty compares with; methods with the same kind of reference share them all.

    At each update: who is eligible, every scale sample, and the references of 64 addressed occurrences (all
    would take longer than some runs; each is drawn from the same cells by its own address).
    """
    config = view.config
    if not needs_coefficient(config.method):
        return None
    digest = hashlib.sha256()
    for update in stream.updates:
        references = comparison_of(config, stream, update).references
        cohort = references.cohort
        drawn = references.draw(sample_records(cohort, HASHED)).id
        for part in (cohort.n_newcomers, cohort.n_pool, cohort.scale, drawn):
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
