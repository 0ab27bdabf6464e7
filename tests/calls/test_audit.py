"""`meor.audit` in one call: runs, saved models and score functions, and what a notebook shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.extend import invoke
from tests.pykeen_models import SAVED
from tests.tiny_run import tiny_stream

import meor
from meor.calls.audit import Audit
from meor.calls.run import Run
from meor.errors import InputError, RunError


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def random_scores(anchors, relations, side, candidates) -> np.ndarray:
    weight = np.random.default_rng(1).normal(size=(40, 40, 4, 2))
    return weight[anchors][:, candidates][:, :, 0, int(side)] + relations[:, None]


def test_a_run_is_audited_as_the_command_does_it(made: Run) -> None:
    found = meor.audit(made, out="call")
    invoke("audit", "made", "--out", "command")
    assert files(Path("call")) == files(Path("command"))
    assert meor.audit("made").endpoints == found.endpoints
    assert found.endpoints["H_cur"].value == made.endpoints()["test"]["H_cur"]["value"]


def test_a_folder_of_pykeen_is_audited_as_the_command_does_it(ring: Path) -> None:
    meor.audit(SAVED / "rotate-inverse", ring, out="call")
    invoke("audit", "--stream", "ring", "--pykeen", SAVED / "rotate-inverse", "--out", "command")
    assert files(Path("call")) == files(Path("command"))


def test_options_are_those_of_the_command(made: Run, tmp_path: Path) -> None:
    (tmp_path / "groups.tsv").write_text("".join(f"e{i}\t{'ab'[i % 2]}\n" for i in range(40)))
    rules = meor.Rules(ties="realistic", filter_splits=["train"])
    options = {"split": ["valid", "test"], "sides": "tail", "rules": rules, "groups": "groups.tsv"}
    found = meor.audit(made, update=[2], out="call", **options)
    words = ["--update", "2", "--split", "valid,test", "--sides", "tail", "--ties", "realistic"]
    invoke(
        *("audit", "made", "--out", "command", *words),
        *("--filter-splits", "train", "--filter-prefix", "current", "--groups", "groups.tsv"),
    )
    assert files(Path("call")) == files(Path("command"))
    assert list(found.by_split) == ["valid", "test"]
    assert found.by_split["valid"] is found


def test_a_score_function_is_audited_on_a_stream_by_name_or_in_memory(ring: Path) -> None:
    found = meor.audit(random_scores, tiny_stream(), 1)
    assert meor.audit(random_scores, "ring", 1).endpoints == found.endpoints
    assert found.backbone == "function"
    found.write("written")
    assert Path("written/update-1/ranks.parquet").is_file()


def test_displacement_and_culprits_are_frames_with_labels(made: Run) -> None:
    pytest.importorskip("pandas")
    found = meor.audit(made)
    frame, stream = found.displacement.to_frame(), tiny_stream()
    worst = found.worst[0]
    assert len(frame) == len(found.worst) > 0
    assert frame.loc[0, "head"] == stream.entities.label(worst.fact[0])
    assert frame.loc[0, "rank_cur"] == worst.cur
    assert frame.loc[0, "newcomers"] == [stream.entities.label(each) for each in worst.newcomers]
    guilty = found.culprits.to_frame()
    assert guilty.loc[0, "newcomer"] == stream.entities.label(found.newcomers[0].id)
    assert guilty.loc[0, "displaced"] == found.newcomers[0].displaced
    assert list(meor.audit(random_scores, stream, 0).culprits.to_frame().columns) == list(guilty.columns)
    assert found.endpoints.to_frame().set_index("endpoint").loc["D_MCI", "all"] == pytest.approx(
        found.endpoints["D_MCI"].value
    )
    assert len(found.ranks_of(2).to_frame()) == sum(map(len, found.ranks[2]))


def test_it_is_shown_shortly_and_drawn(made: Run) -> None:
    found = meor.audit(made)
    assert repr(found).startswith("Audit: H_cur 0.")
    assert "<table>" in found._repr_html_()
    assert repr(found.displacement) == f"{len(found.worst)} old answers that lost rank to newcomers"
    assert "e" in found.culprits[0]["newcomer"]
    assert found.plot().svg[0].startswith("<svg")
    assert made.plot().figures[0].wide.parts != []


def test_labels_are_escaped_in_a_notebook() -> None:
    from meor.tabular import Rows

    shown = Rows("things", [{"<b>": "<script>alert(1)</script>", "n": 0.123456}])._repr_html_()
    assert "<script>" not in shown
    assert "&lt;b&gt;" in shown
    assert "0.1235" in shown


def test_what_cannot_be_audited_is_refused_with_a_sentence(made: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="second argument"):
        meor.audit(random_scores)
    with pytest.raises(RunError, match="neither a run folder nor"):
        meor.audit(tmp_path)
    with pytest.raises(InputError, match="does not know '7'"):
        meor.audit(made, update=7)
    meor.audit(made, out="once")
    with pytest.raises(InputError, match="--force"):
        meor.audit(made, out="once")
    assert isinstance(meor.audit(made, out="once", force=True), Audit)


def test_a_long_audit_says_how_far_it_is_and_a_short_one_nothing(ring: Path, monkeypatch, capsys) -> None:
    meor.audit(random_scores, tiny_stream())
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("meor.calls.progress.SLOW_SECONDS", 0.0)
    meor.audit(random_scores, tiny_stream())
    assert "update 2: ranking test facts" in capsys.readouterr().err


def test_pandas_is_imported_by_to_frame_alone_and_named_where_it_is_missing(monkeypatch) -> None:
    import sys

    from meor.tabular import Rows

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        Rows("things", [{"a": 1}]).to_frame()
