"""The report of a study."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from meor.evaluation.endpoints import MEANING
from meor.methods import METHODS, NONE, needs_coefficient
from meor.report.displaced import displaced_section
from meor.report.drawn import drawn, matched, same_facts
from meor.report.evidence import Evidence, read_evidence
from meor.report.field_section import field_section
from meor.report.figures import FallLine
from meor.report.frontier import frontier_section
from meor.report.lead import lead, title
from meor.report.made import made_of_study
from meor.report.page import LIMITS, Card, Page, Prose, Section
from meor.report.run_page import TONES
from meor.report.setting_names import where
from meor.report.study_data import (
    Setting,
    StudyData,
    facts_of,
    has_weights,
    mean_over_pairs,
    read_study,
)
from meor.report.study_effects import effects, endpoints
from meor.report.svg import method_key
from meor.report.words import (
    PRESETS,
    backbone_name,
    interval,
    listed,
    method_name,
    number,
    plural,
)
from meor.run.view import RunView
from meor.study.effects import MethodLevels
from meor.study.paired_tables import ablation_table, absolute_table, effects_table, transfer_table
from meor.study.rows import select
from meor.study.table import PAPER, Table


def study_page(
    folder: Path,
    *,
    runs: Path | None = None,
    data_dir: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Page:
    data = read_study(folder, runs)
    main = data.main
    view = _shown_run(data, main)
    told = None
    if view is not None:
        told = read_evidence(view, data_dir, say, records_of=_first_run(data, main, data.head))
    say("the same facts through all updates")
    methods = [each.method for each in main.levels]
    facts = {method: mean_over_pairs(data, main, method, facts_of) for method in methods}
    lines = [
        FallLine(method_name(name), method_key(name), found) for name, (found, _) in facts.items() if found
    ]
    say("writing")
    penalized = any(map(needs_coefficient, methods))
    return Page(
        title=title(data),
        kicker=_kicker(data),
        lead=lead(data, {method: found for method, (found, _) in facts.items() if found}, told),
        cards=_cards(data),
        sections=(
            endpoints(data),
            effects(data),
            *field_section(data),
            *frontier_section(data),
            same_facts(lines, where(data, main), () if told is None else told.remarks),
            drawn(told, compared=penalized),
            _displaced(data, main, told),
            *([matched(told)] if penalized else []),
            _paper(data),
            LIMITS,
            made_of_study(data, view),
        ),
        state=_state(data),
    )


def _kicker(data: StudyData) -> str:
    presets = listed(list(dict.fromkeys(s.group.preset for s in data.settings)))
    backbones = listed(list(dict.fromkeys(backbone_name(s.group.backbone) for s in data.settings)))
    rules = list(
        dict.fromkeys(s.rule for s in data.settings if data.head is not None and needs_coefficient(data.head))
    )
    ruled = f" · {'rules' if len(rules) > 1 else 'rule'} {listed(rules)}" if rules else ""
    spelled = METHODS[data.head].spelled if data.head in METHODS else ""
    about = f" · {spelled} ({method_name(data.head or NONE)})" if spelled else ""
    return (
        f"Study {data.name}{about} · {backbones} · preset {presets}{ruled} · {plural(len(data.rows), 'run')}"
    )


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


def _displaced(data: StudyData, main: Setting, told: Evidence | None) -> Section:
    if told is None:
        return displaced_section(None, str, str, "")
    config = told.view.config
    place = f"{main.group}: " if data.groups > 1 else ""
    whose = f"Looked at closely: {place}{method_name(config.method)}, pair {config.seed}. "
    return displaced_section(told.displacement, told.entity, told.relation, whose)


def _paper(data: StudyData) -> Section:
    """The study's own tables, where the paper prints the same."""
    found = [replace(table, folded=True) for table in _tables(data) if _is_beside_paper(table)]
    name = "The paper’s figures beside ours"
    if not found:
        return Section("paper", name, (Prose("The paper reports nothing for these settings.", "note"),))
    presets = dict.fromkeys(setting.group.preset for setting in data.settings)
    agreement = " ".join(f"Preset {each} is {PRESETS[each]}" for each in presets if each in PRESETS)
    told = (
        "Rows of ours, and below each the printed one, digit for digit; -- is what the paper does not "
        f"report. Its figures are shown for orientation and enter none of ours. {agreement}"
    )
    return Section("paper", name, (Prose(told), *found))


def _tables(data: StudyData) -> Iterator[Table]:
    for rule in data.plan.coefficient_rule:
        for group in data.plan.groups:
            for make in (absolute_table, effects_table, ablation_table):
                yield make(data.plan, data.rows, group, rule)
        for preset in data.plan.preset:
            yield transfer_table(data.plan, data.rows, preset, rule)


def _is_beside_paper(table: Table) -> bool:
    return table.has_ours and any(row[1] == PAPER for row in table.rows)


def _shown_run(data: StudyData, main: Setting) -> RunView | None:
    """The run that is looked at closely: the host alone shows what newcomers do; else the head method."""
    found = [view for method in (NONE, data.head) if (view := _first_run(data, main, method)) is not None]
    return next((view for view in found if has_weights(view)), found[0] if found else None)


def _first_run(data: StudyData, main: Setting, method: str | None) -> RunView | None:
    if method is None:
        return None
    for _, row in sorted(select(data.rows, main.group, method, main.rule).items()):
        view = data.run(row)
        if view is not None:
            return view
    return None
