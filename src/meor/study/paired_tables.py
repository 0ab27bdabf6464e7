"""Tables 2 to 5: what we measured, and beside it, in rows of their own, what the paper states."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from meor.escape import file_name as safe_name
from meor.hosts import HOSTS
from meor.methods import METHODS, NONE, is_penalized, method_label
from meor.study.control import control_notes
from meor.study.effects import MARGIN, Comparison, TooFewPairsError, adjusted, compare, levels
from meor.study.pairing import groups
from meor.study.paper import PaperTable, paper_tables
from meor.study.plan import Study
from meor.study.rows import Group, Row
from meor.study.table import OURS, PAPER, Kind, StudyTable, Value

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


def head_method(methods: Collection[str]) -> str | None:
    """Whom a study is about: MEOR, or else the first method that has a penalty."""
    return next((name for name in (METHOD, *METHODS) if name in methods and is_penalized(name)), None)


def absolute_table(plan: Study, rows: Sequence[Row], group: Group, rule: str) -> StudyTable:
    """Table 2: the means of each method."""
    named = ("H_cur", "H_old", "D_MCI", "A_TN", "A_QN")
    paper = _paper("absolute", group)
    lines: list[tuple[Value, ...]] = []
    for method in plan.methods:
        mine = levels(rows, group, rule, method)
        if mine is not None:
            values = [mine.levels[name].mean if name in mine.levels else None for name in named]
            weight = (mine.coefficient, mine.active_share)
            lines.append((method_label(method), OURS, *values, *weight, len(mine.pairs)))
        if paper is not None and method in paper.rows:
            printed = [paper.cell(method, name) for name in named]
            lines.append((method_label(method), PAPER, *printed, None, None, 8))
    columns: dict[str, Kind] = {"Method": "text", "source": "text", **dict.fromkeys(named, "level")}
    columns |= {"coefficient": "coefficient", "active": "level", "pairs": "count"}
    return StudyTable(
        file_name("absolute", group, rule),
        f"Endpoints: {group} ({rule})",
        columns,
        tuple(lines),
        (
            "Endpoints and coefficients are means over pairs.",
            ACTIVE,
            SOURCE,
            *control_notes(rows, [group], rule, plan.methods),
        ),
    )


def comparisons(plan: Study, rows: Sequence[Row], group: Group, rule: str) -> list[Comparison]:
    """The study's method against every other one of the plan that shares at least two pairs with it."""
    method = head_method(plan.methods)
    found = []
    for comparator in plan.methods:
        if method is not None and comparator != method:
            try:
                found.append(compare(rows, group, rule, method, comparator))
            except TooFewPairsError:
                continue
    return found


def effects_table(
    plan: Study, rows: Sequence[Row], group: Group, rule: str, *, holm: bool = False
) -> StudyTable:
    """Table 3: paired effects of MEOR."""
    named = ("H_cur", "H_old", "D_MCI", "A_TN", "A_QN")
    family = comparisons(plan, rows, group, rule)
    lines: list[tuple[Value, ...]] = []
    paper = _paper("effects", group) if head_method(plan.methods) == METHOD else None
    for each, adjusted_p in zip(family, _holm_cells(family, holm), strict=True):
        verdicts = _verdict(each, "H_old"), _verdict(each, "A_TN")
        lines.append(
            (method_label(each.comparator), OURS, *_effects(each, named), _wtl(each), each.active_share,
             *verdicts, len(each.pairs), *adjusted_p)
        )  # fmt: skip
        if paper is not None and each.comparator in paper.rows:
            *cells, wtl = paper.rows[each.comparator]  # the paper has no effects on A_QN
            unstated = (None for _ in adjusted_p)
            lines.append(
                (
                    method_label(each.comparator),
                    PAPER,
                    *cells,
                    None,
                    None,
                    wtl,
                    None,
                    None,
                    None,
                    8,
                    *unstated,
                )
            )
    columns: dict[str, Kind] = {"Comparator": "text", "source": "text", **_effect_columns(named)}
    columns |= {"W/T/L": "count", "active": "level", "H_old preserved": "count", "A_TN preserved": "count"}
    columns |= {"pairs": "count", **_holm_column(holm)}
    return StudyTable(
        file_name("effects", group, rule),
        f"{_head_name(plan)} minus comparator: {group} ({rule})",
        columns,
        tuple(lines),
        (*_notes(holm), *control_notes(rows, [group], rule, plan.methods)),
    )


def ablation_table(
    plan: Study, rows: Sequence[Row], group: Group, rule: str, *, holm: bool = False
) -> StudyTable:
    """Table 4: one change at a time. The changes are changes of MEOR: without it there is no row."""
    named = ("H_cur", "D_MCI", "A_TN")
    paper = _paper("ablation", group)
    everyone = comparisons(plan, rows, group, rule) if head_method(plan.methods) == METHOD else []
    family = [each for each in everyone if METHODS[each.comparator].isolates]
    lines: list[tuple[Value, ...]] = []
    for each, adjusted_p in zip(family, _holm_cells(family, holm), strict=True):
        isolated, name = METHODS[each.comparator].isolates, method_label(each.comparator)
        lines.append(
            (isolated, OURS, name, *_effects(each, named), _wtl(each), each.active_share, len(each.pairs),
             *adjusted_p)
        )  # fmt: skip
        if paper is not None and each.comparator in paper.rows:
            unstated = (None for _ in adjusted_p)
            lines.append((isolated, PAPER, name, *paper.rows[each.comparator], None, None, 8, *unstated))
    columns: dict[str, Kind] = {"Isolated property": "text", "source": "text", "Comparator": "text"}
    columns |= {**_effect_columns(named), "W/T/L": "count", "active": "level", "pairs": "count"}
    return StudyTable(
        file_name("ablation", group, rule),
        f"Ablations: {group} ({rule})",
        {**columns, **_holm_column(holm)},
        tuple(lines),
        (*_notes(holm), *control_notes(rows, [group], rule, plan.methods)),
    )


