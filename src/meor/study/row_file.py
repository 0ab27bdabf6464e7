"""The row of a finished cell: what its run says, the hashes that prove its pair, the file it is kept in."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from meor.errors import MeorError, StudyError
from meor.evaluation.endpoints import overall
from meor.methods import METHODS, current_name, needs_coefficient
from meor.run.layout import MODEL, is_run
from meor.run.prepare import host_of
from meor.run.records_file import active_share
from meor.run.view import RunView
from meor.storage.disk import Disk, commit_file
from meor.storage.json_file import read_sealed, sealed
from meor.stream.snapshot import Stream
from meor.study.cells import VALID, StudyCell, judged_by
from meor.study.keys import BALANCE
from meor.study.plan import PAIR, Study
from meor.study.rows import ENDPOINTS, UNREGULARIZED, Row, check_identity, row_of
from meor.study.shared import pair_hash, reference_hash, schedule_hash

FORMAT = 2


class OtherSettingsError(StudyError):
    """A cell that is whole, and not the one that is wanted: to make it again would lose it."""


def row_path(run: Path) -> Path:
    """Where the row of a run folder lies."""
    return run.with_name(f"{run.name}.json")


def row_of_run(
    plan: Study, cell: StudyCell, view: RunView, stream: Stream, *, place: str, coefficient: float
) -> Row:
    """What a finished run says of itself; `place` is its folder below those of the study."""
    named = view.endpoints()[judged_by(plan, cell)]
    values: dict[str, Any] = {name: named[name]["value"] for name in ENDPOINTS}
    partial = {name: whole for name in ENDPOINTS if (whole := overall(named[name])).partial}
    existing: dict[str, Any] = {f"{name}_existing": whole.value for name, whole in partial.items()}
    rule = UNREGULARIZED if not needs_coefficient(cell.method) else BALANCE
    if cell.coefficient is not None:
        rule = repr(cell.coefficient)
    shared = plan.schedule == PAIR and host_of(view.config).validation is None
    return Row(
        study=plan.study,
        **asdict(cell.group),
        coefficient_rule=rule,
        pair=cell.seed,
        method=cell.method,
        **values,
        coefficient=coefficient,
        active_share=None if METHODS[cell.method].variant is None else active_share(view, stream),
        pair_hash=pair_hash(view, stream),
        schedule_hash=schedule_hash(view, stream) if shared else None,
        multiple=cell.multiple,
        reference_hash=reference_hash(view, stream),
        run=place,
        **existing,
        **_on_validation(plan, view),
        curve=cell.curve,
        at=cell.at,
        existing_cells=", ".join(f"{name} {whole.counted}" for name, whole in partial.items()) or None,
    )


def _on_validation(plan: Study, view: RunView) -> dict[str, Any]:
    if VALID not in plan.judged[1:]:
        return {}
    found = view.endpoints()[VALID]
    return {f"{name}_valid": overall(found[name]).value for name in ENDPOINTS}


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
