"""The row of a finished cell, in a file beside its run; and whether both are still what was written."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from meor.errors import MeorError, StudyError
from meor.methods import current_name
from meor.run.layout import MODEL, is_run
from meor.run.view import RunView
from meor.storage.disk import Disk, commit_file
from meor.storage.json_file import read_sealed, sealed
from meor.study.rows import ENDPOINTS, Row, check_identity, row_of

FORMAT = 2


class OtherSettingsError(StudyError):
    """A cell that is whole, and not the one that is wanted: to make it again would lose it."""


def row_path(run: Path) -> Path:
    """Where the row of a run folder lies."""
    return run.with_name(f"{run.name}.json")


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
