"""The paper's four streams load, and every count of its Table 1 is theirs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from meor.stream.files import read_stream
from meor.stream.snapshot import Stream
from meor.typing import SPLITS

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        "MEOR_DATA" not in os.environ, reason="MEOR_DATA does not point to the paper's streams"
    ),
]

# Table 1: cumulative entities, cumulative relations, facts introduced, for snapshots 0 to 4.
TABLE_1 = {
    "ENTITY": [
        (2_909, 233, 46_388),
        (5_817, 236, 72_111),
        (8_725, 236, 73_785),
        (11_633, 237, 70_506),
        (14_541, 237, 47_326),
    ],
    "FBInc-S": [
        (2_909, 233, 46_388),
        (2_919, 233, 235),
        (2_930, 233, 152),
        (2_940, 233, 180),
        (2_950, 233, 239),
    ],
    "FBInc-L": [
        (2_909, 233, 46_388),
        (3_010, 233, 3_110),
        (3_110, 234, 2_736),
        (3_211, 234, 2_908),
        (3_312, 234, 3_105),
    ],
    "WN-CKGE": [
        (24_567, 11, 55_801),
        (28_660, 11, 9_300),
        (32_754, 11, 9_300),
        (36_848, 11, 9_300),
        (40_943, 11, 9_302),
    ],
}


@pytest.fixture(scope="module", params=list(TABLE_1))
def stream(request: pytest.FixtureRequest) -> Stream:
    return read_stream(Path(os.environ["MEOR_DATA"]) / request.param)


def test_the_counts_of_table_1_agree(stream: Stream) -> None:
    facts = [len(snapshot) for snapshot in stream.snapshots]
    found = list(zip(stream.entity_counts, stream.relation_counts, facts, strict=True))
    assert found == TABLE_1[stream.name]


def test_table_1_has_60_cells() -> None:
    assert sum(len(cells) for rows in TABLE_1.values() for cells in rows) == 60


def test_every_snapshot_has_all_three_splits(stream: Stream) -> None:
    assert all(len(s.train) and len(s.valid) and len(s.test) for s in stream.snapshots)


# Facts between two old entities at updates 1 to 4, which no role of the paper covers.
SETTLED = {
    "ENTITY": {"train": [0, 0, 0, 0], "valid": [0, 0, 0, 0], "test": [0, 0, 0, 0]},
    "FBInc-S": {"train": [0, 0, 0, 0], "valid": [0, 0, 0, 0], "test": [0, 0, 0, 0]},
    "FBInc-L": {"train": [0, 0, 0, 0], "valid": [0, 0, 1, 0], "test": [0, 0, 0, 0]},
    "WN-CKGE": {"train": [0, 0, 0, 0], "valid": [0, 0, 0, 1_136], "test": [0, 332, 1_056, 1_623]},
}


def test_facts_between_old_entities_are_where_we_say(stream: Stream) -> None:
    found = {
        split.value: [
            int(
                (
                    stream.snapshots[u].facts([split])[:, [0, 2]].max(axis=1) < stream.entity_counts[u - 1]
                ).sum()
            )
            for u in stream.updates
        ]
        for split in SPLITS
    }
    assert found == SETTLED[stream.name]


def test_each_newcomer_is_in_the_train_facts_of_its_update(stream: Stream) -> None:
    for update in range(len(stream.snapshots)):
        seen = set(stream.snapshots[update].train[:, [0, 2]].ravel().tolist())
        assert set(stream.newcomers(update)) <= seen
