"""What the report of a run says, checked against its files."""

from __future__ import annotations

import itertools
import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.report.conftest import SMALL, relist, told

from meor.errors import InputError
from meor.evaluation.culprits import with_newcomers
from meor.methods import METHODS
from meor.methods.penalty import penalty_records
from meor.report.displaced import read_displacement
from meor.report.drawn import example_of
from meor.report.evidence import levels, ranks_of, read_evidence, record, records_table
from meor.report.html import page_of, render
from meor.report.made import command
from meor.report.page import Figure, Prose
from meor.run.config import Config
from meor.run.records_file import comparison_of
from meor.run.view import RunView
from meor.study.table import Table
from meor.typing import Role


def test_the_same_facts_fall_from_their_first_level_to_their_last(run_folder: Path) -> None:
    view = RunView.open(run_folder)
    ranks = ranks_of(view)
    facts = read_evidence(view, None).facts
    last = [each for each in ranks if each.occurrences.update == 4]
    wanted = np.concatenate([1 / each.cur[each.occurrences.snapshot == 0] for each in last]).mean()
    assert [loss.update for loss in facts] == [1, 2, 3, 4]
    assert facts[-1].cur == pytest.approx(wanted, abs=1e-12)
    assert sum(loss.cur - loss.old for loss in facts) < 0
    assert read_displacement(view, None, ranks, "no stream").missing == "no stream"


def test_the_lead_says_what_was_lost_when_and_to_whom(run_folder: Path) -> None:
    view = RunView.open(run_folder)
    found = read_evidence(view, None)
    lead = {said.question: said.answer for said in page_of(run_folder).lead}
    start, end = found.facts[0].old, found.facts[-1].cur
    assert f"from {start:.3f} to {end:.3f}" in lead["What was lost"]
    levels_of = [start, *(loss.cur for loss in found.facts)]
    taken = [before - after for before, after in itertools.pairwise(levels_of)]
    worst = int(np.argmax(taken))
    assert f"Update {worst + 1} took most: {taken[worst]:.3f} of {start - end:.3f}" in lead["When"]
    assert found.displacement is not None
    costliest = found.displacement.culprits[0].newcomer
    assert found.entity(costliest.id) in lead["To whom"]
    assert f"before {costliest.displaced:,} old answers" in lead["To whom"]
    assert METHODS[view.config.method].sentence.rstrip(".") in lead["What controls them"]


def test_the_named_newcomers_stand_before_the_answer_and_the_example_is_a_real_query(
    run_folder: Path,
) -> None:
    view = RunView.open(run_folder)
    found = read_evidence(view, None)
    displaced = found.displacement
    assert displaced is not None
    assert displaced.worst
    assert all(len(each.newcomers) == each.cur - each.old for each in displaced.worst)
    assert displaced.charged_of == (displaced.total.displaced, displaced.total.displaced)
    harmed = with_newcomers(view.stream(), view.model, [each.harm for each in displaced.culprits])
    assert harmed
    for culprit, harm in zip(displaced.culprits, harmed, strict=True):
        assert culprit.newcomer.id in harm.newcomers
        assert harm.share * culprit.newcomer.displaced >= culprit.newcomer.charge * (1 - 1e-12)
    example = example_of(found.ranks, found.counts)
    assert example is not None
    first = next(each for each in found.ranks if each.occurrences.side == (0 if example.head_missing else 1))
    asked = first.occurrences
    row = np.flatnonzero((asked.fact == example.fact).all(1) & (asked.role == Role.HISTORICAL))[0]
    crowd = example.crowds[0]
    assert (crowd.ahead_old + 1, crowd.ahead_old + crowd.ahead_new + 1) == (first.old[row], first.cur[row])


