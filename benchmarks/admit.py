"""Judging against refining: `meor admit` of ENTITY's snapshot 1 into a store of snapshot 0.

Preset practical, ComplEx 200, method none; the base is trained, or found in the cache. Ranks, rules, names
and, where a budget that is too small refuses the batch, the search for who might wait are timed apart.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from meor.run.config import Config
from meor.run.session import start, use_threads
from meor.run.view import RunView
from meor.store.admit import Request, admit
from meor.store.folder import create
from meor.store.graph import through
from meor.store.settings import GateSettings
from meor.store.version import Content
from meor.stream.snapshot import Stream
from meor.typing import SPLITS


def judging_against_refining(stream: Stream) -> dict[str, object]:
    use_threads(torch.get_num_threads())
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        start(Config(stream="ENTITY"), place / "run", stream=through(stream, 1))
        view = RunView.open(place / "run")
        base = Content(through(stream, 0), view.model(0), view.model(0), view.config, GateSettings())
        create(place / "store", base)
        _write(stream, place / "batch.tsv")
        asked = [
            admit(
                place / "store", Request(place / "batch.tsv", new_relations=True, dry_run=True, budget=budget)
            )
            for budget in (1.0, 0.01, 1.0)
        ]
    _, refused, found = asked
    refined = min(each.refining_seconds for each in asked)
    return {
        "refining, s": refined,
        "judging, s": found.judging_seconds,
        "ratio (bar: 0.33)": found.judging_seconds / refined,
        "judging a refusal, s": refused.judging_seconds,
        "newcomers that might wait": len(refused.verdict["what_if"]["newcomers"]),
        "D_MCI": found.verdict["endpoints"]["D_MCI"],
        "protected queries": found.verdict["protected"]["queries"],
    }


def _write(stream: Stream, path: Path) -> None:
    entity, relation = stream.entities.label, stream.relations.label
    lines = ["head\trelation\ttail\tsplit\n"]
    for split in SPLITS:
        for head, of, tail in stream.snapshots[1].facts([split]).tolist():
            lines.append(f"{entity(head)}\t{relation(of)}\t{entity(tail)}\t{split.value}\n")
    path.write_text("".join(lines))
