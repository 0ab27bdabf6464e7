"""The report of a single run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from meor.evaluation.endpoints import MEANING, Overall, by_update, note, overall
from meor.report import parts
from meor.report.drawn import drawn, matched
from meor.report.evidence import entity_counts, losses
from meor.report.figures import LossPanel
from meor.report.made import made_of_run
from meor.report.page import Block, Card, Page, Prose, Section
from meor.report.words import backbone_name, method_name, number, plural, share, shown_name
from meor.run.control import CONTROL
from meor.run.layout import ENDPOINTS, state_of
from meor.run.view import RunView
from meor.stream.occurrence import sample_note
from meor.study.table import Column, Entry, Table, Value

TONES = {"H_cur": "old", "D_MCI": "new"}


def run_page(
    view: RunView, *, data_dir: Path | None = None, say: Callable[[str], None] = lambda _: None
) -> Page:
    """Everything a run folder can tell."""
    told = parts.read(view, data_dir, say)
    split_name, split = _endpoints(view)
    config = view.config
    counts = entity_counts(view)
    panel = LossPanel(method_name(config.method), losses(split))
    return Page(
        title=f"{shown_name(config.stream)}, {backbone_name(config.backbone)}, {method_name(config.method)}",
        kicker=f"Report of one run · preset {config.preset} · seed {config.seed}",
        sentence=_sentence(split_name, split, told, counts) + _uncontrolled(view),
        cards=_cards(split),
        sections=(
            _endpoint_section(split_name, split, config.evaluation.sample),
            parts.lost_over_updates([panel], told, ""),
            drawn(told),
            parts.displaced(told, ""),
            matched(told),
            parts.limits(),
            made_of_run(view),
        ),
        state="" if view.complete else f"This run is {state_of(view.path)}.",
    )


def _endpoints(view: RunView) -> tuple[str, Mapping[str, Any]]:
    """The test endpoints, or those of the split that was ranked."""
    if not view.has(ENDPOINTS):
        return "test", {}
    found = view.endpoints()
    ranked = [name for name in found if name != CONTROL]
    name = "test" if "test" in ranked or not ranked else ranked[0]
    return name, found.get(name, {})


def _uncontrolled(view: RunView) -> str:
    """What must be said where a penalty was multiplied with 0 all the way."""
    told = view.endpoints().get(CONTROL, {}) if view.has(ENDPOINTS) else {}
    reason = str(told.get("reason", ""))
    return f" {reason[0].upper()}{reason[1:]}." if reason else ""


def _sentence(split_name: str, split: Mapping[str, Any], told: parts.Told, counts: list[int]) -> str:
    whole = {name: overall(split.get(name, {})) for name in MEANING}
    values = {name: each.value for name, each in whole.items()}
    admitted = counts[-1] - counts[0]
    start = (
        f"{plural(len(counts) - 1, 'update')} admitted "
        f"{plural(admitted, 'entity', 'entities') if admitted else 'no entity'} to a graph of "
        f"{plural(counts[0], 'entity', 'entities')}"
    )
    if values["H_cur"] is None:
        return f"{start}{_no_rank(split_name, split, told)}"
    if not admitted:
        return (
            f"{start}, so no answer can have lost rank to a newcomer. Old facts reach a mean reciprocal "
            f"rank of {number(values['H_cur'], 3)}."
        )
    lost = values["D_MCI"]
    passed = ""
    if told.evidence is not None and told.evidence.total.queries:
        total = told.evidence.total
        passed = f", and {share(total.displaced / total.queries)} of old answers have a newcomer before them"
    sentence = (
        f"{start}. Old facts now reach a mean reciprocal rank of {number(values['H_cur'], 3)}; without "
        f"the newcomers among the candidates it would be {number(values['H_old'], 3)}, so admission alone "
        f"costs {number(lost, 3)}{passed}."
    )
    if values["A_TN"] is not None:
        where = " where there are any to find" if whole["A_TN"].partial else ""
        sentence += f" Newcomers themselves are found with {number(values['A_TN'], 3)}{where}."
    return sentence


def _no_rank(split_name: str, split: Mapping[str, Any], told: parts.Told) -> str:
    """Why no endpoint about old facts exists: none yet, nothing to rank, or nothing old to rank."""
    if not split:
        return "; the endpoints of this run are not known yet."
    ranks = () if told.evidence is None else told.evidence.ranks
    if not any(len(each.occurrences) for each in ranks):
        return f". The stream has no {split_name} facts: there is nothing to rank, so no endpoint exists."
    return f". No {split_name} fact is from before an update: nothing can be said about old facts."


def _cards(split: Mapping[str, Any]) -> tuple[Card, ...]:
    return tuple(
        Card(name, f"{number(each.value)}{each.mark}", meaning, TONES.get(name, ""), _counted(each))
        for name, meaning in MEANING.items()
        for each in (overall(split.get(name, {})),)
    )


def _counted(found: Overall) -> str:
    return f"{found.mark} {found.counted} cells" if found.partial else ""


def _endpoint_section(split_name: str, split: Mapping[str, Any], sample: int) -> Section:
    if not split:
        return Section("endpoints", "Endpoints", (Prose("This run has no endpoints yet.", "missing"),))
    undefined = [
        str(split[name].get("reason"))
        for name in MEANING
        if name in split and split[name].get("value") is None
    ]
    blocks: list[Block] = [
        Prose(
            f"Filtered mean reciprocal ranks of {split_name} facts. An endpoint is the plain mean over "
            "its cells, one for each update and missing side. One run has no interval: how much of a "
            "difference is chance can only be said by a study of several pairs."
        ),
        _by_update(split),
        _every_cell(split),
    ]
    if sample:
        blocks.append(Prose(sample_note(sample), "note"))
    blocks.extend(Prose(text, "missing") for text in undefined)
    return Section("endpoints", "Endpoints", tuple(blocks))


def _by_update(split: Mapping[str, Any]) -> Table:
    """H_cur and its kin: over all cells, and by update."""
    updates = sorted(
        {int(cell["update"]) for name in MEANING for cell in split.get(name, {}).get("cells", ())}
    )
    titles = ("all", *(f"update {update}" for update in updates))
    rows: list[tuple[Value, ...]] = []
    for name in MEANING:
        endpoint = split.get(name, {})
        each = by_update(endpoint)
        found = [overall(endpoint), *(each.get(update, Overall(None, 0, 0)) for update in updates)]
        rows.append((name, *(Entry(one.value, mark=one.mark) for one in found)))
    told = note((name, overall(split.get(name, {}))) for name in MEANING)
    columns = (Column(title, "level", sortable=False) for title in titles)
    return Table(
        "Endpoints: over all cells, and at each update",
        (Column("endpoint", sortable=False), *columns),
        tuple(rows),
        (told,) if told else (),
    )


def _every_cell(split: Mapping[str, Any]) -> Table:
    """Every cell with its size: nothing is hidden in a mean."""
    columns = (
        *(Column("endpoint"), Column("update", "count"), Column("missing")),
        *(Column("queries", "count"), Column("value", "level")),
    )
    rows = tuple(
        (name, *(cell[part] for part in ("update", "side", "size", "value")))
        for name in MEANING
        for cell in split.get(name, {}).get("cells", ())
    )
    return Table("Every cell: one update, one missing side", columns, rows, folded=True)
