"""Tables 2 to 5: what we measured, and beside it, in rows of their own, what the paper states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from meor.escape import file_name as safe_name
from meor.methods import METHODS, NONE, method_label
from meor.study.comparisons import adjusted, comparisons, head_method
from meor.study.effects import MARGIN, PairedComparison, effect_name, levels
from meor.study.host_choice import host_name
from meor.study.notes import control_notes
from meor.study.paper import is_stream, paper_table, paper_tables
from meor.study.plan import Study
from meor.study.rows import ENDPOINTS, Group, Row
from meor.study.table import OURS, PAPER, Column, Table, Value

METHOD = "meor"
UNADJUSTED = (
    "LB is the one-sided 95 % Student t lower bound of the paired effects; intervals are two-sided 95 %. "
    "They are not adjusted for the number of comparisons. Preserved: LB above "
    f"-{MARGIN}. W/T/L counts full-precision H_cur effects."
)
ACTIVE = "Active is the share of the penalty's records with an excess."
SOURCE = "Rows whose source is paper are printed in the paper and not ours; -- is not reported."
HOLM = "Holm p is the one-sided p-value of ΔH_cur, adjusted by Holm for a family: our rows of this table."
HOLM_TABLES = ("effects", "ablation", "transfer")
PAPER_PAIRS = 8

Line = tuple[Value, ...]
WTL, ACTIVE_SHARE, PAIRS = Column("W/T/L", "count"), Column("active", "level"), Column("pairs", "count")


def texts(*titles: str) -> tuple[Column, ...]:
    return tuple(map(Column, titles))


def absolute_table(plan: Study, rows: Sequence[Row], group: Group, rule: str) -> Table:
    """Table 2: the means of each method."""
    paper = paper_table("absolute", group)
    lines: list[Line] = []
    for method in plan.methods_of(group):
        label, mine = method_label(method), levels(rows, group, rule, method)
        if mine is not None:
            values = [mine.levels[name].mean if name in mine.levels else None for name in ENDPOINTS]
            lines.append((label, OURS, *values, mine.coefficient, mine.active_share, len(mine.pairs)))
        if paper is not None and method in paper.rows:
            printed = [paper.cell(method, name) for name in ENDPOINTS]
            lines.append((label, PAPER, *printed, None, None, PAPER_PAIRS))
    levels_of = (Column(name, "level") for name in ENDPOINTS)
    weight = (Column("coefficient", "coefficient"), ACTIVE_SHARE)
    return Table(
        f"Endpoints: {group} ({rule})",
        (*texts("Method", "source"), *levels_of, *weight, PAIRS),
        tuple(lines),
        (
            "Endpoints and coefficients are means over pairs.",
            ACTIVE,
            SOURCE,
            *control_notes(rows, [group], rule, plan.methods_of(group)),
        ),
        file_name("absolute", group, rule),
    )


def effects_table(plan: Study, rows: Sequence[Row], group: Group, rule: str, *, holm: bool = False) -> Table:
    """Table 3: paired effects of MEOR."""
    family = comparisons(plan, rows, group, rule)
    paper = paper_table("effects", group) if head_method(plan.methods_of(group)) == METHOD else None
    lines: list[Line] = []
    for each, p in zip(family, _holm(family, holm), strict=True):
        label, share = method_label(each.comparator), each.active_share
        kept = _verdict(each, "H_old"), _verdict(each, "A_TN")
        effects = _effects(each, ENDPOINTS)
        lines.append((label, OURS, *effects, _wtl(each), share, *kept, len(each.pairs), *p))
        if paper is not None and each.comparator in paper.rows:
            *cells, wtl = paper.rows[each.comparator]  # the paper has no effects on A_QN
            stated = (label, PAPER, *cells, None, None, wtl, None, None, None, PAPER_PAIRS)
            lines.append((*stated, *_unstated(holm)))
    kept_columns = (Column("H_old preserved", "count"), Column("A_TN preserved", "count"))
    measured = (*_effect_columns(ENDPOINTS), WTL, ACTIVE_SHARE, *kept_columns, PAIRS)
    return Table(
        f"{method_label(head_method(plan.methods_of(group)) or METHOD)} minus comparator: {group} ({rule})",
        (*texts("Comparator", "source"), *measured, *_holm_column(holm)),
        tuple(lines),
        (*_notes(holm), *control_notes(rows, [group], rule, plan.methods_of(group))),
        file_name("effects", group, rule),
    )


def ablation_table(plan: Study, rows: Sequence[Row], group: Group, rule: str, *, holm: bool = False) -> Table:
    """Table 4: one change at a time. The changes are changes of MEOR: without it there is no row."""
    named = ("H_cur", "D_MCI", "A_TN")
    paper = paper_table("ablation", group)
    everyone = comparisons(plan, rows, group, rule) if head_method(plan.methods_of(group)) == METHOD else []
    family = [each for each in everyone if METHODS[each.comparator].isolates]
    lines: list[Line] = []
    for each, p in zip(family, _holm(family, holm), strict=True):
        isolated, name = METHODS[each.comparator].isolates, method_label(each.comparator)
        ours = (*_effects(each, named), _wtl(each), each.active_share, len(each.pairs), *p)
        lines.append((isolated, OURS, name, *ours))
        if paper is not None and each.comparator in paper.rows:
            stated = (*paper.rows[each.comparator], None, None, PAPER_PAIRS, *_unstated(holm))
            lines.append((isolated, PAPER, name, *stated))
    first = texts("Isolated property", "source", "Comparator")
    return Table(
        f"Ablations: {group} ({rule})",
        (*first, *_effect_columns(named), WTL, ACTIVE_SHARE, PAIRS, *_holm_column(holm)),
        tuple(lines),
        (*_notes(holm), *control_notes(rows, [group], rule, plan.methods_of(group))),
        file_name("ablation", group, rule),
    )


def transfer_table(plan: Study, rows: Sequence[Row], preset: str, rule: str, *, holm: bool = False) -> Table:
    """Table 5: MEOR minus the host alone within each stream, host and backbone."""
    mine = [group for group in plan.groups if group.preset == preset]
    head = head_method({name for group in mine for name in plan.methods_of(group)})
    printed = paper_tables()["transfer"].rows if head == METHOD else {}
    family = [
        each
        for group in mine
        for each in comparisons(plan, rows, group, rule)
        if each.comparator == NONE and {"H_cur", "A_TN"} <= set(each.effects)
    ]
    found = {each.group: (each, p) for each, p in zip(family, _holm(family, holm), strict=True)}
    lines: list[Line] = []
    for group in mine:
        where = f"{Path(group.stream).name} {group.host}-{group.backbone}"
        if group in found:
            each, p = found[group]
            lines.append((where, OURS, *_transferred(each), *p))
        cells = printed.get(f"{group.stream} {host_name(group.host)} {group.backbone}")
        if cells is not None:
            lines.append(_printed_transfer(where, cells, holm))
    if found:
        lines += _other_hosts(plan, printed, holm)
    ends = (Column(title, "bound") for title in ("95 % low", "high", "BCa low", "BCa high"))
    gain = (Column("ΔH_cur", "effect"), *ends, WTL)
    kept = (Column("ΔA_TN", "effect"), Column("ΔA_TN LB", "bound"), Column("A_TN preserved", "count"))
    return Table(
        f"{method_label(head or METHOD)} minus the host alone ({preset}, {rule})",
        (*texts("Stream, host, backbone", "source"), *gain, *kept, ACTIVE_SHARE, PAIRS, *_holm_column(holm)),
        tuple(lines),
        (*_notes(holm), *control_notes(rows, mine, rule, METHODS)),
        f"transfer-{preset}-{rule}",
    )


def _other_hosts(plan: Study, printed: Mapping[str, tuple[str, ...]], holm: bool) -> Iterator[Line]:
    """The paper's rows of hosts that this study leaves out, below an empty one of ours."""
    ran = {host_name(host) for host in plan.host}
    for key, cells in printed.items():
        stream, host, backbone = key.split()
        if host not in ran and any(is_stream(each, stream) for each in plan.stream):
            where = f"{stream} {host}-{backbone}"
            yield (where, OURS, *(None,) * 11, *_unstated(holm))
            yield _printed_transfer(where, cells, holm)


