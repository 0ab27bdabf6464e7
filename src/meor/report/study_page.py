"""The report of a study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from meor.evaluation.endpoints import MEANING
from meor.methods import METHODS, NONE, is_penalized
from meor.report import parts
from meor.report.drawn import drawn, matched
from meor.report.field_section import field_section, overstated
from meor.report.figures import LossPanel
from meor.report.made import made_of_study
from meor.report.page import Block, Card, Page, Prose, Section, Terms
from meor.report.run_page import TONES
from meor.report.sentence import sentence
from meor.report.study_data import (
    Setting,
    StudyData,
    has_weights,
    labels,
    mean_losses,
    read_study,
    shared,
    where,
    with_sample,
)
from meor.report.study_effects import effects
from meor.report.study_parts import frontier_section, paper, with_popularity
from meor.report.words import (
    PRESETS,
    RULES,
    backbone_name,
    interval,
    listed,
    method_name,
    number,
    plural,
    share,
    shown_name,
)
from meor.run.view import RunView
from meor.study.effects import MethodLevels
from meor.study.notes import control_notes, footnote, partial_endpoints
from meor.study.rows import ENDPOINTS, select
from meor.study.table import Column, Entry, Table, Value


def study_page(
    folder: Path,
    *,
    runs: Path | None = None,
    data_dir: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Page:
    data = read_study(folder, runs)
    main = data.settings[0]
    view = _shown_run(data, main)
    records_of = _first_run(data, main, data.head)
    told = parts.read(view, data_dir, say, records_of=records_of) if view is not None else None
    words = "" if view is None else _which_run(data, main, view)
    say("writing")
    streams = list(dict.fromkeys(shown_name(setting.group.stream) for setting in data.settings))
    return Page(
        title=f"{data.name}: {listed(streams)}",
        kicker=_kicker(data),
        sentence="\n".join([sentence(data), *overstated(data)]),
        cards=_cards(data),
        sections=(
            _endpoints(data),
            effects(data),
            *field_section(data),
            *frontier_section(data),
            parts.lost_over_updates(_panels(data, main), told, f" ({words})" if words else ""),
            drawn(told),
            parts.displaced(told, f"Looked at closely: {words}. " if words else ""),
            matched(told),
            paper(data),
            parts.limits(),
            made_of_study(data, view),
        ),
        state=_state(data),
    )


def _kicker(data: StudyData) -> str:
    presets = listed(list(dict.fromkeys(s.group.preset for s in data.settings)))
    backbones = listed(list(dict.fromkeys(backbone_name(s.group.backbone) for s in data.settings)))
    pairs = max(len(level.pairs) for s in data.settings for level in s.levels)
    size = f"{plural(pairs, 'pair')} · {plural(len(data.rows), 'run')}"
    rules = list(dict.fromkeys(s.rule for s in data.settings if data.head is not None))
    ruled = f"{'rules' if len(rules) > 1 else 'rule'} {listed(rules)} · " if rules else ""
    return f"Report of a study · {backbones} · preset {presets} · {ruled}{size}"


def _state(data: StudyData) -> str:
    if not data.failures:
        return ""
    names = sorted(data.failures)
    failed = plural(len(names), "cell of this study is missing", "cells of this study are missing")
    return f"{failed} because making it failed: {listed(names, 3)}."


def _cards(data: StudyData) -> tuple[Card, ...]:
    """The head method's endpoints, under each rule; none where settings have little in common."""
    if data.groups > 1:
        return ()
    found = [(setting.rule, _head_level(setting, data.head)) for setting in data.settings]
    (rule, main), *others = found
    cards = []
    for name, meaning in MEANING.items():
        value, spread = _level(main, name)
        label = f"{name}, {method_name(main.method)}"
        beside = tuple(f"{other}: {' '.join(_level(level, name))}" for other, level in others)
        shown = f"{rule}: {spread}" if others else spread
        cards.append(Card(label, value, meaning, TONES.get(name, ""), shown, beside))
    return tuple(cards)


def _head_level(setting: Setting, head: str | None) -> MethodLevels:
    return next((each for each in setting.levels if each.method == head), setting.levels[-1])


def _level(found: MethodLevels, name: str) -> tuple[str, str]:
    """A mean and its interval."""
    level = found.levels.get(name)
    if level is None:
        return number(None), ""
    bounds = level.interval
    return f"{number(level.mean)}{level.mark}", "" if bounds is None else interval(bounds.low, bounds.high)


