"""Endpoints and paired effects, as sections of a study's report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from meor.evaluation.endpoints import MARK
from meor.methods import METHODS, NONE, needs_coefficient
from meor.methods.calibration_grid import MARGIN
from meor.report import figures
from meor.report.effect_words import VERDICTS, verdict
from meor.report.figures import ForestGroup, ForestRow
from meor.report.page import Block, Figure, Prose, Section, Terms
from meor.report.setting_names import labels, shared, where
from meor.report.study_data import UNADJUSTED, Setting, StudyData, with_sample
from meor.report.svg import method_entry, method_key
from meor.report.words import PRESETS, RULES, interval, listed, method_name, number, share, signed
from meor.study import popularity
from meor.study.effects import PRESERVED, Effect, MethodLevels, PairedComparison, effect_name
from meor.study.keys import VALIDATED
from meor.study.notes import control_notes, footnote, partial_endpoints
from meor.study.rows import ENDPOINTS
from meor.study.table import ABSENT, Column, Entry, Table, Value

FOREST = ("H_cur", "D_MCI", "H_old", "A_TN", "A_QN")
FOREST_LEGEND = (
    ("fill-good", "one-sided lower bound above 0"),
    ("fill-neutral", "neither"),
    ("fill-bad", "one-sided upper bound below 0"),
    ("bound neutral", "one-sided 95 % lower bound"),
    ("margin", f"preservation margin {number(-MARGIN, 3)}"),
)


def endpoints(data: StudyData) -> Section:
    blocks: list[Block] = [
        Prose(
            "Filtered mean reciprocal ranks of test facts: plain means over updates and missing sides, "
            "then over pairs. Runs of a pair share base model, buffer, negatives and every draw; "
            "differences are judged below, pair by pair."
        )
    ]
    spelled = {each.label: each.spelled for each in METHODS.values() if each.spelled and not each.capped}
    there = " ".join(method_name(name) for name in _methods(data)).split()
    if told := [f"{label}: {words}" for label, words in spelled.items() if label in there]:
        blocks.append(Prose(f"{'; '.join(told)}.", "note"))
    blocks += [with_sample(table, data.sample) for table in _absolute(data)]
    if partly := footnote(partial_endpoints(data.rows)):
        blocks.append(Prose(partly, "note"))
    for setting in data.settings:
        notes = control_notes(data.rows, [setting.group], setting.rule, _methods(data))
        blocks += [Prose(note, "missing") for note in notes]
    blocks.append(_glossary(data))
    return Section("endpoints", "Endpoints", tuple(blocks))


def _absolute(data: StudyData) -> Iterator[Table]:
    if data.merged:
        named = dict(zip(labels(data.settings), data.settings, strict=True))
        rows = [(label, level) for label, setting in named.items() for level in setting.levels]
        yield _absolute_table(data, rows, shared(data.settings), named)
        return
    for setting in data.settings:
        rows = [("", each) for each in setting.levels]
        yield _absolute_table(data, rows, where(data, setting), {"": setting})


def _absolute_table(
    data: StudyData, labelled: Sequence[tuple[str, MethodLevels]], where: str, settings: Mapping[str, Setting]
) -> Table:
    """One row per method; of merged settings half widths, not intervals, so that a page is wide enough."""
    levels = [each for _, each in labelled]
    merged = len(settings) > 1
    spread = "± half a two-sided 95 % interval" if merged else "with a two-sided 95 % interval"
    single = all(level.interval is None for each in levels for level in each.levels.values())
    size = listed([str(pairs) for pairs in sorted({len(each.pairs) for each in levels})])
    notes = [f"Pairs: {size}."]
    if any(needs_coefficient(each.method) for each in levels):
        notes.append("λ multiplies the penalty; active is the share of its records with an excess.")
    chosen = {(setting.group, setting.rule) for setting in settings.values()}
    notes += [f"{each.remark}." for each in data.choices if each.remark and (each.group, VALIDATED) in chosen]
    rows = [(*([label] if merged else []), *_absolute_row(each, merged)) for label, each in labelled]
    streams: dict[str, tuple[Value, ...]] = {}
    for label, setting in settings.items():
        if ends := popularity.endpoints_of(data.popularity, setting.group):
            first = (label,) if merged else ()
            streams.setdefault(setting.group.stream, (*first, popularity.LABEL, *ends, None))
    columns = (Column("method"), *(Column(name, "level") for name in ENDPOINTS), Column("λ", "coefficient"))
    return Table(
        f"Endpoints, {'one pair' if single else f'mean over pairs {spread}'}{where}",
        (Column("setting"), *columns) if merged else columns,
        (*rows, *streams.values()),
        (*notes, *([popularity.NOTE] if streams else [])),
    )


def _absolute_row(found: MethodLevels, merged: bool) -> tuple[Value, ...]:
    entries = []
    for name in ENDPOINTS:
        level = found.levels.get(name)
        ends = None if level is None else level.interval
        below = ""
        if ends is not None:
            below = f"± {number((ends.high - ends.low) / 2)}" if merged else interval(ends.low, ends.high)
        entries.append(None if level is None else Entry(level.mean, below=below, mark=level.mark))
    active = "" if found.active_share is None else f"{share(found.active_share)} active"
    return (method_entry(found.method), *entries, Entry(found.coefficient, below=active))


def _methods(data: StudyData) -> list[str]:
    return list(dict.fromkeys(row.method for row in data.rows))


def _glossary(data: StudyData) -> Terms:
    methods = _methods(data)
    rules = dict.fromkeys(setting.rule for setting in data.settings)
    presets = dict.fromkeys(setting.group.preset for setting in data.settings)
    lines = [(each.brief, each.sentence) for name, each in METHODS.items() if name in methods]
    if any(needs_coefficient(name) for name in methods):
        lines += [(f"Rule {rule}", RULES.get(rule, "this coefficient, set by hand.")) for rule in rules]
    lines += [(f"Preset {name}", PRESETS[name]) for name in presets if name in PRESETS]
    return Terms(tuple(lines))


@dataclass(frozen=True, slots=True)
class Compared:
    """Comparisons that stand together, each with the label and the mark of its rows."""

    title: str  # "X minus Y"
    first: str  # what labels name
    labelled: tuple[tuple[str, str, PairedComparison], ...]


def effects(data: StudyData) -> Section:
    """Every method against the host alone, and the head method against the others."""
    blocks: list[Block] = []
    if data.merged:
        compared = [setting for setting in data.settings if setting.against_host]
        method = method_name(compared[0].against_host[0].method)
        rows = tuple(
            (label, "", setting.against_host[0])
            for label, setting in zip(labels(compared), compared, strict=True)
        )
        blocks += _shown(Compared(f"{method} minus the host alone{shared(compared)}", "setting", rows), data)
    for setting in () if data.merged else data.settings:
        named = where(data, setting)
        for title, first, found in (
            (f"Each method minus the host alone{named}", "method", setting.against_host),
            (f"{method_name(data.head or NONE)} minus each other{named}", "other", setting.among),
        ):
            whose = [each.method if first == "method" else each.comparator for each in found]
            rows = tuple(
                (method_name(name), method_key(name), each) for name, each in zip(whose, found, strict=True)
            )
            blocks += _shown(Compared(title, first, rows), data) if rows else []
    blocks += [Prose(text, "missing") for text in _refused(data.settings)]
    return Section(
        "effects", "Paired effects", tuple(blocks or [Prose("There is nothing to compare.", "missing")])
    )


def _refused(settings: Sequence[Setting]) -> list[str]:
    """Who is not compared and why: one sentence for all that have the same reason."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for each in (one for setting in settings for one in setting.uncompared):
        one, other = (NONE, each.method) if each.comparator == NONE else (each.method, each.comparator)
        by_reason.setdefault((one, each.why), []).append(method_name(other))
    return [
        f"{method_name(one)} is not compared with {listed(list(dict.fromkeys(others)))}: {why}"
        for (one, why), others in by_reason.items()
    ]


