"""`meor.run`: train a base, grow it through every update, and measure what newcomers cost."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from meor.calls.progress import on_stderr, watcher
from meor.errors import ConfigError
from meor.escape import file_name, markup
from meor.evaluation.pykeen_folder import MODEL as SAVED
from meor.evaluation.pykeen_folder import is_pykeen, read_pykeen
from meor.heap import parse_bytes
from meor.methods import METHODS
from meor.run.config import Config
from meor.run.layout import ENDPOINTS, state_of
from meor.run.session import start
from meor.run.trainer import Resources
from meor.run.view import RunView
from meor.storage.parquet import byte_budget
from meor.stream.registry import WORLD, find_entry
from meor.stream.snapshot import Stream

if TYPE_CHECKING:
    from meor.calls.drawing import Drawing

BASE_FILES = {
    "entity": ("entity.npy", "entity.safetensors", "model.safetensors"),
    "relation": ("relation.npy", "relation.safetensors"),
    "vocabulary": ("vocabulary.tsv", "vocabulary.txt"),
}


@dataclass(frozen=True, slots=True, repr=False)
class Run(RunView):
    """A run folder, as a notebook shows it."""

    given: Stream | None = None  # the stream it was made from, where that was given in memory

    @classmethod
    def of(cls, view: RunView, given: Stream | None = None) -> Self:
        return cls(view.manifest, view.config, view.files, given)

    def stream(self, data_dir: Path | None = None) -> Stream:
        return RunView.stream(self, data_dir) if self.given is None else self.given

    def plot(self) -> Drawing:
        """What the facts of snapshot 0 lose at each update."""
        from meor.calls.drawing import fall_drawing
        from meor.report.evidence import ranks_of
        from meor.report.svg import method_key
        from meor.report.words import method_name

        method = self.config.method
        return fall_drawing(method_name(method), method_key(method), ranks_of(self))

    def __repr__(self) -> str:
        config = self.config
        made = f"{config.stream}, {config.backbone}, {config.host.name}, {config.method}, seed {config.seed}"
        state = "" if self.complete else f" ({state_of(self.path)})"
        ends = f"; {self.endpoints()!r}" if self.has(ENDPOINTS) else ""
        return f"Run {self.path}{state}: {made}{ends}"

    def _repr_html_(self) -> str:
        head = f"<p><b>{markup(repr(self).partition(';')[0])}</b></p>"
        return head + (self.endpoints()._repr_html_() if self.has(ENDPOINTS) else "")


def run(
    stream: Stream | Path | str | None = None,
    *,
    backbone: str | None = None,
    host: str | Mapping[str, Any] | None = None,
    method: str | None = None,
    preset: str | None = None,
    seed: int | None = None,
    out: Path | str | None = None,
    config: Path | str | None = None,
    settings: Mapping[str, Any] | Iterable[str] = (),
    base: Path | str | None = None,
    base_relation: Path | str | None = None,
    base_vocabulary: Path | str | None = None,
    base_layout: str | None = None,
    force: bool = False,
    threads: int | None = None,
    memory: str = "1GiB",
    cache: Path | str | None = None,
    checkpoint_seconds: float = 30.0,
    quiet: bool = False,
    data_dir: Path | str | None = None,
    duplicates: str | None = None,
    unseen: str | None = None,
    columns: str | None = None,
) -> Run:
    """What `meor run` does: every option is a keyword, and `settings` are those of `config.yaml`.

    `settings` are nested or have dotted keys, `{"dim": 64, "base.epochs": 50}`, or are texts such as `--set`
    takes. `stream` is a name, a path or a `Stream`; of a `Stream` the folder records the name alone, so that
    commands look for it under that name.
    """
    given = stream if isinstance(stream, Stream) else None
    base_folder = _path(base)
    flags: dict[str, Any] = {
        "stream": given.name if given else None if stream is None else stream_setting(str(stream)),
        "backbone": backbone,
        "host": host,
        "method": method,
        "preset": preset,
        "seed": seed,
        "data_dir": None if data_dir is None else str(Path(data_dir).absolute()),
        "base_model": base_files(base_folder, _path(base_relation), _path(base_vocabulary), base_layout),
        "duplicates": duplicates,
        "unseen": unseen,
        "columns": columns,
    }
    if base_folder is not None and is_pykeen(base_folder) and backbone is None and config is None:
        flags["backbone"] = read_pykeen(base_folder).backbone
    chosen = Config.gather(_path(config), flags=flags, sets=settings)
    target = _path(out) or default_out(chosen)
    used = resources(threads, memory, _path(cache), checkpoint_seconds)
    with byte_budget(used.memory), watcher(on_stderr(), quiet=quiet) as shown:
        said = f"method {chosen.method}: {METHODS[chosen.method].sentence}" if method is None else ""
        start(chosen, target, stream=given, resources=used, watcher=shown, force=force, greeting=said)
    return Run.of(RunView.open(target), given)


def open_run(path: Path | str) -> Run:
    """A run folder that is there, complete or not."""
    return Run.of(RunView.open(Path(path)))


def _path(given: Path | str | None) -> Path | None:
    return None if given is None else Path(given)


def stream_setting(given: str) -> str:
    """A name as it is; a path in full, so that `meor resume` finds it from any folder."""
    is_name = given.casefold() == WORLD or find_entry(given) is not None
    return given if is_name or not os.path.lexists(given) else str(Path(given).absolute())


def default_out(config: Config) -> Path:
    name = file_name(Path(config.stream).name) or "stream"
    learner = config.backbone if config.host.name == "replay" else config.host.name
    return Path("runs") / f"{name}-{learner}-{config.method}-s{config.seed}"


def base_files(
    base: Path | None, relation: Path | None, vocabulary: Path | None, layout: str | None = None
) -> dict[str, str] | None:
    """The files behind --base, as settings."""
    given = {"entity": base, "relation": relation, "vocabulary": vocabulary}
    stated = {} if layout is None else {"layout": layout}
    if base is None:
        if any((relation, vocabulary, layout)):
            raise ConfigError(
                "--base-relation, --base-vocabulary and --base-layout belong to --base",
                remedy="Give --base too",
            )
        return None
    if is_pykeen(base):
        if any((relation, vocabulary, layout)):
            raise ConfigError(f"{base} brings its own relations and labels", remedy="Give --base alone")
        given["entity"] = base / SAVED
    elif base.is_dir():
        for kind, names in BASE_FILES.items():
            there = next((base / name for name in names if (base / name).is_file()), None)
            given[kind] = there if kind == "entity" else given[kind] or there
        if given["entity"] is None:
            wanted = ", ".join(BASE_FILES["entity"])
            raise ConfigError(f"{base} holds none of {wanted}", remedy="Name the file of the entity rows")
    files = {kind: str(path.absolute()) for kind, path in given.items() if path is not None}
    return {**files, **stated}


def resources(threads: int | None, memory: str, cache: Path | None, checkpoint_seconds: float) -> Resources:
    return Resources(
        threads=threads or len(os.sched_getaffinity(0)),
        memory=parse_bytes(memory),
        cache=cache,
        checkpoint_seconds=checkpoint_seconds,
    )
