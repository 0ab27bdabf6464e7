"""The popularity baseline of a study: what its tables would say of no model at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from meor.evaluation.endpoints import Endpoint, Undefined
from meor.evaluation.popularity import popularity_endpoints
from meor.methods import NONE
from meor.stream.registry import open_stream
from meor.study.plan import Study
from meor.study.results import Results
from meor.study.rows import ENDPOINTS, Group
from meor.typing import Side, Split

POPULARITY = "popularity.json"
LABEL = "Popularity (no model)"
NOTE = (
    f"{LABEL}: candidates in the order of how often they have been the answer of the relation on that side."
)


def popularity_of(plan: Study, results: Results, data_dir: Path | None) -> dict[str, dict[str, Any]]:
    """For each stream, made once: what is written is kept if it was ranked as the study ranks.

    An endpoint that is undefined is the mean over the cells that exist, or None.
    """
    known = results.json(POPULARITY) or {}
    found: dict[str, dict[str, Any]] = {}
    for stream in plan.stream:
        group = next(group for group in plan.groups if group.stream == stream)
        config = plan.config(group, NONE, 0)
        chosen = config.evaluation
        ranked = chosen.model_dump(mode="json", exclude={"split"})
        ranked |= {rule: told for rule, told in config.reading.items() if told not in ("error", None)}
        kept = known.get(stream)
        if isinstance(kept, dict) and kept.get("ranked") == ranked:
            found[stream] = kept
            continue
        made = popularity_endpoints(
            open_stream(stream, data_dir=data_dir, **config.reading),
            sides=[Side[name.upper()] for name in chosen.sides],
            updates=chosen.updates,
            filter_splits=[Split(name) for name in chosen.filter_splits],
            sample=chosen.sample,
        )
        found[stream] = {"ranked": ranked, "endpoints": {name: _value(made[name]) for name in ENDPOINTS}}
    return found


def _value(endpoint: Endpoint | Undefined) -> float | None:
    return endpoint.value if isinstance(endpoint, Endpoint) else endpoint.mean_over_existing


def endpoints_of(popularity: Mapping[str, Any], group: Group) -> list[float | None]:
    """In the order of tables; empty where nothing is known of the stream."""
    known = popularity.get(group.stream)
    return [known["endpoints"].get(name) for name in ENDPOINTS] if known else []
