"""The report of a study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from meor.errors import MeorError
from meor.evaluation.calibration_grid import MARGIN
from meor.report import parts, study_tables
from meor.report.drawn import drawn
from meor.report.figures import LossPanel
from meor.report.page import Block, Card, Cards, Page, Prose, Section
from meor.report.run_page import TONES, stream_name
from meor.report.study_data import Setting, StudyData, has_weights, mean_losses, read_study
from meor.report.study_effects import effects, frontier_section, where
from meor.report.study_made import made, paper
from meor.report.words import MEANING, backbone_name, interval, listed, method_name, number, plural, signed
from meor.run.view import RunView
from meor.study.effects import PRESERVED, Comparison
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
    words = "" if view is None else f" (pair {view.config.seed}, {method_name(view.config.method)})"
    say("writing")
    streams = list(dict.fromkeys(stream_name(setting.group.stream) for setting in data.settings))
    return Page(
        title=f"{data.name}: {listed(streams)}",
        kicker=_kicker(data),
        sentence=_sentence(data, main),
        cards=_cards(main, data.head),
        sections=(
            _endpoints(data),
            effects(data),
            *frontier_section(data),
            parts.lost_over_updates(_panels(data, main), told, words),
            drawn(told),
            parts.displaced(told, _one_run(view)),
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
    return f"Report of a study · {backbones} · preset {presets} · {size}"


def _state(data: StudyData) -> str:
    if not data.failures:
        return ""
    names = sorted(data.failures)
    failed = plural(len(names), "cell of this study is missing", "cells of this study are missing")
    return f"{failed} because making it failed: {listed(names, 3)}."


def _sentence(data: StudyData, main: Setting) -> str:
    against = next((each for each in main.comparisons if each.comparator == "replay"), None)
    if against is None or "H_cur" not in against.effects:
        told = plural(len(data.rows), "run is there", "runs are there")
        return f"{told}, but no two methods share enough pairs to be compared."
    gain, name = against["H_cur"], method_name(against.method)
    verb = "raises" if gain.improved else "lowers" if gain.interval.high < 0 else "does not clearly change"
    sentence = (
        f"On {stream_name(main.group.stream)} with {backbone_name(main.group.backbone)}, {name} {verb} "
        f"the rank of old facts among all entities over {plural(len(against.pairs), 'pair')}: H_cur "
        f"{signed(gain.mean)} against replay, one-sided 95 % lower bound {signed(gain.lower)}"
    )
    if "D_MCI" in against.effects:
        cut = against["D_MCI"]
        sentence += f"; newcomers cost {number(abs(cut.mean))} {'less' if cut.mean >= 0 else 'more'}"
    sentence += f". {_preserved(against)}"
    others = [each for each in main.comparisons if each.comparator != "replay" and "H_cur" in each.effects]
    if others:
        sentence += " " + _others(others)
    return sentence


def _preserved(against: Comparison) -> str:
    found = [name for name in PRESERVED if name in against.effects]
    held = [name for name in found if against[name].preserved]
    broken = [name for name in found if not against[name].preserved]
    within = f"preserved within {number(MARGIN, 3)}"
    if not broken:
        return f"{listed(held)} {_are(held)} {within}." if held else ""
    kept = f"{listed(held)} {_are(held)} {within}, but " if held else ""
    return f"{kept}{listed(broken)} {_are(broken)} not shown to be {'so' if held else within}."


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _others(others: Sequence[Comparison]) -> str:
    better = [method_name(each.comparator) for each in others if each["H_cur"].improved]
    worse = [method_name(each.comparator) for each in others if each["H_cur"].interval.high < 0]
    rest = [
        method_name(each.comparator)
        for each in others
        if method_name(each.comparator) not in (*better, *worse)
    ]
    told = [f"it is above {listed(better)}"] if better else []
    told += [f"below {listed(worse)}"] if worse else []
    told += [f"not told apart from {listed(rest)}"] if rest else []
    text = f"On H_cur {listed(told)}."
    return text if better else text.replace("On H_cur ", "On H_cur it is ", 1)


def _cards(main: Setting, head: str | None) -> Cards:
    level = next((each for each in main.levels if each.method == head), main.levels[-1])
    cards = []
    for name, meaning in MEANING.items():
        found = level.levels.get(name)
        spread = (
            ""
            if found is None or found.interval is None
            else interval(found.interval.low, found.interval.high)
        )
        value = number(found.mean if found else None)
        cards.append(
            Card(f"{name}, {method_name(level.method)}", value, meaning, TONES.get(name, ""), spread)
        )
    return Cards(tuple(cards))


def _endpoints(data: StudyData) -> Section:
    blocks: list[Block] = [
        Prose(
            "Filtered mean reciprocal ranks of test facts: plain means over updates and missing sides, "
            "then over pairs. Runs of a pair share base model, buffer, negatives and every draw; "
            "differences are judged below, pair by pair."
        )
    ]
    made = (study_tables.absolute(setting, where(data, setting)) for setting in data.settings)
    blocks += [study_tables.with_sample(table, data.sample) for table in made]
    return Section("endpoints", "Endpoints", tuple(blocks))


def _panels(data: StudyData, main: Setting) -> list[LossPanel]:
    panels = []
    for method in ("replay", data.head):
        if method is not None:
            found, pairs = mean_losses(data, main, method)
            if found:
                panels.append(LossPanel(f"{method_name(method)}, mean of {plural(pairs, 'pair')}", found))
    return panels


def _shown_run(data: StudyData, main: Setting) -> RunView | None:
    """The run that is looked at closely: the head method's, or replay's where only that has weights."""
    found = [view for method in (data.head, "replay") if (view := _first_run(data, main, method)) is not None]
    return next((view for view in found if has_weights(view)), found[0] if found else None)


def _first_run(data: StudyData, main: Setting, method: str | None) -> RunView | None:
    if method is None:
        return None
    for _, row in sorted(select(data.rows, main.group, method, main.rule).items()):
        try:
            view = data.run(row)
        except MeorError:
            continue
        if view is not None:
            return view
    return None


def _one_run(view: RunView | None) -> str:
    if view is None:
        return ""
    return f"Looked at closely: {method_name(view.config.method)} of pair {view.config.seed}. "
