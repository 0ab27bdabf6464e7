"""What a server holds: the version that answers, loaded once; a CURRENT that changes is followed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

from meor.errors import MeorError
from meor.store.answers import Answers
from meor.store.explain import Subject
from meor.store.folder import Store
from meor.store.layout import CURRENT

KEPT = 3
"""Versions beside the current one that stay loaded."""


class Served:
    """Requests read `current()`; it never waits for a version that is being loaded."""

    def __init__(self, path: Path) -> None:
        self.store = Store.open(path)
        self._lock, self._loading = threading.Lock(), threading.Lock()
        self._others: OrderedDict[str, Answers] = OrderedDict()
        self._seen = self._stamp()
        self._current = Answers.of(self.store.version())
        self.problem: str | None = None  # why the store's current version cannot be loaded

    def current(self) -> Answers:
        """The loaded version. If the store has moved on, it is followed behind the scenes."""
        if self._stamp() != self._seen and not self._loading.locked():
            threading.Thread(target=self.follow, daemon=True).start()
        return self._current

    def follow(self) -> None:
        """Load what CURRENT names now, and let it answer; if that fails, the loaded version stays."""
        if not self._loading.acquire(blocking=False):
            return
        try:
            stamp = self._stamp()
            name = self.store.current()
            if name != self._current.name:
                self._current = self.version(name)
            self._seen, self.problem = stamp, None
        except MeorError as error:
            self._seen, self.problem = stamp, str(error)
        finally:
            self._loading.release()

    def follow_now(self) -> None:
        """The same, waited for: after a rollback or an admission that this server made itself."""
        with self._loading:
            pass
        self.follow()

    def version(self, wanted: str | None) -> Answers:
        """Any version; the last few that were asked for stay loaded."""
        if wanted is None:
            return self.current()
        name = self.store.find(wanted)
        if name == self._current.name:
            return self._current
        with self._lock:
            found = self._others.get(name)
            if found is None:
                found = Answers.of(self.store.version(name))
                self._others[name] = found
            self._others.move_to_end(name)
            while len(self._others) > KEPT:
                self._others.popitem(last=False)
            return found

    def subject(self, wanted: str | None) -> Subject:
        answers = self.version(wanted)
        config = self.store.version(answers.name).config()
        return Subject(answers.name, answers.stream, answers.model, config)

    def _stamp(self) -> tuple[int, int]:
        try:
            found = (self.store.path / CURRENT).stat()
        except OSError:
            return 0, 0
        return found.st_mtime_ns, found.st_ino
