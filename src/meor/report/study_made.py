"""How a study was made, and the paper's figures beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Any

from meor.escape import shell, shell_words
from meor.methods import NONE, former_name
from meor.methods.calibration_grid import MARGIN
from meor.methods.coefficient import ENOUGH
from meor.report.glossary import agreement
from meor.report.page import Block, Cell, Column, Commands, Prose, Section, Table
from meor.report.paper_beside import beside_paper
from meor.report.provenance import provenance
from meor.report.study_data import StudyData
from meor.report.words import method_name, number, without_places
from meor.run.layout import versions
from meor.run.view import RunView
from meor.stream.occurrence import sample_note
from meor.study.rows import Group

PLACES = ("--out", "--runs", "--data-dir", "--cache", "--executor", "--workers")
"""Options of `meor study` that say where and not what."""


def paper(data: StudyData) -> Section:
    found = beside_paper(data)
    title = "The paper’s figures beside ours"
    if not found:
        return Section("paper", title, (Prose("The paper reports nothing for these settings.", "note"),))
    return Section(
        "paper",
        title,
        (
            Prose(
                "Ours, and below each the printed cell, digit for digit; -- is what the paper does not "
                f"report. Its figures are shown for orientation and enter none of ours. {agreement(data)}"
            ),
            *found,
        ),
    )


def made(data: StudyData, view: RunView | None) -> Section:
    blocks: list[Block] = [Commands((_command(data), ("meor report STUDY", "makes this file again")))]
    streams = dict.fromkeys(setting.group.stream for setting in data.settings)
    hashed = str(view.manifest["stream_hash"]) if view is not None else ""
    blocks += [provenance(stream, hashed if len(streams) == 1 else "") for stream in streams]
    if data.sample:
        blocks.append(Prose(f"{sample_note(data.sample)} The setting is evaluation.sample."))
    if data.selection:
        blocks.append(_selection(data))
    if data.balances:
        blocks.append(_balanced(data))
    used = view.manifest["versions"] if view is not None else versions()
    blocks.append(
        Prose("Software: " + ", ".join(f"{name} {version}" for name, version in used.items()) + ".", "note")
    )
    blocks.append(_inputs(data))
    if data.failures:
        rows = tuple((Cell(name), Cell(without_places(why))) for name, why in sorted(data.failures.items()))
        blocks.append(Table("Cells that failed", (Column("cell"), Column("why", sortable=False)), rows))
    return Section("made", "How this was made", tuple(blocks))


def _command(data: StudyData) -> tuple[str, str]:
    """What was typed, without this machine's places."""
    words = iter(shell_words(data.command) or ["meor", "study", data.name])
    kept: list[str] = []
    resumes = False
    for word in words:
        name, equals, value = word.partition("=")
        if name not in PLACES:
            kept.append(_without_place(word))
            continue
        value = value if equals else next(words, "")
        if name == "--out" and not _is_place(value):
            kept += [name, value]
            resumes = True
    told = "makes every run of this study again"
    return shell(kept), f"{told}, or goes on where it stopped" if resumes else told


def _without_place(word: str) -> str:
    """An absolute path loses its folders; a key before it stays."""
    key, equals, value = ("", "", word) if _is_place(word) else word.partition("=")
    return f"{key}{equals}{PurePath(value).name}" if _is_place(value) else word


def _is_place(value: str) -> bool:
    return PurePosixPath(value).is_absolute() or PureWindowsPath(value).is_absolute()


def _selection(data: StudyData) -> Table:
    """What each multiple gave on validation facts, and which was taken."""
    tried = sorted({one["multiple"] for each in data.selection for one in each["candidates"]})
    columns = (
        *(Column("method"), Column("setting"), Column("host alone", numeric=True)),
        *(Column(f"×{multiple:g}", numeric=True) for multiple in tried),
        Column("taken"),
    )
    rows = tuple(_selected(each, tried) for each in data.selection)
    note = (
        "Validation H_cur, and A_TN below it. Taken is the highest H_cur among the multiples whose A_TN is "
        f"no more than {MARGIN:g} below that of the host alone."
    )
    ends = dict.fromkeys(method_name(each["method"]) for each in data.selection if _at_the_end(each))
    if ends:
        note += f" {', '.join(ends)}: the largest multiple that was tried was taken; a larger may give more."
    return Table(
        "The validated rule: multiples of the balanced coefficient, on pairs outside the study",
        columns,
        rows,
        note,
        folded=True,
    )


def _at_the_end(choice: Mapping[str, Any]) -> bool:
    tried = [one["multiple"] for one in choice["candidates"]]
    return bool(tried) and choice["multiple"] == max(tried)


def _selected(choice: Mapping[str, Any], tried: Sequence[float]) -> tuple[Cell, ...]:
    found = {one["multiple"]: one for one in choice["candidates"]}
    taken = choice["multiple"]
    return (
        Cell(method_name(choice["method"])),
        Cell(str(Group(**choice["group"]))),
        _judged(choice[NONE if NONE in choice else former_name(NONE)]),
        *(_judged(found.get(multiple), "good" if multiple == taken else "") for multiple in tried),
        Cell(f"×{taken:g}" if taken else "none kept newcomers: penalty not used", taken),
    )


def _judged(candidate: Mapping[str, float] | None, tone: str = "") -> Cell:
    if candidate is None:
        return Cell("--")  # not tried, or its run failed
    cur, acquired = candidate["H_cur"], candidate["A_TN"]
    return Cell(number(cur), cur, tone, below=number(acquired))


def _balanced(data: StudyData) -> Table:
    columns = (
        *(Column("setting"), Column("method"), Column("pairs", numeric=True)),
        Column("active records", numeric=True),
    )
    rows = tuple(
        (
            Cell(str(each.group)),
            Cell(method_name(each.method)),
            Cell(str(each.pairs), each.pairs),
            Cell(f"{each.active} of {each.records}", each.active),
        )
        for each in data.balances
    )
    note = (
        f"Counted at the first update with {ENOUGH} active records, or else at the one with most. Where no "
        "update has so many, the balanced coefficient is 0 and the run equals the host without a penalty."
    )
    return Table("The records that balance the coefficients", columns, rows, note, folded=True)


def _inputs(data: StudyData) -> Table:
    """The proof of pairing: one hash a run; within a pair they agree."""
    columns = (
        Column("setting"),
        Column("pair", numeric=True),
        Column("method"),
        Column("H_cur", numeric=True),
        Column("shared inputs, sha256"),
    )
    rows = tuple(
        (
            Cell(
                f"{row.group}, {row.coefficient_rule}"
                + (f" ×{row.multiple:g}" if row.multiple and row.multiple != 1.0 else "")
            ),
            Cell(str(row.pair), row.pair),
            Cell(method_name(row.method)),
            Cell(number(row.H_cur, 6), row.H_cur),
            Cell(row.input_hash[:16]),
        )
        for row in data.rows
    )
    return Table("Every run, and the hash of what the runs of its pair share", columns, rows, folded=True)