def _shown(compared: Compared, data: StudyData) -> list[Block]:
    return [_forest(compared), with_sample(paired(compared), data.sample)]


def _tone(found: Effect) -> str:
    return "good" if found.improved else "bad" if found.worsened else "neutral"


def _forest_group(name: str, compared: Compared) -> ForestGroup:
    rows = tuple(
        ForestRow(f"{label}{e.mark}", e.mean, e.interval.low, e.interval.high, e.lower, _tone(e), key)
        for label, key, each in compared.labelled
        if (e := each.effects.get(name)) is not None
    )
    return ForestGroup(effect_name(name), rows, MARGIN if name in PRESERVED else None)


def _forest(compared: Compared) -> Figure:
    groups = [_forest_group(name, compared) for name in FOREST]
    shown = [group for group in groups if group.rows]
    alt = "; ".join(f"{group.title}, {row.label}: {row.shown}" for group in shown for row in group.rows)
    partly = f" {MARK} over the cells that exist." if MARK in alt else ""
    return figures.figure(
        "forest",
        compared.title,
        alt,
        "Right of zero is better for every row. Diamonds are means over pairs, lines two-sided 95 % "
        f"intervals, upright ticks one-sided lower bounds. {UNADJUSTED}{partly}",
        partial(figures.forest, shown),
        FOREST_LEGEND,
    )


def paired(compared: Compared) -> Table:
    """One row per comparison: means; below them one-sided lower bounds, and what these say."""
    columns = (
        Column(compared.first),
        *(Column(effect_name(name), "effect") for name in ENDPOINTS),
        Column("won/ tied/lost", "count", sortable=False, hint="pairs, on H_cur at full precision"),
    )
    rows = tuple(
        (
            Entry(None, text=label, key=f"mark {key}" if key else ""),
            *(_entry(name, each.effects.get(name)) for name in ENDPOINTS),
            each["H_cur"].wtl if "H_cur" in each.effects else ABSENT,
        )
        for label, key, each in compared.labelled
    )
    notes = [f"For D_MCI the effect is the reduction, so up is good everywhere. {VERDICTS} {UNADJUSTED}"]
    active = {
        method_name(each.method): share(each.active_share)
        for _, _, each in compared.labelled
        if each.active_share is not None
    }
    if active:
        told = ", ".join(f"{name} {part}" for name, part in active.items())
        notes.append(f"Active records of penalties: {told}. An exact tie usually means that none was.")
    return Table(f"{compared.title}, one-sided 95 % lower bound below", columns, rows, tuple(notes))


def _entry(name: str, found: Effect | None) -> Entry | None:
    if found is None:
        return None
    word, tone = verdict(name, found)
    return Entry(found.mean, tone, f"≥ {signed(found.lower)} {word}", found.mark)
