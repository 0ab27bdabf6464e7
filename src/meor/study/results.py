"""The results of a study on disk. `study-manifest.json` lists each file with its sha256.

What it does not list is not there for anybody. The folders of runs below have manifests of their own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from meor.errors import MeorError, StudyError
from meor.storage.disk import Disk, ListedFiles, commit_file, explained, sha256_of
from meor.storage.json_file import parse_json, read_json, to_json

MANIFEST = "study-manifest.json"
FORMAT = 1
AGAIN = (
    "The study's command makes it again (`meor study ...`, see command.txt): finished runs are not repeated."
)
TABLES = "tables"
Digests = dict[str, str | None]
"""sha256 by file; None where there is no file."""

_NAME = re.compile(rf"({TABLES}/)?[\w-][\w.-]*")


class Results:
    """The files of a study's folder, as they were written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: ListedFiles | None = None

    @property
    def files(self) -> ListedFiles:
        """What is listed; a `StudyError` where nothing can be trusted."""
        if self._files is None:
            self._files = ListedFiles(self.folder, self._listed(), lambda _: AGAIN, StudyError)
        return self._files

    def read(self, name: str) -> bytes | None:
        """The verified bytes of a file; None if the study has no such file."""
        return self.files.read(name) if name in self.files.sha256 else None

    def json(self, name: str) -> Any:
        data = self.read(name)
        return None if data is None else parse_json(data, self.folder / name)

    def problems(self) -> list[str]:
        """What is wrong, a sentence each. A folder that nothing was written to has no problem."""
        if not (self.folder / MANIFEST).exists():
            return []
        try:
            listed = self.files
        except MeorError as error:
            return [str(error)]
        return [said for name in sorted(listed.sha256) if (said := listed.problem(name)) is not None]

    def replace(self, files: Mapping[str, bytes | None]) -> None:
        """Write files, or remove those that are None. Killed at any moment, what is there is listed."""
        before = self._listed_or_nothing()
        after = {
            **{name: digest for name, digest in before.items() if name not in files},
            **{name: hashlib.sha256(data).hexdigest() for name, data in files.items() if data is not None},
        }
        with explained(self.folder):
            for name in files:
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        self._commit(after, {name: before.get(name) for name in files})
        for name, data in files.items():
            path = self.folder / name
            if data is not None:
                commit_file(Disk(), path, data)
            else:
                with explained(path):
                    Disk().remove(path)
        self._commit(after, {})

    def _commit(self, sha256: Mapping[str, str], before: Mapping[str, str | None]) -> None:
        content: dict[str, Any] = {"format": FORMAT, "sha256": sha256}
        if before:
            content["before"] = before
        commit_file(Disk(), self.folder / MANIFEST, to_json(content))
        self._files = None

    def _listed_or_nothing(self) -> dict[str, str]:
        """For a writer: a manifest that is damaged lists nothing any more."""
        try:
            return self._listed()
        except MeorError:
            return {}

    def _listed(self) -> dict[str, str]:
        path = self.folder / MANIFEST
        if not path.is_file():
            raise StudyError(
                f"{self.folder} has no {MANIFEST}: an earlier version or something else wrote what it holds. "
                "The study's command writes it (`meor study ...`): finished runs are not repeated."
            )
        manifest = read_json(path)
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise StudyError(f"{path} is not a study's manifest of format {FORMAT}. {AGAIN}")
        sha256, before = manifest.get("sha256"), manifest.get("before", {})
        if set(manifest) - {"format", "sha256", "before"} or not (_is_list(sha256) and _is_list(before)):
            raise StudyError(f"{path} lists what no study writes. {AGAIN}")
        return self._settled(sha256, before)

    def _settled(self, after: Digests, before: Digests) -> dict[str, str]:
        """A study killed while it replaced files left some as before and some as after: both are whole."""
        found = {**after}
        for name, digest in before.items():
            path = self.folder / name
            if digest == (sha256_of(path) if path.is_file() else None):
                found[name] = digest
        return {name: digest for name, digest in found.items() if digest is not None}


def _is_list(content: Any) -> TypeGuard[Digests]:
    return isinstance(content, dict) and all(
        _NAME.fullmatch(name) is not None and (digest is None or isinstance(digest, str))
        for name, digest in content.items()
    )
