"""Tables 2 to 5: what we measured, and beside it, in rows of their own, what the paper states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from meor.errors import StudyError
from meor.study.effects import MARGIN, Comparison, adjusted, compare, levels
from meor.study.pairing import groups
from meor.study.paper import PaperTable, paper_tables
from meor.study.plan import Study
from meor.study.rows import Group, Row

Value = str | float | int | None
OURS, PAPER = "ours", "paper"
METHOD = "meor"
NAMES = {
    "replay": "Replay",
    "calibration": "Persistent calibration",
    "mmr": "MMR",
    "uor": "UOR",
    "shuffled": "Shuffled",
    "uncentered": "Uncentered",
    "meor": "MEOR",
}
PROPERTIES = {
    "mmr": "Smooth tail aggregation",
    "uor": "Structural matching",
    "shuffled": "Query-specific assignment",
    "uncentered": "Old-reference centering",
}
UNADJUSTED = (
    "LB is the one-sided 95 % Student t lower bound of the paired effects; intervals are two-sided 95 %. "
    "They are not adjusted for the number of comparisons. Preserved: LB above "
    f"-{MARGIN}. W/T/L counts full-precision H_cur effects. Active is the share of the penalty's records "
    "with an excess. Rows marked `paper` are printed in the paper and not ours; -- is not reported."
)


@dataclass(frozen=True, slots=True)
class StudyTable:
    """Cells keep full precision; whoever renders them rounds. The second column says whose a row is."""

    name: str  # a file name
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    notes: tuple[str, ...] = field(default=(UNADJUSTED,))


def absolute_table(plan: Study, rows: Sequence[Row], group: Group, rule: str) -> StudyTable:
    """Table 2: the means of each method."""
    named = ("H_cur", "H_old", "D_MCI", "A_TN", "A_QN")
    paper = _paper("absolute", group)
    lines: list[tuple[Value, ...]] = []
    for method in plan.methods:
        mine = levels(rows, group, rule, method)
        if mine is not None:
            values = [mine.levels[name].mean if name in mine.levels else None for name in named]
            # A coefficient is a matter of orders of magnitude: four decimals would hide it.
            weight = f"{mine.coefficient:.3g}"
            lines.append((NAMES[method], OURS, *values, weight, mine.active_share, len(mine.pairs)))
        if paper is not None and method in paper.rows:
            printed = [paper.cell(method, name) for name in named]
            lines.append((NAMES[method], PAPER, *printed, None, None, 8))
    columns = ("Method", "source", *named, "coefficient", "active", "pairs")
    return StudyTable(
        file_name("absolute", group, rule), f"Endpoints: {group} ({rule})", columns, tuple(lines)
    )


def comparisons(plan: Study, rows: Sequence[Row], group: Group, rule: str) -> list[Comparison]:
    """MEOR against every other method of the plan that shares at least two pairs with it."""
    found = []
    for comparator in plan.methods:
        if comparator != METHOD and METHOD in plan.methods:
            try:
                found.append(compare(rows, group, rule, METHOD, comparator))
            except StudyError as error:
                if "an effect needs 2" not in str(error):
                    raise
    return found


def effects_table(
    plan: Study, rows: Sequence[Row], group: Group, rule: str, *, holm: bool = False
) -> StudyTable:
    """Table 3: paired effects of MEOR."""
    named = ("H_cur", "H_old", "D_MCI", "A_TN")
    family = comparisons(plan, rows, group, rule)
    p_values = adjusted(family) if holm else {}
    lines: list[tuple[Value, ...]] = []
    paper = _paper("effects", group)
    for each in family:
        values: list[Value] = []
        for name in named:
            found = each.effects.get(name)
            values += [found.mean, found.lower] if found else [None, None]
        wtl = each["H_cur"].wtl if "H_cur" in each.effects else None
        verdicts = _verdict(each, "H_old"), _verdict(each, "A_TN")
        extra = (p_values.get(each.comparator),) if holm else ()
        lines.append(
            (
                NAMES[each.comparator],
                OURS,
                *values,
                wtl,
                each.active_share,
                *verdicts,
                len(each.pairs),
                *extra,
            )
        )
        if paper is not None and each.comparator in paper.rows:
            cells = paper.rows[each.comparator]
            lines.append((NAMES[each.comparator], PAPER, *cells, None, None, None, 8, *(None for _ in extra)))
    columns = (
        "Comparator",
        "source",
        *(f"{_symbol(name)} {part}" for name in named for part in ("mean", "LB")),
        *("W/T/L", "active", "H_old preserved", "A_TN preserved", "pairs"),
        *(("Holm p",) if holm else ()),
    )
    return StudyTable(
        file_name("effects", group, rule), f"MEOR minus comparator: {group} ({rule})", columns, tuple(lines)
    )


def ablation_table(plan: Study, rows: Sequence[Row], group: Group, rule: str) -> StudyTable:
    """Table 4: one change at a time."""
    named = ("H_cur", "D_MCI", "A_TN")
    paper = _paper("ablation", group)
    lines: list[tuple[Value, ...]] = []
    for each in comparisons(plan, rows, group, rule):
        if each.comparator not in PROPERTIES:
            continue
        head = (PROPERTIES[each.comparator], NAMES[each.comparator])
        values: list[Value] = []
        for name in named:
            found = each.effects.get(name)
            values += [found.mean, found.lower] if found else [None, None]
        wtl = each["H_cur"].wtl if "H_cur" in each.effects else None
        lines.append((head[0], OURS, head[1], *values, wtl, each.active_share, len(each.pairs)))
        if paper is not None and each.comparator in paper.rows:
            lines.append((head[0], PAPER, head[1], *paper.rows[each.comparator], None, None, 8))
    columns = (
        *("Isolated property", "source", "Comparator"),
        *(f"{_symbol(name)} {part}" for name in named for part in ("mean", "LB")),
        *("W/T/L", "active", "pairs"),
    )
    return StudyTable(
        file_name("ablation", group, rule), f"Ablations: {group} ({rule})", columns, tuple(lines)
    )


def transfer_table(plan: Study, rows: Sequence[Row], preset: str, rule: str) -> StudyTable:
    """Table 5: MEOR minus replay within each stream, host and backbone."""
    printed = paper_tables()["transfer"]
    lines: list[tuple[Value, ...]] = []
    for group in groups(plan):
        if group.preset != preset:
            continue
        head = (f"{group.stream} {group.host}-{group.backbone}",)
        for each in comparisons(plan, rows, group, rule):
            if each.comparator != "replay" or not {"H_cur", "A_TN"} <= set(each.effects):
                continue
            cur, acquired = each["H_cur"], each["A_TN"]
            interval = (cur.interval.low, cur.interval.high, cur.bca.low, cur.bca.high)
            verdict = _verdict(each, "A_TN")
            lines.append(
                (*head, OURS, cur.mean, *interval, cur.wtl, acquired.mean, acquired.lower, verdict,
                 each.active_share, len(each.pairs))
            )  # fmt: skip
        cells = printed.rows.get(f"{group.stream} {group.host} {group.backbone}")
        if cells is not None:
            lines.append((*head, PAPER, *cells[:3], None, None, *cells[3:], None, None, 8))
    columns = (
        *("Stream, host, backbone", "source", "ΔH_cur", "95 % low", "high", "BCa low", "BCa high", "W/T/L"),
        *("ΔA_TN", "ΔA_TN LB", "A_TN preserved", "active", "pairs"),
    )
    name = f"transfer-{preset}-{rule}"
    return StudyTable(name, f"MEOR minus replay ({preset}, {rule})", columns, tuple(lines))


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
    stream = "".join(c if c.isalnum() or c in ".-_" else "-" for c in group.stream.rsplit("/", 1)[-1])
    return f"{name}-{stream}-{group.host}-{group.backbone}-{group.preset}-{rule}"
