"""One exception tree. Every message is a sentence that says what to do."""

from __future__ import annotations

from pathlib import Path


class MeorError(Exception):
    """Anything we can explain to a user; the command line prints it without a traceback."""


class InputError(MeorError):
    """A file or value from outside is not what was expected."""

    def __init__(self, problem: str, *, remedy: str, path: Path | str | None = None, line: int | None = None):
        where = "" if path is None else f"{path}: " if line is None else f"{path}, line {line}: "
        super().__init__(f"{where}{problem}. {remedy}.")
        self.path = path
        self.line = line


class StreamError(InputError):
    """A stream that cannot be loaded."""


class ModelError(InputError):
    """Embeddings that do not fit the stream."""


class ConfigError(InputError):
    """A setting that does not exist or has a wrong value."""


class NonFiniteError(MeorError):
    """A NaN or infinity where a number was needed: it never becomes a rank, a mean or a checkpoint."""


class EmptyCellError(MeorError):
    """An endpoint was asked for although one of its declared cells holds no query."""


class RunError(MeorError):
    """A run folder that cannot be used: locked, damaged, or made by something else."""


class StudyError(MeorError):
    """A study whose runs cannot be compared or counted."""


class StoreError(MeorError):
    """A store that cannot be used: locked, damaged, or asked for what it does not hold."""


class MemoryBudgetError(MeorError):
    """The byte budget is too small for one tile."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a run was made: what it committed is kept, and its message says how to go on."""


def is_interrupt(error: BaseException) -> bool:
    """Ctrl-C, or what it became: inside a compiled kernel it surfaces as a SystemError that it caused."""
    if isinstance(error, MeorError | OSError):
        return False  # a sentence of its own, even where it was met while stopping
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        if isinstance(found, KeyboardInterrupt):
            return True
        seen.add(id(found))
        found = found.__cause__ or found.__context__
    return False
