"""`meor audit`: which old answers lost rank to newcomers, and to whom?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from meor.backbone import BACKBONES
from meor.calls.audit import PROTOCOLS, audited, older, require_free
from meor.calls.audit_source import Files, Source, Wanted, given, of_run, question_of
from meor.calls.progress import on_stderr
from meor.cli import new_verb
from meor.cli.audit_result import differences, show, show_protocols
from meor.cli.options import Columns, DataDir, DuplicatesRule, Memory, UnseenRule, listed
from meor.errors import InputError, RunError
from meor.escape import terminal
from meor.evaluation.audit import Question
from meor.evaluation.external import HALVES
from meor.heap import parse_bytes
from meor.run.layout import ENDPOINTS, unfinished
from meor.stream.registry import open_stream
from meor.stream.rules import Reading, reading

app = new_verb()


@app.command()
def command(
    run: Annotated[
        Path | None, typer.Argument(help="A run folder; none for embeddings made elsewhere.")
    ] = None,
    *,
    stream: Annotated[str | None, typer.Option(help="Registered name, `world`, or a path.")] = None,
    backbone: Annotated[str | None, typer.Option(help=f"{listed(BACKBONES)}.")] = None,
    entity: Annotated[Path | None, typer.Option(help="Entity rows: .npy or .safetensors.")] = None,
    relation: Annotated[Path | None, typer.Option(help="Relation rows: .npy or .safetensors.")] = None,
    vocabulary: Annotated[
        Path | None, typer.Option(help="Lines `entity|relation TAB row TAB label`.")
    ] = None,
    layout: Annotated[
        str, typer.Option(help="How real arrays hold complex numbers: halves, or interleaved.")
    ] = HALVES,
    pykeen: Annotated[Path | None, typer.Option(help="A folder that PyKEEN saved.")] = None,
    update: Annotated[int | None, typer.Option(help="Audit this update alone.")] = None,
    updates: Annotated[
        str | None, typer.Option(help="Audit these updates, such as 1,2. [all of them]")
    ] = None,
    sides: Annotated[str | None, typer.Option(help="head, tail or head,tail. [head,tail]")] = None,
    split: Annotated[str | None, typer.Option(help="Facts to rank: test, valid, train. [test]")] = None,
    ties: Annotated[str | None, typer.Option(help="id, optimistic, pessimistic or realistic. [id]")] = None,
    filter_prefix: Annotated[
        str | None,
        typer.Option(help="Known answers up to the `current` or the `introduced` snapshot. [current]"),
    ] = None,
    filter_splits: Annotated[
        str | None, typer.Option(help="Splits whose facts are known answers. [train,valid,test]")
    ] = None,
    groups: Annotated[Path | None, typer.Option(help="Lines `label TAB group`: report each group.")] = None,
    duplicates: DuplicatesRule = None,
    unseen: UnseenRule = None,
    columns: Columns = None,
    protocols: Annotated[
        bool, typer.Option("--protocols", help="Also the field's older protocols and forgetting measures.")
    ] = False,
    memory: Memory = "1GiB",
    data_dir: DataDir = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write. [print only]")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier audit in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Which old answers lost rank to newcomers, and to whom?

    \b
    Embeddings made elsewhere:
      meor audit --stream S --backbone complex --entity E.npy --relation R.npy --vocabulary V.tsv --out DIR
    A model that PyKEEN saved (nothing is unpickled, and PyKEEN is not needed):
      meor audit --stream S --pykeen DIR
    The models of a run, and whether its stored ranks and endpoints follow from them:
      meor audit RUN

    An array has one row per label. ComplEx and RotatE: a complex array of width d, or a real one of width 2d
    that holds the real half of each row, then the imaginary half; --layout interleaved if it holds re, im,
    re, im, as PyKEEN's do: no shape can tell. The others take real arrays (transe: L1 distance). A
    .safetensors file holds one tensor, or tensors called `entity` and `relation`.

    Every update is audited unless --update or --updates says otherwise; entities admitted later are no
    candidates yet. Every entity and relation admitted through the last audited update needs a row.

    --protocols adds what other papers print for the last audited update: A ranks the facts of a snapshot
    among the entities of that snapshot, B among all, both with that snapshot's filter and every query
    weighing the same; for a run also forgetting (ACF, BWT) and acquisition (Omega_new, Base, New).

    Written to DIR: endpoints.json, displacement.json, audit.json, vocabulary.parquet, and
    update-U/ranks.parquet for each update; groups.json and protocols.json where they are asked for.
    """
    budget = parse_bytes(memory)
    if out is not None:
        require_free(out, force=force)
    wanted = Wanted(update, updates, sides, split, ties, filter_prefix, filter_splits)
    files = Files(backbone, entity, relation, vocabulary, layout, pykeen)
    source, question = _source(run, stream, files, data_dir, wanted, reading(duplicates, unseen, columns))
    with on_stderr().status("auditing") as status:
        found = audited(source, question, groups=groups, memory=budget, say=status.update)
        beside = older(source, question, sequence=run is not None, memory=budget) if protocols else {}
    source = replace(source, model_of=_let_go)  # writing takes memory of its own
    more = {PROTOCOLS: beside} if protocols else {}
    if out is not None:
        found.write(out, force=force, more=more)
    content = {**found.content(), **more}
    disagreements = None
    if source.run is not None and source.comparable and question == source.question(Wanted()):
        disagreements = differences(source.run, found.by_split, content[ENDPOINTS])
    if as_json:
        print(json.dumps({**content, "disagreements": disagreements}, indent=2, allow_nan=False))
    else:
        show(Console(), source.stream, f"{source.stream.name}, {source.backbone}", found.by_split)
        show_protocols(Console(), beside)
    _conclude(run, out, disagreements, "" if run is None else unfinished(run, source.stream.updates[-1]))


def _source(
    run: Path | None,
    stream: str | None,
    files: Files,
    data_dir: Path | None,
    wanted: Wanted,
    rules: Reading,
) -> tuple[Source, Question]:
    if run is not None:
        files.require_none("a run")
        if rules != reading(None, None, None):
            remedy = "Leave out --duplicates, --unseen and --columns"
            raise InputError("a run says how its stream is read", remedy=remedy)
        source = of_run(run, stream, data_dir)
        return source, source.question(wanted)
    if stream is None:
        raise InputError(
            "neither a run nor a stream was named",
            remedy="Write `meor audit RUN`, or `meor audit --stream S` with the embeddings' files",
        )
    opened = open_stream(stream, data_dir=data_dir, **rules)
    question = question_of(wanted, opened)
    return given(opened, files, max(question.updates)), question


def _let_go(update: int) -> NoReturn:
    raise RunError(f"the model of update {update} has been let go of.")


def _conclude(run: Path | None, out: Path | None, disagreements: list[str] | None, state: str) -> None:
    remarks = Console(stderr=True, highlight=False, markup=False)
    if out is not None:
        remarks.print(f"written: {terminal(out)}", soft_wrap=True, emoji=False)
    if run is None:
        return
    if state:
        remarks.print(state)
    if disagreements:
        first = "; ".join(disagreements[:5])
        raise RunError(f"{run}: what is stored does not follow from the stored models ({first}).")
    if disagreements is None:
        remarks.print("not compared with what the run stored: other options, or scores changed since then")
    else:
        what = "ranks, as far as it is," if state else "ranks and endpoints"
        remarks.print(f"the run's stored {what} follow from its stored models, to the bit")
