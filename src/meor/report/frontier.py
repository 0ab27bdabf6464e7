"""The frontier of a study: its picture, its tables, and the answers to its questions in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from meor.methods import NONE
from meor.report import figures
from meor.report.figures import CurvePoint, FrontierLine
from meor.report.page import Block, Said, Section
from meor.report.study_data import StudyData, with_sample
from meor.report.svg import method_key
from meor.report.words import (
    backbone_name,
    interval,
    listed,
    named,
    number,
    sentence,
    short,
    shown_name,
    signed,
)
from meor.study.frontier import Verdict, frontier_points
from meor.study.frontier_tables import frontier_table, question_table, verdict_table
from meor.study.plan import Study
from meor.study.questions import Question, questions
from meor.study.rows import Group, Row

NAMED = 4
"""Competitors that an answer names one by one."""


def frontier_section(data: StudyData) -> tuple[Section, ...]:
    """Only where a study has curves."""
    blocks: list[Block] = []
    for group in dict.fromkeys(setting.group for setting in data.settings):
        if not any(row.curve for row in data.rows if row.group == group):
            continue
        lines = _lines(data.plan, data.rows, group)
        told = (
            f"{line.name}: "
            + ", ".join(
                f"{p.label} A_TN {number(p.x.mean, 3)} H_cur {number(p.y.mean, 3)}" for p in line.points
            )
            for line in lines
        )
        blocks.append(
            figures.figure(
                "frontier",
                f"Old answers kept against newcomers learned: {group}",
                "; ".join(told),
                "Each curve varies one thing: how long the host trains, how long rows may be, what a penalty "
                "is multiplied with. Up and to the right is better. The broad grey band is the host trained "
                "less or more, which every control has to beat. Hollow marks are methods with a cap. Thin "
                "crosses are two-sided 95 % intervals over pairs, cut at the frame.",
                partial(figures.frontier, lines),
                tuple((f"curve {line.key}", line.name) for line in lines),
            )
        )
        makers = (question_table, verdict_table, frontier_table)
        tables = (make(data.plan, data.rows, group) for make in makers)
        blocks += [with_sample(replace(each, folded=True), data.sample) for each in tables if each.rows]
    return (Section("frontier", "The frontier", tuple(blocks)),) if blocks else ()


def _lines(plan: Study, rows: Sequence[Row], group: Group) -> list[FrontierLine]:
    """A curve has the mark of its method; a second one of the same method is dashed."""
    found: list[FrontierLine] = []
    seen: Counter[str] = Counter()
    for name, curve in plan.curves.items():
        points = tuple(
            CurvePoint(each.A_TN, each.H_cur, short(each.at) if each.at else "alone")
            for each in frontier_points(rows, group, name, curve)
        )
        if points:
            key = method_key(curve.method)
            nth = ("", " second", " third")[min(seen[key], 2)]
            seen[key] += 1
            found.append(FrontierLine(name, f"{key}{nth}", points, curve.method == NONE))
    return found


def answers(data: StudyData) -> list[Said]:
    """The questions of a frontier, each with the intervals that answer it."""
    groups = dict.fromkeys(setting.group for setting in data.settings)
    said: list[Said] = []
    for group in groups:
        place = f"{shown_name(group.stream)}, {backbone_name(group.backbone)}: " if len(groups) > 1 else ""
        for asked in questions(data.rows, group, data.plan.curves):
            judged = "H_cur at equal A_TN" if said else f"{named('H_cur')} at equal {named('A_TN')}"
            said.append(Said(asked.text, f"{place}{answer(asked, judged)}"))
    return said


def answer(asked: Question, judged: str) -> str:
    """Yes or no, and the mean difference of H_cur at equal A_TN with its two-sided 95 % interval."""
    by_word: dict[str, list[Verdict]] = {}
    for each in sorted(asked.verdicts, key=lambda each: -each.H_cur.mean):
        by_word.setdefault(each.word, []).append(each)
    if not asked.verdicts:
        return "No two of them ever have the same A_TN, so there is no answer."
    ours, theirs = ({getattr(each, side) for each in asked.verdicts} for side in ("ours", "theirs"))
    sides = ("ours",) if len(theirs) == 1 else ("theirs",) if len(ours) == 1 else ("ours", "theirs")
    of = {"ahead": "ahead of", "behind": "behind"} if sides == ("theirs",) else {}
    parts = [
        f"{of.get(word, f'{word}:')} {_measured(found, sides)}"
        for word in ("ahead", "undecided", "no difference", "behind")
        if (found := by_word.get(word))
    ]
    against = f" against {next(iter(theirs))}" if sides == ("ours",) else ""
    if asked.apart:
        parts.append(f"never at the same A_TN: {listed([' and '.join(pair) for pair in asked.apart])}")
    told = " ".join(f"{sentence(part)}." for part in parts)
    return f"{sentence(asked.answer)}, by {judged}{against}. {told}"


def _measured(found: Sequence[Verdict], sides: Sequence[str]) -> str:
    """Each with its mean difference and interval."""
    told = [
        f"{' over '.join(getattr(each, side) for side in sides)} {signed(each.H_cur.mean)} "
        f"{interval(each.H_cur.interval.low, each.H_cur.interval.high)}"
        for each in found[:NAMED]
    ]
    return "; ".join([*told, *([f"and {len(found) - NAMED} more"] if len(found) > NAMED else [])])
