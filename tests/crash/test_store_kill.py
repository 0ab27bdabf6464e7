"""Bar 1: admissions and rollbacks killed at random moments while a reader polls the store."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import time
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from tests.tiny_run import each_step, tiny_config, tiny_stream

from meor.run.session import start
from meor.store.create import content_of_run
from meor.store.folder import Store, create
from meor.store.settings import GateSettings
from meor.stream.files import write_stream

NOTHING_NEW, DONE, KILLED = 2, 0, -9


def call(arguments: list[str], told: str) -> None:
    """The command, in a process that has our modules loaded."""
    from meor.cli import app

    log = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    app(arguments, prog_name="meor")


class Reader:
    """Looks at a store again and again; whatever it sees must be whole, and what it saw must stay."""

    def __init__(self, store: Path) -> None:
        self.store, self.looks, self.mismatches = store, 0, 0
        self.models: dict[str, str] = {}
        self.lines: list[dict[str, object]] = []

    def look(self) -> None:
        found = Store.open(self.store)
        name = found.current()
        if name not in self.models:
            version = found.version(name)
            version.check()
            data = (self.store / "versions" / name / "model.safetensors").read_bytes()
            self.models[name] = hashlib.sha256(data).hexdigest()
        else:
            found.version(name)
        lines = found.log()
        self.mismatches += lines[: len(self.lines)] != self.lines  # a line is never lost or changed
        self.mismatches += name not in {line["version"] for line in lines}
        self.lines = lines
        self.looks += 1


class Work:
    def __init__(self, store: Path, batch: Path, processes: ForkServerContext) -> None:
        self.store, self.batch, self.processes = store, batch, processes
        self.reader, self.killed = Reader(store), [0, 0]  # admissions, rollbacks

    def begin(self) -> BaseProcess:
        """Admit the batch into version 1, or go back to it: whichever of the two there is to do."""
        words = ["admit", self.store, self.batch, "--budget", "1", "--quiet", "--threads", "1"]
        words = words if self.is_first() else ["rollback", self.store, "1"]
        child = self.processes.Process(
            target=call, args=([str(word) for word in words], f"{self.store}.told")
        )
        child.start()
        return child

    def kill(self, wanted: int) -> int:
        """So many kills; how many commands came to their end in between."""
        chance, kills, done = random.Random("store kills"), 0, 0
        # The first of each loads and compiles; kills spread over that time would mostly come too late.
        longest = [self.finish() for _ in range(4)][2:]  # of an admission, and of a rollback
        while kills < wanted:
            before, began, back = self.sign(), time.monotonic(), not self.is_first()
            child = self.begin()
            after_sign = chance.random() < 0.6  # most of an admission is training: commits are to be hit too
            due = began + chance.uniform(0, 1.5 * longest[back])  # some of them come to their end
            while child.is_alive():
                self.reader.look()
                time.sleep(0.001)
                if after_sign and self.sign() != before:
                    after_sign, due = False, time.monotonic() + chance.uniform(0, 0.15)
                if not after_sign and time.monotonic() > due:
                    child.kill()
                    break
            child.join()
            assert child.exitcode in {DONE, NOTHING_NEW, KILLED}, Path(f"{self.store}.told").read_text()
            kills += child.exitcode == KILLED
            self.killed[back] += child.exitcode == KILLED
            done += child.exitcode == DONE
            self.reader.look()
        self.finish()
        return done

    def finish(self) -> float:
        began = time.monotonic()
        child = self.begin()
        child.join()
        self.reader.look()
        # A killed admission may have been finished by the next writer: then the batch is known already.
        assert child.exitcode in {DONE, NOTHING_NEW}, Path(f"{self.store}.told").read_text()
        return time.monotonic() - began

    def is_first(self) -> bool:
        return Store.open(self.store).current().startswith("0001")

    def sign(self) -> object:
        names = [path.name for path in (self.store / "versions").iterdir()]
        return sorted(names), (self.store / "admissions.jsonl").stat().st_size


@pytest.fixture
def work(tmp_path: Path) -> Work:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"meor.cli.{verb}" for verb in ("admit", "rollback")])
    stream = tiny_stream()
    write_stream(stream, tmp_path / "ring")
    start(tiny_config(stream=tmp_path / "ring"), tmp_path / "run", resources=each_step(tmp_path / "cache"))
    create(tmp_path / "store", content_of_run(tmp_path / "run", GateSettings(), update=1))
    lines = [
        f"{stream.entities.label(head)}\t{stream.relations.label(of)}\t{stream.entities.label(tail)}\n"
        for head, of, tail in stream.snapshots[2].train.tolist()
    ]
    (tmp_path / "batch.tsv").write_text("".join(lines))
    return Work(tmp_path / "store", tmp_path / "batch.tsv", context)


def killed(work: Work, kills: int) -> None:
    done = work.kill(kills)
    reader = work.reader
    assert reader.mismatches == 0
    made = {sha for name, sha in reader.models.items() if not name.startswith("0001")}
    assert len(made) == 1  # every admission of this batch gives the same bytes
    assert Store.open(work.store).current() == Store.open(work.store).log()[-1]["current"]
    for name in Store.open(work.store).names():
        Store.open(work.store).version(name).check()
    assert kills < 100 or min(work.killed) >= 20, work.killed
    print(
        f"{kills} kills (admissions, rollbacks: {work.killed}), {done} commands done, "
        f"{reader.looks} looks, {reader.mismatches} mismatches"
    )


def test_after_15_kills_the_store_is_whole_and_the_log_complete(work: Work) -> None:
    killed(work, 15)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_after_200_kills_the_store_is_whole_and_the_log_complete(work: Work) -> None:
    killed(work, 200)
