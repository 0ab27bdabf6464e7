"""Append-only labels: ids are admission order, so a universe is a slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class Vocabulary:
    """label <-> id for one kind (entities or relations), with the snapshot that admitted each."""

    __slots__ = ("_admitted_at", "_id_of", "_labels")

    def __init__(self) -> None:
        self._labels: list[str] = []
        self._id_of: dict[str, int] = {}
        self._admitted_at: list[int] = []

    def admit(self, label: str, snapshot: int) -> int:
        """The id of a label; a label seen for the first time gets the next id."""
        known = self._id_of.get(label)
        if known is not None:
            return known
        new = len(self._labels)
        self._id_of[label] = new
        self._labels.append(label)
        self._admitted_at.append(snapshot)
        return new

    def id(self, label: str) -> int:
        return self._id_of[label]

    def label(self, id: int) -> str:
        return self._labels[id]

    @property
    def labels(self) -> Sequence[str]:
        return self._labels

    @property
    def admitted_at(self) -> Sequence[int]:
        return self._admitted_at

    def __len__(self) -> int:
        return len(self._labels)

    def __contains__(self, label: object) -> bool:
        return label in self._id_of

    def __iter__(self) -> Iterator[str]:
        return iter(self._labels)
