"""One cell, wherever it is executed: run it or go on with it, and say what came of it in one row."""

from __future__ import annotations

import math
import time
import traceback
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from filelock import FileLock

from meor.errors import MeorError, StudyError
from meor.evaluation.rank import DEFAULT_MEMORY
from meor.run.checkpoint import read_json, to_json
from meor.run.config import Config
from meor.run.disk import Disk, commit_file
from meor.run.layout import RECORDS, is_run, update_name
from meor.run.runner import Resources
from meor.run.session import resume, start
from meor.run.view import RunView
from meor.stream.registry import open_stream
from meor.stream.snapshot import Stream
from meor.study.coefficient import kept_balance
from meor.study.pairing import Cell, input_hash, reference_hash
from meor.study.plan import BALANCE, UNPENALIZED, Study
from meor.study.rows import UNREGULARIZED, Row

MARK = "study.yaml"
"""Lies in the folder of runs; a worker that does not see it looks at another disk."""

ROW_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Task:
    """All that a process, here or on another machine, needs to make one cell."""

    plan: Study
    cell: Cell
    runs: Path
    data_dir: Path | None = None
    cache: Path | None = None
    memory: int = DEFAULT_MEMORY
    checkpoint_seconds: float = 30.0
    keep_weights: bool = True

    @property
    def folder(self) -> Path:
        return self.runs / self.cell.name

    @property
    def row_file(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.json")

    @property
    def balance_file(self) -> Path:
        return self.folder.with_name(f"{self.cell.method}-{self.cell.split}.balance.json")

    @property
    def replay_folder(self) -> Path:
        return self.runs / self.cell.replay.name


@dataclass(frozen=True, slots=True)
class Weight:
    """What multiplies a penalty, and from which update on."""

    coefficient: float | None
    begins: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """A row, or the reason why there is none."""

    cell: Cell
    row: Row | None
    failure: str | None
    seconds: float
    reused: bool = False


def run_cell(task: Task) -> Outcome:
    """Make a cell; whatever goes wrong becomes a sentence, so that the rest of the study goes on."""
    began = time.monotonic()
    try:
        row = finished(task)
        reused = row is not None
        return Outcome(task.cell, row or _made(task), None, time.monotonic() - began, reused)
    except MeorError as error:
        failure = str(error)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        failure = f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"
    return Outcome(task.cell, None, failure, time.monotonic() - began)


def finished(task: Task) -> Row | None:
    """The row of a cell that was made before, by the same settings; finished cells are never redone."""
    if not task.row_file.is_file():
        return None
    stored = read_json(task.row_file)
    if not isinstance(stored, dict) or stored.get("format") != ROW_FORMAT:
        raise StudyError(f"{task.row_file} is no row of a study. Remove it to make its run again.")
    if stored["settings"] != _settings(task):
        raise StudyError(
            f"{task.folder} was made with other settings. Name another --out, or remove that folder."
        )
    # Studies may share a folder of runs; the row is this study's.
    return Row(**{**stored["row"], "study": task.plan.study})


def _made(task: Task) -> Row:
    if not (task.runs / MARK).is_file():
        raise StudyError(
            f"{task.runs} is not visible here. Workers on other machines need the study's folder, the data "
            "and the cache under the same path."
        )
    stream = _opened(task.cell.stream, task.data_dir)
    task.folder.parent.mkdir(parents=True, exist_ok=True)
    weight = _weight(task, stream)
    if weight.coefficient == 0.0 and task.cell.multiple is not None:
        return _inactive(task, stream)
    return _run(task, stream, weight)


def _inactive(task: Task, stream: Stream) -> Row:
    """Every multiple of a balanced coefficient of 0 is one and the same run: made once, as multiple 1."""
    one = replace(task, cell=replace(task.cell, multiple=1.0))
    with FileLock(one.folder.with_name(f"{one.folder.name}.lock")):
        row = finished(one) or _run(one, stream, Weight(0.0))
    if task.cell == one.cell:
        return row
    return _kept(task, replace(row, multiple=task.cell.multiple))


def _run(task: Task, stream: Stream, weight: Weight) -> Row:
    config = task.cell.config(task.plan, weight.coefficient, weight.begins)
    endpoints = _brought_to_the_end(task, config, stream)
    row = _kept(task, _row(task, stream, endpoints, weight.coefficient or 0.0))
    if not task.keep_weights and task.cell.method != "replay":
        drop_weights(task.folder)
    return row


def _kept(task: Task, row: Row) -> Row:
    content = {"format": ROW_FORMAT, "settings": _settings(task), "row": asdict(row)}
    commit_file(Disk(), task.row_file, to_json(content))
    return row


def _brought_to_the_end(task: Task, config: Config, stream: Stream) -> dict[str, Any]:
    resources = Resources(
        threads=1,
        memory=task.memory,
        cache=task.cache,
        checkpoint_seconds=task.checkpoint_seconds,
        replay=None if task.cell.method == "replay" else task.replay_folder,
    )
    if not is_run(task.folder):
        return start(config, task.folder, stream=stream, resources=resources)
    if RunView.open(task.folder).config != config:
        raise StudyError(
            f"{task.folder} was begun with other settings. Name another --out, or remove that folder."
        )
    return resume(task.folder, stream=stream, resources=resources)


def _weight(task: Task, stream: Stream) -> Weight:
    """What multiplies the penalty: a given number, or a multiple of the pair's balanced coefficient."""
    cell = task.cell
    if cell.method in UNPENALIZED:
        return Weight(None)
    if cell.coefficient is not None:
        return Weight(cell.coefficient)
    if not is_run(task.replay_folder):
        raise StudyError(f"{cell.name} starts from {cell.replay.name}, which failed.")
    found = kept_balance(task.balance_file, RunView.open(task.replay_folder), stream, cell.method)
    if found.is_inactive:
        return Weight(0.0)
    return Weight(float((cell.multiple or 1.0) * found.coefficient), found.update)


def _row(task: Task, stream: Stream, endpoints: dict[str, Any], coefficient: float) -> Row:
    cell, view = task.cell, RunView.open(task.folder)
    named = endpoints[cell.split]
    values = {name: named[name]["value"] for name in ("H_cur", "H_old", "D_MCI", "A_TN", "A_QN")}
    rule = UNREGULARIZED if cell.method in UNPENALIZED else BALANCE
    if cell.coefficient is not None:
        rule = repr(cell.coefficient)
    return Row(
        study=task.plan.study,
        stream=cell.stream,
        backbone=cell.backbone,
        host=cell.host,
        preset=cell.preset,
        coefficient_rule=rule,
        pair=cell.seed,
        method=cell.method,
        **values,
        coefficient=coefficient,
        active_share=None if cell.method in UNPENALIZED else active_share(view, stream),
        input_hash=input_hash(view, stream),
        multiple=cell.multiple,
        reference_hash=reference_hash(view, stream),
        run=cell.name,
    )


def active_share(view: RunView, stream: Stream) -> float | None:
    """The share of active records among the eligible ones of all updates, at each update's final weights."""
    active = eligible = 0
    for update in stream.updates:
        name = f"{update_name(update)}/{RECORDS}"
        if not view.has(name):
            return None
        table = pq.ParquetFile(view.verified(name), memory_map=False).read(["excess", "active"])
        flags, excess = table["active"].to_pylist(), table["excess"].to_pylist()
        eligible += sum(value is not None and not math.isnan(value) for value in excess)
        active += sum(bool(flag) for flag in flags)
    return active / eligible if eligible else 0.0


def drop_weights(folder: Path) -> None:
    """Keep what a run says and not the tables behind it; `ranks.parquet` is enough to recompute the study."""
    for path in sorted(folder.glob("update-*/model.safetensors")):
        path.unlink()


def _settings(task: Task) -> dict[str, Any]:
    """What must not have changed since a cell was made; where inputs lie may."""
    found: dict[str, Any] = task.cell.config(task.plan).model_dump(mode="json", exclude={"data_dir"})
    return found


@lru_cache(maxsize=2)
def _opened(name: str, data_dir: Path | None) -> Stream:
    """Read once in each process: cells of a study mostly share their stream."""
    return open_stream(name, data_dir=data_dir)
