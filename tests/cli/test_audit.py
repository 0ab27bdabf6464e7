from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch
import yaml
from tests import oracle
from tests.tiny_run import Hasty, each_step, tiny_config, tiny_stream
from typer.testing import CliRunner

from meor import cli
from meor.cli.audit_result import differences
from meor.errors import RunError
from meor.evaluation.audit import SplitAudit
from meor.evaluation.endpoints import endpoints, to_json
from meor.evaluation.forgetting import published
from meor.evaluation.rank import FilterPrefix, Rules, Ties, rank_update
from meor.evaluation.ranks_file import ranks_bytes, read_ranks
from meor.run.layout import vocabulary_bytes
from meor.run.session import start
from meor.run.view import RunView
from meor.storage.disk import sha256_of
from meor.stream.files import write_stream
from meor.stream.registry import open_stream
from meor.typing import Side, Split


def call(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.app, ["audit", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


class World:
    """A small stream on disk and embeddings for it, rows in another order than ids."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(0)
        content = oracle.small_stream(rng, base=12, admitted=6, facts=60)
        for index, snapshot in enumerate(content.snapshots):
            (folder / "s" / str(index)).mkdir(parents=True)
            for split in Split:
                lines = [
                    f"{content.entities.label(h)}\t{content.relations.label(r)}\t{content.entities.label(t)}\n"
                    for h, r, t in snapshot.facts([split]).tolist()
                ]
                (folder / "s" / str(index) / f"{split.value}.txt").write_text("".join(lines))
        self.stream = open_stream(str(folder / "s"))
        n, m = len(self.stream.entities), len(self.stream.relations)
        self.model = oracle.dyadic_model("complex", n, m, rng)
        self.save(self.model.entity.numpy()[::-1], self.model.relation.numpy()[::-1])

    def save(self, entity, relation) -> None:
        np.save(self.folder / "E.npy", entity)
        np.save(self.folder / "R.npy", relation)
        lines = [
            f"{kind}\t{row}\t{label}\n"
            for kind, labels in (("entity", self.stream.entities), ("relation", self.stream.relations))
            for row, label in enumerate(reversed(labels.labels))
        ]
        (self.folder / "V.tsv").write_text("".join(lines))

    def audit(self, *more: object, **changes: object) -> tuple[int, str, str]:
        options = {
            "stream": self.folder / "s",
            "backbone": "complex",
            "entity": self.folder / "E.npy",
            "relation": self.folder / "R.npy",
            "vocabulary": self.folder / "V.tsv",
            **changes,
        }
        given = [
            part for name, value in options.items() if value is not None for part in (f"--{name}", value)
        ]
        return call(*given, *more)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_an_audit_writes_the_ranks_and_endpoints_of_every_update(world):
    out = world.folder / "out"
    code, said, _ = world.audit("--out", out)
    assert code == 0
    expected = []
    for update in world.stream.updates:
        ranks = rank_update(world.stream, world.model, update)
        expected += ranks
        found = read_ranks(out / f"update-{update}" / "ranks.parquet")[Split.TEST]
        assert [each.cur.tolist() for each in found] == [each.cur.tolist() for each in ranks]
        assert [each.old.tolist() for each in found] == [each.old.tolist() for each in ranks]
    assert json.loads((out / "endpoints.json").read_text()) == to_json({"test": endpoints(expected)})
    assert {path.name for path in out.iterdir()} == {
        *("audit.json", "displacement.json", "endpoints.json", "vocabulary.parquet", "update-1", "update-2")
    }
    assert pq.read_table(out / "vocabulary.parquet").num_rows == len(world.stream.entities) + len(
        world.stream.relations
    )
    assert "worst displacements" in said
    assert "H_cur" in said
    worst = json.loads((out / "displacement.json").read_text())["test"]["worst"]
    assert worst[0]["head"] in world.stream.entities
    assert 1 <= len(worst[0]["newcomers"]) <= worst[0]["rank_cur"] - worst[0]["rank_old"]
    assert "s/" not in (out / "audit.json").read_text()  # no place on this machine


def test_equal_audits_are_equal_bytes_whatever_the_budget(world):
    outs = world.folder / "a", world.folder / "b"
    world.audit("--out", outs[0])
    world.audit("--out", outs[1], "--memory", "8MiB")
    files = [sorted(path.relative_to(out) for path in out.rglob("*") if path.is_file()) for out in outs]
    assert files[0] == files[1]
    for name in files[0]:
        assert (outs[0] / name).read_bytes() == (outs[1] / name).read_bytes()


def test_declared_cells_protocol_and_splits_are_obeyed(world):
    options = (
        "--update",
        2,
        "--sides",
        "tail",
        "--split",
        "test,valid",
        "--ties",
        "realistic",
        "--filter-prefix",
        "introduced",
    )
    code, said, _ = world.audit("--json", *options)
    assert code == 0
    content = json.loads(said)
    expected = {
        split.value: endpoints(
            rank_update(
                world.stream,
                world.model,
                2,
                split=split,
                sides=[Side.TAIL],
                rules=Rules(Ties.REALISTIC, FilterPrefix.INTRODUCED),
            )
        )
        for split in (Split.TEST, Split.VALID)
    }
    assert content["endpoints.json"] == to_json(expected)
    assert content["audit.json"]["updates"] == [2]
    assert content["audit.json"]["ties"] == "realistic"


def test_an_empty_cell_is_null_with_a_reason_and_a_dash(world):
    code, said, _ = world.audit("--json", "--update", 0)
    assert code == 0
    found = json.loads(said)["endpoints.json"]["test"]
    assert found["H_cur"]["value"] is None
    assert "update 0" in found["H_cur"]["reason"]
    assert found["A_TN"]["value"] > 0
    assert "No old answer lost rank" in world.audit("--update", 0)[1]


def test_rows_of_entities_admitted_after_the_audited_update_may_be_missing(world):
    n = world.stream.entity_counts[1]
    kept = [
        line for line in (world.folder / "V.tsv").read_text().splitlines() if not line.startswith("entity")
    ]
    lines = [f"entity\t{row}\t{label}" for row, label in enumerate(world.stream.entities.labels[:n])]
    np.save(world.folder / "E.npy", world.model.entity.numpy()[:n])
    (world.folder / "V.tsv").write_text("\n".join([*lines, *kept]))
    code, said, _ = world.audit("--json", "--update", 1)
    assert code == 0
    assert json.loads(said)["endpoints.json"] == to_json(
        {"test": endpoints(rank_update(world.stream, world.model, 1))}
    )
    code, _, said = world.audit("--update", 2)
    assert code == 2
    assert "have no row" in said


def test_groups_are_reported(world):
    path = world.folder / "G.tsv"
    path.write_text("".join(f"{label}\t[bold]odd\n" for label in world.stream.entities.labels[1::2]))
    out = world.folder / "out"
    code, said, _ = world.audit("--groups", path, "--out", out)
    assert code == 0
    assert "[bold]odd" in said
    found = json.loads((out / "groups.json").read_text())["test"]
    assert [each["group"] for each in found["groups"]] == ["(none)", "[bold]odd"]
    assert found["small_below"] == 30
    path.write_text("nobody\tx\n")
    code, _, said = world.audit("--groups", path)
    assert code == 2
    assert "nobody" in said


@pytest.mark.parametrize(
    ("options", "changes", "message"),
    [
        ((), {"entity": None}, "without --entity"),
        ((), {"stream": None}, "neither a run nor a stream"),
        ((), {"stream": "no-such-stream"}, "no-such-stream"),
        ((), {"backbone": "unknown"}, "unknown backbone 'unknown'"),
        ((), {"vocabulary": "none.tsv"}, "is not a file"),
        (("--update", 9), {}, "does not know '9'"),
        (("--update", 1, "--updates", "2"), {}, "both given"),
        (("--updates", "1,1"), {}, "twice"),
        (("--sides", "left"), {}, "does not know 'left'"),
        (("--split", "rest"), {}, "does not know 'rest'"),
        (("--ties", "fair"), {}, "does not know 'fair'"),
        (("--filter-prefix", "all"), {}, "does not know 'all'"),
        (("--memory", "much"), {}, "amount of memory"),
        (("--memory", "1KiB"), {}, "too small"),
        (("--no-such-flag",), {}, "No such option"),
        (("--groups", "none.tsv"), {}, "is not a file"),
    ],
)
def test_a_wrong_option_is_one_sentence_and_nothing_is_written(world, options, changes, message):
    out = world.folder / "out"
    code, _, said = world.audit("--out", out, *options, **changes)
    assert code == 2
    assert message in said
    assert "Traceback" not in said
    assert not out.exists()


def test_embeddings_that_do_not_fit_are_explained_and_nothing_is_written(world):
    entity, relation = (np.load(world.folder / name) for name in ("E.npy", "R.npy"))
    out = world.folder / "out"
    for spoiled, message in (
        (entity[:, :-1], "odd number"),
        (entity[:, :-2], "relation rows are"),
        (entity[:-1], "is named, but"),
        (np.vstack([entity, entity[:1]]), "have no name"),
        (np.full_like(entity, np.nan), "NaN or infinity"),
        (np.full_like(entity, 1e200), "NaN or infinite"),
        (entity.astype(int), "int64 values"),
    ):
        np.save(world.folder / "E.npy", spoiled)
        code, _, said = world.audit("--out", out)
        assert (code, message in said) == (2, True), said
        assert not out.exists()
    assert {path.name for path in world.folder.iterdir()} == {"s", "E.npy", "R.npy", "V.tsv"}
    assert relation.shape[1] == entity.shape[1]


def test_only_an_audit_is_replaced_and_only_with_force(world):
    out = world.folder / "out"
    assert world.audit("--out", out)[0] == 0
    code, _, said = world.audit("--out", out)
    assert code == 2
    assert "--force" in said
    (out / "update-1" / "stale").write_text("x")
    assert world.audit("--out", out, "--force", "--update", 2)[0] == 0
    assert not (out / "update-1").exists()
    (out / "audit.json").unlink()
    code, _, said = world.audit("--out", out, "--force")
    assert code == 2
    assert "other files" in said
    code, _, said = world.audit("--out", world.folder / "E.npy", "--force")
    assert code == 2
    assert "is a file" in said
    code, _, said = world.audit("--out", world.folder / "E.npy" / "out")
    assert code == 2
    assert "not a folder" in said
    empty = world.folder / "empty"
    empty.mkdir()
    assert world.audit("--out", empty)[0] == 0
    assert not [path for path in world.folder.iterdir() if path.name.startswith(".")]


@pytest.fixture
def run(world):
    """A run folder as the contract says, without our runner."""
    folder = world.folder / "run"
    folder.mkdir()
    (folder / "config.yaml").write_text(
        yaml.safe_dump({"stream": str(world.folder / "s"), "backbone": "complex"})
    )
    (folder / "vocabulary.parquet").write_bytes(vocabulary_bytes(world.stream))
    ranked = []
    for update in range(len(world.stream.snapshots)):
        (folder / f"update-{update}").mkdir()
        n, m = world.stream.entity_counts[update], world.stream.relation_counts[update]
        tensors = {
            "entity": world.model.entity[:n].clone() / (update + 1),
            "relation": world.model.relation[:m].clone(),
        }
        safetensors.torch.save_file(tensors, folder / f"update-{update}" / "model.safetensors")
        if update:
            ranks = rank_update(world.stream, world.model, update)  # a DOT score's scale changes no rank
            (folder / f"update-{update}" / "ranks.parquet").write_bytes(ranks_bytes({Split.TEST: ranks}))
            ranked += ranks
    (folder / "endpoints.json").write_text(json.dumps(to_json({"test": endpoints(ranked)})))
    return listed(folder, world.stream)


def listed(folder, stream):
    """The manifest of what lies in the folder now."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json")
    manifest = {
        "format": 1,
        "complete": True,
        "config_hash": "0" * 64,
        "stream_hash": stream.content_hash(),
        "sha256": {path.relative_to(folder).as_posix(): sha256_of(path) for path in files},
        "threads": 1,
        "versions": {},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_a_run_whose_results_follow_from_its_models_is_confirmed(world, run):
    code, said, remarks = call(run)
    assert code == 0
    assert "worst displacements" in said
    assert "follow from its stored models" in remarks
    code, said, _ = call(run, "--json")
    assert json.loads(said)["disagreements"] == []


def test_a_run_whose_results_do_not_follow_is_refused_with_what_differs(world, run):
    stored = json.loads((run / "endpoints.json").read_text())
    stored["test"]["H_cur"]["value"] += 1e-16 + 1e-15
    (run / "endpoints.json").write_text(json.dumps(stored))
    code, _, said = call(listed(run, world.stream))
    assert code == 2
    assert "H_cur: stored" in said
    (ranks,) = read_ranks(run / "update-2" / "ranks.parquet").values()
    ranks[0].cur[0] += 1
    (run / "update-2" / "ranks.parquet").write_bytes(ranks_bytes({Split.TEST: ranks}))
    code, _, said = call(listed(run, world.stream))
    assert code == 2
    assert "update-2, test, side head: 1 of" in said


def test_the_fields_protocols_are_given_on_request_and_forgetting_for_a_run(world, run):
    out = world.folder / "out"
    code, said, _ = world.audit("--protocols", "--out", out)
    assert code == 0
    assert "entities of the introducing snapshot" in said
    found = json.loads((out / "protocols.json").read_text())["test"]
    assert found == published(world.stream, lambda _: world.model, [2])
    code, said, _ = call(run, "--protocols", "--json")
    assert code == 0
    assert set(json.loads(said)["protocols.json"]["test"]["forgetting"]["B"]) == {
        "ACF",
        "BWT",
        "Omega_new",
        "Base",
        "New",
    }
    assert "Omega_new" in call(run, "--protocols")[1]


def test_a_run_of_our_own_is_confirmed(tmp_path):
    write_stream(tiny_stream(), tmp_path / "s")
    config = tiny_config(stream=tmp_path / "s")
    start(config, tmp_path / "run", resources=each_step(tmp_path / "cache"), disk=Hasty())
    code, _, said = call(tmp_path / "run")
    assert (code, "follow from its stored models" in said) == (0, True), said
    model = tmp_path / "run" / "update-1" / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-1] + b"\x01")
    code, _, said = call(tmp_path / "run")
    assert code == 2
    assert "does not have the sha256 its manifest states" in said


