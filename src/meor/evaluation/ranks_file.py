"""`ranks.parquet`: the ranks of an update, readable without our code, equal bytes for equal ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from meor.errors import RunError
from meor.evaluation.rank import Ranks
from meor.storage.parquet import column, read_table, table_bytes
from meor.stream.occurrence import Occurrences
from meor.typing import Role, Side, Split

_UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError)
_NONE = np.empty(0, dtype=np.int64)
_NOTHING = Ranks(
    Occurrences(0, Side.HEAD, np.empty((0, 3), dtype=np.int64), _NONE, _NONE.astype(np.int8)), _NONE, _NONE
)
_ROLES = np.array([role.label for role in Role])
_INTEGERS = ("update", "snapshot", "head", "relation", "tail")
_WORDS = ("split", "role", "side")
COLUMNS = ("update", "snapshot", "split", "role", "side", "head", "relation", "tail", "rank_old", "rank_cur")


def ranks_bytes(by_split: Mapping[Split, Sequence[Ranks]]) -> bytes:
    """All rows in the order given.

    Ranks are int64; under the realistic tie rule they may be halves and are float64.
    """
    parts = [_table(each, split) for split, ranks in by_split.items() for each in ranks]
    return table_bytes(pa.concat_tables(parts or [_table(_NOTHING, Split.TEST)]), compression_level=3)


def read_ranks(path: Path, data: bytes | None = None) -> dict[Split, tuple[Ranks, ...]]:
    """The ranks of a file, one `Ranks` for each update and side in the order they were written.

    `data` are its bytes where they were read before, such as to verify them.
    """
    try:
        table = read_table(path, data=data)
    except _UNREADABLE as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RunError(f"{path} cannot be read as ranks: {reason}. Make it again.") from None
    if tuple(table.column_names) != COLUMNS:
        raise RunError(f"{path} has columns {table.column_names} instead of {list(COLUMNS)}. Make it again.")
    try:
        columns = _columns(table)
        return _by_split(columns)
    except _UNREADABLE as error:
        raise RunError(f"{path} holds a value that is no rank ({error}). Make it again.") from None


def _table(ranks: Ranks, split: Split) -> pa.Table:
    asked = ranks.occurrences
    n = len(asked)
    columns: dict[str, Any] = {
        "update": np.full(n, asked.update, dtype=np.int64),
        "snapshot": asked.snapshot,
        "split": column([split.value] * n),
        "role": column(_ROLES[asked.role].tolist()),
        "side": column([asked.side.label] * n),
        "head": asked.fact[:, 0],
        "relation": asked.fact[:, 1],
        "tail": asked.fact[:, 2],
        "rank_old": column(ranks.old, missing=ranks.old == 0),
        "rank_cur": ranks.cur,
    }
    arrays = [value if isinstance(value, pa.Array) else column(value) for value in columns.values()]
    fields = [
        pa.field(name, array.type, nullable=name == "rank_old")
        for name, array in zip(columns, arrays, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _columns(table: pa.Table) -> dict[str, NDArray[Any]]:
    ranks = {"rank_old": _plain(table, "rank_old", missing=0), "rank_cur": _plain(table, "rank_cur")}
    integers = {name: _plain(table, name).astype(np.int64) for name in _INTEGERS}
    return ranks | integers | {name: np.array(table[name].to_pylist(), dtype=object) for name in _WORDS}


def _plain(table: pa.Table, name: str, missing: int | None = None) -> NDArray[Any]:
    column = table[name].combine_chunks()
    if not (
        pa.types.is_integer(column.type) or (name.startswith("rank_") and pa.types.is_floating(column.type))
    ):
        raise ValueError(f"{name} holds {column.type} values")
    if column.null_count:
        if missing is None:
            raise ValueError(f"{name} holds a null")
        column = column.fill_null(missing)
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _by_split(columns: dict[str, NDArray[Any]]) -> dict[Split, tuple[Ranks, ...]]:
    role_of = {role.label: int(role) for role in Role}
    side_of = {side.label: side for side in Side}
    found: dict[Split, list[Ranks]] = {}
    for chosen in _runs(columns):
        at = int(chosen[0])
        fact = np.stack([columns[name][chosen] for name in ("head", "relation", "tail")], axis=1)
        role = np.array([role_of[label] for label in columns["role"][chosen]], dtype=np.int8)
        side = side_of[columns["side"][at]]
        asked = Occurrences(int(columns["update"][at]), side, fact, columns["snapshot"][chosen], role)
        ranks = Ranks(asked, columns["rank_old"][chosen], columns["rank_cur"][chosen])
        found.setdefault(Split(columns["split"][at]), []).append(ranks)
    return {split: tuple(ranks) for split, ranks in found.items()}


def _runs(columns: dict[str, NDArray[Any]]) -> Iterable[NDArray[np.int64]]:
    """Rows of one split, update and side, in order of first appearance."""
    n = len(columns["update"])
    if not n:
        return
    change = np.zeros(n, dtype=bool)
    for name in ("update", "side", "split"):
        change[1:] |= columns[name][1:] != columns[name][:-1]
    starts = np.append(np.concatenate([[0], np.flatnonzero(change)]), n)
    for begin, end in pairwise(starts):
        yield np.arange(begin, end)
