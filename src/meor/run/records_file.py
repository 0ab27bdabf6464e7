"""`records.parquet`: what the penalty saw at every occurrence of an update's buffer."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from meor.methods import METHODS
from meor.methods.comparison import Comparison, Settings
from meor.methods.penalty import Records
from meor.methods.registry import MEOR, Variant
from meor.run.config import Config
from meor.run.layout import RECORDS, update_name
from meor.run.prepare import update_of
from meor.run.view import RunView
from meor.storage.parquet import column, table_bytes, table_of
from meor.stream.snapshot import Stream
from meor.typing import SIDES


def variant_of(method: str) -> Variant:
    """The variant whose records a method has; methods without a penalty are looked at as MEOR would."""
    return METHODS[method].variant or MEOR


def comparison_of(config: Config, stream: Stream, update: int) -> Comparison:
    """Who is compared with whom in a run: the seed is the address, so a pair shares every id."""
    chosen = config.penalty
    settings = Settings(
        beta=chosen.beta,
        draws=chosen.draws,
        scale_sample=chosen.scale_sample,
        signature=chosen.signature,
        eta=chosen.mad_weight,
        epsilon=chosen.epsilon,
        detach_reference=chosen.detach_reference,
    )
    fact = update_of(config, stream, update).replay.fact
    return Comparison.build(
        stream, update, fact, run=config.seed, variant=variant_of(config.method), settings=settings
    )


def records_table(records: Records) -> pa.Table:
    """One row per occurrence, in the buffer's order; quantities of one that is not eligible are null."""
    cohort, scale = records.comparison.cohort, records.scale
    nothing = ~records.eligible
    sides = np.array([side.label for side in SIDES])
    numbers = {
        "iqr": scale.iqr,
        "mad": scale.mad,
        "tau": scale.tau,
        "u_new": records.new,
        "u_old": records.reference,
        "excess": records.excess,
    }
    columns = {
        **{name: column(cohort.fact[:, at]) for at, name in enumerate(("head", "relation", "tail"))},
        "side": column(sides[cohort.side].tolist()),
        "n_newcomers": column(cohort.n_newcomers),
        **{name: column(value, missing=nothing) for name, value in numbers.items()},
        "active": column(records.active),
    }
    return table_of(columns)


def records_bytes(records: Records) -> bytes:
    return table_bytes(records_table(records), compression_level=3)


def active_share(view: RunView, stream: Stream) -> float | None:
    """The share of active records among the eligible ones of all updates, at each update's final weights."""
    active = eligible = 0
    for update in stream.updates:
        name = f"{update_name(update)}/{RECORDS}"
        if not view.has(name):
            return None
        table = view.table(name, ["excess", "active"])
        flags, excess = table["active"].to_pylist(), table["excess"].to_pylist()
        eligible += sum(value is not None and not math.isnan(value) for value in excess)
        active += sum(bool(flag) for flag in flags)
    return active / eligible if eligible else 0.0
