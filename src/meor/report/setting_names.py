"""What settings of a study are called in titles and rows: the parts in which they differ, or agree."""

from __future__ import annotations

from collections.abc import Sequence

from meor.report.study_data import Setting, StudyData
from meor.report.words import backbone_name, shown_name


def where(data: StudyData, setting: Setting) -> str:
    """The end of a title; nothing where there is one setting."""
    if len(data.settings) == 1:
        return ""
    rules = len({s.rule for s in data.settings}) > 1
    named = [str(setting.group)] if data.groups > 1 else []
    named += [f"rule {setting.rule}"] if rules else []
    return f": {', '.join(named)}"


def labels(settings: Sequence[Setting]) -> list[str]:
    """The parts in which settings differ."""
    every = [_parts(setting) for setting in settings]
    return [
        ", ".join(
            part for part, column in zip(mine, zip(*every, strict=True), strict=True) if len(set(column)) > 1
        )
        for mine in every
    ]


def shared(settings: Sequence[Setting]) -> str:
    """The parts that all settings have in common, as the end of a title."""
    columns = zip(*(_parts(setting) for setting in settings), strict=True)
    kinds = ("", "", "host ", "preset ", "rule ")
    alike = [
        f"{kind}{column[0]}" for kind, column in zip(kinds, columns, strict=True) if len(set(column)) == 1
    ]
    return f": {', '.join(alike)}" if alike else ""


def _parts(setting: Setting) -> tuple[str, ...]:
    group = setting.group
    named = (shown_name(group.stream), backbone_name(group.backbone))
    return (*named, group.host, group.preset, setting.rule)