def test_the_drawn_record_is_what_the_penalty_computes(penalized_folder: Path) -> None:
    view = RunView.open(penalized_folder)
    stream = view.stream()
    found = record(view, stream)
    comparison = comparison_of(view.config, stream, found.update)
    records = penalty_records(comparison, view.model(found.update))
    cohort = comparison.cohort
    x = np.flatnonzero((cohort.fact == found.fact).all(1) & (cohort.side == found.side))[0]
    assert found.of_the_run
    assert found.drawing.strips[0].pressure == pytest.approx(records.new[x], abs=1e-9)
    assert found.drawing.reference == pytest.approx(records.reference[x], abs=1e-9)
    assert found.drawing.tau == records.scale.tau[x]
    assert found.drawing.excess > 0


def test_shares_by_level_add_up_and_records_are_summed_up(penalized_folder: Path) -> None:
    view = RunView.open(penalized_folder)
    shown = levels(view, view.stream())
    assert [each.update for each in shown] == [1, 2, 3, 4]
    assert all(sum(each.shares) == pytest.approx(1) for each in shown)
    records = records_table(view)
    assert records is not None
    assert len(records.rows) == 4
    assert all(0 <= active <= 1 for _, _, active, *_ in records.rows)


def test_a_run_without_a_penalty_says_so_and_still_shows_the_mechanism(run_folder: Path) -> None:
    page = page_of(run_folder)
    text = render(page)
    assert "would have seen" in text
    assert "stores no penalty records" in text
    figures = [b for section in page.sections for b in section.blocks if isinstance(b, Figure)]
    assert [figure.name for figure in figures] == ["same-facts", "growth", "comparison", "matching"]


def test_without_weights_or_endpoints_what_is_missing_is_said(run_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    for path in folder.glob("update-*/model.safetensors"):
        path.unlink()
    page = page_of(folder)
    missing = [
        b.text
        for section in page.sections
        for b in section.blocks
        if isinstance(b, Prose) and b.kind == "missing"
    ]
    assert len(missing) == 2
    assert not any(str(tmp_path) in text for text in missing)
    tables = [b.title for section in page.sections for b in section.blocks if isinstance(b, Table)]
    assert "The old answers that lost most" in tables


def test_a_run_that_is_under_way_is_reported_as_such(run_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    (folder / "endpoints.json").unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["complete"] = False
    manifest["sha256"] = {
        name: digest
        for name, digest in manifest["sha256"].items()
        if "update-4" not in name and name != "endpoints.json"
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    page = page_of(folder)
    assert page.state == "This run is unfinished: updates 1 to 3 are there. Its endpoints are not known yet."
    assert "while 3 updates admit newcomers" in told(page)
    assert "This run has no endpoints yet." in render(page)


def test_the_command_gives_the_same_settings_again(run_folder: Path) -> None:
    config = RunView.open(run_folder).config
    words = shlex.split(command(config))
    sets = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    assert words[:4] == ["meor", "run", "--stream", "world"]
    assert Config.gather(flags={"stream": "world"}, sets=sets) == config
    assert config.dim == SMALL["dim"]


def test_a_sampled_run_says_so(run_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    content = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(content.replace("evaluation:\n", "evaluation:\n  sample: 70\n"))
    relist(folder, "config.yaml")
    text = render(page_of(folder))
    assert text.count("at most 70 facts per snapshot") == 2
    assert "--set evaluation.sample=70" in text


def test_a_stream_given_by_path_leaves_its_name_only(run_folder: Path) -> None:
    config = RunView.open(run_folder).config.model_copy(update={"stream": "/home/someone/graphs/mine"})
    assert "/home" not in command(config)
    assert "--stream mine" in command(config)


def test_a_folder_that_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a run"):
        page_of(tmp_path)


def test_a_damaged_file_is_refused_and_not_shown(run_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    path = folder / "endpoints.json"
    path.write_text(path.read_text().replace("0.", "0.9", 1))
    with pytest.raises(Exception, match="sha256"):
        page_of(folder)
    relist(folder, "endpoints.json")
    page_of(folder)
