"""A run that takes a moment, and what is compared when two runs must be equal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from meor.run.config import Config
from meor.run.session import start
from meor.run.trainer import Resources
from meor.run.view import RunView
from meor.storage.disk import Disk
from meor.stream.snapshot import LabelFact, Stream, build_stream
from meor.typing import Split

N_ENTITIES = (24, 32, 40)
N_RELATIONS = (3, 4, 4)
SETTINGS = (
    "dim=4",
    "base.epochs=3",
    "base.batch=32",
    "base.validate_every=1",
    "base.learning_rate=0.05",
    "base.negatives=4",
    "refine.batch=16",
    "refine.passes=2",
    "refine.negatives=4",
    "refine.replay_size=12",
)


def tiny_stream() -> Stream:
    """A ring: relation r leads from e to e + 2r + 1. Base and two updates; update 1 brings a relation."""
    rng = np.random.default_rng(7)
    seen: dict[LabelFact, None] = {}
    snapshots = []
    for index, n in enumerate(N_ENTITIES):
        first = N_ENTITIES[index - 1] if index else 0
        train = [_fact(head, index, n) for head in range(first, n)]
        train += [
            _fact(head, relation, n) for relation in range(N_RELATIONS[index]) for head in range(first, n)
        ]
        train = [fact for fact in dict.fromkeys(train) if fact not in seen]
        seen.update(dict.fromkeys(train))
        held: list[LabelFact] = []
        while len(held) < 12:
            pair = rng.integers(first, n), rng.integers(0, n)
            head, tail = (int(each) for each in rng.permutation(pair))
            fact = (f"e{head}", f"r{int(rng.integers(N_RELATIONS[index]))}", f"e{tail}")
            if fact not in seen:
                seen[fact] = None
                held.append(fact)
        snapshots.append({Split.TRAIN: train, Split.VALID: held[:6], Split.TEST: held[6:]})
    return build_stream("ring", snapshots)


def _fact(head: int, relation: int, n: int) -> LabelFact:
    return f"e{head}", f"r{relation % N_RELATIONS[-1]}", f"e{(head + 2 * relation + 1) % n}"


def tiny_config(*sets: str, stream: Path | str = "ring") -> Config:
    return Config.gather(flags={"stream": str(stream), "method": "none"}, sets=[*SETTINGS, *sets])


def each_step(cache: Path, **changes: Any) -> Resources:
    """A checkpoint after every step, and a cache of its own."""
    return Resources(cache=cache, checkpoint_seconds=0.0, **changes)


def made_once(place: Path, stream: Stream, *shared: str) -> Callable[..., RunView]:
    """Settings -> a finished run with them and the shared ones; the same settings give the same run."""
    runs: dict[tuple[str, ...], RunView] = {}

    def run(*sets: str) -> RunView:
        if sets not in runs:
            folder = place / str(len(runs))
            start(tiny_config(*shared, *sets), folder, stream=stream, resources=each_step(place / "cache"))
            runs[sets] = RunView.open(folder)
        return runs[sets]

    return run


class Hasty(Disk):
    """Leaves syncing to the system: it matters when power fails, not when a process is killed."""

    def sync(self, path: Path) -> None:
        pass


def results(run: Path) -> dict[str, str]:
    """sha256 of every result file, and of each optimizer's last state as the log gives it."""
    paths = [path for path in sorted(run.rglob("*")) if path.suffix in {".safetensors", ".parquet", ".json"}]
    found = {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if path.name != "manifest.json"
    }
    for line in (run / "log.jsonl").read_text().splitlines():
        event = json.loads(line)
        if "optimizer_sha256" in event:
            found[f"optimizer of update {event.get('update', 0)}"] = event["optimizer_sha256"]
    return found


def begin_or_go_on(run: Path, stream: Path, cache: Path, sets: tuple[str, ...] = ()) -> None:
    """What a killed process and the one after it do; a module-level function, so that it can be spawned."""
    from meor.run.layout import is_run
    from meor.run.session import resume

    if is_run(run):
        resume(run, resources=each_step(cache), disk=Hasty())
    else:
        start(tiny_config(*sets, stream=stream), run, resources=each_step(cache), disk=Hasty())
