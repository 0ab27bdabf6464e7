"""The folder that `meor audit --out` makes: whole or absent, and compared with what a run stored."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from meor.errors import InputError
from meor.evaluation.audit import SplitAudit
from meor.evaluation.rank import Ranks
from meor.run.layout import ENDPOINTS, RANKS, unfinished, update_name
from meor.run.view import RunView
from meor.typing import Split

DISPLACEMENT, GROUPS, PROTOCOLS = "displacement.json", "groups.json", "protocols.json"
MARK = "audit.json"
"""The file that makes a folder an audit, so that --force replaces audits and nothing else."""


def require_free(out: Path, *, force: bool) -> None:
    """Said before the work is done, not after."""
    if not os.path.lexists(out):
        parent = next(place for place in out.absolute().parents if os.path.lexists(place))
        if not parent.is_dir():
            raise InputError("is not a folder", remedy="Name another place with --out", path=parent)
        return
    if not out.is_dir():
        raise InputError("is a file", remedy="Name a folder with --out", path=out)
    if not any(out.iterdir()):
        return
    if not (out / MARK).is_file():
        raise InputError("the folder holds other files", remedy="Name another one with --out", path=out)
    if not force:
        raise InputError("the folder holds an audit", remedy="Replace it with --force", path=out)


def differences(view: RunView, found: Mapping[Split, SplitAudit], endpoints: dict[str, Any]) -> list[str]:
    """What a run stored and the audit finds otherwise, a sentence each; empty if all agrees to the bit."""
    said: list[str] = []
    for split, part in found.items():
        for update, ranks in part.ranks.items():
            said.extend(_rank_differences(view, update, split, ranks))
    if view.has(ENDPOINTS) and not unfinished(view.path):
        said.extend(_endpoint_differences(view.endpoints(), endpoints))
    return said


def _rank_differences(view: RunView, update: int, split: Split, ranks: tuple[Ranks, ...]) -> list[str]:
    if not view.has(f"{update_name(update)}/{RANKS}"):
        return []
    stored = {each.occurrences.side: each for each in view.ranks(update).get(split, ())}
    said = []
    for each in ranks:
        asked = each.occurrences
        where = f"{update_name(update)}, {split.value}, side {asked.side.label}"
        other = stored.get(asked.side)
        if other is None or not np.array_equal(other.occurrences.fact, asked.fact):
            if len(asked):
                said.append(f"{where}: the stored ranks are of other facts")
            continue
        wrong = np.count_nonzero((other.old != each.old) | (other.cur != each.cur))
        if wrong:
            said.append(f"{where}: {wrong} of {len(asked)} stored ranks differ")
    return said


def _endpoint_differences(stored: Any, found: dict[str, Any]) -> list[str]:
    said = []
    for split, named in found.items():
        for name, content in named.items():
            try:
                other = stored[split][name]["value"]
            except (KeyError, TypeError):
                continue
            if other != content["value"]:
                said.append(f"{split} {name}: stored {other}, found {content['value']}")
    return said
