from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.tiny_run import Hasty, tiny_config, tiny_stream

from meor.errors import RunError
from meor.run.folder import RunFolder, make_free
from meor.run.layout import LOG, MANIFEST, is_run, read_manifest
from meor.run.view import RunView
from meor.stream.snapshot import Stream


@pytest.fixture(scope="module")
def stream() -> Stream:
    return tiny_stream()


@pytest.fixture
def folder(tmp_path: Path, stream: Stream) -> RunFolder:
    return RunFolder.begin(tmp_path / "run", tiny_config(), stream, "hash", threads=1, disk=Hasty())


def test_the_vocabulary_numbers_each_kind_from_0_and_says_when_it_was_admitted(
    folder: RunFolder, stream: Stream
) -> None:
    rows = pq.read_table(folder.path / "vocabulary.parquet").to_pylist()
    assert list(rows[0]) == ["id", "label", "kind", "admitted_at"]
    entities = [row for row in rows if row["kind"] == "entity"]
    assert [row["id"] for row in entities] == list(range(40))
    assert [row["label"] for row in entities] == list(stream.entities)
    assert [row["admitted_at"] for row in entities] == [0] * 24 + [1] * 8 + [2] * 8
    assert RunView.open(folder.path).labels("relation") == list(stream.relations)


def test_an_update_that_the_manifest_does_not_list_is_not_there(folder: RunFolder) -> None:
    folder.commit_update(0, {"model.safetensors": b"base"})
    (folder.path / "update-1").mkdir()
    (folder.path / "update-1" / "model.safetensors").write_bytes(b"written but not listed")
    assert folder.verified_updates(lambda text: None) == 1
    assert RunView.open(folder.path).updates == [0]


def test_a_damaged_update_and_all_after_it_are_forgotten(folder: RunFolder) -> None:
    for update in range(3):
        folder.commit_update(update, {"model.safetensors": b"%d" % update})
    folder.commit_result("endpoints.json", b"{}")
    (folder.path / "update-1" / "model.safetensors").write_bytes(b"x")
    said: list[str] = []
    good = folder.verified_updates(said.append)
    assert good == 1
    assert "update-1" in said[0]
    folder.forget_from(good)
    listed = set(read_manifest(folder.path)["sha256"])
    assert listed == {"config.yaml", "vocabulary.parquet", "update-0/model.safetensors"}


def test_half_a_line_left_by_a_kill_is_removed_before_the_next_line(folder: RunFolder) -> None:
    folder.log("one")
    folder.release()
    with (folder.path / LOG).open("ab") as file:
        file.write(b'{"event": "tw')
    assert [event["event"] for event in RunView.open(folder.path).events()] == ["one"]
    again = RunFolder.take(folder.path)
    again.log("two")
    again.release()
    lines = (folder.path / LOG).read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["one", "two"]


def test_nothing_that_is_not_a_number_enters_the_log(folder: RunFolder) -> None:
    with pytest.raises(ValueError, match="JSON"):
        folder.log("pass", loss=float("nan"))


