"""Start a run, or go on with one: everything outside of it is checked before its folder exists."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from meor.compiled import set_threads
from meor.errors import Interrupted, MeorError, RunError, is_interrupt
from meor.run.config import Config
from meor.run.folder import RunFolder, make_free
from meor.run.layout import ENDPOINTS, LOG, VOCABULARY, is_run, vocabulary_bytes
from meor.run.prepare import check, content_of, given_base, host_of, with_width
from meor.run.runner import Resources, Runner
from meor.run.unlearned import remarks
from meor.run.view import RunView
from meor.run.watch import Watcher
from meor.storage.disk import Disk
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
        stream = open_stream(config.stream, data_dir=place, duplicates=config.duplicates)
    config, config_hash = _fingerprinted(config, stream)
    check(config, stream, resources.memory)
    use_threads(resources.threads)
    make_free(out, force=force)
    with _resumable(out):
        return _begun(config, out, stream, config_hash, resources, watcher, disk)


def _begun(
    config: Config,
    out: Path,
    stream: Stream,
    config_hash: str,
    resources: Resources,
    watcher: Watcher,
    disk: Disk | None,
) -> dict[str, Any]:
    folder = RunFolder.begin(out, config, stream, config_hash, threads=resources.threads, disk=disk)
    try:
        folder.log("started", config_hash=config_hash, stream=stream.name, threads=resources.threads)
        for remark in remarks(stream, host_of(config)):
            watcher.say(remark)
            folder.log("warning", text=remark)
        return Runner(folder, config, stream, resources, watcher, _trial(stream, resources, watcher)).run(
            resumed=False
        )
    finally:
        folder.release()


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
    with _resumable(path):
        return _taken(path, stream, data_dir, resources, watcher, disk)


@contextmanager
def _resumable(path: Path) -> Iterator[None]:
    """Ctrl-C in here says how to go on, wherever it struck; nothing to go on with, and it does not."""
    try:
        yield
    except BaseException as error:
        if is_interrupt(error) and is_run(path):
            raise Interrupted(f"go on with: meor resume {shlex.quote(str(path))}") from error
        raise


def _taken(
    path: Path,
    stream: Stream | None,
    data_dir: Path | None,
    resources: Resources,
    watcher: Watcher,
    disk: Disk | None,
) -> dict[str, Any]:
    folder = RunFolder.take(path, disk=disk)
    try:
        view = RunView.open(path)
        intact = all(view.files.problem(name) is None for name in view.manifest["sha256"])
        if view.complete and intact:
            folder.tidy()
            return view.endpoints()
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
        return Runner(folder, config, stream, resources, watcher, _trial(stream, resources, watcher)).run(
            resumed=True
        )
    finally:
        folder.release()


def _mend(folder: RunFolder, stream: Stream, watcher: Watcher) -> None:
    """What is damaged beside the updates: said, and made again where something is left to make it from."""

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


def _trial(
    stream: Stream, resources: Resources, watcher: Watcher
) -> Callable[[Config, Path], dict[str, Any]]:
    """A run made aside, or what is left of one brought to its end."""

    aside = replace(resources, replay=None)

    def trial(config: Config, path: Path) -> dict[str, Any]:
        if is_run(path) and _can_go_on(config, stream, path, watcher):
            return resume(path, stream=stream, resources=aside)
        return start(config, path, stream=stream, resources=aside, force=True)

    return trial


def _can_go_on(config: Config, stream: Stream, path: Path, watcher: Watcher) -> bool:
    """A trial lies in the cache: whatever is wrong with it costs a training, never the run."""
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
