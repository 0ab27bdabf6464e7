"""What the field's protocols say of a finished run: further columns of its row."""

from __future__ import annotations

from typing import Any

from meor.evaluation.endpoints import METRICS
from meor.evaluation.protocols import beside_current, set_ranks, weighted_mean
from meor.evaluation.rank import FilterPrefix, Rules
from meor.methods import METHODS
from meor.run.prepare import host_of
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.study.cells import VALID, StudyCell
from meor.study.plan import Study
from meor.study.rows import FIGURES, RELEASED, Row
from meor.typing import Split


def lacks_protocols(plan: Study, cell: StudyCell, row: Row) -> bool:
    """Does the study ask for figures that the row does not have?

    A transform changes scores after training, so the models of its run do not have them.
    """
    transformed = METHODS[cell.method].kind == "transform"
    return plan.asks_for_protocols and cell.split != VALID and not transformed and row.MRR_A is None


def protocol_columns(view: RunView, stream: Stream, memory: int) -> dict[str, float]:
    """Test facts after the last update, as the field ranks them; what the run ranked is not ranked again."""
    chosen, stopping = view.config.evaluation, host_of(view.config).validation
    last = max(chosen.updates or view.updates)
    ranks, model = view.ranks(last)[Split.TEST], view.model(last)
    asked: dict[str, Any] = {"sample": chosen.sample, "memory": memory}
    splits = [Split(name) for name in chosen.filter_splits]
    found = beside_current(stream, model, ranks, filter_splits=splits, **asked)
    if stopping is not None and stopping.split is Split.TEST:  # what is published was filtered by the same
        rules = Rules(filter_prefix=FilterPrefix.INTRODUCED, filter_splits=stopping.filter_splits)
        sides = [each.occurrences.side for each in ranks]
        sets = set_ranks(stream, model, last, rules=rules, sides=sides, **asked)
        found[RELEASED] = {metric: weighted_mean(sets, full=False, metric=metric) for metric in METRICS}
    return {
        f"{figure}_{protocol}": found[protocol][metric]
        for protocol in found
        for figure, metric in FIGURES.items()
    }
