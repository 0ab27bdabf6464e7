"""One record on one axis: the answer, the newcomers and the old entities they are compared with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meor.backbone.base import Model
from meor.methods.penalty import Records
from meor.typing import SIDES, Floats, Ids, Side

BARS = " ▁▂▃▄▅▆▇█"
NAMED = 5


def picture(
    found: Records,
    x: int,
    model: Model,
    entity: Callable[[int], str],
    relation: Callable[[int], str],
    width: int = 80,
) -> str:
    """Lines of text: how many score where, in units of the scale, the answer being 0."""
    cohort = found.comparison.cohort
    newcomers = cohort.newcomers_of(x)
    drawn = found.comparison.drawn(np.array([x]))[0]
    gap = _gaps(found, x, model)
    reference = drawn[drawn >= 0]
    margin = 13
    columns = max(min(width, 120) - margin, 20)
    shown = np.concatenate([gap[newcomers], gap[reference], [0.0]])
    edges = np.linspace(
        shown.min(), shown.max() if shown.max() > shown.min() else shown.min() + 1, columns + 1
    )
    zero = int(np.clip(np.searchsorted(edges, 0.0, side="right") - 1, 0, columns - 1))
    head, of, tail = (int(part) for part in cohort.fact[x])
    side = SIDES[cohort.side[x]]
    asked = (
        f"(?, {relation(of)}, {entity(tail)})"
        if side is Side.HEAD
        else f"({entity(head)}, {relation(of)}, ?)"
    )
    top = max(_counts(gap[newcomers], edges).max(), (_counts(gap[reference], edges) / len(drawn)).max(), 1e-9)
    lines = [
        f"{asked}, answer {entity(int(cohort.answer[x]))}",
        f"{'newcomers':<{margin}}{_bars(_counts(gap[newcomers], edges), top)}",
        f"{'matched old':<{margin}}{_bars(_counts(gap[reference], edges) / len(drawn), top)}",
        f"{'':<{margin}}{'─' * zero}┴{'─' * (columns - zero - 1)}",
        f"{'':<{margin}}{_ticks(edges, zero, columns)}",
        f"gap to the answer in units of tau = {found.scale.tau[x]:.4g}; right of the mark: above it",
    ]
    lines += _named("newcomers above it", newcomers, gap, entity)
    lines += _named("matched old above it", np.unique(reference), gap, entity)
    lines.append(
        f"U new {found.new[x]:.4f}, U old {found.reference[x]:.4f}, excess {found.excess[x]:.4f}: "
        + ("penalised" if found.active[x] else "not penalised")
    )
    return "\n".join(lines)


def _gaps(found: Records, x: int, model: Model) -> Floats:
    """[n_cur] z of every entity."""
    cohort = found.comparison.cohort
    side = SIDES[cohort.side[x]]
    anchor, of = cohort.anchor[x : x + 1], cohort.relation[x : x + 1]
    score = model.score(anchor, of, side)[0, : cohort.n_cur].detach().double().numpy()
    return np.asarray((score - score[cohort.answer[x]]) / found.scale.tau[x], dtype=np.float64)


def _counts(value: Floats, edges: Floats) -> Floats:
    return np.histogram(value, edges)[0].astype(np.float64)


def _bars(count: Floats, top: float) -> str:
    """Heights on a root scale, so that a lone entity beside a crowd is still seen."""
    height = np.ceil(np.sqrt(count / top) * (len(BARS) - 1)).astype(int)
    return "".join(BARS[level] for level in height)


def _ticks(edges: Floats, zero: int, columns: int) -> str:
    line = [" "] * columns
    for text, at in ((f"{edges[0]:.2g}", 0), (f"{edges[-1]:.2g}", columns), ("answer", zero)):
        begin = max(0, min(at - (len(text) // 2 if text == "answer" else 0), columns - len(text)))
        line[begin : begin + len(text)] = text
    return "".join(line)


def _named(what: str, ids: Ids, gap: Floats, entity: Callable[[int], str]) -> list[str]:
    above = ids[gap[ids] > 0]
    best = above[np.argsort(-gap[above], kind="stable")][:NAMED]
    names = ", ".join(f"{entity(int(e))} {gap[e]:+.2f}" for e in best)
    more = "" if len(above) <= NAMED else f" and {len(above) - NAMED} more"
    return [f"{len(above)} {what}" + (f": {names}{more}" if names else "")]
