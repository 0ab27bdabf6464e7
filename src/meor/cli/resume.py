"""`meor resume`: go on with a run that was stopped, to the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from meor.calls.progress import watcher
from meor.calls.run import resources
from meor.cli import new_verb
from meor.cli.options import AsJson, Cache, DataDir, Memory, Quiet, Seconds, Threads
from meor.cli.run import conclude
from meor.run.session import resume

app = new_verb()


@app.command()
def command(
    run: Annotated[Path, typer.Argument(help="The folder of the run.")],
    threads: Threads = None,
    memory: Memory = "1GiB",
    cache: Cache = None,
    checkpoint_seconds: Seconds = 30.0,
    quiet: Quiet = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Go on with a run that was stopped.

    It continues from the newest good checkpoint and ends with the bytes of a run that was never stopped.
    Results and the vocabulary are made again where they do not match their recorded sha256; changed
    settings are refused, and a changed log is kept. A complete run is left as it is.
    """
    console = Console(stderr=True)
    with watcher(console, quiet=quiet) as shown:
        found = resume(
            run,
            data_dir=data_dir,
            resources=resources(threads, memory, cache, checkpoint_seconds),
            watcher=shown,
        )
    conclude(run, found, quiet=quiet, as_json=as_json)
