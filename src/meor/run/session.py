"""Start a run, or go on with one: everything outside of it is checked before its folder exists."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from meor.compiled import set_threads
from meor.errors import ConfigError, Interrupted, MeorError, NonFiniteError, RunError, is_interrupt
from meor.evaluation.endpoints import note, overall
from meor.methods import METHODS
from meor.methods.coefficient import (
    MULTIPLES,
    TRIAL_SEED_OFFSET,
    Balance,
    Candidate,
    best_multiple,
    end_of_grid,
    goes_on,
)
from meor.run.base_store import default_cache
from meor.run.config import Config
from meor.run.folder import RunFolder, make_free
from meor.run.given_base import given_base, with_width
from meor.run.layout import ENDPOINTS, LOG, VOCABULARY, is_run, vocabulary_bytes
from meor.run.prepare import check, content_of, host_of, remarks
from meor.run.runner import Runner
from meor.run.trainer import Resources, Watcher
from meor.run.view import RunView
from meor.storage.disk import Disk, explained
from meor.stream.registry import open_stream
from meor.stream.snapshot import Stream


def start(
    config: Config,
    out: Path,
    *,
    stream: Stream | None = None,
    resources: Resources | None = None,
    watcher: Watcher | None = None,
    force: bool = False,
    disk: Disk | None = None,
) -> dict[str, Any]:
    """Run to the end in a new folder; the content of endpoints.json.

    `stream` spares reading it again; `meor resume` will look for `config.stream`.
    """
    resources, watcher = resources or Resources(), watcher or Watcher()
    if stream is None:
        place = Path(config.data_dir) if config.data_dir else None
        stream = open_stream(config.stream, data_dir=place, **config.reading)
    config, config_hash = _fingerprinted(config, stream)
    check(config, stream, resources.memory)
    use_threads(resources.threads)
    make_free(out, force=force)
    with _resumable(out):
        begun = RunFolder.begin(out, config, stream, config_hash, threads=resources.threads, disk=disk)
        with _released(begun) as folder:
            folder.log("started", config_hash=config_hash, stream=stream.name, threads=resources.threads)
            for remark in remarks(stream, host_of(config)):
                watcher.say(remark)
                folder.log("warning", text=remark)
            return _conduct(Runner(folder, config, stream, resources, watcher), resumed=False)


def resume(
    path: Path,
    *,
    stream: Stream | None = None,
    data_dir: Path | None = None,
    resources: Resources | None = None,
    watcher: Watcher | None = None,
    disk: Disk | None = None,
) -> dict[str, Any]:
    """Go on with a run to the same bytes; one that is complete and undamaged is left as it is."""
    resources, watcher = resources or Resources(), watcher or Watcher()
    with _resumable(path), _released(RunFolder.take(path, disk=disk)) as folder:
        view = RunView.open(path)
        intact = all(view.files.problem(name) is None for name in view.manifest["sha256"])
        if view.complete and intact:
            folder.tidy()
            return view.endpoints()
        if view.config.dial is not None:
            raise RunError(
                f"{path} holds a dialled run that is unfinished or damaged, and there is nothing to train. "
                f"Make it again with `meor dial RUN --keep {view.config.dial:g} --out {path} --force`."
            )
        folder.verified.update(view.files.verified)
        stream = stream or view.stream(data_dir)
        config, config_hash = _fingerprinted(view.config, stream)
        if config_hash != folder.manifest["config_hash"]:
            raise RunError(
                f"{path} was begun with other settings, another stream or another given base. "
                "Put them back as they were, or start a new run."
            )
        use_threads(resources.threads)
        _mend(folder, stream, watcher)
        return _conduct(Runner(folder, config, stream, resources, watcher), resumed=True)


@contextmanager
def _released(folder: RunFolder) -> Iterator[RunFolder]:
    try:
        yield folder
    finally:
        folder.release()


@contextmanager
def _resumable(path: Path) -> Iterator[None]:
    """Ctrl-C in here says how to go on, if the run has begun."""
    try:
        yield
    except BaseException as error:
        if is_interrupt(error) and is_run(path):
            raise Interrupted(f"go on with: meor resume {shlex.quote(str(path))}") from error
        raise


def _mend(folder: RunFolder, stream: Stream, watcher: Watcher) -> None:
    """Report damaged files outside the updates, and make them again where that is possible."""

    def say(text: str) -> None:
        watcher.say(text)
        folder.log("warning", text=text)

    listed = folder.manifest["sha256"]
    if LOG in listed and folder.files.problem(LOG):  # before anything is added to it
        say(f"{LOG} does not match the manifest; a log cannot be made again, so it is kept as it is")
    if ENDPOINTS in listed and folder.files.problem(ENDPOINTS):
        say(f"{ENDPOINTS} does not match the manifest; it is made again from the ranks")
    if folder.files.problem(VOCABULARY):
        say(f"{VOCABULARY} does not match the manifest; it is made again from the stream")
        folder.commit_result(VOCABULARY, vocabulary_bytes(stream))


def _conduct(runner: Runner, *, resumed: bool) -> dict[str, Any]:
    """To the end. Where the coefficient is to be validated, trial runs are made once it is balanced."""
    runner.begin(resumed=resumed)
    while (waiting := runner.advance()) is not None:
        runner.decide(waiting, *_validated(runner, waiting))
    return runner.endpoints


def _validated(runner: Runner, balance: Balance) -> tuple[float, list[Candidate]]:
    """The multiple of a balanced coefficient (decision 34), tried in runs of another seed.

    They rank validation facts only. They are kept beside the stored bases, so an interrupted choice goes on.
    """
    resources, config = runner.resources, runner.config
    folder = (resources.cache or default_cache()) / "trials" / runner.folder.manifest["config_hash"]
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    aside = {"seed": config.seed + TRIAL_SEED_OFFSET, "coefficient_rule": "balance"}
    selection = config.for_selection().model_copy(update={**aside, "coefficient_from": balance.update})

    def tried(name: str, **changes: Any) -> tuple[float, float]:
        found = _trial(selection.model_copy(update=changes), folder / name, runner)
        cells = {key: overall(found["valid"][key]) for key in ("H_cur", "A_TN")}
        values = {key: each.value for key, each in cells.items() if each.value is not None}
        if missing := [key for key in cells if key not in values]:
            raise ConfigError(
                f"coefficient_rule validated judges by validation facts, and none of {config.stream} has a "
                f"place in {missing[0]}",
                remedy="Choose the rule balance, or give a coefficient",
            )
        told = ", ".join(f"{key} {value:.4f}{cells[key].mark}" for key, value in values.items())
        footnote = note(cells.items())
        runner.say(f"trial {name}: validation {told}" + (f" ({footnote.rstrip('.')})" if footnote else ""))
        return values["H_cur"], values["A_TN"]

    start_from = METHODS[config.method].start
    unregularised = Candidate(0.0, *tried(start_from, method=start_from, coefficient=None))
    candidates: list[Candidate] = []
    while goes_on(candidates):
        multiple = MULTIPLES[len(candidates)]
        try:
            values = tried(f"{config.method}-{multiple:g}", coefficient=multiple * balance.coefficient)
        except NonFiniteError as error:
            runner.say(f"multiples from {multiple:g} on are not tried: {error}")
            break
        candidates.append(Candidate.against(unregularised, multiple, *values))
    chosen = best_multiple(candidates)
    if told := end_of_grid(chosen, candidates):
        runner.say(f"{config.method} takes {told}")
    return chosen, candidates


def _trial(config: Config, path: Path, runner: Runner) -> dict[str, Any]:
    """A run made aside, or what is left of one brought to its end."""
    aside, stream = replace(runner.resources, alone=None), runner.stream
    if is_run(path) and _can_go_on(config, stream, path, runner.watcher):
        return resume(path, stream=stream, resources=aside)
    return start(config, path, stream=stream, resources=aside, force=True)


def _can_go_on(config: Config, stream: Stream, path: Path, watcher: Watcher) -> bool:
    """Can a trial in the cache be continued? A damaged one is made again and never fails the run."""
    try:
        view = RunView.open(path)
        stored = view.manifest["config_hash"], _fingerprinted(view.config, stream)[1]
        if set(stored) != {_fingerprinted(config, stream)[1]}:
            raise RunError("it was made with other settings or from another stream.")
    except MeorError as error:
        watcher.say(f"the trial {path} is made again: {error}")
        return False
    return True


def use_threads(count: int) -> None:
    """Results do not depend on it."""
    torch.set_num_threads(count)
    set_threads(count)


def _fingerprinted(config: Config, stream: Stream) -> tuple[Config, str]:
    """The config with the width of a given base, and the hash of all that determines results."""
    if config.base_model is None:
        return config, config.fingerprint(stream.content_hash())
    model = given_base(config, stream)
    config = with_width(config, model)
    return config, config.fingerprint(stream.content_hash(), content_of(model))
