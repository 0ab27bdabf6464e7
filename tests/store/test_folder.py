"""Versions: whole or absent, at every single write; one writer; no changed byte goes unnoticed."""

from __future__ import annotations

import errno
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.failing_disk import Crash, FailingDisk
from tests.tiny_run import Hasty

from meor.errors import StoreError
from meor.storage.disk import Disk
from meor.store.folder import Store, create, taken
from meor.store.rollback import rollback
from meor.store.version import Content


def changed(content: Content, by: float) -> Content:
    model = replace(content.model, entity=content.model.entity + by)
    return replace(content, model=model)


READ: dict[str, Content] = {}


def first_of(store: Store) -> Content:
    name = store.names()[0]
    if name not in READ:
        READ[name] = store.version(name).content()
    return READ[name]


def admit_by_hand(path: Path, by: float = 1.0, disk: Disk | None = None) -> str:
    with taken(path, disk or Hasty()) as writer:
        name = writer.add(changed(first_of(writer.store), by))
        writer.record("admitted", current=name, version=name, newcomers=0)
        return name


def test_a_store_gives_back_what_was_put_in(made: Path, finished: Path) -> None:
    from meor.run.view import RunView

    version, view = Store.open(made).version(), RunView.open(finished / "run")
    content, stream = version.content(), view.stream()
    assert version.number == 1
    assert version.parent is None
    assert torch.equal(content.model.entity, view.model(1).entity)
    assert torch.equal(content.base.entity, view.model(0).entity)
    assert content.stream.content_hash() == stream.content_hash(1)
    assert content.stream.entities.admitted_at == stream.entities.admitted_at[: stream.entity_counts[1]]
    assert content.config == view.config
    assert content.gate.budget == 0.2
    assert len(content.stream.snapshots) == 2


def test_versions_follow_each_other_and_rollback_goes_back(store: Path) -> None:
    first = Store.open(store).current()
    second = admit_by_hand(store)
    third = admit_by_hand(store, 2.0)
    assert [name[:4] for name in Store(store).names()] == ["0001", "0002", "0003"]
    assert Store(store).current() == third
    assert Store(store).version(2).name == second
    assert Store(store).version(third[:7]).parent == second
    assert rollback(store) == (third, second)
    assert rollback(store, "1") == (second, first)
    fourth = admit_by_hand(store, 3.0)
    assert Store(store).version().parent == first
    assert fourth.startswith("0004")
    events = [entry["event"] for entry in Store(store).log()]
    assert events == ["created", "admitted", "admitted", "rolled-back", "rolled-back", "admitted"]
    rollback(store, first)
    with pytest.raises(StoreError, match="first version"):
        rollback(store)
    for unknown in ("9", "zzz", ""):
        with pytest.raises(StoreError, match="names no version"):
            Store(store).version(unknown)


def works(path: Path, before: str) -> None:
    """Whatever happened: CURRENT names a whole version that the log knows, and the log reads."""
    found = Store.open(path)
    found.version().check()
    entries = found.log()
    assert found.current() in {entry["version"] for entry in entries}
    assert found.current() in {before, entries[-1]["current"]}


