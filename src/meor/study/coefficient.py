"""The balanced coefficient of a pair (decision 34): read from its replay run, once for each method."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from meor.errors import RunError
from meor.host.base import Update
from meor.host.training import Training
from meor.objective.balance import Balance, balance_penalty
from meor.objective.penalty import Penalty
from meor.run.checkpoint import read_json, to_json
from meor.run.disk import Disk, commit_file
from meor.run.prepare import buffer_of, host_of, refine_plan
from meor.run.records_file import comparison_of
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.study.rows import Group


@dataclass(frozen=True, slots=True)
class KeptBalance:
    """A balanced coefficient of a study, and whose it is."""

    group: Group
    pair: int
    method: str
    balance: Balance


UPDATE = 1
"""Where the two gradients are balanced: at the end of update 1 trained as replay."""


def balanced(replay: RunView, stream: Stream, method: str) -> Balance:
    """Host and penalty gradients at the end of the pair's replay update 1; no rank is looked at."""
    config = replay.config
    update = Update.of(stream, UPDATE, buffer_of(config, stream, UPDATE))
    host = host_of(config)
    training = Training.begin(host, replay.model(UPDATE), update, refine_plan(config))
    of_method = config.model_copy(update={"method": method})
    comparison = comparison_of(of_method, stream, UPDATE, update.replay.fact)
    steps = host.steps(0)
    losses = (host.loss(steps[index].batch) for index in range(len(steps)))
    return balance_penalty(Penalty(comparison, training.backbone), training.entity, training.relation, losses)


def read_balance(path: Path) -> Balance | None:
    try:
        return Balance(**read_json(path)) if path.is_file() else None
    except (TypeError, RunError):
        return None  # not one of ours: it costs a few seconds to make it again, no result


def kept_balance(path: Path, replay: RunView, stream: Stream, method: str) -> Balance:
    """`balanced`, made once and kept beside the runs that use it."""
    kept = read_balance(path)
    if kept is not None:
        return kept
    found = balanced(replay, stream, method)
    commit_file(Disk(), path, to_json(asdict(found)))
    return found
