"""Results as tables: with labels and not ids, shown by a notebook, and as a pandas DataFrame where asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from meor.errors import InputError
from meor.escape import LONGEST, clipped, markup

if TYPE_CHECKING:
    from pandas import DataFrame

SHOWN = 10
"""Rows that a notebook shows."""


class Tabular(ABC):
    """Something that has columns."""

    @abstractmethod
    def columns(self) -> Mapping[str, Sequence[Any]]:
        """Values by name, all of one length."""

    def to_frame(self) -> DataFrame:
        """The whole table; pandas is imported here and nowhere else."""
        try:
            import pandas
        except ImportError:
            raise InputError("pandas is not installed", remedy="Install it: pip install pandas") from None
        return pandas.DataFrame({name: list(values) for name, values in self.columns().items()})

    def _repr_html_(self) -> str:
        columns = self.columns()
        total = len(next(iter(columns.values()), ()))
        rows = islice(zip(*columns.values(), strict=True), SHOWN)
        head = _line("th", columns)
        body = "".join(_line("td", map(_shown, row)) for row in rows)
        more = f"<p>{total - SHOWN:,} more rows: to_frame() has them all</p>" if total > SHOWN else ""
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>{more}"


class Rows(Tabular, Sequence[Mapping[str, Any]]):
    """A few records with the same keys."""

    def __init__(self, what: str, rows: Iterable[Mapping[str, Any]], names: Sequence[str] = ()) -> None:
        self.what, self._rows = what, tuple(rows)
        self._names = tuple(names or (self._rows[0] if self._rows else ()))

    def columns(self) -> Mapping[str, Sequence[Any]]:
        return {name: [row[name] for row in self._rows] for name in self._names}

    def __getitem__(self, at: Any) -> Any:
        return self._rows[at]

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"{len(self):,} {self.what}"


def _line(cell: str, values: Iterable[Any]) -> str:
    return f"<tr>{''.join(f'<{cell}>{markup(str(value))}</{cell}>' for value in values)}</tr>"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, list | tuple):
        return clipped(", ".join(map(str, value)), LONGEST)
    return clipped(str(value), LONGEST)
