"""The dial against one evaluation of the same facts, and what the cap adds to a step."""

from __future__ import annotations

import statistics
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.evaluation import random_model
from benchmarks.timing import alternate, processor_seconds
from meor.backbone import Model
from meor.evaluation.dial import Asking, DialledRanks, dial_update, scaled, spread
from meor.evaluation.endpoints import MRR, endpoints
from meor.evaluation.rank import Ranks, Rules, rank_update, rank_update_incrementally
from meor.hosts.replay import Replay
from meor.methods.cap import NormLaw, degrees
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.training.adam import Adam, Longest
from meor.training.draws import draw_buffer
from meor.training.host import Plan, Update
from meor.training.loss import PLAIN, Aim
from meor.training.training import Training
from meor.typing import Split

FILTER = (Split.TRAIN, Split.VALID)
REPEATS = 15


def against_evaluation(stream: Stream, run: Path | None = None, repeats: int = 3) -> dict[str, object]:
    """50 scales on ENTITY's validation facts against ranking them once, both with what a run carries over.

    `run`: a folder whose models are dialled; without it, random rows, newcomers half as long again.
    """
    models = _models(stream, run)
    scales, asking = spread(), Asking(Split.VALID, filter_splits=FILTER)
    rules = Rules(filter_splits=FILTER)

    def evaluation() -> None:
        ranks: list[Ranks] = []
        last: tuple[Ranks, ...] = ()
        for update, model in models.items():
            last = (
                rank_update_incrementally(stream, model, update, last, split=Split.VALID, rules=rules)
                if last
                else rank_update(stream, model, update, split=Split.VALID, rules=rules)
            )
            ranks += last
        endpoints(ranks, metrics=(MRR,))

    def dial() -> None:
        ranks: list[DialledRanks] = []
        last: tuple[DialledRanks, ...] = ()
        for update, model in models.items():
            last = dial_update(stream, model, update, scales, asking, previous=last)
            ranks += last
        for point in range(len(scales)):
            endpoints([each.at(point) for each in ranks], metrics=(MRR,))

    jobs = {"evaluation": evaluation, "dial": dial}
    times = alternate(jobs, repeats, processor_seconds)
    return {
        "what": f"{len(scales)} scales, ENTITY, validation facts, ComplEx 200, "
        f"{'random rows' if run is None else 'a trained run'}",
        "dial_processor_seconds": times["dial"],
        "evaluation_processor_seconds": times["evaluation"],
        "ratio_to_evaluation": times["dial"] / times["evaluation"],
    }


def _models(stream: Stream, run: Path | None) -> dict[int, Model]:
    if run is not None:
        return {update: RunView.open(run).model(update) for update in stream.updates}
    n, m = stream.entity_counts[-1], stream.relation_counts[-1]
    whole = scaled(random_model("complex", n, m), stream.entity_counts[0], 1.5)
    return {
        update: Model(whole.backbone, whole.entity[: stream.entity_counts[update]], whole.relation)
        for update in stream.updates
    }


def cap_in_a_step(stream: Stream) -> dict[str, object]:
    """(step with cap - step without) / step at ENTITY's update 1, ComplEx 200, by 15 passes in turn; and what
    the default's lift and price of coordinates add to it."""
    update = Update.of(stream, 1, draw_buffer(stream, 1, seed=0, size=2048, policy="uniform"))
    model = random_model("complex", update.n_entities, stream.relation_counts[1])
    law = NormLaw.fit(model.entity[: update.n_old], degrees(stream.snapshots[0].train, update.n_old))
    newcomers = degrees(update.train, update.n_entities)[update.n_old :]
    longest = Longest(1.0 * law(newcomers))
    aims = {"free": PLAIN, "capped": PLAIN, "aimed": Aim(lift=1.0, shrink=0.012)}
    trainings = {
        name: Training.begin(
            Replay(Plan(passes=1, learning_rate=1e-2)), model, update, longest if name == "capped" else None
        )
        for name in aims
    }
    took: dict[str, list[float]] = {name: [] for name in trainings}

    def a_pass(training: Training, aim: Aim) -> None:
        host, adam, steps = training.host, training.adam, training.host.steps(0)
        for index in range(len(steps)):
            loss = host.loss(replace(steps[index].batch, aim=aim))
            adam.zero_grad()
            loss.backward()
            adam.step()

    for repeat in range(REPEATS + 1):
        for name, training in trainings.items():
            passed = processor_seconds(partial(a_pass, training, aims[name]))
            if repeat:
                took[name].append(passed / len(training.host.steps(0)))
    added = {
        name: statistics.median(np.subtract(took[name], took["free"]).tolist())
        for name in ("capped", "aimed")
    }
    usual = statistics.median(took["free"])
    return {
        "what": f"a step of ENTITY update 1, {len(newcomers):,} newcomers, ComplEx 200, float64",
        "step_processor_seconds": usual,
        "cap_seconds": added["capped"],
        "share_of_step": added["capped"] / usual,
        "lift_and_shrink_share_of_step": added["aimed"] / usual,
        **_alone(len(newcomers), model.entity.shape[1], longest),
    }


def _alone(rows: int, width: int, longest: Longest) -> dict[str, object]:
    """The optimizer alone, whose share of a step is small enough to hide what the cap adds."""
    value = torch.from_numpy(np.random.default_rng(0).normal(0, 0.3, (rows, width)))
    jobs = {}
    for name, chosen in {"free": {}, "capped": {"entity": longest}}.items():
        parameter = nn.Parameter(value.clone())
        parameter.grad = torch.full_like(value, 1e-3)
        jobs[name] = Adam({"entity": parameter}, 1e-2, longest=chosen).step
    times = alternate(jobs, REPEATS, processor_seconds)
    return {"adam_seconds": times["free"], "adam_with_cap_seconds": times["capped"]}
