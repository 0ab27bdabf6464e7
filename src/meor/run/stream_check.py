"""Is a stream fit for a run? Said before anything is trained, with the command that makes one of it."""

from __future__ import annotations

from pathlib import Path

from meor.errors import StreamError
from meor.escape import shell
from meor.run.config import Config
from meor.stream.snapshot import Stream
from meor.typing import Split


def check_stream(config: Config, stream: Stream) -> None:
    if len(stream.snapshots) < 2:
        remedy = f"Cut a graph into snapshots with `{_grow(config)}`"
        raise StreamError(f"{stream.name} has one snapshot and so no update", remedy=remedy)
    if Path(config.stream).is_file() and unranked(config, stream):
        raise StreamError(
            f"no fact of {config.stream} is set aside to be ranked, so a run would measure nothing",
            remedy=f"Cut it into a stream with `{_grow(config, '--by', 'date')}`, or give it a column split",
        )
    if any(not len(snapshot.train) for snapshot in stream.snapshots):
        raise StreamError(f"{stream.name} has a snapshot without training facts", remedy="Leave it out")


def _grow(config: Config, *how: str) -> str:
    """The command that makes a stream of the file that a run was given."""
    facts = config.stream if Path(config.stream).is_file() else "FACTS"
    columns = ("--columns", config.columns) if config.columns else ()
    return shell(["meor", "data", "grow", facts, "OUT", *how, *columns])


def unranked(config: Config, stream: Stream) -> str:
    """A warning, before hours of training, if a split that is to be ranked has no fact."""
    facts = {
        name: sum(len(snapshot.facts([Split(name)])) for snapshot in stream.snapshots)
        for name in config.evaluation.split
    }
    empty = [name for name, count in facts.items() if not count]
    if not empty:
        return ""
    has_valid = any(len(snapshot.valid) for snapshot in stream.snapshots)
    other = "rank its validation facts with --set evaluation.split=valid, or " if has_valid else ""
    return (
        f"{stream.name} has no {' and no '.join(empty)} facts, so nothing will be ranked on "
        f"{' or '.join(empty)} facts and no endpoint will have a value: {other}set some facts aside, as "
        "`meor data grow` does"
    )