def _printed_transfer(where: str, cells: tuple[str, ...], holm: bool) -> Line:
    stated = (*cells[:3], None, None, *cells[3:], None, None, PAPER_PAIRS)
    return (where, PAPER, *stated, *_unstated(holm))


def _transferred(each: PairedComparison) -> Line:
    cur, acquired = each["H_cur"], each["A_TN"]
    interval = (cur.interval.low, cur.interval.high, cur.bca.low, cur.bca.high)
    acquisition = (acquired.mean, acquired.lower, _verdict(each, "A_TN"))
    return (cur.mean, *interval, cur.wtl, *acquisition, each.active_share, len(each.pairs))


def _effects(each: PairedComparison, named: Sequence[str]) -> list[Value]:
    values: list[Value] = []
    for name in named:
        found = each.effects.get(name)
        values += [found.mean, found.lower] if found else [None, None]
    return values


def _effect_columns(named: Sequence[str]) -> Iterator[Column]:
    for name in map(effect_name, named):
        yield from (Column(f"{name} mean", "effect"), Column(f"{name} LB", "bound"))


def _holm(family: Sequence[PairedComparison], wanted: bool) -> list[Line]:
    """The values under `_holm_column`, a tuple per comparison: empty ones where nobody asked."""
    return [(value,) for value in adjusted(family)] if wanted else [() for _ in family]


def _holm_column(wanted: bool) -> tuple[Column, ...]:
    return (Column("Holm p", "probability"),) if wanted else ()


def _unstated(holm: bool) -> Line:
    return (None,) * holm


def _notes(holm: bool) -> tuple[str, ...]:
    return (UNADJUSTED, ACTIVE, SOURCE, *((HOLM,) if holm else ()))


def _wtl(each: PairedComparison) -> str | None:
    return each["H_cur"].wtl if "H_cur" in each.effects else None


def _verdict(each: PairedComparison, endpoint: str) -> str | None:
    found = each.effects.get(endpoint)
    return None if found is None else "yes" if found.preserved else "no"


def file_name(name: str, group: Group, rule: str) -> str:
    parts = safe_name(Path(group.stream).name), safe_name(group.host), group.backbone, group.preset, rule
    return "-".join((name, *parts))
