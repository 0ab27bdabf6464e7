"""`make bench [ONLY=name]`: every timing on real data, printed and kept in `results/benchmarks.json`."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks import (
    admission,
    admit,
    answers,
    cost,
    dial,
    evaluation,
    foreign_audit,
    hosts,
    penalty,
    start,
    training,
)
from meor.errors import MeorError
from meor.stream.registry import open_stream

RESULTS = Path("results/benchmarks.json")


def _jobs() -> dict[str, Callable[[], dict[str, object]]]:
    entity = open_stream("ENTITY")
    n, m = entity.entity_counts[4], entity.relation_counts[4]
    return {
        "evaluation": lambda: evaluation.against_pykeen(entity),
        "universes": lambda: evaluation.against_product(
            entity, evaluation.random_model("complex", n, m), "random rows"
        ),
        "universes_transe": lambda: evaluation.against_cdist(
            entity, evaluation.random_model("transe", n, m), "random rows"
        ),
        "generic": lambda: evaluation.against_bare_scores(
            entity, evaluation.random_model("rotate", entity.entity_counts[1], entity.relation_counts[1])
        ),
        "stopping": lambda: evaluation.kept_against_anew(entity),
        **{
            f"epoch_{name}": lambda name=name: training.epoch_against_pykeen(entity, name)
            for name in ("complex", "distmult", "transe")
        },
        **{f"epoch_{name}": lambda name=name: hosts.epoch(entity, name) for name in ("lkge", "incde")},
        "penalty": lambda: penalty.refinement_pass(entity),
        "admission": admission.against_size,
        "admit": lambda: admit.judging_against_refining(entity),
        "answers": lambda: answers.against_numpy(entity),
        "cost": cost.against_sizes,
        "dial": lambda: dial.against_evaluation(entity),
        "cap": lambda: dial.cap_in_a_step(entity),
        "foreign_audit": foreign_audit.peak_memory,
        "start": start.against_torch,
    }


def _machine() -> dict[str, object]:
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def main(wanted: list[str]) -> int:
    try:
        jobs = _jobs()
    except MeorError as error:
        print(f"The benchmarks run on the paper's ENTITY stream. {error}", file=sys.stderr)
        return 2
    unknown = set(wanted) - set(jobs)
    if unknown:
        print(f"No benchmark is called {sorted(unknown)}; there are {sorted(jobs)}.", file=sys.stderr)
        return 2
    if len(wanted) != 1:
        # Each in a process of its own, so that one's memory is not another's peak.
        codes = [
            subprocess.run([sys.executable, "-m", "benchmarks", name], check=False).returncode
            for name in wanted or jobs
        ]
        return max(codes)
    (name,) = wanted
    print(f"\n{name}", flush=True)
    found = jobs[name]()
    for label, value in found.items():
        print(f"  {label:34s} {value:,.4g}" if isinstance(value, float) else f"  {label:34s} {value}")
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({**kept, name: {**found, "machine": _machine()}}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