def transfer_table(
    plan: Study, rows: Sequence[Row], preset: str, rule: str, *, holm: bool = False
) -> StudyTable:
    """Table 5: MEOR minus the host alone within each stream, host and backbone."""
    printed = paper_tables()["transfer"].rows if head_method(plan.methods) == METHOD else {}
    mine = [group for group in groups(plan) if group.preset == preset]
    family = [
        each
        for group in mine
        for each in comparisons(plan, rows, group, rule)
        if each.comparator == NONE and {"H_cur", "A_TN"} <= set(each.effects)
    ]
    adjusted_p = dict(zip((each.group for each in family), _holm_cells(family, holm), strict=True))
    found = {each.group: each for each in family}
    lines: list[tuple[Value, ...]] = []
    for group in mine:
        where = f"{Path(group.stream).name} {group.host}-{group.backbone}"
        if group in found:
            lines.append((where, OURS, *_transferred(found[group]), *adjusted_p[group]))
        cells = printed.get(f"{group.stream} {group.host} {group.backbone}")
        if cells is not None:
            unstated = (None for _ in _holm_column(holm))
            lines.append((where, PAPER, *cells[:3], None, None, *cells[3:], None, None, 8, *unstated))
    if found:
        lines += _hosts_to_come(plan, printed, len(_holm_column(holm)))
    columns: dict[str, Kind] = {"Stream, host, backbone": "text", "source": "text", "ΔH_cur": "effect"}
    columns |= dict.fromkeys(("95 % low", "high", "BCa low", "BCa high"), "bound")
    columns |= {"W/T/L": "count", "ΔA_TN": "effect", "ΔA_TN LB": "bound", "A_TN preserved": "count"}
    columns |= {"active": "level", "pairs": "count", **_holm_column(holm)}
    title = f"{_head_name(plan)} minus the host alone ({preset}, {rule})"
    notes = (*_notes(holm), *control_notes(rows, mine, rule, plan.methods))
    return StudyTable(f"transfer-{preset}-{rule}", title, columns, tuple(lines), notes)


def _hosts_to_come(
    plan: Study, printed: Mapping[str, tuple[str, ...]], more: int
) -> Iterator[tuple[Value, ...]]:
    """The paper's rows of hosts that are not there yet, below an empty one of ours."""
    for key, cells in printed.items():
        stream, host, backbone = key.split()
        if host not in HOSTS and any(is_stream(each, stream) for each in plan.stream):
            where, unstated = f"{stream} {host}-{backbone}", (None,) * more
            yield (where, OURS, *(None,) * 11, *unstated)
            yield (where, PAPER, *cells[:3], None, None, *cells[3:], None, None, 8, *unstated)


def _transferred(each: Comparison) -> tuple[Value, ...]:
    cur, acquired = each["H_cur"], each["A_TN"]
    interval = (cur.interval.low, cur.interval.high, cur.bca.low, cur.bca.high)
    verdict = _verdict(each, "A_TN")
    acquisition = (acquired.mean, acquired.lower, verdict)
    return (cur.mean, *interval, cur.wtl, *acquisition, each.active_share, len(each.pairs))


def _effects(each: Comparison, named: Sequence[str]) -> list[Value]:
    values: list[Value] = []
    for name in named:
        found = each.effects.get(name)
        values += [found.mean, found.lower] if found else [None, None]
    return values


def _effect_columns(named: Sequence[str]) -> dict[str, Kind]:
    columns: dict[str, Kind] = {}
    for name in named:
        columns |= {f"{_symbol(name)} mean": "effect", f"{_symbol(name)} LB": "bound"}
    return columns


def _holm_cells(family: Sequence[Comparison], wanted: bool) -> list[tuple[Value, ...]]:
    """The cells under `_holm_column`, a tuple a comparison: empty ones where nobody asked."""
    return [(value,) for value in adjusted(family)] if wanted else [() for _ in family]


def _holm_column(wanted: bool) -> dict[str, Kind]:
    return {"Holm p": "effect"} if wanted else {}


def _notes(holm: bool) -> tuple[str, ...]:
    return (UNADJUSTED, ACTIVE, SOURCE, *((HOLM,) if holm else ()))


def _head_name(plan: Study) -> str:
    return method_label(head_method(plan.methods) or METHOD)


def _wtl(each: Comparison) -> str | None:
    return each["H_cur"].wtl if "H_cur" in each.effects else None


def _verdict(each: Comparison, endpoint: str) -> str | None:
    found = each.effects.get(endpoint)
    return None if found is None else "yes" if found.preserved else "no"


def _symbol(name: str) -> str:
    return f"{name} reduction" if name == "D_MCI" else f"Δ{name}"


def _paper(name: str, group: Group) -> PaperTable | None:
    """The paper's table, where it is about the same stream, host and backbone."""
    table = paper_tables()[name]
    same = is_stream(group.stream, table.stream) and (group.host, group.backbone) == ("replay", "complex")
    return table if same else None


def is_stream(stream: str, printed: str | None) -> bool:
    return printed is not None and stream.casefold() == printed.casefold()


def file_name(name: str, group: Group, rule: str) -> str:
    return f"{name}-{safe_name(Path(group.stream).name)}-{group.host}-{group.backbone}-{group.preset}-{rule}"
