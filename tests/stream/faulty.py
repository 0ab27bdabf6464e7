"""Streams with the faults that published ones have: repeated facts, and an entity first seen in valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

Facts = Sequence[tuple[str, str, str]]


def write(root: Path, snapshots: Mapping[str, Mapping[str, Facts]]) -> Path:
    for snapshot, splits in snapshots.items():
        for split, facts in splits.items():
            file = root / snapshot / f"{split}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a") as lines:
                lines.writelines("\t".join(fact) + "\n" for fact in facts)
    return root


def repeated(root: Path, count: int) -> Path:
    """Two snapshots; `count` facts of the first stand in the second again, half of them in test."""
    people = [(f"p{number}", "knows", f"p{number + 1}") for number in range(200)]
    again = people[:count]
    held = [("p5", "knows", "p1")]
    return write(
        root,
        {
            "0": {"train": people, "valid": [("p1", "knows", "p5")], "test": held},
            "1": {
                "train": [("new", "knows", "p0"), *again[::2]],
                "test": [("p0", "knows", "new"), *again[1::2]],
            },
        },
    )


def early_in_valid(root: Path) -> Path:
    """Snapshot 1 holds `late` in valid and test, and in no train fact."""
    first = [("ann", "knows", "bob"), ("bob", "likes", "cat"), ("cat", "knows", "ann")]
    return write(
        root,
        {
            "0": {"train": first},
            "1": {
                "train": [("dan", "knows", "ann")],
                "valid": [("late", "knows", "ann")],
                "test": [("late", "likes", "cat")],
            },
        },
    )
