"""Admissions that a server was asked for: one at a time, each in a child process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from meor.errors import InputError, StoreError
from meor.serve.schemas import AdmissionBody
from meor.storage.disk import Disk, commit_file, staging
from meor.stream.source import shown

KEPT, LINES = 50, 40
_COMMAND = [sys.executable, "-c", "from meor.cli import main; main()"]
_VERDICTS = {0, 3, 4}  # exit codes that come with a verdict


@dataclass(slots=True)
class Job:
    name: str
    state: Literal["running", "done", "failed"] = "running"
    exit_code: int | None = None
    progress: deque[str] = field(default_factory=lambda: deque(maxlen=LINES))
    verdict: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "job": self.name,
            "state": self.state,
            "exit_code": self.exit_code,
            "progress": list(self.progress),
            "verdict": self.verdict,
        }


class Jobs:
    def __init__(self, store: Path, place: Path, done: Callable[[], None]) -> None:
        """`place` is where batches lie while they are admitted; `done` is called after each admission."""
        self.store, self.place, self.done = store.absolute(), place, done
        self._lock, self._known = threading.Lock(), dict[str, Job]()
        self._count = 0
        self._child: subprocess.Popen[str] | None = None

    def begin(self, body: AdmissionBody) -> Job:
        facts, golden = _lines(body.facts), _lines(body.golden)
        waits = _lines([[label] for label in body.hold_back])
        with self._lock:
            if any(job.state == "running" for job in self._known.values()):
                raise StoreError("An admission is running. Wait for it.")
            self._count += 1
            job = Job(f"{self._count}")
            self._known[job.name] = job
            while len(self._known) > KEPT:
                self._known.pop(next(iter(self._known)))
        files = {
            "facts.tsv": f"head\trelation\ttail\tsplit\n{facts}",
            "golden.tsv": golden,
            "hold.txt": waits,
        }
        threading.Thread(target=self._work, args=(job, body, files), daemon=True).start()
        return job

    def find(self, name: str) -> Job:
        if name not in self._known:
            raise InputError(f"there is no job {name[:50]!r}", remedy="POST /v1/admissions begins one")
        return self._known[name]

    def close(self) -> None:
        """The child is ours: it ends with us, and the store stays as it was."""
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()

    def _work(self, job: Job, body: AdmissionBody, files: dict[str, str]) -> None:
        try:
            with staging(self.place) as folder:
                for name, text in files.items():
                    commit_file(Disk(), folder / name, text.encode())
                self._run(job, [*_COMMAND, *_words(self.store, folder, body)])
        except Exception as error:  # whatever it is, the job must end and say so
            job.progress.append(f"{type(error).__name__}: {error}"[:500])
            job.state = "failed"
        finally:
            with suppress(Exception):
                self.done()
            if job.state == "running":
                job.state = "done" if job.exit_code in _VERDICTS else "failed"

    def _run(self, job: Job, words: list[str]) -> None:
        with subprocess.Popen(  # noqa: S603  (our own command; labels lie in files)
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            self._child = child
            said = threading.Thread(target=self._listen, args=(child, job), daemon=True)
            said.start()
            told = child.stdout.read() if child.stdout is not None else ""
            said.join()
        job.exit_code = child.returncode
        if child.returncode in _VERDICTS:
            job.verdict = json.loads(told)

    @staticmethod
    def _listen(child: subprocess.Popen[str], job: Job) -> None:
        if child.stderr is not None:
            for line in child.stderr:
                job.progress.append(line.rstrip()[:500])


def _words(store: Path, folder: Path, body: AdmissionBody) -> list[str]:
    words = ["admit", str(store), str(folder / "facts.tsv"), "--json"]
    for option, given in (("--budget", body.budget), ("--floor", body.floor)):
        words += [] if given is None else [option, repr(given)]
    for option, holds in (
        ("--new-relations", body.new_relations),
        ("--dry-run", body.dry_run),
        ("--force", body.force),
    ):
        words += [option] if holds else []
    words += [f"--reason={body.reason}"] if body.reason else []
    words += ["--protect", str(folder / "golden.tsv")] if body.golden else []
    return words + (["--hold-back", str(folder / "hold.txt")] if body.hold_back else [])


def _lines(rows: list[list[str]]) -> str:
    for row in rows:
        for label in row:
            if any(char in label for char in "\t\n\r\0") or not _encodes(label):
                raise InputError(f"{shown(label)} holds a tab, a line end or a NUL", remedy="Rename it")
    return "".join("\t".join(row if len(row) != 3 else [*row, "train"]) + "\n" for row in rows)


def _encodes(label: str) -> bool:
    try:
        label.encode()
    except UnicodeEncodeError:
        return False
    return True
