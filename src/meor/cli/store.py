"""`meor store`: make a store of versions, and check every byte of one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from meor.backbone import BACKBONES
from meor.calls.progress import watcher
from meor.calls.run import resources
from meor.cli import new_verb
from meor.cli.options import Columns, DataDir, DuplicatesRule, Memory, Quiet, Threads, UnseenRule, listed
from meor.errors import ConfigError
from meor.escape import shell, terminal
from meor.evaluation.pykeen_folder import is_pykeen, read_pykeen
from meor.run.config import Config
from meor.run.layout import is_run
from meor.run.session import use_threads
from meor.store.create import content_of_embeddings, content_of_facts, content_of_run
from meor.store.folder import Store, check_free, create
from meor.store.settings import GateSettings
from meor.store.version import Content
from meor.stream.registry import open_stream

app = new_verb("Make a store of versions, and check every byte of one.")


@app.command("create")
def create_store(
    store: Annotated[Path, typer.Argument(help="Folder of the store; it must not exist.")],
    *,
    source: Annotated[
        Path,
        typer.Option(
            "--from", help="A run folder, a file of facts, or with --stream entity rows or a PyKEEN folder."
        ),
    ],
    update: Annotated[int | None, typer.Option(min=0, help="Of a run: which update. [the last]")] = None,
    stream: Annotated[str | None, typer.Option(help="Of given embeddings: the stream they are of.")] = None,
    relation: Annotated[Path | None, typer.Option(help="Their relation rows.")] = None,
    vocabulary: Annotated[Path | None, typer.Option(help="Whose row is whose; else in id order.")] = None,
    backbone: Annotated[str | None, typer.Option(help=f"{listed(BACKBONES)}. [complex]")] = None,
    method: Annotated[str | None, typer.Option(help="What admissions add to the host. [as meor run]")] = None,
    config: Annotated[Path | None, typer.Option(help="Settings as YAML.")] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE; repeatable.")] = None,
    budget: Annotated[float | None, typer.Option(help="D_MCI at most. [.01]")] = None,
    floor: Annotated[float | None, typer.Option(help="A_TN at least. [0]")] = None,
    sample: Annotated[int | None, typer.Option(help="Known facts judged. [2000]")] = None,
    duplicates: DuplicatesRule = None,
    unseen: UnseenRule = None,
    columns: Columns = None,
    data_dir: DataDir = None,
    threads: Threads = None,
    memory: Memory = "1GiB",
    quiet: Quiet = False,
) -> None:
    """Make a store whose first version is a trained model.

    \b
    Of a run's last update:   meor store create live --from runs/world
    Of facts, trained now:    meor store create live --from facts.tsv --set dim=64
    Of embeddings:            meor store create live --from E.npy --relation R.npy --stream my/folder
    Of what PyKEEN saved:     meor store create live --from SAVED --stream my/folder

    A run gives its settings to the store: later admissions use its host, method and seed. --budget, --floor
    and --sample are the rules of the store's gate.
    """
    check_free(store)
    used = resources(threads, memory, None, 30.0)
    use_threads(used.threads)
    gate = GateSettings().changed(budget=budget, floor=floor, sample=sample)
    console = Console(stderr=True)
    reading = {"duplicates": duplicates, "unseen": unseen, "columns": columns}
    flags: dict[str, Any] = {"backbone": backbone, "method": method, **reading}
    if is_pykeen(source):
        if stream is None or relation or vocabulary:
            raise ConfigError(
                f"{source} holds a model that PyKEEN saved, with its relations and labels",
                remedy="Name its stream with --stream, and leave --relation and --vocabulary out",
            )
        if backbone is None and config is None:
            flags["backbone"] = read_pykeen(source).backbone
    with watcher(console, quiet=quiet) as shown:
        content: Content
        if stream is not None:
            settings = Config.gather(config, flags=flags, sets=sets or ())
            of = open_stream(stream, data_dir=data_dir, **settings.reading)
            content = content_of_embeddings(of, settings, gate, source, relation, vocabulary)
        elif is_run(source):
            if sets or config or any(flags.values()):
                raise ConfigError("a run has its settings", remedy="Leave out --set and the other settings")
            content = content_of_run(source, gate, update=update, data_dir=data_dir)
        else:
            settings = Config.gather(config, flags=flags, sets=sets or ())
            content = content_of_facts(source, settings, gate, watcher=shown)
    name = create(store, content, source=source.name)
    if not quiet:
        entities, facts = len(content.stream.entities), len(content.stream.prefix(10**9))
        Console().print(
            Text(
                f"{terminal(store)}: version {name}, {entities:,} entities, {facts:,} facts. "
                f"Next: {shell(['meor', 'admit', str(store), 'FACTS.tsv'])}"
            ),
            soft_wrap=True,
        )


@app.command("check")
def check(store: Annotated[Path, typer.Argument(help="A store.")]) -> None:
    """Read every byte of every version, and every line of the log."""
    found = Store.open(store)
    entries, names = found.log(), found.names()
    for name in names:
        found.version(name).check()
    told = f"{len(names)} versions and {len(entries)} lines of the log are as they were written."
    print(f"{terminal(store)}: {told}")
