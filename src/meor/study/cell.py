"""One cell, wherever it is executed: run it or go on with it, and say what came of it in one row."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Unpack

from filelock import FileLock

from meor.errors import MeorError, StudyError, is_interrupt
from meor.methods import METHODS, needs_coefficient
from meor.run.aside import balance_aside
from meor.run.classes import classes_hash
from meor.run.config import Config
from meor.run.control import CONTROL
from meor.run.dialled import keep
from meor.run.layout import ENDPOINTS, is_run
from meor.run.session import resume, start
from meor.run.trainer import Resources
from meor.run.view import RunView
from meor.storage.disk import Disk
from meor.stream.registry import open_stream
from meor.stream.rules import Reading
from meor.stream.snapshot import Stream
from meor.study.cells import StudyCell, is_source, judged_by
from meor.study.coefficient import kept_balance, read_balance, write_balance
from meor.study.protocol_row import lacks_protocols, protocol_columns
from meor.study.row_file import OtherSettingsError, read_row, require_intact, row_of_run, write_row
from meor.study.rows import Row
from meor.study.shared import scheduled
from meor.study.task import MARK, Outcome, Task, Weight, folder_of

Say = Callable[[str], object]


def run_cell(task: Task) -> Outcome:
    """Make a cell; whatever goes wrong becomes a sentence, so that the rest of the study goes on."""
    began = time.monotonic()
    said: list[str] = []
    try:
        row = _still_good(task, said.append)
        reused = row is not None
        row = row or _made(task, said.append)
        return Outcome(task.cell, row, None, time.monotonic() - began, reused, tuple(said))
    except MeorError as error:
        failure = str(error)
    except Exception as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        last = traceback.extract_tb(error.__traceback__)[-1]
        failure = f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"
    return Outcome(task.cell, None, failure, time.monotonic() - began, remarks=tuple(said))


def finished(task: Task) -> Row | None:
    """The row of a cell that was made before, by the same settings; finished cells are never redone."""
    if not task.row_file.is_file():
        return None
    row, settings = read_row(task.row_file)
    if settings != _settings(task):
        raise OtherSettingsError(
            f"{task.folder} was made with other settings. Name another --out, or remove that folder."
        )
    # Studies may share a folder of runs; the row is this study's.
    return replace(row, study=task.plan.study)


def _still_good(task: Task, say: Say) -> Row | None:
    """As `finished`, and its run is undamaged; a row or run that is damaged is said, and made again."""
    try:
        row = finished(task)
        if row is not None:
            require_intact(task.runs, row, judged_by(task.plan, task.cell))
            row = _as_the_field_ranks(task, row)
    except OtherSettingsError:
        raise
    except MeorError as error:
        say(f"{task.cell.name} is made again: {error}")
        return None
    if row is not None and task.cell.multiple is not None and read_balance(task.balance_file) is None:
        try:
            _weight(task, _stream_of(task), say)
        except MeorError as error:  # the row needs it no more
            say(f"{task.balance_file} cannot be made again: {error}")
    return row


def _made(task: Task, say: Say) -> Row:
    if not (task.runs / MARK).is_file():
        raise StudyError(
            f"{task.runs} is not visible here. Workers on other machines need the study's folder, the data "
            "and the cache under the same path."
        )
    stream = _stream_of(task)
    task.folder.parent.mkdir(parents=True, exist_ok=True)
    if (source := task.follows.made_from) is not None:
        return _derived(task, folder_of(task.runs, source), stream, say)
    weight = _weight(task, stream, say)
    if weight.coefficient == 0.0 and task.cell.multiple is not None:
        return _inactive(task, stream, say)
    return _run(task, stream, weight, say)


def _inactive(task: Task, stream: Stream, say: Say) -> Row:
    """Every multiple of a balanced coefficient of 0 is one and the same run: made once, as multiple 1."""
    one = replace(task, cell=replace(task.cell, multiple=1.0, curve=None, at=None))
    with FileLock(one.folder.with_name(f"{one.folder.name}.lock")):
        # What is wrong with this very cell was said when it was looked at first.
        row = _still_good(one, say if one.cell != task.cell else len) or _run(one, stream, Weight(0.0), say)
    if task.cell == one.cell:
        return row
    place = {"multiple": task.cell.multiple, "curve": task.cell.curve, "at": task.cell.at}
    return _kept(task, replace(row, **place))  # type: ignore[arg-type]


def _run(task: Task, stream: Stream, weight: Weight, say: Say) -> Row:
    config, other = task.cell.config(task.plan, weight.coefficient, weight.begins), task.follows
    if other.as_long_as is not None:
        config = scheduled(config, _begun(task, other.as_long_as, stream, say), stream, other.times)
    start_of = None if other.starts_from is None else folder_of(task.runs, other.starts_from)
    _bring_to_the_end(task, config, stream, start_of, say)
    return _told(task, stream, config.coefficient or 0.0)


def _derived(task: Task, source: Path, stream: Stream, say: Say) -> Row:
    """From a finished run, without training: its newcomers' rows scaled, or its scores transformed."""
    view, cell = RunView.open(source), task.cell
    if METHODS[cell.method].kind == "transform":
        nothing = dict.fromkeys(("coefficient", "lift", "shrink"))
        own = {**nothing, "method": cell.method, "coefficient_from": 1}
        _bring_to_the_end(task, view.config.model_copy(update=own), stream, source, say)
    else:
        assert cell.at is not None  # noqa: S101  (it stands on a curve)
        keep(view, cell.at, task.folder, stream=stream, resources=_resources(task), force=True)
    return _told(task, stream, view.endpoints().get(CONTROL, {}).get("coefficient", 0.0))


