"""`meor.audit`: one call that audits any model, or any function that scores queries."""

from __future__ import annotations

from collections.abc import Sequence

from meor.evaluation import audit as whole
from meor.evaluation.labelled import Rateable, as_model
from meor.evaluation.rank import PAPER, Rules
from meor.evaluation.tally import DEFAULT_MEMORY
from meor.stream.snapshot import Stream
from meor.typing import SIDES, Side, Split


def audit(
    model: Rateable,
    stream: Stream,
    update: int | Sequence[int] | None = None,
    *,
    split: Split | str = Split.TEST,
    sides: Sequence[Side | str] | str = SIDES,
    rules: Rules = PAPER,
    memory: int = DEFAULT_MEMORY,
) -> whole.SplitAudit:
    """Which old answers lost rank to newcomers of an update (of each update, if none is named), and to whom.

    `model` is a `Model`, what `from_pykeen` gives, or any function `score(anchors, relations, side,
    candidates)` that returns one row of scores per query. One model serves every update: entities that are
    admitted later are no candidates yet.
    """
    asked = stream.updates if update is None else [update] if isinstance(update, int) else update
    updates = tuple(asked)
    fixed = as_model(stream, model, max(updates))
    question = whole.Question(
        updates=updates,
        sides=Side.each(sides),
        splits=(Split.of(split),),
        ties=rules.ties,
        filter_prefix=rules.filter_prefix,
        filter_splits=rules.filter_splits,
    )
    return whole.audit(stream, lambda _: fixed, question, memory=memory)[Split.of(split)]
