"""`meor run`: train a base, grow it through every update, and measure what newcomers cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from meor.backbone import BACKBONES
from meor.calls.run import run
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
from meor.escape import LONGEST, clipped_start, shell, terminal
from meor.evaluation.endpoints import MEANING, Overall, by_update, note, overall
from meor.run.control import CONTROL
from meor.run.view import RunView
from meor.stream.occurrence import sample_note

app = new_verb()
# Every option has a default: a bare `meor run` grows the embedded world.
app.info.no_args_is_help = False


@app.command(no_args_is_help=False)
def command(
    stream: Annotated[str | None, typer.Option(help="Registered name, `world`, or a path. [world]")] = None,
    backbone: Annotated[str | None, typer.Option(help=f"{listed(BACKBONES)}. [complex]")] = None,
    host: Annotated[str | None, typer.Option(help="The continual learner (docs/hosts.md). [replay]")] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="What is added to the host; none for the host alone. [cap+guard with complex and distmult, "
            "guard with other backbones; none with another host than replay and with the preset paper]"
        ),
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
    made = run(
        stream,
        backbone=backbone,
        host=host,
        method=method,
        preset=preset,
        seed=seed,
        out=out,
        config=config,
        settings=sets or (),
        base=base,
        base_relation=base_relation,
        base_vocabulary=base_vocabulary,
        base_layout=base_layout,
        force=force,
        threads=threads,
        memory=memory,
        cache=cache,
        checkpoint_seconds=checkpoint_seconds,
        quiet=quiet,
        data_dir=data_dir,
        duplicates=duplicates,
        unseen=unseen,
        columns=columns,
    )
    conclude(made.path, made.endpoints(), quiet=quiet, as_json=as_json)


def conclude(folder: Path, found: dict[str, Any], *, quiet: bool, as_json: bool) -> None:
    """Print the endpoints, and which command shows more."""
    if as_json:
        print(json.dumps({"run": str(folder), "endpoints": found}, indent=2, allow_nan=False))
    elif not quiet:
        console = Console()
        place = clipped_start(terminal(folder), LONGEST)
        for split, named in found.items():
            if split == CONTROL:
                continue
            console.print(endpoint_table(f"{place}, {split} facts: mean reciprocal ranks", named))
            console.print(legend(named), highlight=False)
        if sampled := sample_note(RunView.open(folder).config.evaluation.sample):
            console.print(sampled, highlight=False)
        if told := found.get(CONTROL, {}).get("reason"):
            console.print(Text(told, style="bold"))
        if any(at > 0 for at in RunView.open(folder).admitted_at()):
            hint = f"{shell(['meor', 'audit', str(folder)])} shows which newcomers displaced which answers."
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
    """What each row is about, why one has no value at all, and what is marked."""
    lines = []
    for name, meaning in MEANING.items():
        if name in found:
            reason = found[name].get("reason") if overall(found[name]).value is None else None
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
