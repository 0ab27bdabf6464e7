"""A seeded sample of the facts to rank: for grids of many runs, where every fact would take too long.

Its address names a split and a snapshot and nothing else. So every method, pair and backbone ranks the very
same facts, a fact that is ranked after one update is ranked after all later ones, and a larger sample holds
the smaller ones.
"""

from __future__ import annotations

import numpy as np

from meor.random import generator
from meor.stream.snapshot import Stream
from meor.typing import Facts, Split

ALL = 0
"""The sample that leaves nothing out."""


def facts_to_rank(stream: Stream, snapshot: int, split: Split, sample: int = ALL) -> Facts:
    """The facts of a snapshot, or `sample` of them where there are more, in their order.

    By snapshot and not by update: updates that bring few facts keep all of them, whatever the base holds.
    """
    facts = stream.snapshots[snapshot].facts([split])
    if sample == ALL or sample >= len(facts):
        return facts
    order = generator("evaluation-sample", split.value, snapshot).permutation(len(facts))
    return facts[np.sort(order[:sample])]


def sample_note(sample: int) -> str:
    """What to say wherever a number comes from a sample; nothing where all facts are ranked."""
    if sample == ALL:
        return ""
    return f"Ranked is a seeded sample of at most {sample:,} facts a snapshot, the same ones in every run."
