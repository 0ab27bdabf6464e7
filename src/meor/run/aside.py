"""The balance of a pair (decision 34) where the run of the host alone is gone: one update is made again."""

from __future__ import annotations

from pathlib import Path

from meor.methods.coefficient import Balance
from meor.run.config import Config
from meor.run.control import balanced
from meor.run.folder import RunFolder
from meor.run.runner import Runner
from meor.run.trainer import Resources, Watcher
from meor.storage.disk import staging
from meor.stream.snapshot import Stream


def balance_aside(config: Config, parent: Path, *, stream: Stream, resources: Resources) -> Balance:
    """The balance at update 1, from a run that is begun under `parent` for it and removed again.

    Its base comes from the store, or goes there. It is the balance of the host alone's own run, to the bit.
    """
    with staging(parent) as out:
        folder = RunFolder.begin(out, config, stream, "", threads=resources.threads)
        try:
            runner = Runner(folder, config, stream, resources, Watcher())
            runner.begin(resumed=False)
            return balanced(config, stream, 1, runner.pair.model)
        finally:
            folder.release()
