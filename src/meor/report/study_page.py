"""The report of a study."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from meor.methods import NONE
from meor.report import parts, study_tables
from meor.report.drawn import drawn
from meor.report.figures import LossPanel
from meor.report.glossary import glossary
from meor.report.page import Block, Card, Cards, Page, Prose, Section, Table
from meor.report.run_page import TONES, shown_name
from meor.report.sentence import sentence
from meor.report.setting_names import labels, shared, where
from meor.report.study_data import Setting, StudyData, has_weights, mean_losses, read_study
from meor.report.study_effects import effects, frontier_section
from meor.report.study_made import made, paper
from meor.report.words import MEANING, backbone_name, interval, listed, method_name, number, plural
from meor.run.view import RunView
from meor.study.control import control_notes
from meor.study.effects import MethodLevels
from meor.study.partial import footnote, partial_endpoints
from meor.study.rows import select


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
        sentence=sentence(data),
        cards=_cards(data),
        sections=(
            _endpoints(data),
            effects(data),
            *frontier_section(data),
            parts.lost_over_updates(_panels(data, main), told, f" ({words})" if words else ""),
            drawn(told),
            parts.displaced(told, f"Looked at closely: {words}. " if words else ""),
            parts.matched(told),
            paper(data),
            parts.limits(),
            made(data, view),
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


def _cards(data: StudyData) -> Cards:
    """The head method's endpoints, under each rule; none where settings have little in common."""
    if data.groups > 1:
        return Cards(())
    found = [(setting.rule, _head_level(setting, data.head)) for setting in data.settings]
    (rule, main), *others = found
    cards = []
    for name, meaning in MEANING.items():
        value, spread = _level(main, name)
        label = f"{name}, {method_name(main.method)}"
        beside = tuple(f"{other}: {' '.join(_level(level, name))}" for other, level in others)
        shown = f"{rule}: {spread}" if others else spread
        cards.append(Card(label, value, meaning, TONES.get(name, ""), shown, beside))
    return Cards(tuple(cards))


def _head_level(setting: Setting, head: str | None) -> MethodLevels:
    return next((each for each in setting.levels if each.method == head), setting.levels[-1])


def _level(found: MethodLevels, name: str) -> tuple[str, str]:
    """A mean and its interval."""
    level = found.levels.get(name)
    if level is None:
        return number(None), ""
    bounds = level.interval
    return f"{number(level.mean)}{study_tables.marked(level)}", "" if bounds is None else interval(
        bounds.low, bounds.high
    )


def _endpoints(data: StudyData) -> Section:
    blocks: list[Block] = [
        Prose(
            "Filtered mean reciprocal ranks of test facts: plain means over updates and missing sides, "
            "then over pairs. Runs of a pair share base model, buffer, negatives and every draw; "
            "differences are judged below, pair by pair."
        )
    ]
    blocks += [study_tables.with_sample(table, data.sample) for table in _absolute(data)]
    if marked := footnote(partial_endpoints(data.rows)):
        blocks.append(Prose(marked, "note"))
    methods = list(dict.fromkeys(row.method for row in data.rows))
    for setting in data.settings:
        notes = control_notes(data.rows, [setting.group], setting.rule, methods)
        blocks += [Prose(note, "missing") for note in notes]
    blocks.append(glossary(data))
    return Section("endpoints", "Endpoints", tuple(blocks))


def _absolute(data: StudyData) -> list[Table]:
    if not data.merged:
        return [study_tables.absolute(setting.levels, where(data, setting)) for setting in data.settings]
    named = zip(labels(data.settings), data.settings, strict=True)
    rows = [(label, level) for label, setting in named for level in setting.levels]
    return [study_tables.absolute_of_settings(rows, shared(data.settings))]


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