def _told(task: Task, stream: Stream, coefficient: float) -> Row:
    place, view = task.folder.relative_to(task.runs).as_posix(), RunView.open(task.folder)
    made = row_of_run(task.plan, task.cell, view, stream, place=place, coefficient=coefficient)
    row = _as_the_field_ranks(task, _kept(task, made))
    needed = task.cell == task.cell.alone or is_source(task.plan, task.cell)
    if not (task.means.keep_weights or needed):
        # `ranks.parquet` is enough to recompute the study.
        for path in sorted(task.folder.glob("update-*/model.safetensors")):
            Disk().remove(path)
    return row


def _as_the_field_ranks(task: Task, row: Row) -> Row:
    """With the figures of the field's protocols, where the study asks for them and the row has none yet."""
    if not lacks_protocols(task.plan, task.cell, row):
        return row
    view, stream = RunView.open(task.runs / row.run), _opened(task.cell.group.stream, task.means.data_dir)
    figures: dict[str, Any] = {**protocol_columns(view, stream, task.means.memory)}
    return _kept(task, replace(row, **figures))


def _kept(task: Task, row: Row) -> Row:
    write_row(task.row_file, row, _settings(task))
    return row


def _resources(task: Task, alone: Path | None = None) -> Resources:
    means = task.means
    return Resources(
        threads=1,
        memory=means.memory,
        cache=means.cache,
        checkpoint_seconds=means.checkpoint_seconds,
        alone=alone,
    )


def _bring_to_the_end(task: Task, config: Config, stream: Stream, alone: Path | None, say: Say) -> None:
    resources = _resources(task, alone)
    if not is_run(task.folder):
        start(config, task.folder, stream=stream, resources=resources)
        return
    try:
        begun = RunView.open(task.folder).config
    except MeorError as error:  # a cell's settings are known, so even these can be made again
        say(f"{task.cell.name} is made again from its beginning: {error}")
        start(config, task.folder, stream=stream, resources=resources, force=True)
        return
    if begun != config:
        raise StudyError(
            f"{task.folder} was begun with other settings. Name another --out, or remove that folder."
        )
    resume(task.folder, stream=stream, resources=resources)


def _weight(task: Task, stream: Stream, say: Say) -> Weight:
    """What multiplies the penalty: a given number, or a multiple of the pair's balanced coefficient."""
    cell = task.cell
    if not needs_coefficient(cell.method):
        return Weight(None)
    if cell.coefficient is not None:
        return Weight(cell.coefficient)
    if task.lacks_only_balance:
        aside = balance_aside(cell.config(task.plan), task.runs, stream=stream, resources=_resources(task))
        if not aside.is_inactive:
            write_balance(task.balance_file, aside)
    found = read_balance(task.balance_file)
    if found is None:
        alone = _begun(task, cell.alone, stream, say)
        found = kept_balance(task.balance_file, alone, stream, cell.method, say)
    if found.is_inactive:
        return Weight(0.0)
    return Weight(float((cell.multiple or 1.0) * found.coefficient), found.update)


def _begun(task: Task, cell: StudyCell, stream: Stream, say: Say) -> RunView:
    """The run of the pair that this one follows."""
    folder, own = folder_of(task.runs, cell), replace(task, cell=cell)
    if not (folder / ENDPOINTS).is_file():
        if not own.row_file.is_file():
            raise StudyError(f"{task.cell.name} starts from {cell.name}, which failed.")
        with FileLock(folder.with_name(f"{folder.name}.lock")):  # others of the pair may need it too
            if not (folder / ENDPOINTS).is_file():
                say(f"{cell.name} is made again: its row counts without it, but {task.cell.name} needs it")
                _run(own, stream, Weight(None), say)
    return RunView.open(folder)


def _settings(task: Task) -> dict[str, Any]:
    """What must not have changed since a cell was made; where inputs lie may."""
    source = task.follows.made_from
    config = (source or task.cell).config(task.plan)
    found: dict[str, Any] = config.model_dump(mode="json", exclude={"data_dir"})
    if config.refine.classes is not None:
        found["refine"]["classes"] = classes_hash(config)
    return found if source is None else {**found, "method": task.cell.method, "made_from": source.name}


def _stream_of(task: Task) -> Stream:
    return _opened(task.cell.group.stream, task.means.data_dir, **task.cell.config(task.plan).reading)


@lru_cache(maxsize=2)
def _opened(name: str, data_dir: Path | None, **rules: Unpack[Reading]) -> Stream:
    """Read once in each process: cells of a study mostly share their stream. What it drops is said once."""
    return open_stream(name, data_dir=data_dir, report=lambda _: None, **rules)
