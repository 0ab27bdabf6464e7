"""Retraining: at every update a new model learns all facts so far, as if the graph had always been so large.

It keeps nothing, so it forgets nothing, and no old row is frozen around newcomers. What newcomers cost here
is not due to learning step by step. The price is the time of training anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field

from meor.hosts.replay import ReplayPass, even_slice
from meor.random import generator
from meor.training.draws import empty_buffer
from meor.training.host import Host, HostSettings, Plan, Stage, Step, Update
from meor.training.initialise import BASE_STD


class RetrainSettings(HostSettings):
    init_std: Annotated[float, Field(gt=0)] = BASE_STD


class Retrain(Host):
    name = "retrain"
    Settings = RetrainSettings
    settings: RetrainSettings

    @classmethod
    def defaults(cls, settings: HostSettings) -> Mapping[str, Any]:
        """An update is trained until validation facts no longer gain: one pass, as in `paper`, is too few."""
        stops = {"validate_steps": 10, "least_steps": 300, "patience": 5, "tolerance": 0.005}
        return {"refine": {"learning_rate": 3e-3, "passes": 1000, "order": "permuted", **stops}}

    def stages(self, update: Update) -> Iterator[Stage]:
        yield Stage(self.plan_of(with_past(update)), 0, 0)

    def start(self) -> None:
        """Every row is drawn anew, those of newcomers too."""
        if not self.update.number:
            return
        drawn = generator("retrain", self.stage.plan.seed, self.update.number)
        for table in (self.entity.data, self.relation.data):
            table.copy_(torch.from_numpy(self.settings.init_std * drawn.standard_normal(tuple(table.shape))))

    def steps(self, pass_number: int) -> RetrainPass:
        return RetrainPass(self.update, self.stage.plan, pass_number)


class RetrainPass(ReplayPass):
    """Blocks of all facts so far. The buffer only gives a penalty its queries: its facts are among them."""

    def __init__(self, update: Update, plan: Plan, pass_number: int) -> None:
        super().__init__(with_past(update), plan, pass_number)
        self.n_replay = len(update.replay)

    def __getitem__(self, index: int, /) -> Step:
        step = super().__getitem__(index)
        return Step(step.batch, np.arange(*even_slice(self.n_replay, index, len(self))))


def with_past(update: Update) -> Update:
    """The update with all facts so far as its own, and without a buffer."""
    return replace(update, train=np.concatenate([*update.past, update.train]), replay=empty_buffer())
