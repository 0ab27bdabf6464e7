"""How a run or a study was made: commands, data, software, settings, coefficients, the proof of pairing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Any

from meor.escape import shell, shell_words
from meor.methods.calibration_grid import MARGIN
from meor.methods.coefficient import Candidate
from meor.report.page import Block, Commands, Prose, Section
from meor.report.study_data import StudyData
from meor.report.svg import method_entry
from meor.report.words import listed, number, stream_name, without_places
from meor.run.config import PLACES, READING, Config
from meor.run.layout import versions
from meor.run.view import RunView
from meor.stream.occurrence import sample_note
from meor.stream.registry import WORLD, find_entry
from meor.study.coefficient import Choice
from meor.study.plan import FIRST_SELECTION_SEED
from meor.study.table import ABSENT, Column, Entry, Table, Value
from meor.study.tables import boundary_table

STUDY_PLACES = ("--out", "--runs", "--data-dir", "--cache", "--executor", "--workers")
"""Options of `meor study` that say where and not what."""


def made_of_run(view: RunView) -> Section:
    config, manifest = view.config, view.manifest
    versions = ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())
    blocks: list[Block] = [
        Commands(
            (
                (command(config), "makes this run again, to the same bytes"),
                ("meor audit RUN", "ranks its models again and compares with what is stored"),
            )
        ),
        _provenance(config.stream, str(manifest["stream_hash"])),
        Prose(f"Software: {versions}. Settings sha256 {manifest['config_hash'][:16]}.", "note"),
        _settings(config),
    ]
    if config.evaluation.sample:
        blocks.insert(2, Prose(f"{sample_note(config.evaluation.sample)} The setting is evaluation.sample."))
    if config.base_model is not None:
        blocks.insert(1, Prose("Base embeddings were given, not trained: name them with --base.", "note"))
    return Section("made", "How this was made", tuple(blocks))


def command(config: Config) -> str:
    """The command line of a run, without this machine's paths: only what differs from the defaults."""
    words = ["meor", "run", "--stream", stream_name(config.stream)]
    default = Config.resolve({"preset": config.preset})
    flags = (*READING, "backbone", "host", "method", "preset", "seed")
    for flag in flags:
        value = getattr(config, flag)
        if value != getattr(default, flag):
            words += [f"--{flag}", str(value)]
    dumped = (each.model_dump(mode="json", exclude={*PLACES, *flags}) for each in (config, default))
    ours, theirs = map(_flat, dumped)
    for key, value in ours.items():
        if value != theirs.get(key):
            words += ["--set", f"{key}={_yaml(value)}"]
    return shell(words)


def _provenance(stream: str, content_hash: str) -> Prose:
    """Publisher, commit and licence of a registered stream; else that nothing is known but its hash."""
    digest = f" Content sha256 {content_hash[:16]}."
    if stream.casefold() == WORLD:
        return Prose(
            "Data: world, an invented graph that meor makes by itself, with planted newcomers that press "
            f"on old answers. It describes nobody.{digest}"
        )
    entry = find_entry(stream)
    if entry is None:
        return Prose(
            "Data: a stream of your own. Its origin and licence are not known to meor; state them "
            f"wherever you show this report.{digest}"
        )
    return Prose(
        f"Data: {entry.name}, published at {entry.page}, licence {entry.licence}; every file has its "
        f"published SHA-256.{digest}"
    )


def _settings(config: Config) -> Table:
    """Every setting; places on this machine are left out."""
    values = config.model_dump(mode="json", exclude={"data_dir", "base_model"})
    shown = {**_flat(values), "stream": stream_name(config.stream)}
    rows = tuple((name, _words(value)) for name, value in shown.items())
    columns = (Column("setting"), Column("value", sortable=False))
    return Table("Every setting of the run, defaults included", columns, rows, folded=True)


def _words(value: Any) -> str:
    if isinstance(value, list):
        return listed([str(each) for each in value])
    return "not set" if value is None else str(value)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{prefix}{key}."))
        else:
            found[f"{prefix}{key}"] = value
    return found


