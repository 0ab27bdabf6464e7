"""`meor.audit`: which old answers lost rank to newcomers, and to whom? Any model, any run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meor.calls.audit_source import Source, Wanted, of_model, of_pykeen, of_run, question_of
from meor.calls.progress import on_stderr, slowly
from meor.errors import InputError, RunError
from meor.evaluation import audit as engine
from meor.evaluation.audit import Question, SplitAudit, displacement_json
from meor.evaluation.endpoints import to_json as endpoints_json
from meor.evaluation.forgetting import published
from meor.evaluation.frames import RanksBySplit, displaced_rows, labels_of
from meor.evaluation.groups import read_groups
from meor.evaluation.groups import to_json as groups_json
from meor.evaluation.labelled import Rateable
from meor.evaluation.pykeen_folder import is_pykeen
from meor.evaluation.rank import FilterPrefix, Rules
from meor.evaluation.ranks_file import ranks_bytes
from meor.evaluation.tally import DEFAULT_MEMORY
from meor.heap import parse_bytes
from meor.run.layout import ENDPOINTS, RANKS, VOCABULARY, is_run, update_name, vocabulary_bytes
from meor.run.view import RunView
from meor.storage.disk import Disk, replace_folder
from meor.storage.json_file import to_json
from meor.storage.parquet import byte_budget
from meor.stream.registry import open_stream
from meor.stream.snapshot import Stream
from meor.tabular import Rows
from meor.typing import Side, Split

if TYPE_CHECKING:
    from meor.calls.drawing import Drawing

DISPLACEMENT, GROUPS, PROTOCOLS = "displacement.json", "groups.json", "protocols.json"
MARK = "audit.json"
"""The file that makes a folder an audit, so that --force replaces audits and nothing else."""


@dataclass(slots=True, repr=False)
class Audit(SplitAudit):
    """What an audit found on one split, with labels; `by_split` has every split that was audited."""

    stream: Stream = field(kw_only=True)
    backbone: str = field(kw_only=True)
    sha256: dict[str, str] = field(kw_only=True)  # of the files that the models come from
    question: Question = field(kw_only=True)
    by_split: dict[Split, Audit] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Source, question: Question, found: Mapping[Split, SplitAudit]) -> Audit:
        """The first split; the others stand beside it."""
        parts = {
            split: cls(
                **{each.name: getattr(part, each.name) for each in fields(SplitAudit)},
                stream=source.stream,
                backbone=source.backbone,
                sha256=source.sha256,
                question=question,
            )
            for split, part in found.items()
        }
        for part in parts.values():
            part.by_split = parts
        return next(iter(parts.values()))

    @property
    def displacement(self) -> Rows:
        """The old answers that lost most, and the newcomers that stand before them."""
        return displaced_rows(self.stream, self.worst)

    @property
    def culprits(self) -> Rows:
        """The newcomers that pushed most answers down, and what they are charged with."""
        return Rows(
            "newcomers that stand before old answers",
            (
                {
                    "newcomer": self.stream.entities.label(each.id),
                    "update": each.update,
                    "displaced": each.displaced,
                    "reciprocal_rank_charged": each.charge,
                }
                for each in self.newcomers
            ),
            ("newcomer", "update", "displaced", "reciprocal_rank_charged"),
        )

    def ranks_of(self, update: int) -> RanksBySplit:
        """The ranks of an update, with labels."""
        found = {split: part.ranks[update] for split, part in self.by_split.items()}
        return RanksBySplit(found, labels_of(self.stream))

    def plot(self) -> Drawing:
        """What the facts of snapshot 0 lose at each update."""
        from meor.calls.drawing import fall_drawing
        from meor.methods import NONE
        from meor.report.svg import method_key

        return fall_drawing(self.backbone, method_key(NONE), chain.from_iterable(self.ranks.values()))

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>{self.endpoints._repr_html_()}"

    def content(self) -> dict[str, Any]:
        """The JSON files of an audit, by name. No time, no path: equal audits are equal bytes."""
        stream, parts = self.stream, self.by_split.items()
        content: dict[str, Any] = {
            MARK: {
                "kind": "audit",
                "stream": stream.name,
                "stream_hash": stream.content_hash(),
                "backbone": self.backbone,
                "sha256": self.sha256,
                **self.question.to_json(),
            },
            ENDPOINTS: endpoints_json({split.value: part.endpoints for split, part in parts}),
            DISPLACEMENT: {split.value: displacement_json(stream, part) for split, part in parts},
        }
        grouped = {split.value: groups_json(part.groups) for split, part in parts if part.groups is not None}
        return {**content, GROUPS: grouped} if grouped else content

    def write(self, out: Path | str, *, force: bool = False, more: Mapping[str, Any] | None = None) -> None:
        """The folder that `meor audit --out` writes; `more` are further JSON files of it."""
        out = Path(out)
        require_free(out, force=force)
        files = {name: to_json(value) for name, value in {**self.content(), **(more or {})}.items()}
        files[VOCABULARY] = vocabulary_bytes(self.stream)
        for update in self.question.updates:
            by_split = {split: part.ranks[update] for split, part in self.by_split.items()}
            files[f"{update_name(update)}/{RANKS}"] = ranks_bytes(by_split)
        replace_folder(Disk(), out, files)


def audit(
    model: Rateable | RunView | Path | str,
    stream: Stream | Path | str | None = None,
    update: int | Sequence[int] | None = None,
    *,
    split: Sequence[Split | str] | Split | str | None = None,
    sides: Sequence[Side | str] | Side | str | None = None,
    rules: Rules | None = None,
    groups: Path | str | None = None,
    memory: int | str = DEFAULT_MEMORY,
    out: Path | str | None = None,
    force: bool = False,
    data_dir: Path | str | None = None,
) -> Audit:
    """Which old answers lost rank to newcomers of an update (of each update, if none is named), and to whom.

    `model` is a run (`meor.run`, `open_run`, its folder), a folder that PyKEEN saved, a `Model`, what
    `from_pykeen` gives, or any function `score(anchors, relations, side, candidates)` that returns one row of
    scores per query. One model serves every update: entities that are admitted later are no candidates yet.
    What is not named is as in the run, or else as in the paper. `out` gets what `meor audit --out` writes.
    """
    if out is not None:
        require_free(Path(out), force=force)
    budget = parse_bytes(memory) if isinstance(memory, str) else memory
    wanted = Wanted(
        updates=None
        if update is None
        else [str(each) for each in ([update] if isinstance(update, int) else update)],
        sides=None if sides is None else [side.label for side in Side.each(sides)],
        split=None if split is None else [each.value for each in Split.each(split)],
        ties=None if rules is None else rules.ties.value,
        filter_prefix=None if rules is None else rules.filter_prefix.value,
        filter_splits=None if rules is None else [each.value for each in rules.filter_splits],
    )
    with byte_budget(budget):
        source, question = _source(model, stream, wanted, None if data_dir is None else Path(data_dir))
        grouped = None if groups is None else Path(groups)
        found = audited(source, question, groups=grouped, memory=budget, say=slowly(on_stderr()))
    if out is not None:
        found.write(out, force=force)
    return found


def audited(
    source: Source,
    question: Question,
    *,
    groups: Path | None = None,
    memory: int = DEFAULT_MEMORY,
    say: Callable[[str], None] = lambda _: None,
) -> Audit:
    grouped = None if groups is None else read_groups(groups, source.stream)
    found = engine.audit(source.stream, source.model_of, question, groups=grouped, memory=memory, say=say)
    return Audit.of(source, question, found)


def _source(
    model: Rateable | RunView | Path | str,
    stream: Stream | Path | str | None,
    wanted: Wanted,
    data_dir: Path | None,
) -> tuple[Source, Question]:
    run = model.path if isinstance(model, RunView) else Path(model) if isinstance(model, Path | str) else None
    if run is not None and not is_pykeen(run):
        if not is_run(run):
            raise RunError(f"{run} is neither a run folder nor a folder that PyKEEN saved. Name one of them.")
        source = of_run(run, stream or getattr(model, "given", None), data_dir)
        return source, source.question(wanted)
    if stream is None:
        raise InputError("a model is audited on a stream", remedy="Give the stream as the second argument")
    opened = stream if isinstance(stream, Stream) else open_stream(stream, data_dir=data_dir)
    question = question_of(wanted, opened)
    last = max(question.updates)
    if run is not None:
        return of_pykeen(opened, run, last), question
    return of_model(opened, model, last), question  # type: ignore[arg-type]


def older(source: Source, question: Question, *, sequence: bool, memory: int) -> dict[str, Any]:
    """Protocols A and B by split; forgetting where there is a model after every update."""
    last, rules = max(question.updates), replace(question.rules, filter_prefix=FilterPrefix.INTRODUCED)
    return {
        split.value: published(
            source.stream,
            source.model_of,
            range(last + 1) if sequence else [last],
            split=split,
            sides=question.sides,
            rules=rules,
            memory=memory,
        )
        for split in question.splits
    }


def require_free(out: Path, *, force: bool) -> None:
    """Refuse a folder that may not be replaced, before any work is done."""
    if not os.path.lexists(out):
        parent = next(place for place in out.absolute().parents if os.path.lexists(place))
        if not parent.is_dir():
            raise InputError("is not a folder", remedy="Name another place with --out", path=parent)
        return
    if not out.is_dir():
        raise InputError("is a file", remedy="Name a folder with --out", path=out)
    if not any(out.iterdir()):
        return
    if not (out / MARK).is_file():
        raise InputError("the folder holds other files", remedy="Name another one with --out", path=out)
    if not force:
        raise InputError("the folder holds an audit", remedy="Replace it with --force", path=out)
