"""`meor audit --pykeen`, `meor run --base DIR` and `--layout`, without PyKEEN."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.extend import invoke
from tests.pykeen_models import SAVED
from tests.tiny_run import SETTINGS, tiny_stream
from typer.testing import CliRunner

import meor
from meor.cli import app
from meor.stream.files import write_stream

SMALL = [part for text in SETTINGS if not text.startswith("dim") for part in ("--set", text)]


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    write_stream(tiny_stream(), tmp_path / "ring")
    return tmp_path / "ring"


def refused(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code != 0
    return f"{result.output}{result.exception}"


@pytest.mark.parametrize("name", ["complex", "rotate-inverse"])
def test_a_saved_folder_is_audited_in_one_command(name: str, ring: Path) -> None:
    found = json.loads(invoke("audit", "--stream", ring, "--pykeen", SAVED / name, "--json"))
    in_python = meor.audit(meor.read_pykeen(SAVED / name), tiny_stream())
    assert found["endpoints.json"]["test"]["H_cur"]["value"] == in_python.endpoints["H_cur"].value
    assert found["audit.json"]["backbone"] == name.split("-", maxsplit=1)[0]
    assert "trained_model.pkl" in found["audit.json"]["sha256"]


def test_a_run_grows_it_and_keeps_its_rows(ring: Path, tmp_path: Path) -> None:
    invoke("run", "--stream", ring, "--base", SAVED / "rotate", *SMALL, "--out", tmp_path / "run", "--quiet")
    view = meor.RunView.open(tmp_path / "run")
    assert view.config.backbone == "rotate"
    stream = tiny_stream()
    given = meor.read_pykeen(SAVED / "rotate").on(stream, 0)
    last = view.model(2)
    n = stream.entity_counts[0]
    assert np.array_equal(
        last.entity[:n].double().numpy(), given.entity.to(last.entity.dtype).double().numpy()
    )
    assert json.loads(invoke("audit", tmp_path / "run", "--json"))["disagreements"] == []


def test_what_a_run_cannot_grow_is_refused_with_the_command_that_helps(ring: Path, tmp_path: Path) -> None:
    start = ("run", "--stream", ring, "--out", tmp_path / "run", "--base")
    assert "meor audit --pykeen" in refused(*start, SAVED / "complex-inverse")
    assert "--backbone transe" in refused(*start, SAVED / "transe", "--backbone", "complex")
    assert "Give --base alone" in refused(*start, SAVED / "transe", "--base-layout", "halves")
    mixed = refused("audit", "--stream", ring, "--pykeen", SAVED / "transe", "--backbone", "transe")
    assert "brings its own" in mixed


def test_the_layout_of_arrays_is_said_since_no_shape_can_tell(ring: Path, tmp_path: Path) -> None:
    stream = tiny_stream()
    model = meor.read_pykeen(SAVED / "complex").on(stream, 2)
    arrays = {}
    for kind, rows in (("entity", model.entity), ("relation", model.relation)):
        re, im = np.split(rows.numpy(), 2, axis=1)
        arrays["halves", kind] = rows.numpy()
        arrays["interleaved", kind] = np.stack([re, im], 2).reshape(len(rows), -1)
    for (layout, kind), rows in arrays.items():
        np.save(tmp_path / f"{layout}-{kind}.npy", rows)
    labels = {"entity": stream.entities.labels, "relation": stream.relations.labels}
    lines = [f"{kind}\t{row}\t{label}\n" for kind, all_ in labels.items() for row, label in enumerate(all_)]
    (tmp_path / "V.tsv").write_text("".join(lines))

    def audited(layout: str, said: str) -> dict:
        files = [f"--{kind}={tmp_path / f'{layout}-{kind}.npy'}" for kind in ("entity", "relation")]
        given = ["--stream", ring, "--backbone", "complex", *files, "--vocabulary", tmp_path / "V.tsv"]
        return json.loads(invoke("audit", *given, "--layout", said, "--json"))["endpoints.json"]

    assert audited("halves", "halves") == audited("interleaved", "interleaved")
    assert audited("halves", "halves") != audited("interleaved", "halves")
    layout = meor.load_external
    with pytest.raises(meor.MeorError, match="no complex numbers to interleave"):
        layout(
            stream,
            "transe",
            arrays["halves", "entity"],
            arrays["halves", "relation"],
            through=2,
            layout="interleaved",
        )
    with pytest.raises(meor.MeorError, match="unknown layout"):
        layout(
            stream,
            "complex",
            arrays["halves", "entity"],
            arrays["halves", "relation"],
            through=2,
            layout="sideways",
        )


def test_it_is_the_first_version_of_a_store(ring: Path, tmp_path: Path) -> None:
    invoke("store", "create", tmp_path / "live", "--from", SAVED / "transe", "--stream", ring, "--quiet")
    stream, saved = tiny_stream(), meor.read_pykeen(SAVED / "transe")
    version = meor.Store.open(tmp_path / "live").version()
    expected = saved.on(stream, 2).entity
    assert np.array_equal(version.model().entity.numpy(), expected.to(version.model().entity.dtype).numpy())
    assert version.config().backbone == "transe"
    label, relation = stream.entities.label(0), stream.relations.label(0)
    assert len(meor.Store.open(tmp_path / "live").model().top(label, relation, 3)) == 3


def test_a_store_of_it_needs_a_stream_and_rows_of_one_relation_each(ring: Path, tmp_path: Path) -> None:
    start = ("store", "create", tmp_path / "live", "--from")
    assert "Name its stream with --stream" in refused(*start, SAVED / "transe")
    assert "inverse relations" in refused(*start, SAVED / "complex-inverse", "--stream", ring)
    assert "--backbone transe" in refused(*start, SAVED / "transe", "--stream", ring, "--backbone", "complex")
    given = (SAVED / "transe", "--stream", ring, "--relation", "r.npy")
    assert "leave --relation and --vocabulary out" in refused(*start, *given)
    assert not (tmp_path / "live").exists()