def _yaml(value: Any) -> str:
    return f"[{', '.join(str(each) for each in value)}]" if isinstance(value, list) else str(value)


def made_of_study(data: StudyData, view: RunView | None) -> Section:
    blocks: list[Block] = [Commands((_study_command(data), ("meor report STUDY", "makes this file again")))]
    streams = dict.fromkeys(setting.group.stream for setting in data.settings)
    hashed = str(view.manifest["stream_hash"]) if view is not None else ""
    blocks += [_provenance(stream, hashed if len(streams) == 1 else "") for stream in streams]
    if data.sample:
        blocks.append(Prose(f"{sample_note(data.sample)} The setting is evaluation.sample."))
    if data.choices:
        blocks.append(_selection(data))
    if data.balances:
        # pairs that only chose a coefficient are none of the study
        mine = [each for each in data.balances if each.pair < FIRST_SELECTION_SEED]
        blocks.append(replace(boundary_table(data.plan, mine), folded=True))
    used = view.manifest["versions"] if view is not None else versions()
    blocks.append(
        Prose("Software: " + ", ".join(f"{name} {version}" for name, version in used.items()) + ".", "note")
    )
    blocks.append(_inputs(data))
    if data.failures:
        rows = tuple((name, without_places(why)) for name, why in sorted(data.failures.items()))
        blocks.append(Table("Cells that failed", (Column("cell"), Column("why", sortable=False)), rows))
    return Section("made", "How this was made", tuple(blocks))


def _study_command(data: StudyData) -> tuple[str, str]:
    """What was typed, without this machine's places."""
    words = iter(shell_words(data.command) or ["meor", "study", data.name])
    kept: list[str] = []
    resumes = False
    for word in words:
        name, equals, value = word.partition("=")
        if name not in STUDY_PLACES:
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
    tried = sorted({one.multiple for each in data.choices for one in each.candidates})
    columns = (
        *(Column("method"), Column("setting"), Column("host alone", "level")),
        *(Column(f"×{multiple:g}", "level") for multiple in tried),
        Column("taken"),
    )
    note = (
        "Validation H_cur, and A_TN below it. Taken is the highest H_cur among the multiples whose A_TN is "
        f"no more than {MARGIN:g} below that of the host alone."
    )
    return Table(
        "The validated rule: multiples of the balanced coefficient, on pairs outside the study",
        columns,
        tuple(_selected(each, tried) for each in data.choices),
        (note, *(f"{remark}." for each in data.choices if (remark := each.remark))),
        folded=True,
    )


def _selected(choice: Choice, tried: Sequence[float]) -> tuple[Value, ...]:
    found, taken = {one.multiple: one for one in choice.candidates}, choice.multiple
    return (
        method_entry(choice.method),
        str(choice.group),
        _judged(choice.none),
        *(_judged(found.get(multiple), "good" if multiple == taken else "") for multiple in tried),
        Entry(taken, text=f"×{taken:g}" if taken else "none kept newcomers: penalty not used"),
    )


def _judged(candidate: Candidate | None, tone: str = "") -> Value:
    """A multiple that was not tried, or whose run failed, is --."""
    return ABSENT if candidate is None else Entry(candidate.H_cur, tone, number(candidate.A_TN))


def _inputs(data: StudyData) -> Table:
    """The proof of pairing: one hash per run; within a pair they agree."""
    columns = (
        *(Column("setting"), Column("pair", "count"), Column("method"), Column("H_cur", "level")),
        Column("shared inputs, sha256"),
    )
    rows = tuple(
        (
            f"{row.group}, {row.coefficient_rule}"
            + (f" ×{row.multiple:g}" if row.multiple and row.multiple != 1.0 else ""),
            Entry(row.pair, text=str(row.pair)),
            method_entry(row.method),
            ABSENT if row.H_cur is None else row.H_cur,
            row.pair_hash[:16],
        )
        for row in data.rows
    )
    return Table("Every run, and the hash of what the runs of its pair share", columns, rows, folded=True)