OPERATIONS: dict[str, Callable[[Path, Disk], object]] = {
    "admit": lambda path, disk: admit_by_hand(path, disk=disk),
    "rollback": lambda path, disk: rollback(path, "1", disk=disk),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(("after", "torn"), [(True, False), (False, False), (True, True)])
def test_a_crash_at_any_write_leaves_a_whole_store(
    store: Path, tmp_path: Path, name: str, after: bool, torn: bool
) -> None:
    admit_by_hand(store)
    before = Store(store).current()
    counting = FailingDisk(None, Crash())
    shutil.copytree(store, tmp_path / "whole")
    OPERATIONS[name](tmp_path / "whole", counting)
    wanted = Store(tmp_path / "whole").current()
    assert counting.calls > 4
    for at in range(1, counting.calls + 1):
        path = tmp_path / f"{at}"
        shutil.copytree(store, path)
        with pytest.raises(Crash):
            OPERATIONS[name](path, FailingDisk(at, Crash(), after=after, torn=torn))
        works(path, before)
        promised = Store(path).log()[-1]["current"]
        with taken(path, Hasty()):
            pass  # the next writer finishes what the log promises
        assert Store(path).current() == promised
        works(path, before)
        if promised == before:
            OPERATIONS[name](path, Hasty())
        assert Store(path).current() == wanted
        assert sorted(Store(path).names()) == sorted(Store(tmp_path / "whole").names())


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_a_disk_that_refuses_is_told_and_nothing_is_lost(
    store: Path, tmp_path: Path, name: str, code: int
) -> None:
    admit_by_hand(store)
    before = Store(store).current()
    counting = FailingDisk(None, Crash())
    shutil.copytree(store, tmp_path / "whole")
    OPERATIONS[name](tmp_path / "whole", counting)
    for at in range(1, counting.calls + 1):
        path = tmp_path / f"{at}"
        shutil.copytree(store, path)
        with pytest.raises(StoreError, match="could not be written") as told:
            OPERATIONS[name](path, FailingDisk(at, OSError(code, "refused")))
        assert "meor resume" not in str(told.value)
        works(path, before)
        with taken(path, Hasty()):
            pass
        works(path, before)


def test_a_store_is_made_whole_or_not_at_all(made: Path, tmp_path: Path) -> None:
    content = Store(made).version().content()
    counting = FailingDisk(None, Crash())
    create(tmp_path / "whole", content, disk=counting)
    for at in range(1, counting.calls + 1):
        full = FailingDisk(at, OSError(errno.ENOSPC, "full"))
        path = tmp_path / f"store-{at}"
        with pytest.raises(StoreError, match="disk is full"):
            create(path, content, disk=full)
        if path.exists():  # the last call syncs the folder above: the store is there already
            Store.open(path).version().check()
    with pytest.raises(StoreError, match="exists"):
        create(tmp_path / "whole", content)


def test_two_writers(store: Path) -> None:
    with taken(store) as writer:
        for _ in range(20):
            with pytest.raises(StoreError, match="another process"), taken(store):
                pass
        assert writer.store.version().number == 1
    rollback(store, "1")


def test_no_flipped_bit_goes_unnoticed(store: Path) -> None:
    version = Store(store).version()
    chance = random.Random(0)
    for path in sorted(version.files.folder.iterdir()):
        data = path.read_bytes()
        for _ in range(5):
            at = chance.randrange(len(data))
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :])
            with pytest.raises(StoreError, match=r"rollback|sha256"):
                Store(store).version().check()
        path.write_bytes(data[:-1])
        with pytest.raises(StoreError):
            Store(store).version().check()
        path.write_bytes(data)
    version.check()


def test_a_changed_lost_or_inserted_line_of_the_log_is_noticed(store: Path) -> None:
    admit_by_hand(store)
    admit_by_hand(store, 2.0)
    log = store / "admissions.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    flipped = lines[1].replace(b'"newcomers": 0', b'"newcomers": 1')
    assert flipped != lines[1]
    content = {**json.loads(lines[1]), "newcomers": 1}
    forged = json.dumps(content, sort_keys=True).encode() + b"\n"
    for wrong in (
        [lines[0], flipped, lines[2]],
        [lines[0], lines[2]],
        [*lines, lines[2]],
        [lines[0], forged, lines[2]],
    ):
        log.write_bytes(b"".join(wrong))
        with pytest.raises(StoreError, match="line"):
            Store(store).log()
    log.write_bytes(b"".join(lines) + b'{"half')
    assert len(Store(store).log()) == 3
    admit_by_hand(store, 3.0)
    assert len(Store(store).log()) == 4


def test_a_store_without_a_version_says_what_to_do(store: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="meor store create"):
        Store.open(tmp_path)
    (store / "CURRENT").write_text("../../etc")
    with pytest.raises(StoreError, match="meor rollback"):
        Store.open(store).version()
    rollback(store, "1")
    Store.open(store).version().check()
