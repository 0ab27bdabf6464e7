"""An epoch of LKGE and of IncDE against the plain torch loop that tests hold them to, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from tests.hosts.plain import PLAIN, PlainIncDE

from benchmarks.timing import seconds
from meor.backbone import BACKBONES
from meor.run.config import Config
from meor.run.prepare import host_of, update_of
from meor.run.session import use_threads
from meor.stream.snapshot import Stream
from meor.training.host import Update
from meor.training.initialise import base_model
from meor.training.refine import refine
from meor.training.training import Training

UPDATE = 2
PASSES = {"lkge": 1, "incde": 22}  # so that the last stage has one


class WithoutCentrality(PlainIncDE):
    """networkx would take minutes, which are no part of an epoch."""

    def central(self, update: Update) -> tuple[dict[int, float], dict[int, float]]:
        return {}, {}


def epoch(stream: Stream, name: str) -> dict[str, object]:
    """Update 2, dimension 200, float64, the authors' batches, draws and Adam included; two threads each."""
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
    ours = [mine()]
    peer = timed(lambda: plain.train_stage(theirs, len(stages) - 1, stages[-1]))
    ours += [mine(), mine()]
    best, processor = (min(values) for values in zip(*ours, strict=True))
    return {
        "what": f"one epoch of {name}, ENTITY update {UPDATE}, {len(update.train):,} facts, "
        f"batches of {config.refine.batch:,}, float64, {torch.get_num_threads()} threads",
        "meor_seconds": best,
        "plain_torch_seconds": peer[0],
        "times_faster": peer[0] / best,
        "meor_processor_seconds": processor,
        "plain_torch_processor_seconds": peer[1],
        "times_less_processor_time": peer[1] / processor,
    }


def timed(job: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of processor time: where others use the machine, the latter says more."""
    begin = time.process_time()
    return seconds(job), time.process_time() - begin
