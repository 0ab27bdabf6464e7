"""`meor.study`: paired runs of several methods, their effects and tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meor.calls.progress import on_stderr
from meor.calls.run import stream_setting
from meor.calls.study_progress import observer
from meor.errors import StudyError
from meor.escape import markup, shell
from meor.heap import parse_bytes
from meor.run.assignment import flat
from meor.storage.parquet import byte_budget
from meor.study.conduct import Findings, conduct
from meor.study.execute import executor_of
from meor.study.plan import Study
from meor.study.results import Results
from meor.study.rows import RUNS
from meor.study.table import Table, write_tables
from meor.study.tables import EFFECTS_COLUMNS, Beside, effects_lines, study_tables, write_effects
from meor.study.task import Means
from meor.tabular import Rows

if TYPE_CHECKING:
    from meor.calls.drawing import Drawing
    from meor.report.study_data import StudyData

Names = Sequence[str] | str | None
COMMAND = "command.txt"


@dataclass(frozen=True, slots=True, repr=False)
class StudyView:
    """The folder of a study, as a notebook shows it."""

    path: Path
    runs: Path | None = None  # where its runs are, if not in its folder
    holm: bool = False  # do effects on H_cur have p-values adjusted by Holm?
    found: Findings | None = None  # where it was made just now

    @property
    def data(self) -> StudyData:
        from meor.report.study_data import read_study

        return read_study(self.path, self.runs)

    @property
    def effects(self) -> Rows:
        """Every paired effect with its bounds, at full precision: the content of effects.csv."""
        data = self.data
        lines = effects_lines(data.plan, data.rows, holm=self.holm)
        rows = (dict(zip(EFFECTS_COLUMNS, line, strict=True)) for line in lines)
        return Rows("paired effects", rows, EFFECTS_COLUMNS)

    def plot(self) -> Drawing:
        """Every paired effect with its interval and bound, a figure per setting."""
        from meor.calls.drawing import Drawing
        from meor.report.page import Figure
        from meor.report.study_effects import effects

        return Drawing([block for block in effects(self.data).blocks if isinstance(block, Figure)])

    def __repr__(self) -> str:
        data = self.data
        failed = f", {len(data.failures)} failed" if data.failures else ""
        return f"Study {self.path}: {data.name}, {len(data.rows)} runs{failed}, {self.effects!r}"

    def _repr_html_(self) -> str:
        return f"<p><b>{markup(repr(self))}</b></p>{self.effects._repr_html_()}"


def study(
    study: Path | str,
    *,
    out: Path | str | None = None,
    pairs: int | None = None,
    stream: Names = None,
    backbone: Names = None,
    host: Names = None,
    preset: Names = None,
    rule: Names = None,
    method: Names = None,
    table: Names = None,
    settings: Mapping[str, Any] | Iterable[str] = (),
    workers: int | None = None,
    executor: str | None = None,
    runs: Path | str | None = None,
    weights: bool = True,
    memory: str = "1GiB",
    cache: Path | str | None = None,
    checkpoint_seconds: float = 30.0,
    data_dir: Path | str | None = None,
    duplicates: str | None = None,
    unseen: str | None = None,
    columns: str | None = None,
    holm: bool = False,
    quiet: bool = False,
    strict: bool = True,
    command: str | None = None,
) -> StudyView:
    """What `meor study` does: every option is a keyword, and what may be repeated takes a list.

    The same call goes on where it stopped. Where runs failed, it ends in an error that names the first once
    all others are made; with `strict=False` it does not, and `open_study` shows what is there in any case.
    `command` is what command.txt says: made from the arguments where it is not given.
    """
    several = {"stream": stream, "backbone": backbone, "host": host, "preset": preset, "rule": rule}
    named = {key: _listed(value) for key, value in {**several, "method": method, "table": table}.items()}
    if named["stream"] is not None:
        named["stream"] = [stream_setting(name) for name in named["stream"]]
    changes = {"rule": "coefficient_rule", "method": "methods", "table": "tables"}
    sets = [*_reading(duplicates, unseen, columns), *_sets(settings)]
    plan = Study.load(
        str(study),
        changes={"pairs": pairs, **{changes.get(key, key): value for key, value in named.items()}},
        sets=sets,
    )
    target = Path("results") / plan.study if out is None else Path(out)
    place, data, kept = (None if each is None else Path(each) for each in (runs, data_dir, cache))
    means = Means(
        runs=place,
        data_dir=None if data is None else data.absolute(),
        cache=None if kept is None else kept.absolute(),
        memory=parse_bytes(memory),
        checkpoint_seconds=checkpoint_seconds,
        keep_weights=weights,
    )
    chosen = executor_of(executor, workers)
    ones = {"out": out, "pairs": pairs, "runs": runs, "data-dir": data_dir}
    typed = command or _command(str(study), {**named, "set": sets, **ones}, holm=holm, weights=weights)
    with byte_budget(means.memory), observer(on_stderr(), chosen.workers, quiet=quiet) as shown:
        keep = partial(_write, target, command=typed, holm=holm)
        try:
            found = conduct(plan, target, executor=chosen, means=means, observer=shown, keep=keep)
        except KeyboardInterrupt:
            shown.say("The same command goes on where it stopped.")
            raise
    if strict:
        tell_failures(found)
    return StudyView(target, place, holm, found)


def open_study(path: Path | str, runs: Path | str | None = None, *, holm: bool = False) -> StudyView:
    """The folder of a study, whole or in part."""
    if not (Path(path) / RUNS).is_file():
        raise StudyError(
            f"{path} is not the folder of a study: it has no {RUNS}. Make one with `meor study`."
        )
    return StudyView(Path(path), None if runs is None else Path(runs), holm)


def _listed(names: Names) -> list[str] | None:
    return None if names is None else [str(names)] if isinstance(names, str | Path) else [*map(str, names)]


def _reading(duplicates: str | None, unseen: str | None, columns: str | None) -> list[str]:
    rules = {"duplicates": duplicates, "unseen": unseen, "columns": columns}
    return [f"{name}={json.dumps(rule)}" for name, rule in rules.items() if rule is not None]


def _sets(settings: Mapping[str, Any] | Iterable[str]) -> list[str]:
    """As `--set` takes them."""
    if not isinstance(settings, Mapping):
        return [*settings]
    return [
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in flat(settings)
    ]


def _command(study: str, options: Mapping[str, Any], *, holm: bool, weights: bool) -> str:
    """The command that makes the same results, wherever the study was made from."""
    words = ["meor", "study", study]
    for name, value in options.items():
        for each in value if isinstance(value, list) else [] if value is None else [value]:
            words += [f"--{name}", str(each)]
    words += ["--holm"] * holm + ["--no-weights"] * (not weights)
    return shell(words)


def _write(out: Path, found: Findings, *, command: str, holm: bool) -> None:
    Results(out).replace({COMMAND: f"{command}\n".encode()})
    write_effects(out, found.plan, found.rows, holm=holm)
    write_tables(out, tables_of(found, holm=holm))


def tables_of(found: Findings, *, holm: bool) -> list[Table]:
    beside = Beside(found.choices, found.popularity)
    return study_tables(found.plan, found.rows, found.balances, holm=holm, beside=beside)


def tell_failures(found: Findings) -> None:
    if found.failures:
        name, reason = next(iter(found.failures.items()))
        others = "The others are done. " if found.rows else ""
        raise StudyError(
            f"{len(found.failures)} of the study's runs failed; the first is {name}: {reason.rstrip('.')}. "
            f"{others}The same command tries the failed ones again."
        )
