"""`meor run`: train a base, grow it through every update, and measure what newcomers cost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from meor.backbone import BACKBONES
from meor.cli import new_verb
from meor.cli.options import (
    AsJson,
    Cache,
    Columns,
    DataDir,
    DuplicatesRule,
    Memory,
    Quiet,
    Seconds,
    Threads,
    UnseenRule,
    listed,
)
from meor.cli.progress import watcher
from meor.errors import ConfigError
from meor.escape import LONGEST, clipped_start, file_name, shell, terminal
from meor.evaluation.endpoints import MEANING, Overall, by_update, note, overall
from meor.evaluation.pykeen_folder import MODEL as SAVED
from meor.evaluation.pykeen_folder import is_pykeen, read_pykeen
from meor.heap import parse_bytes
from meor.run.config import Config
from meor.run.control import CONTROL
from meor.run.session import start
from meor.run.trainer import Resources
from meor.run.view import RunView
from meor.stream.occurrence import sample_note
from meor.stream.registry import WORLD, find_entry

app = new_verb()
# Every option has a default: a bare `meor run` grows the embedded world.
app.info.no_args_is_help = False

BASE_FILES = {
    "entity": ("entity.npy", "entity.safetensors", "model.safetensors"),
    "relation": ("relation.npy", "relation.safetensors"),
    "vocabulary": ("vocabulary.tsv", "vocabulary.txt"),
}


@app.command(no_args_is_help=False)
def command(
    stream: Annotated[str | None, typer.Option(help="Registered name, `world`, or a path. [world]")] = None,
    backbone: Annotated[str | None, typer.Option(help=f"{listed(BACKBONES)}. [complex]")] = None,
    host: Annotated[str | None, typer.Option(help="The continual learner (docs/hosts.md). [replay]")] = None,
    method: Annotated[
        str | None, typer.Option(help="What is added to the host; none for the host alone. [none]")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="paper or practical. [practical]")] = None,
    seed: Annotated[int | None, typer.Option(help="Addresses every draw. [0]")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run. [runs/STREAM-BACKBONE or HOST-METHOD-sSEED]")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings as YAML, such as a run's config.yaml.")
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE, e.g. base.epochs=50; repeatable.")
    ] = None,
    base: Annotated[
        Path | None, typer.Option(help="Base embeddings made elsewhere: a folder or a file.")
    ] = None,
    base_relation: Annotated[
        Path | None, typer.Option(help="Their relation rows, where --base is a file.")
    ] = None,
    base_vocabulary: Annotated[
        Path | None, typer.Option(help="Lines `entity|relation TAB row TAB label`.")
    ] = None,
    base_layout: Annotated[
        str | None, typer.Option(help="How real arrays hold complex numbers: halves or interleaved. [halves]")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run in --out.")] = False,
    threads: Threads = None,
    memory: Memory = "1GiB",
    cache: Cache = None,
    checkpoint_seconds: Seconds = 30.0,
    quiet: Quiet = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    duplicates: DuplicatesRule = None,
    unseen: UnseenRule = None,
    columns: Columns = None,
) -> None:
    """Train a base, refine it through every update and evaluate.

    \b
    The embedded world:            meor run
    The paper's setting:           meor run --stream ENTITY --preset paper --out runs/entity
    Settings of your own:          meor run --stream my/folder --set base.epochs=50 --set dim=64
    Grow what you already have:    meor run --stream my/folder --backbone complex --base embeddings/
    Grow what PyKEEN saved:        meor run --stream my/folder --base DIR

    Stop it whenever you like; `meor resume DIR` goes on to the same bytes. Settings come from the preset,
    then --config, then the options, then each --set.

    --base takes what `meor audit` takes: .npy or .safetensors arrays with a row for every entity and relation
    of the first snapshot. A folder holds entity.npy, relation.npy and, unless rows are in the stream's order,
    vocabulary.tsv; a file holds the entity rows, with --base-relation and --base-vocabulary beside it, or is
    one .safetensors with tensors `entity` and `relation`. Base training is then skipped.
    """
    flags: dict[str, Any] = {
        "stream": None if stream is None else stream_setting(stream),
        "backbone": backbone,
        "host": host,
        "method": method,
        "preset": preset,
        "seed": seed,
        "data_dir": None if data_dir is None else str(data_dir.absolute()),
        "base_model": base_files(base, base_relation, base_vocabulary, base_layout),
        "duplicates": duplicates,
        "unseen": unseen,
        "columns": columns,
    }
    if base is not None and is_pykeen(base) and backbone is None and config is None:
        flags["backbone"] = read_pykeen(base).backbone
    settings = Config.gather(config, flags=flags, sets=sets or ())
    target = out or default_out(settings)
    console = Console(stderr=True)
    with watcher(console, quiet=quiet) as shown:
        found = start(
            settings,
            target,
            resources=resources(threads, memory, cache, checkpoint_seconds),
            watcher=shown,
            force=force,
        )
    conclude(target, found, quiet=quiet, as_json=as_json)


def stream_setting(given: str) -> str:
    """A name as it is; a path in full, so that `meor resume` finds it from any folder."""
    is_name = given.casefold() == WORLD or find_entry(given) is not None
    return given if is_name or not os.path.lexists(given) else str(Path(given).absolute())


def default_out(config: Config) -> Path:
    name = file_name(Path(config.stream).name) or "stream"
    learner = config.backbone if config.host.name == "replay" else config.host.name
    return Path("runs") / f"{name}-{learner}-{config.method}-s{config.seed}"


def base_files(
    base: Path | None, relation: Path | None, vocabulary: Path | None, layout: str | None = None
) -> dict[str, str] | None:
    """The files behind --base, as settings."""
    given = {"entity": base, "relation": relation, "vocabulary": vocabulary}
    stated = {} if layout is None else {"layout": layout}
    if base is None:
        if any((relation, vocabulary, layout)):
            raise ConfigError(
                "--base-relation, --base-vocabulary and --base-layout belong to --base",
                remedy="Give --base too",
            )
        return None
    if is_pykeen(base):
        if any((relation, vocabulary, layout)):
            raise ConfigError(f"{base} brings its own relations and labels", remedy="Give --base alone")
        given["entity"] = base / SAVED
    elif base.is_dir():
        for kind, names in BASE_FILES.items():
            there = next((base / name for name in names if (base / name).is_file()), None)
            given[kind] = there if kind == "entity" else given[kind] or there
        if given["entity"] is None:
            wanted = ", ".join(BASE_FILES["entity"])
            raise ConfigError(f"{base} holds none of {wanted}", remedy="Name the file of the entity rows")
    files = {kind: str(path.absolute()) for kind, path in given.items() if path is not None}
    return {**files, **stated}


def resources(threads: int | None, memory: str, cache: Path | None, checkpoint_seconds: float) -> Resources:
    return Resources(
        threads=threads or len(os.sched_getaffinity(0)),
        memory=parse_bytes(memory),
        cache=cache,
        checkpoint_seconds=checkpoint_seconds,
    )


def conclude(run: Path, found: dict[str, Any], *, quiet: bool, as_json: bool) -> None:
    """Print the endpoints, and which command shows more."""
    if as_json:
        print(json.dumps({"run": str(run), "endpoints": found}, indent=2, allow_nan=False))
    elif not quiet:
        console = Console()
        place = clipped_start(terminal(run), LONGEST)
        for split, named in found.items():
            if split == CONTROL:
                continue
            console.print(endpoint_table(f"{place}, {split} facts: mean reciprocal ranks", named))
            console.print(legend(named), highlight=False)
        if sampled := sample_note(RunView.open(run).config.evaluation.sample):
            console.print(sampled, highlight=False)
        if told := found.get(CONTROL, {}).get("reason"):
            console.print(Text(told, style="bold"))
        if any(at > 0 for at in RunView.open(run).admitted_at()):
            hint = f"{shell(['meor', 'audit', str(run)])} shows which newcomers displaced which answers."
            console.print(Text(hint), soft_wrap=True)


def endpoint_table(title: str, found: dict[str, Any]) -> Table:
    """One endpoint per row, one update per column (its sides averaged), and the mean over all cells."""
    updates = sorted({cell["update"] for each in found.values() for cell in each.get("cells", ())})
    table = Table(title=Text(title), title_justify="left")
    table.add_column("", style="bold", no_wrap=True)
    for update in updates:
        table.add_column(f"update {update}", justify="right")
    table.add_column("all", justify="right", style="bold")
    for name in MEANING:
        if name in found:
            table.add_row(name, *_values(found[name], updates))
    return table


def legend(found: dict[str, Any]) -> Text:
    """What each row is about, why one is undefined, and what is marked."""
    lines = []
    for name, meaning in MEANING.items():
        if name in found:
            reason = found[name].get("reason")
            lines.append(f"{name:6}{meaning}" + (f" ({reason})" if reason else ""))
    marked = note((name, overall(found[name])) for name in MEANING if name in found)
    return Text("\n".join([*lines, *([marked] if marked else [])]))


def _values(endpoint: dict[str, Any], updates: list[int]) -> list[str]:
    each = by_update(endpoint)
    values = [_shown(each[update]) if update in each else "-" for update in updates]
    whole = overall(endpoint)
    return [*values, "undefined" if whole.value is None else _shown(whole)]


def _shown(found: Overall) -> str:
    return f"{found.value:.4f}{found.mark}"