def _endpoints(data: StudyData) -> Section:
    blocks: list[Block] = [
        Prose(
            "Filtered mean reciprocal ranks of test facts: plain means over updates and missing sides, "
            "then over pairs. Runs of a pair share base model, buffer, negatives and every draw; "
            "differences are judged below, pair by pair."
        )
    ]
    blocks += [with_sample(table, data.sample) for table in _absolute(data)]
    if partly := footnote(partial_endpoints(data.rows)):
        blocks.append(Prose(partly, "note"))
    methods = list(dict.fromkeys(row.method for row in data.rows))
    for setting in data.settings:
        notes = control_notes(data.rows, [setting.group], setting.rule, methods)
        blocks += [Prose(note, "missing") for note in notes]
    blocks.append(_glossary(data))
    return Section("endpoints", "Endpoints", tuple(blocks))


def _absolute(data: StudyData) -> list[Table]:
    if not data.merged:
        return [
            with_popularity(
                _absolute_table([("", each) for each in setting.levels], where(data, setting), merged=False),
                {"": setting},
                data,
            )
            for setting in data.settings
        ]
    named = dict(zip(labels(data.settings), data.settings, strict=True))
    rows = [(label, level) for label, setting in named.items() for level in setting.levels]
    return [with_popularity(_absolute_table(rows, shared(data.settings), merged=True), named, data)]


def _absolute_table(labelled: Sequence[tuple[str, MethodLevels]], where: str, *, merged: bool) -> Table:
    """One row per method; of merged settings half widths, not intervals, so that a page is wide enough."""
    levels = [each for _, each in labelled]
    spread = "± half a two-sided 95 % interval" if merged else "with a two-sided 95 % interval"
    single = all(level.interval is None for each in levels for level in each.levels.values())
    weight = Column("λ", "coefficient", hint="what multiplies the penalty; below, its active records")
    columns = (Column("method"), *(Column(name, "level") for name in ENDPOINTS), weight)
    size = listed([str(pairs) for pairs in sorted({len(each.pairs) for each in levels})])
    note = f"λ multiplies the penalty; active is the share of its records with an excess. Pairs: {size}."
    return Table(
        f"Endpoints, {'one pair' if single else f'mean over pairs {spread}'}{where}",
        (Column("setting"), *columns) if merged else columns,
        tuple((*([label] if merged else []), *_absolute_row(each, merged)) for label, each in labelled),
        (note,),
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
    return (method_name(found.method), *entries, Entry(found.coefficient, below=active))


def _glossary(data: StudyData) -> Terms:
    methods = {row.method for row in data.rows}
    rules = dict.fromkeys(setting.rule for setting in data.settings)
    presets = dict.fromkeys(setting.group.preset for setting in data.settings)
    lines = [(each.brief, each.sentence) for name, each in METHODS.items() if name in methods]
    if any(is_penalized(name) for name in methods):
        lines += [(f"Rule {rule}", RULES.get(rule, "this coefficient, set by hand.")) for rule in rules]
    lines += [(f"Preset {name}", PRESETS[name]) for name in presets if name in PRESETS]
    return Terms(tuple(lines))


def _panels(data: StudyData, main: Setting) -> list[LossPanel]:
    """The host alone, and the head method under each rule, in the setting that is looked at closely."""
    settings = [setting for setting in data.settings if setting.group == main.group]
    wanted = [(main, NONE, "")]
    if data.head is not None:
        wanted += [(each, data.head, f" ({each.rule})" if len(settings) > 1 else "") for each in settings]
    panels = []
    for setting, method, rule in wanted:
        found, pairs = mean_losses(data, setting, method)
        if found:
            panels.append(LossPanel(f"{method_name(method)}{rule}, {plural(pairs, 'pair')}", found))
    return panels


def _shown_run(data: StudyData, main: Setting) -> RunView | None:
    """The run that is looked at closely: the head method's, or the host's where only that has weights."""
    found = [view for method in (data.head, NONE) if (view := _first_run(data, main, method)) is not None]
    return next((view for view in found if has_weights(view)), found[0] if found else None)


def _first_run(data: StudyData, main: Setting, method: str | None) -> RunView | None:
    if method is None:
        return None
    for _, row in sorted(select(data.rows, main.group, method, main.rule).items()):
        view = data.run(row)
        if view is not None:
            return view
    return None


def _which_run(data: StudyData, main: Setting, view: RunView) -> str:
    """The run that is looked at closely, in words."""
    method = view.config.method
    told = f"{method_name(method)}, pair {view.config.seed}"
    rules = {setting.rule for setting in data.settings if setting.group == main.group}
    if method == data.head and len(rules) > 1:
        told += f", rule {main.rule}"
    return f"{main.group}: {told}" if data.groups > 1 else told
