"""The `meor` command: one file per verb, imported only when that verb is called.

How to add a verb
-----------------
1. Write `src/meor/cli/<verb>.py` with a module-level `app = new_verb()` (`from meor.cli import new_verb`):
   - a verb without sub-commands registers exactly one command, `@app.command()`; its function becomes
     `meor <verb>`, and the function's docstring the text of `meor <verb> --help`;
   - a verb with sub-commands registers several; `new_verb("...")` is then given the text of the help.
2. Add one line to `VERBS` below: the verb, its module and one line of help.

Rules for a verb module. Import what you like where you like: nothing of it is imported for `meor --help`.
Help texts are shown as written, brackets included; a line holding only `\\b` keeps the paragraph after it
from being rewrapped. For anything a user can put right raise a `MeorError`: it is printed as one line on
stderr and the exit code is 2, as for a wrong option. Do not catch KeyboardInterrupt except to leave files
whole: the exit code is 130, also for what Ctrl-C becomes inside a compiled kernel. Exit code 1 with a
traceback means a defect of ours. Results go to stdout; progress and remarks go to stderr.
"""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from meor import __version__
from meor.errors import Interrupted, MeorError, is_interrupt
from meor.escape import terminal

VERBS: dict[str, tuple[str, str]] = {
    "demo": ("meor.cli.demo", "What the embedded world loses, and what control changes."),
    "data": ("meor.cli.data", "List, describe, fetch, check, clean and cut streams."),
    "audit": ("meor.cli.audit", "Which old answers lost rank to newcomers, and to whom?"),
    "run": ("meor.cli.run", "Train a base, refine it through every update and evaluate."),
    "resume": ("meor.cli.resume", "Go on with a run that was stopped."),
    "dial": ("meor.cli.dial", "Newcomers' rows times a scale: the curve, a run at a point."),
    "study": ("meor.cli.study", "Paired runs, their effects and the paper's tables."),
    "inspect": ("meor.cli.inspect", "Show what a run holds and what its penalty did."),
    "store": ("meor.cli.store", "Make a store of versions, and check every byte of one."),
    "predict": ("meor.cli.predict", "The best answers of a query, from a version of a store."),
    "admit": ("meor.cli.admit", "Admit a batch of facts into a store, if its cost allows."),
    "explain": ("meor.cli.explain", "Who came before an answer, and what placed them there?"),
    "diff": ("meor.cli.diff", "What changed for protected queries between two versions."),
    "history": ("meor.cli.history", "Every admission, refusal and rollback of a store."),
    "rollback": ("meor.cli.rollback", "Let an earlier version of a store answer again."),
    "serve": ("meor.cli.serve", "Answers over HTTP, and the explorer."),
    "report": ("meor.cli.report", "One HTML file that shows what a run or a study found."),
}

EXPLAINED, INTERRUPTED = 2, 130
PATIENCE = 10.0
"""Seconds that an interrupted command waits for its threads."""

# Errors of the machine and not of this program: they get a sentence, not a traceback.
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT}


class LazyGroup(TyperGroup):
    """Lists verbs from the table alone and imports a verb's module when that verb is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for verb, (_, help_line) in VERBS.items():
            self.add_command(TyperCommand(verb, help=help_line), verb)

    # Depending on its version, typer brings its own click or uses the installed one: its types stay unnamed.
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if name in VERBS:
            command = load(name)
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except MeorError as error:
            _say(str(error))
            raise typer.Exit(EXPLAINED) from error
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            where = "" if error.filename is None else f"{error.filename}: "
            _say(f"{where}{error.strerror}. Free space, change permissions or choose another place.")
            raise typer.Exit(EXPLAINED) from error
        except BaseException as error:
            if is_interrupt(error):
                _say(_interrupted(error))
                raise typer.Exit(INTERRUPTED) from error
            _make_visible(error)
            raise


def new_verb(help_text: str | None = None) -> typer.Typer:
    """An empty verb, to be kept as its module's `app`."""
    return typer.Typer(help=help_text, add_completion=False, no_args_is_help=True, rich_markup_mode=None)


def load(verb: str) -> Any:
    """The command of a verb, its module imported now."""
    module, _ = VERBS[verb]
    with _without_collection():
        command = typer.main.get_command(importlib.import_module(module).app)
    command.name = verb
    return command


@contextmanager
def _without_collection() -> Iterator[None]:
    """Imports make many objects and hardly any garbage: looking for it takes a fifth of their time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # what was imported stays until the end, and is not looked at again
        gc.enable()


def _interrupted(error: BaseException) -> str:
    """One line; it ends with how to go on, if there is anything to continue."""
    return f"interrupted; {error}" if isinstance(error, Interrupted) else "interrupted"


def _make_visible(error: BaseException) -> None:
    """Typer's message about a wrong option repeats what was typed, which may be the name of a file."""
    message = getattr(error, "message", None)
    if isinstance(message, str) and hasattr(error, "show"):
        setattr(error, "message", "\n".join(terminal(line) for line in message.split("\n")))  # noqa: B010


def _say(text: str) -> None:
    """One line on stderr: a label from someone's file must not break it or steer the terminal."""
    print(f"meor: {terminal(text)}", file=sys.stderr)


app = typer.Typer(
    name="meor",
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"meor {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Measure and control candidate-set interference in knowledge graphs that grow."""


def main() -> None:
    atexit.register(_leave)
    try:
        app(prog_name="meor")
    except KeyboardInterrupt:  # before a verb was called, or after it had ended
        _say("interrupted")
        _end_soon()
        sys.exit(INTERRUPTED)
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            _end_soon()
        raise


def _leave() -> None:
    gc.freeze()  # the last collection would look at all that was imported, and free none of it
    with suppress(ValueError):  # only the main thread may
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done: Ctrl-C now would look like a failure


def _end_soon() -> None:
    """Python waits for every thread, and one may wait for good: Ctrl-C inside an import leaves it locked.

    Files are whole by now, so there is nothing to wait for.
    """
    sys.stdout.flush()
    end = threading.Timer(PATIENCE, os._exit, [INTERRUPTED])
    end.daemon = True
    end.start()
