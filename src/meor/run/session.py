"""Start a run, or go on with one: everything outside of it is checked before its folder exists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from meor.compiled import set_threads
from meor.errors import RunError
from meor.run.config import Config
from meor.run.disk import Disk
from meor.run.folder import RunFolder, make_free
from meor.run.layout import is_run
from meor.run.prepare import check, content_of, given_base, with_width
from meor.run.runner import Resources, Runner
from meor.run.view import RunView
from meor.run.watch import Watcher
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
    folder = RunFolder.begin(out, config, stream, config_hash, threads=resources.threads, disk=disk)
    try:
        folder.log("started", config_hash=config_hash, stream=stream.name, threads=resources.threads)
        return Runner(folder, config, stream, resources, watcher, _trial(stream, resources)).run(
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
    folder = RunFolder.take(path, disk=disk)
    try:
        view = RunView.open(path)
        if view.complete and _intact(view, watcher):
            folder.tidy()
            return view.endpoints()
        stream = stream or view.stream(data_dir)
        config, config_hash = _fingerprinted(view.config, stream)
        if config_hash != folder.manifest["config_hash"]:
            raise RunError(
                f"{path} was begun with other settings, another stream or another given base. "
                "Put them back as they were, or start a new run."
            )
        use_threads(resources.threads)
        return Runner(folder, config, stream, resources, watcher, _trial(stream, resources)).run(resumed=True)
    finally:
        folder.release()


def _trial(stream: Stream, resources: Resources) -> Callable[[Config, Path], dict[str, Any]]:
    """A run made aside, or what is left of one brought to its end."""

    aside = replace(resources, replay=None)

    def trial(config: Config, path: Path) -> dict[str, Any]:
        if is_run(path):
            return resume(path, stream=stream, resources=aside)
        return start(config, path, stream=stream, resources=aside)

    return trial


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


def _intact(view: RunView, watcher: Watcher) -> bool:
    for name in view.manifest["sha256"]:
        try:
            view.verified(name)
        except RunError as error:
            watcher.say(str(error))
            return False
    return True