def test_a_sampled_run_is_confirmed_on_its_sample(tmp_path):
    write_stream(tiny_stream(), tmp_path / "s")
    config = tiny_config("evaluation.sample=4", stream=tmp_path / "s")
    start(config, tmp_path / "run", resources=each_step(tmp_path / "cache"), disk=Hasty())
    code, _, said = call(tmp_path / "run", "--out", tmp_path / "out")
    assert (code, "follow from its stored models" in said) == (0, True), said
    assert json.loads((tmp_path / "out" / "audit.json").read_text())["sample"] == 4


def test_other_options_than_the_runs_are_audited_but_not_compared(world, run):
    code, _, said = call(run, "--ties", "optimistic", "--out", world.folder / "out")
    assert code == 0
    assert "not compared" in said
    assert (world.folder / "out" / "endpoints.json").is_file()


def test_a_calibrated_run_is_not_compared_with_its_raw_models(world, run):
    config = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump({**config, "method": "calibration"}))
    assert "not compared" in call(listed(run, world.stream))[2]


def test_a_run_that_is_not_finished_is_audited_as_far_as_it_goes(world, run):
    shutil.rmtree(run / "update-2")
    (run / "endpoints.json").unlink()
    code, said, _ = call(listed(run, world.stream), "--json")
    assert code == 0
    assert json.loads(said)["audit.json"]["updates"] == [1]
    shutil.rmtree(run / "update-1")
    code, _, said = call(listed(run, world.stream))
    assert code == 2
    assert "no model of an update" in said


