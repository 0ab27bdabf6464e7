"""An epoch of LKGE and of IncDE against the plain torch loop that tests hold them to, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from tests.hosts.plain import PLAIN, PlainIncDE

from benchmarks.timing import seconds
from meor.backbone import BACKBONES
from meor.hosts.incde import FIRST_STAGE
from meor.run.config import Config
from meor.run.prepare import host_of, update_of
from meor.run.session import use_threads
from meor.stream.snapshot import Stream
from meor.training.host import Update
from meor.training.initialise import base_model
from meor.training.refine import refine
from meor.training.training import Training

UPDATE = 2
EPOCHS = 2
PASSES = {"lkge": EPOCHS, "incde": FIRST_STAGE + EPOCHS}


class WithoutCentrality(PlainIncDE):
    """networkx would take minutes, which are no part of an epoch."""

    def central(self, update: Update) -> tuple[dict[int, float], dict[int, float]]:
        return {}, {}


def epoch(stream: Stream, name: str) -> dict[str, object]:
    """Update 2, dimension 200, float64, the authors' batches, draws and Adam included; two threads each.

    All rows are trained, and of both sides the faster of two runs counts.
    """
    use_threads(2)
    config = Config.gather(
        flags={"stream": stream.name, "host": name}, sets=[f"refine.passes={PASSES[name]}"]
    )
    update = update_of(config, stream, UPDATE)
    model = base_model(
        BACKBONES[config.backbone], 200, update.n_entities, update.m_relations, seed=0, std="xavier"
    )
    host, theirs = host_of(config), host_of(config)
    stages = list(host.stages(update))
    plain = (WithoutCentrality if name == "incde" else PLAIN[name])(config.host)
    plain.open(model, update)

    def opened() -> Training:
        training = Training.begin(host, model, update)
        while training.open_next_stage():
            pass
        return training

    def mine() -> tuple[float, float]:
        training = opened()
        host.steps(0)  # the order of facts is made once per update
        return timed(lambda: refine(training))

    opened()
    theirs.begin(update, stages[-1], model.backbone, host.entity, host.relation)
    theirs.steps(0)
    mine()  # kernels are compiled or loaded
    ours, peer = [], []
    for _ in range(2):  # a first run of either side finds no memory that it can use again
        ours.append(mine())
        peer.append(timed(lambda: plain.train_stage(theirs, len(stages) - 1, stages[-1])))
    (mine_seconds, mine_processor), (peer_seconds, peer_processor) = (
        [min(values) / EPOCHS for values in zip(*found, strict=True)] for found in (ours, peer)
    )
    return {
        "what": f"an epoch of {name}, ENTITY update {UPDATE}, {len(update.train):,} facts, "
        f"batches of {config.refine.batch:,}, float64, {torch.get_num_threads()} threads",
        "meor_seconds": mine_seconds,
        "plain_torch_seconds": peer_seconds,
        "times_faster": peer_seconds / mine_seconds,
        "meor_processor_seconds": mine_processor,
        "plain_torch_processor_seconds": peer_processor,
        "times_less_processor_time": peer_processor / mine_processor,
    }


def timed(job: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of processor time: where others use the machine, the latter says more."""
    begin = time.process_time()
    return seconds(job), time.process_time() - begin
