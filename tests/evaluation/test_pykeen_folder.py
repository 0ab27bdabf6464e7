"""Folders that PyKEEN saved (made by tests/pykeen_models.py), read without PyKEEN."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.pykeen_models import CASES, FOLDERS, SAVED
from tests.tiny_run import tiny_stream

import meor
from meor.backbone.base import GAMMA, Model
from meor.errors import ModelError
from meor.typing import SIDES, Side

HAS_CONSTANT = ("TransE", "RotatE")


@pytest.mark.parametrize(("name", "inverse"), CASES)
def test_scores_are_those_that_pykeen_gave(name: str, inverse: bool) -> None:
    stream, folder = tiny_stream(), SAVED / FOLDERS[name, inverse]
    model = meor.read_pykeen(folder).on(stream, 2)
    expected = json.loads((folder / "scores.json").read_text())
    fact = np.array(expected["fact"])
    for side in SIDES:
        found = model.score(fact[:, side.anchor_column], fact[:, 1], side)
        theirs = torch.tensor(expected[side.label], dtype=torch.float64)
        constant = GAMMA if name in HAS_CONSTANT else 0.0
        torch.testing.assert_close(found - constant, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "inverse"), CASES)
def test_ranks_follow_from_those_scores(name: str, inverse: bool) -> None:
    stream = tiny_stream()
    model = meor.read_pykeen(SAVED / FOLDERS[name, inverse]).on(stream, 2)
    asked = Model.of_function(model.score, model.n_entities, model.n_relations)
    for ours, theirs in zip(
        meor.rank_update(stream, model, 2), meor.rank_update(stream, asked, 2), strict=True
    ):
        assert np.array_equal(ours.old, theirs.old)
        assert np.array_equal(ours.cur, theirs.cur)


def test_inverse_relations_answer_head_queries_alone() -> None:
    stream = tiny_stream()
    model = meor.read_pykeen(SAVED / "distmult-inverse").on(stream, 2)
    assert model.n_relations == len(stream.relations)
    anchor, relation = np.arange(4), np.arange(4)
    rows = [model.query(anchor, relation, side) for side in SIDES]
    assert not torch.allclose(*rows)  # DistMult itself knows no direction
    torch.testing.assert_close(rows[0], model.entity[:4] * model.relation[4:])
    assert SIDES[0] is Side.HEAD


def test_nothing_is_imported_for_it() -> None:
    code = (
        "import sys; from pathlib import Path; import meor\n"
        f"meor.read_pykeen(Path({str(SAVED / 'rotate')!r}))\n"
        "print([name for name in sys.modules if name.startswith(('pykeen', 'pickle.', 'class_resolver'))])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_labels_that_the_stream_does_not_have_are_left_out_and_missing_ones_named(tmp_path: Path) -> None:
    stream = tiny_stream()
    given = meor.read_pykeen(SAVED / "complex")
    assert given.on(stream, 0).n_entities == stream.entity_counts[0]
    folder = shutil.copytree(SAVED / "complex", tmp_path / "other")
    relabel(folder, "entity", lambda label: "somebody" if label == "e5" else label)
    with pytest.raises(ModelError, match=r"no row for 1 of 24 entity labels.*'e5'"):
        meor.read_pykeen(folder).on(stream, 0)


def relabel(folder: Path, kind: str, change) -> None:
    path = folder / "training_triples" / f"{kind}_to_id.tsv.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    changed = [
        line if at == 0 else "\t".join([line.split("\t")[0], change(line.split("\t")[1])])
        for at, line in enumerate(lines)
    ]
    path.write_bytes(gzip.compress("\n".join(changed).encode() + b"\n"))


def test_quoted_labels_are_read_as_pandas_wrote_them(tmp_path: Path) -> None:
    folder = shutil.copytree(SAVED / "complex", tmp_path / "quoted")
    relabel(folder, "entity", lambda label: '"a ""quoted"" name"' if label == "e5" else label)
    assert 'a "quoted" name' in meor.read_pykeen(folder).entities


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"id\tlabel\n0\ta\n", "39 of 40 entity rows have no label"),
        (b"id\tlabel\n40\ta\n", "line 2: names row 40"),
        (b"id\tlabel\n0\ta\n0\tb\n", "line 3: names row 0 again"),
        (b"id\tlabel\n" + b"".join(b"%d\ta\n" % row for row in range(40)), "stands for two rows"),
        (b"id\tlabel\n-1\ta\n", "id TAB label"),
        (b"x" * (1 << 21), "more than 1 MiB"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_labels_that_are_not_those_of_the_rows_are_refused(text, message, tmp_path: Path) -> None:
    folder = shutil.copytree(SAVED / "transe", tmp_path / "x")
    (folder / "training_triples" / "entity_to_id.tsv.gz").write_bytes(gzip.compress(text))
    with pytest.raises(ModelError, match=message):
        meor.read_pykeen(folder)


def test_a_folder_without_model_or_labels_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"holds no trained_model\.pkl"):
        meor.read_pykeen(tmp_path)
    folder = shutil.copytree(SAVED / "transe", tmp_path / "x")
    shutil.rmtree(folder / "training_triples")
    with pytest.raises(ModelError, match="rows have no names"):
        meor.read_pykeen(folder)


def rewritten(folder: Path, old: bytes, new: bytes) -> None:
    """The saved model with other words in its pickle."""
    path = folder / "trained_model.pkl"
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data.replace(old, new) if name.endswith("data.pkl") else data)


@pytest.mark.parametrize(
    ("model", "old", "new", "message"),
    [
        ("transe", b"TransEInteraction", b"TransFInteraction", "from_pykeen"),
        ("transe", b"\x8c\x01p\x94K\x01", b"\x8c\x01p\x94K\x03", "neither the L1 norm nor the L2"),
        ("complex", b"is_complex\x94\x88", b"is_complex\x94\x89", "complex with real"),
        ("distmult", b"normalizer\x94N", b"normalizer\x94\x88", "normalized when they are used"),
        ("distmult", b"pykeen.nn.representation", b"pykeen.nn.rEpresentation", "no plain embedding"),
    ],
)
def test_what_would_score_otherwise_is_refused(model, old, new, message, tmp_path: Path) -> None:
    folder = shutil.copytree(SAVED / model, tmp_path / "x")
    assert meor.read_pykeen(folder)
    rewritten(folder, old, new)
    with pytest.raises(ModelError, match=message):
        meor.read_pykeen(folder)


def test_transe_by_its_norm(tmp_path: Path) -> None:
    folder = shutil.copytree(SAVED / "transe", tmp_path / "x")
    rewritten(folder, b"\x8c\x01p\x94K\x01", b"\x8c\x01p\x94K\x02")
    assert meor.read_pykeen(SAVED / "transe").backbone == "transe"
    assert meor.read_pykeen(folder).backbone == "transe-l2"


def test_a_relation_of_rotate_that_stretches_is_refused() -> None:
    from meor.evaluation.pykeen_folder import require_turns

    require_turns("x", np.array([[0.6, 0.8]]))
    with pytest.raises(ModelError, match="another modulus"):
        require_turns("x", np.array([[0.6, 0.9]]))
