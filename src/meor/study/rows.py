"""`runs.parquet`: one row per run, full precision, readable without our code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from meor.errors import StudyError
from meor.evaluation.endpoints import MEANING, MRR
from meor.evaluation.protocols import CURRENT, UNIVERSES
from meor.methods import current_name
from meor.storage.parquet import UNREADABLE, column, read_table, table_bytes
from meor.study.results import AGAIN, Results

RUNS = "runs.parquet"
UNREGULARIZED = "none"
"""The coefficient rule of methods that have no coefficient: their one run serves every rule."""

FORMER_HASH = "input_hash"  # of start and schedule together

ENDPOINTS = tuple(MEANING)
IDENTITY_TOLERANCE = 1e-12

FIGURES = {"MRR": MRR, "H1": "hits@1", "H10": "hits@10"}
"""What columns call the metrics of the field's protocols."""
RELEASED = "released"
PROTOCOL_COLUMNS = tuple(
    f"{figure}_{protocol}" for protocol in (*UNIVERSES, CURRENT, RELEASED) for figure in FIGURES
)


@dataclass(frozen=True, slots=True)
class Row:
    """One run of a study. An endpoint that is undefined on the stream is None, never 0.

    Where some of its cells hold a query, their mean stands beside it, and how many they are of how many.
    """

    study: str
    stream: str
    backbone: str
    host: str
    preset: str
    coefficient_rule: str  # balance, validated, a number, or "none" for methods without a coefficient
    pair: int  # the seed everything in the pair shares
    method: str
    H_cur: float | None
    H_old: float | None
    D_MCI: float | None
    A_TN: float | None
    A_QN: float | None
    coefficient: float  # what multiplied the penalty; 0 without a penalty
    active_share: float | None  # of eligible penalty records, over all updates; None without a penalty
    pair_hash: str  # of all that the runs of a pair start from
    multiple: float | None  # of the balanced coefficient; None where it is no multiple
    reference_hash: str | None  # of the reference ids the penalty used
    run: str  # the run's folder, relative to the study's
    H_cur_existing: float | None = None  # of an undefined endpoint: the mean over the cells that exist
    H_old_existing: float | None = None
    D_MCI_existing: float | None = None
    A_TN_existing: float | None = None
    A_QN_existing: float | None = None
    existing_cells: str | None = None  # such as "A_TN 4 of 6, A_QN 4 of 6"
    schedule_hash: str | None = None  # of how it was trained; None where each run of the pair stops by itself
    curve: str | None = None  # of a frontier, and where on it this run stands
    at: float | None = None
    H_cur_valid: float | None = None  # on validation facts, where the study ranks them as well
    H_old_valid: float | None = None
    D_MCI_valid: float | None = None
    A_TN_valid: float | None = None
    A_QN_valid: float | None = None
    MRR_A: float | None = None  # of all test facts after the last update (`evaluation.protocols`),
    H1_A: float | None = None  # where the study asks for it: Hits@1, Hits@10
    H10_A: float | None = None
    MRR_B: float | None = None
    H1_B: float | None = None
    H10_B: float | None = None
    MRR_current: float | None = None
    H1_current: float | None = None
    H10_current: float | None = None
    MRR_released: float | None = None  # A with the filter of the authors' code, where the variant has another
    H1_released: float | None = None
    H10_released: float | None = None

    def endpoint(self, name: str) -> float | None:
        value: float | None = getattr(self, name)
        return value

    def shown(self, name: str) -> float | None:
        """The endpoint or, where it is undefined, the mean over the cells that exist."""
        value = self.endpoint(name)
        return self.endpoint(f"{name}_existing") if value is None else value

    def is_partial(self, name: str) -> bool:
        return self.endpoint(name) is None and self.shown(name) is not None

    def cells_of(self, name: str) -> str:
        """How many cells a partial endpoint is a mean of: `4 of 6`."""
        told = (each.partition(" ") for each in (self.existing_cells or "").split(", "))
        return next((cells for of, _, cells in told if of == name), "some")

    @property
    def group(self) -> Group:
        return Group(self.stream, self.backbone, self.host, self.preset)


