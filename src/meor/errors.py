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


class MemoryBudgetError(MeorError):
    """The byte budget is too small for one tile."""