def test_readers_may_look_while_a_run_is_being_written(folder: RunFolder) -> None:
    view = RunView.open(folder.path)
    assert not view.complete
    with pytest.raises(RunError, match="meor resume"):
        view.model(0)
    with pytest.raises(RunError, match="meor resume"):
        view.endpoints()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b"[" * 100_000,
        b'{"format": 1}',
        b'{"format": 2, "complete": true, "config_hash": "", "stream_hash": "", "sha256": {}, "threads": 1, '
        b'"versions": {}}',
    ],
)
def test_a_manifest_that_is_none_is_a_typed_error(folder: RunFolder, content: bytes) -> None:
    folder.release()
    (folder.path / MANIFEST).write_bytes(content)
    with pytest.raises(RunError):
        RunView.open(folder.path)
    with pytest.raises(RunError):
        RunFolder.take(folder.path)


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../secret", "update-1/../../x.parquet", "update-01/model.parquet"]
)
def test_a_manifest_cannot_point_outside_of_its_folder(folder: RunFolder, name: str) -> None:
    manifest = {**folder.manifest, "sha256": {name: "0" * 64}}
    (folder.path / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(RunError, match="no run folder holds"):
        RunView.open(folder.path)


def test_remains_of_a_run_that_never_began_are_no_obstacle(tmp_path: Path, stream: Stream) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for name in (".lock", "config.yaml.tmp", "vocabulary.parquet"):
        (run / name).write_bytes(b"half")
    assert not is_run(run)
    make_free(run, force=False)
    RunFolder.begin(run, tiny_config(), stream, "hash", threads=1, disk=Hasty()).release()
    assert is_run(run)


def test_a_folder_is_written_to_the_disk_unless_another_one_is_given(tmp_path: Path, stream: Stream) -> None:
    folder = RunFolder.begin(tmp_path / "run", tiny_config(), stream, "hash", threads=1)
    folder.commit_update(0, {"model.safetensors": b"base"})
    folder.release()
    assert read_manifest(tmp_path / "run")["sha256"].keys() >= {"update-0/model.safetensors"}


def test_what_is_forgotten_is_struck_from_the_manifest_on_disk(folder: RunFolder) -> None:
    for update in range(3):
        folder.commit_update(update, {"model.safetensors": b"%d" % update})
    folder.commit_result("endpoints.json", b"{}")
    folder.finish(threads=1)
    folder.forget_from(1)
    manifest = read_manifest(folder.path)
    assert not manifest["complete"]
    assert {name for name in manifest["sha256"] if "/" in name} == {"update-0/model.safetensors"}
    assert not {"endpoints.json", LOG} & manifest["sha256"].keys()


def test_a_place_that_is_not_there_is_free_and_stays_away(tmp_path: Path, folder: RunFolder) -> None:
    make_free(tmp_path / "absent", force=False)
    assert not (tmp_path / "absent").exists()
    with pytest.raises(RunError, match="holds a run"):
        make_free(folder.path, force=False)


def test_checkpoints_lie_in_the_folder_and_know_its_settings(folder: RunFolder) -> None:
    assert folder.checkpoints.folder == folder.path / "steps"
    assert folder.checkpoints.config_hash == "hash"


def test_a_run_that_cannot_begin_leaves_nothing_behind(tmp_path: Path, stream: Stream) -> None:
    class Full(Hasty):
        def write(self, path: Path, content: bytes) -> None:
            if path.name.startswith("config.yaml"):
                raise OSError(28, "No space left on device")
            super().write(path, content)

    with pytest.raises(RunError, match="space"):
        RunFolder.begin(tmp_path / "run", tiny_config(), stream, "hash", threads=1, disk=Full())
    assert not (tmp_path / "run").exists()


def test_a_finished_run_says_so_and_keeps_nothing_but_its_files(folder: RunFolder) -> None:
    folder.commit_update(0, {"model.safetensors": b"base"})
    (folder.path / "steps").mkdir()
    folder.finish(threads=3)
    manifest = read_manifest(folder.path)
    assert (manifest["complete"], manifest["threads"]) == (True, 3)
    assert not {"steps", ".lock"} & {each.name for each in folder.path.iterdir()}


def test_what_is_not_a_runs_stays_where_it_is(tmp_path: Path, stream: Stream) -> None:
    class Full(Hasty):
        def write(self, path: Path, content: bytes) -> None:
            raise OSError(28, "No space left on device")

    (tmp_path / "there").mkdir()
    with pytest.raises(RunError, match="space"):
        RunFolder.begin(tmp_path / "there", tiny_config(), stream, "hash", threads=1, disk=Full())
    assert (tmp_path / "there").is_dir()
    run = RunFolder.begin(tmp_path / "run", tiny_config(), stream, "hash", threads=1, disk=Hasty())
    run.release()
    (run.path / "notes.txt").write_text("mine")
    make_free(run.path, force=True)
    assert (run.path / "notes.txt").read_text() == "mine"
    assert not is_run(run.path)
