"""The balanced coefficient of a pair (decision 34): read from its host alone, once per method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from meor.errors import MeorError
from meor.methods.coefficient import Balance, most_telling
from meor.run.control import balanced
from meor.run.view import RunView
from meor.storage.disk import Disk, commit_file
from meor.storage.json_file import read_sealed, sealed
from meor.stream.snapshot import Stream
from meor.study.rows import Group


@dataclass(frozen=True, slots=True)
class KeptBalance:
    """A balanced coefficient of a study, and whose it is."""

    group: Group
    pair: int
    method: str
    balance: Balance


def read_balance(path: Path) -> Balance | None:
    """None where nothing is kept, or where what is kept is damaged."""
    try:
        return Balance(**read_sealed(path)) if path.is_file() else None
    except (TypeError, MeorError):
        return None


def kept_balance(
    path: Path, alone: RunView, stream: Stream, method: str, say: Callable[[str], object] = lambda _: None
) -> Balance:
    """The balance at the first update of the pair's host alone that has enough to balance by (decision 34).

    Made once and kept beside the runs. Where no update has enough, its coefficient is 0.
    """
    kept = read_balance(path)
    if kept is not None:
        return kept
    if path.is_file():
        say(f"{path} was changed, is damaged, or is an earlier version's; it is made again")
    config = alone.config.model_copy(update={"method": method})
    asked: list[Balance] = []
    for update in stream.updates:
        asked.append(balanced(config, stream, update, alone.model))
        if not asked[-1].is_inactive:
            break
    found = most_telling(asked)
    write_balance(path, found)
    return found


def write_balance(path: Path, balance: Balance) -> None:
    """Cells of a method may get here at once, with equal bytes."""
    commit_file(Disk(), path, sealed(asdict(balance)), shared=True)
