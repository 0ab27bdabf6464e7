"""The fast path of frozen hosts: only newcomers above the answer are ever touched (decision 29).

Newcomers are screened in tiles under the byte budget; outrankers come back with exact float64 scores.
Loss and gradient are made together, as in `training.loss`: backward only hands the gradient on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from meor.backbone.base import Backbone, Geometry, Scoring
from meor.compiled import share
from meor.methods.comparison import Comparison, require_finite
from meor.methods.frozen import Frozen, Scratch
from meor.methods.kernels import add_row_gradients, by_row, newcomer_pressures
from meor.search.clumps import Clumps
from meor.search.exact import TILE_NUMBERS
from meor.search.outrankers import Outrankers, outrankers
from meor.search.screen import Candidates
from meor.training.loss import Embedding
from meor.typing import Floats, Ids

MANY = 20_000  # newcomers: with fewer, the plain screen is as fast
SEARCHES = 50  # clumps are looked for again only if the last ones served this many steps
BYTES_AN_ENTRY = 16  # of an outranker found among clumps


@dataclass(frozen=True, slots=True)
class Pressed:
    """Outrankers of some occurrences, by occurrence, and the pressure they make."""

    start: Ids  # [Q + 1]
    column: Ids  # newcomer n_old + column
    weight: Floats  # d pressure / d score of each outranker
    value: Floats  # [Q] U_beta or V


def sparse_pressures(comparison: Comparison, frozen: Frozen, tiles: Tiles, index: Ids) -> Pressed:
    """U_beta (Eq. aggregate) or V of the newcomers, from outrankers alone."""
    cohort, settings = comparison.cohort, comparison.settings
    above = _outrankers(comparison, frozen, tiles, index)
    if not np.isfinite(above.score).all():
        require_finite(cohort, above.score, np.repeat(index, np.diff(above.start)))
    value, weight = np.empty(len(index)), np.empty(len(above.score))
    share(
        newcomer_pressures,
        len(index),
        above.start,
        above.score,
        frozen.queries.threshold[index],
        frozen.scale.tau[index],
        cohort.n_newcomers[index],
        settings.beta,
        comparison.variant.aggregate == "smooth",
        value,
        weight,
    )
    return Pressed(above.start, above.column, weight, value)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Newcomer rows cut so that what is prepared of one tile stays under the byte budget."""

    row: Floats  # [N, W], of any float type
    size: int
    whole: Candidates | None = None  # prepared once where one tile holds everything
    clumps: Clumps | None = None  # where there are very many rows, and they come in clumps

    @classmethod
    def of(cls, row_NW: Floats, scoring: Scoring, memory: int, kept: Scratch | None = None) -> Tiles:
        """Cut rows; `kept` is what an earlier step of the same update left, and is left for the next."""
        kept = Scratch() if kept is None else kept
        size = max(64, memory // (24 * row_NW.shape[1]))
        if len(row_NW) >= MANY and scoring is Geometry.DOT:
            _look_for_clumps(row_NW, kept)
            if kept.clumps is not None:
                return cls(row_NW, size, clumps=kept.clumps)
        if len(row_NW) > size:
            return cls(row_NW, size)
        kept.candidates = Candidates.prepare(scoring, row_NW, coarse=True, into=kept.candidates)
        return cls(row_NW, size, kept.candidates)

    def prepared(self, scoring: Scoring) -> Iterator[tuple[int, Candidates]]:
        if self.whole is not None:
            yield 0, self.whole
            return
        for first in range(0, len(self.row), self.size):
            yield first, Candidates.prepare(scoring, self.row[first : first + self.size], coarse=True)


def _look_for_clumps(row_NW: Floats, kept: Scratch) -> None:
    """Once, and again when rows have moved so far that clumps no longer pay."""
    if kept.scattered:
        return
    if kept.clumps is not None and not kept.clumps.pays:
        kept.scattered = kept.clumps.searches < SEARCHES
        kept.clumps = None
    if kept.clumps is None and not kept.scattered:
        kept.clumps = Clumps.find(row_NW)
        kept.scattered = kept.clumps is None


def _outrankers(comparison: Comparison, frozen: Frozen, tiles: Tiles, index: Ids) -> Outrankers:
    """Newcomers above the answer, joined by occurrence."""
    cohort, queries = comparison.cohort, frozen.queries.select(index)
    if tiles.clumps is not None:
        room = comparison.settings.memory // BYTES_AN_ENTRY
        above = tiles.clumps.outrankers(tiles.row, queries, offset=cohort.n_old, room=room)
        if above is not None:
            return above
    found = []
    for first, candidates in tiles.prepared(frozen.scoring):
        if candidates.screened is None and isinstance(candidates.scoring, Geometry):
            _require_finite_scores(comparison, queries.row.take(queries.place, 0), candidates, index)
        found.append((first, outrankers(candidates, queries, offset=cohort.n_old + first)))
    return Outrankers.of_tiles(found)


def _require_finite_scores(comparison: Comparison, query: Floats, candidates: Candidates, index: Ids) -> None:
    """Rows that could not be screened may make scores of -inf, which outrank nobody: look for them."""
    block = max(1, comparison.settings.memory // (8 * max(len(candidates.row), 1)))
    for begin in range(0, len(query), block):
        part = slice(begin, begin + block)
        with np.errstate(all="ignore"):
            require_finite(comparison.cohort, query[part] @ candidates.row.T, index[part])


def sparse_penalty(
    comparison: Comparison, frozen: Frozen, entity: Embedding, index: Ids, *, beside: bool = False
) -> Tensor:
    """L_MEOR (Eq. meor) over eligible occurrences, differentiable in the newcomer rows.

    `beside` another loss of the same rows: its dense gradient is completed by `join_pending`, in place.
    """
    rows, memory = entity.trained, comparison.settings.memory
    tiles = Tiles.of(rows.detach().numpy(), frozen.scoring, memory, frozen.scratch)
    size = max(1, memory // (24 * max(comparison.cohort.n_new, 1)))
    if tiles.clumps is not None:
        size = len(index)  # each search reads every row once, so all queries are searched together
    parts, total = list[tuple[Ids, Pressed, Floats]](), 0.0
    for begin in range(0, len(index), size):
        part = index[begin : begin + size]
        pressed = sparse_pressures(comparison, frozen, tiles, part)
        excess = np.maximum(pressed.value - frozen.reference[part], 0.0)
        if excess.any():
            total += float(np.square(excess).sum())
            parts.append((part, pressed, 2.0 * excess / len(index)))
    loss = rows.detach().new_tensor(total / max(len(index), 1))
    if not (parts and rows.requires_grad and torch.is_grad_enabled()):
        return loss
    return _FromOutrankers.apply(rows, loss, frozen, parts, beside)  # type: ignore[no-untyped-call,no-any-return]


class _FromOutrankers(torch.autograd.Function):
    """A known value; the gradient is summed in `backward`, with the upstream factor in it."""

    @staticmethod
    def forward(
        context: Any,
        rows: Tensor,
        loss: Tensor,
        frozen: Frozen,
        parts: list[tuple[Ids, Pressed, Floats]],
        beside: bool,
    ) -> Tensor:
        context.made_from = rows.detach(), frozen, parts
        context.beside = beside
        return loss.clone()

    @staticmethod
    def backward(context: Any, *upstream: Tensor) -> Any:
        if context.made_from is None:
            raise RuntimeError("Backward is called a second time. Compute the penalty again before it.")
        rows, frozen, parts = context.made_from
        factor = float(upstream[0])
        scaled = [(part, pressed, factor * slope) for part, pressed, slope in parts]
        if context.beside:
            context.made_from = None  # the host's loss refuses a second backward: nothing may be left pending
            frozen.scratch.pending += scaled
            return None, None, None, None, None, None
        gradient = torch.zeros_like(rows)
        _add_gradients(frozen, scaled, rows, gradient)
        return gradient, None, None, None, None, None


def join_pending(frozen: Frozen) -> Callable[[Tensor], None]:
    """A hook of the newcomer rows: what the penalty left pending joins the gradient the host has given."""

    def join(rows: Tensor) -> None:
        if not frozen.scratch.pending:
            return
        if rows.grad is None:  # the penalty was alone after all
            rows.grad = torch.zeros_like(rows)
        _add_gradients(frozen, frozen.scratch.pending, rows.detach(), rows.grad)
        frozen.scratch.pending.clear()

    return join


def _add_gradients(
    frozen: Frozen, parts: Sequence[tuple[Ids, Pressed, Floats]], rows: Tensor, gradient: Tensor
) -> None:
    """Add d loss / d newcomer rows of some occurrences, in place: only rows that outrank are touched."""
    for part, pressed, slope in parts:
        if isinstance(frozen.scoring, Backbone):
            _add_by_autograd(frozen.scoring, frozen.queries.row[part], pressed, slope, rows, gradient)
            continue
        n_entries = len(pressed.column)
        row_start = np.empty(len(rows) + 1, np.int64)
        query, entry = np.empty(n_entries, np.int64), np.empty(n_entries, np.int64)
        by_row(pressed.start, pressed.column, np.flatnonzero(slope), row_start, query, entry)
        touched = np.flatnonzero(np.diff(row_start))
        share(
            add_row_gradients,
            len(touched),
            frozen.scoring is Geometry.DOT,
            touched,
            row_start,
            query,
            entry,
            pressed.weight,
            slope,
            frozen.queries.row,
            part,
            rows.numpy(),
            gradient.numpy(),
        )


def _add_by_autograd(
    backbone: Backbone, query: Floats, pressed: Pressed, slope: Floats, rows: Tensor, gradient: Tensor
) -> None:
    """The same sum where no kernel knows the score: over the pairs that outrank, some at a time."""
    of = np.repeat(np.arange(len(slope)), np.diff(pressed.start))
    pull = slope[of] * pressed.weight
    at = np.flatnonzero(pull)
    for part in np.array_split(at, 1 + len(at) * rows.shape[1] // TILE_NUMBERS):
        column = torch.from_numpy(pressed.column[part])
        with torch.enable_grad():
            own = rows[column].detach().requires_grad_()
            score = backbone.compare(torch.from_numpy(query[of[part]]), own.double())
            (found,) = torch.autograd.grad(score, own, torch.from_numpy(pull[part]))
        gradient.index_add_(0, column, found)
