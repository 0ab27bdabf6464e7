"""The row of a finished cell: what its run says, the hashes that prove its pair, the file it is kept in."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from meor.errors import MeorError, StudyError
from meor.evaluation.endpoints import overall
from meor.methods import current_name, is_penalized
from meor.methods.comparison import sample_records
from meor.run.layout import LOG, MODEL, is_run, update_name
from meor.run.pair import UNSHARED
from meor.run.prepare import grown, host_of, update_of
from meor.run.records_file import active_share, comparison_of
from meor.run.view import RunView
from meor.storage.disk import Disk, commit_file
from meor.storage.json_file import read_sealed, sealed
from meor.stream.snapshot import Stream
from meor.study.cells import StudyCell
from meor.study.plan import BALANCE
from meor.study.rows import ENDPOINTS, UNREGULARIZED, Row, check_identity, row_of
from meor.training.host import Update
from meor.training.initialise import rows_sha256
from meor.training.training import Training

FORMAT = 2
HASHED = 64
"""Occurrences of an update whose references are hashed."""


class OtherSettingsError(StudyError):
    """A cell that is whole, and not the one that is wanted: to make it again would lose it."""


def row_path(run: Path) -> Path:
    """Where the row of a run folder lies."""
    return run.with_name(f"{run.name}.json")


def row_of_run(
    study: str, cell: StudyCell, view: RunView, stream: Stream, *, place: str, coefficient: float
) -> Row:
    """What a finished run says of itself; `place` is its folder below those of the study."""
    named = view.endpoints()[cell.split]
    values: dict[str, Any] = {name: named[name]["value"] for name in ENDPOINTS}
    partial = {name: whole for name in ENDPOINTS if (whole := overall(named[name])).partial}
    existing: dict[str, Any] = {f"{name}_existing": whole.value for name, whole in partial.items()}
    rule = UNREGULARIZED if not is_penalized(cell.method) else BALANCE
    if cell.coefficient is not None:
        rule = repr(cell.coefficient)
    return Row(
        study=study,
        **asdict(cell.group),
        coefficient_rule=rule,
        pair=cell.seed,
        method=cell.method,
        **values,
        coefficient=coefficient,
        active_share=None if not is_penalized(cell.method) else active_share(view, stream),
        input_hash=input_hash(view, stream),
        multiple=cell.multiple,
        reference_hash=reference_hash(view, stream),
        run=place,
        **existing,
        existing_cells=", ".join(f"{name} {whole.counted}" for name, whole in partial.items()) or None,
    )


def write_row(path: Path, row: Row, settings: dict[str, Any]) -> None:
    commit_file(Disk(), path, sealed({"format": FORMAT, "settings": settings, "row": asdict(row)}))


def read_row(path: Path) -> tuple[Row, dict[str, Any]]:
    """A row and the settings that it was made with; whatever is wrong with the file is a `MeorError`."""
    content = read_sealed(path)
    if content.get("format") != FORMAT or set(content) != {"format", "settings", "row"}:
        raise StudyError(f"{path} is no row of a study of format {FORMAT}.")
    try:
        row = row_of(content["row"])
        check_identity(row)
        settings = dict(content["settings"])
        return row, {**settings, "method": current_name(settings["method"])}
    except (TypeError, ValueError, KeyError) as error:
        raise StudyError(f"{path} holds no row of a study ({error}).") from None


def require_intact(runs: Path, row: Row, split: str) -> None:
    """The files of the run behind a row, and that the row says what they say.

    Weights are verified by whoever reads them: a row needs none, and a study may have dropped them. A run
    folder that is not there is none either: rows count without it.
    """
    folder = runs / row.run
    if not is_run(folder):
        return
    view = RunView.open(folder)
    for name in view.manifest["sha256"]:
        if not name.endswith(f"/{MODEL}"):
            view.verified(name)
    stored = view.endpoints().get(split, {})
    for name in ENDPOINTS:
        told = stored.get(name, {}).get("value")
        if told != row.endpoint(name):
            raise StudyError(f"{folder} says {name} {told}, but its row says {row.endpoint(name)}.")


def input_hash(view: RunView, stream: Stream) -> str:
    """sha256 of what the runs of a pair share.

    Read: the run's settings but method and coefficient, the sha256 of its base's weights, the stream's
    content, and, as it was logged when it ran, the sha256 of each update's initial rows. Made again from
    these by the code that trains: each update's replay buffer, and every step of every pass, facts in their
    order and their negatives.
    """
    config = view.config
    shared = config.model_dump(mode="json", exclude={*UNSHARED, "dial", "stream", "data_dir", "base_model"})
    digest = hashlib.sha256(json.dumps(shared, sort_keys=True, allow_nan=False).encode())
    digest.update(stream.content_hash().encode())
    digest.update(view.manifest["sha256"][f"{update_name(0)}/{MODEL}"].encode())
    host, rows = host_of(config), _initial_rows(view)
    for number in stream.updates:
        update = update_of(config, stream, number)
        digest.update(np.ascontiguousarray(update.replay.fact).tobytes())
        digest.update((rows.get(number) or _made_again(view, update)).encode())
        training, opened = Training.begin(host, view.model(number), update), True
        while opened:
            for pass_number in range(host.stage.plan.passes):
                steps = host.steps(pass_number)
                for step in (steps[index] for index in range(len(steps))):
                    for part in (step.batch.fact, step.batch.negative, step.batch.replaced, step.replay):
                        digest.update(np.ascontiguousarray(part).tobytes())
            opened = training.open_next_stage()
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


def refuse_damaged_rows(places: tuple[Path, ...], rows: tuple[Row, ...]) -> None:
    """For readers: every row file that is here is what was written."""
    for run in dict.fromkeys(row.run for row in rows):
        for place in places:
            path = row_path(place / run)
            if path.is_file():
                _refuse(path)
                break


def _refuse(path: Path) -> None:
    try:
        read_row(path)
    except MeorError as error:
        raise StudyError(f"{error} The study's command makes it again (`meor study ...`).") from None