def test_what_is_no_run_or_does_not_fit_its_stream_is_explained(world, run):
    assert "no manifest.json" in call(world.folder)[2]
    assert "brings its own" in call(run, "--backbone", "complex")[2]
    model = run / "update-1" / "model.safetensors"
    safetensors.torch.save_file({"entity": torch.ones(3, 6), "relation": torch.ones(2, 6)}, model)
    assert "Make the run again" in call(listed(run, world.stream))[2]
    model.write_bytes(b"\x80\x04nonsense")
    assert "not a safetensors file that can be read" in call(listed(run, world.stream))[2]
    first = world.folder / "s" / "0" / "train.txt"
    first.write_text(first.read_text().replace("e1\t", "other\t"))
    code, _, said = call(run)
    assert code == 2
    assert "is not the one" in said


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("config.yaml", "put the file back"),
        ("vocabulary.parquet", "makes it again"),
        ("update-1/model.safetensors", "makes it again"),
        ("update-1/ranks.parquet", "makes it again"),
        ("endpoints.json", "makes it again"),
    ],
)
def test_a_changed_file_of_a_run_is_refused_by_name_before_it_is_used(world, run, name, remedy):
    if name == "config.yaml":  # well-formed, and another score
        (run / name).write_text((run / name).read_text().replace("complex", "distmult"))
    else:
        data = bytearray((run / name).read_bytes())
        data[len(data) // 2] ^= 1
        (run / name).write_bytes(data)
    options = ("--update", 1) if name == "config.yaml" else ()
    code, _, said = call(run, *options)
    assert code == 2
    told = " ".join(said.split())
    assert f"{Path(name).name} does not have the sha256 its manifest states" in told.replace("/ ", "/")
    assert remedy in told


def test_every_flipped_bit_of_stored_ranks_is_noticed_by_an_audit(world, run):
    path = run / "update-2" / "ranks.parquet"
    view, data = RunView.open(run), path.read_bytes()
    for position in np.random.default_rng(3).integers(8 * len(data), size=300):
        damaged = bytearray(data)
        damaged[position // 8] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        view.files.verified.clear()
        with pytest.raises(RunError, match="sha256"):
            differences(view, {Split.TEST: SplitAudit({2: ()})}, {})


def test_the_help_says_how_complex_rows_are_laid_out():
    code, said, _ = call("--help")
    assert code == 0
    assert "real half of each row, then the imaginary" in " ".join(said.split())
