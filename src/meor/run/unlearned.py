"""What a host will not learn, said before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meor.hosts import HOSTS
from meor.stream.snapshot import Stream
from meor.training.base import Host, Update

NAMED = 5
"""Updates that a remark names; the others are counted."""


def remarks(stream: Stream, host: Host) -> list[str]:
    """A sentence on updates that admit no entity, and one on facts that meet only frozen rows."""
    updates = [Update.of(stream, number) for number in stream.updates]
    return [*_quiet(updates), *_frozen(updates, host)]


def unlearned(update: Update, host: Host) -> int:
    """Facts of an update whose head, relation and tail are all rows that the host leaves as they are."""
    entity, relation = host.first_rows(update)
    head, of, tail = update.train.T
    return int(np.count_nonzero((head < entity) & (of < relation) & (tail < entity)))


def _quiet(updates: Sequence[Update]) -> list[str]:
    quiet = [update.number for update in updates if update.n_entities == update.n_old]
    if not quiet:
        return []
    one = len(quiet) == 1
    return [
        f"{'update' if one else 'updates'} {_listed([str(number) for number in quiet])} "
        f"{'admits' if one else 'admit'} no entity: no answer can lose rank to a newcomer there, and A_TN "
        "and A_QN have no query."
    ]


def _frozen(updates: Sequence[Update], host: Host) -> list[str]:
    missed = {update.number: missed for update in updates if (missed := unlearned(update, host))}
    if not missed:
        return []
    total = sum(missed.values())
    facts, are = ("fact", "is") if total == 1 else ("facts", "are")
    return [
        f"old rows are frozen under host {host.name}, so {total:,} {facts} between known entities "
        f"({_places(missed)}) {are} recorded but not learned; {_others(updates, missed)}."
    ]


def _places(missed: Mapping[int, int]) -> str:
    return _listed([f"{missed[number]:,} at update {number}" for number in missed])


def _others(updates: Sequence[Update], missed: Mapping[int, int]) -> str:
    """Which registered hosts would learn all of them."""
    affected = [update for update in updates if update.number in missed]
    able = [name for name, kind in HOSTS.items() if not any(unlearned(update, kind()) for update in affected)]
    if not able:
        return f"none of the registered hosts ({', '.join(HOSTS)}) moves old rows"
    return f"{_listed(able)} would learn them (--host)"


def _listed(words: Sequence[str]) -> str:
    shown = list(words[:NAMED])
    if len(words) > NAMED:
        shown.append(f"{len(words) - NAMED} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
