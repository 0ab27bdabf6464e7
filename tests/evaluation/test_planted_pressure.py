"""The embedded world plants competitors: a trained model shows them, and displacement names them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from meor.evaluation.blame import blame
from meor.run.config import Config
from meor.run.session import start
from meor.run.trainer import Resources
from meor.run.view import RunView
from meor.stream.world import world
from meor.typing import Side, Split


def test_most_planted_competitors_are_among_the_worst_newcomers_of_their_update(tmp_path: Path) -> None:
    stream = world(seed=0)
    config = Config.gather(sets=["dim=64", "seed=3"])
    start(config, tmp_path / "run", stream=stream, resources=Resources(cache=tmp_path / "cache"))
    view = RunView.open(tmp_path / "run")
    planted = {stream.entities.id(newcomer) for newcomer, _, _ in stream.planted}
    for update in stream.updates:
        tail = next(one for one in view.ranks(update)[Split.TEST] if one.occurrences.side is Side.TAIL)
        found = blame(stream, view.model(update), tail)
        worst = found.first + np.argsort(-found.charge, kind="stable")[:10]
        here = planted & set(stream.newcomers(update))
        # Eight of some two hundred newcomers are planted: by chance, 0.4 of ten would be.
        assert len(here & {int(entity) for entity in worst}) >= 5, (update, worst)
