"""Where the data of a report comes from."""

from __future__ import annotations

from meor.report.page import Prose
from meor.stream.registry import WORLD, find_entry


def provenance(stream: str, content_hash: str) -> Prose:
    """Publisher, commit and licence of a registered stream; else that nothing is known but its hash."""
    digest = f" Content sha256 {content_hash[:16]}."
    if stream.casefold() == WORLD:
        return Prose(
            "Data: world, an invented graph that meor makes by itself, with planted newcomers that press "
            f"on old answers. It describes nobody.{digest}"
        )
    entry = find_entry(stream)
    if entry is None:
        return Prose(
            "Data: a stream of your own. Its origin and licence are not known to meor; state them "
            f"wherever you show this report.{digest}"
        )
    return Prose(
        f"Data: {entry.name}, published at {entry.page}, licence {entry.licence}; every file has its "
        f"published SHA-256.{digest}"
    )
