"""Which methods of a study are compared with which."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

from meor.methods import METHODS, NONE, needs_coefficient
from meor.methods.registry import with_cap
from meor.study.bounds import holm
from meor.study.effects import PairedComparison, TooFewPairsError, compare
from meor.study.plan import Study
from meor.study.rows import Group, Row

HEAD = "meor"


def head_method(methods: Collection[str]) -> str | None:
    """Whom a study is about: MEOR, or else the first method with a penalty, or the first of all."""
    found = [name for name in (HEAD, with_cap(HEAD), *METHODS) if name in methods and name != NONE]
    return next((name for name in found if needs_coefficient(name)), found[0] if found else None)


def comparisons(plan: Study, rows: Sequence[Row], group: Group, rule: str) -> list[PairedComparison]:
    """The study's method against every other one of the plan."""
    head, methods = head_method(plan.methods_of(group)), plan.methods_of(group)
    pairs = [] if head is None else [(head, name) for name in methods if name != head]
    return _compared(rows, group, rule, pairs)


def others_against_host(plan: Study, rows: Sequence[Row], group: Group, rule: str) -> list[PairedComparison]:
    """Every method but the study's own against the host alone."""
    methods = plan.methods_of(group)
    others = [name for name in methods if name not in (NONE, head_method(methods))] if NONE in methods else []
    return _compared(rows, group, rule, [(name, NONE) for name in others])


def _compared(
    rows: Sequence[Row], group: Group, rule: str, wanted: Sequence[tuple[str, str]]
) -> list[PairedComparison]:
    """Those that share at least two pairs."""
    found = []
    for method, comparator in wanted:
        with suppress(TooFewPairsError):
            found.append(compare(rows, group, rule, method, comparator))
    return found


def adjusted(comparisons: Sequence[PairedComparison], endpoint: str = "H_cur") -> list[float | None]:
    """Holm-adjusted p-values of one endpoint over a family, in its order; None where it is undefined."""
    found = iter(holm([each[endpoint].p_value for each in comparisons if endpoint in each.effects]))
    return [next(found) if endpoint in each.effects else None for each in comparisons]