@dataclass(frozen=True, slots=True, order=True)
class Group:
    """Runs may be compared only where all of this is the same."""

    stream: str
    backbone: str
    host: str
    preset: str

    def __str__(self) -> str:
        name = Path(self.stream).name  # of a stream that is a folder: where it lies says nothing here
        return f"{name}, {self.host}-{self.backbone}, {self.preset}"


_TYPES = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}
_SCHEMA = pa.schema(
    [
        pa.field(
            field.name, _TYPES[str(field.type).removesuffix(" | None")], nullable="None" in str(field.type)
        )
        for field in fields(Row)
    ]
)


def rows_file(rows: Iterable[Row]) -> bytes:
    """The bytes of `runs.parquet`."""
    checked = list(rows)
    for row in checked:
        check_identity(row)
    arrays = [_column([getattr(row, field.name) for row in checked], field.type) for field in _SCHEMA]
    return table_bytes(pa.Table.from_arrays(arrays, schema=_SCHEMA))


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    missing = np.array([value is None for value in values], dtype=bool)
    if kind == pa.string():
        return column([value or "" for value in values], missing)
    return column(np.array([value or 0 for value in values], dtype=kind.to_pandas_dtype()), missing)


def row_of(values: Mapping[str, Any]) -> Row:
    """A row as it was written, perhaps by a version with one hash for start and schedule."""
    found = {**values, "method": current_name(values["method"])}
    if both := found.pop(FORMER_HASH, None):
        found |= {"pair_hash": both, "schedule_hash": both}
    return Row(**found)


def read_rows(path: Path, results: Results | None = None) -> list[Row]:
    """The rows of a study: verified, decoded, each checked against the exact identity of its endpoints."""
    data = (results or Results(path.parent)).read(path.name)
    if data is None:
        raise StudyError(f"{path} cannot be read: the study has no such file yet. {AGAIN}")
    # Columns that came later have defaults: rows of earlier studies are read as they are.
    needed = [field.name for field in fields(Row) if field.default is MISSING]
    try:
        table = read_table(path, data=data)
        known = {*table.column_names, *(["pair_hash"] if FORMER_HASH in table.column_names else [])}
        missing = [name for name in needed if name not in known]
        if missing:
            raise StudyError(f"{path} has no column {missing[0]}. {AGAIN}")
        names = [name for name in (*_SCHEMA.names, FORMER_HASH) if name in table.column_names]
        rows = [row_of(each) for each in table.select(names).to_pylist()]
    except UNREADABLE as error:
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StudyError(f"{path} cannot be read as the runs of a study: {problem}. {AGAIN}") from None
    for row in rows:
        check_identity(row)
    return rows


def check_identity(row: Row) -> None:
    """D_MCI = H_old - H_cur for each row, so paired effects add up exactly (decision 40)."""
    parts = row.H_cur, row.H_old, row.D_MCI
    existing = (f"{name}_existing" for name in ENDPOINTS)
    for name in (*ENDPOINTS, *existing, *PROTOCOL_COLUMNS, "coefficient", "active_share"):
        value = getattr(row, name)
        if value is not None and not math.isfinite(value):
            raise StudyError(f"{row.run}: {name} is {value}. Make the run again.")
    if any(value is None for value in parts):
        return
    cur, old, lost = (float(value) for value in parts if value is not None)
    if abs((old - cur) - lost) > IDENTITY_TOLERANCE:
        raise StudyError(
            f"{row.run}: D_MCI is {lost!r}, but H_old - H_cur is {old - cur!r}. "
            "The row was changed or mixes two runs; make the run again."
        )


def select(
    rows: Sequence[Row], group: Group, method: str, rule: str, *, multiple: float | None = None
) -> dict[int, Row]:
    """The runs of a method by pair. Methods without a coefficient serve every rule."""
    found: dict[int, Row] = {}
    for row in rows:
        if row.group != group or row.method != method or row.curve is not None:
            continue
        if row.coefficient_rule != UNREGULARIZED:
            wanted = 1.0 if multiple is None and rule == "balance" else multiple
            if row.coefficient_rule != rule or (wanted is not None and row.multiple != wanted):
                continue
        if row.pair in found:
            raise StudyError(f"pair {row.pair} of {method} stands twice in {group}. Make {RUNS} again.")
        found[row.pair] = row
    return found
