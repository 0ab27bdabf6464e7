"""The report of a single run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from meor.evaluation.endpoints import MEANING, Overall, by_update, note, overall
from meor.methods import METHODS, NONE
from meor.methods.coefficient import Candidate, end_of_grid
from meor.report.displaced import displaced_section
from meor.report.drawn import drawn, matched, same_facts
from meor.report.evidence import Evidence, read_evidence
from meor.report.figures import FallLine
from meor.report.lead import what_was_lost
from meor.report.made import made_of_run
from meor.report.page import LIMITS, Block, Card, Page, Prose, Said, Section
from meor.report.svg import method_key
from meor.report.words import (
    backbone_name,
    method_name,
    named,
    number,
    plural,
    sentence,
    shown_name,
    spelled_out,
)
from meor.run.control import CONTROL
from meor.run.layout import ENDPOINTS, state_of
from meor.run.view import RunView
from meor.stream.occurrence import sample_note
from meor.study.table import Column, Entry, Table, Value

TONES = {"H_cur": "old", "H_old": "old", "D_MCI": "new", "A_TN": "new", "A_QN": "new"}
"""Whose colour an endpoint wears: that of old answers, or that of newcomers."""


def run_page(
    view: RunView, *, data_dir: Path | None = None, say: Callable[[str], None] = lambda _: None
) -> Page:
    """Everything a run folder can tell."""
    told = read_evidence(view, data_dir, say)
    split_name, split = _endpoints(view)
    config = view.config
    method = method_name(config.method)
    line = FallLine(method, method_key(config.method), told.facts)
    return Page(
        title=f"What did newcomers cost old answers on {shown_name(config.stream)}? {method}, one run",
        kicker=f"Report of one run · {backbone_name(config.backbone)} · preset {config.preset} · "
        f"seed {config.seed}",
        lead=_lead(view, split_name, split, told),
        cards=_cards(split),
        sections=(
            _endpoint_section(split_name, split, config.evaluation.sample),
            same_facts([line] if told.facts else [], "", told.remarks),
            drawn(told),
            displaced_section(told.displacement, told.entity, told.relation, ""),
            matched(told),
            LIMITS,
            made_of_run(view),
        ),
        state=_state(view, split),
    )


def _state(view: RunView, split: Mapping[str, Any]) -> str:
    if view.complete:
        return ""
    return f"This run is {state_of(view.path)}.{'' if split else ' Its endpoints are not known yet.'}"


def _endpoints(view: RunView) -> tuple[str, Mapping[str, Any]]:
    """The test endpoints, or those of the split that was ranked."""
    if not view.has(ENDPOINTS):
        return "test", {}
    found = view.endpoints()
    ranked = [name for name in found if name != CONTROL]
    name = "test" if "test" in ranked or not ranked else ranked[0]
    return name, found.get(name, {})


def _lead(view: RunView, split_name: str, split: Mapping[str, Any], told: Evidence) -> tuple[Said, ...]:
    said = what_was_lost(told.facts, "", told) if told.admitted else []
    if not said:
        said = [Said("What was lost", _nothing_lost(split_name, split, told))]
    whole = {name: overall(split.get(name, {})) for name in ("A_TN", "A_QN")}
    found = [
        f"{named(name, each.mark)} reach {number(each.value, 3)}"
        for name, each in whole.items()
        if each.value is not None
    ]
    if found:
        said.append(Said("What newcomers reach", f"{sentence('; '.join(found))}."))
    said.append(Said("What controls them", _control(view)))
    texts = spelled_out(each.answer for each in said)
    return tuple(Said(each.question, text) for each, text in zip(said, texts, strict=True))


def _nothing_lost(split_name: str, split: Mapping[str, Any], told: Evidence) -> str:
    """Why there is no fall to tell: nobody was admitted, or there is no rank to tell it from."""
    counts, admitted = told.counts, told.admitted
    start = (
        f"{plural(len(counts) - 1, 'update')} admitted "
        f"{plural(admitted, 'entity', 'entities') if admitted else 'no entity'} to a graph of "
        f"{plural(counts[0], 'entity', 'entities')}"
    )
    cur = overall(split.get("H_cur", {})).value
    if cur is not None:
        why = "no ranked fact is of snapshot 0" if admitted else "no answer can have lost rank to a newcomer"
        return f"{start}: {why}. {sentence(named('H_cur'))} reach {number(cur, 3)}."
    if not split:
        return f"{start}."
    if not any(len(each.occurrences) for each in told.ranks):
        return (
            f"{start}. The stream has no {split_name} facts: there is nothing to rank, so no endpoint exists."
        )
    return f"{start}. No {split_name} fact is from before an update: nothing can be said about old facts."


def _control(view: RunView) -> str:
    """What the method does, what was chosen for it, and whether it acted at all."""
    method = view.config.method
    if method == NONE:
        return "Nothing: this is the host alone."
    told = [f"{METHODS[method].label}: {METHODS[method].sentence}"]
    for event in view.events():
        if event.get("event") == "cap":
            told.append(f"{sentence(str(event['text']))}.")
        if event.get("event") == "coefficient" and event.get("rule") == "validated":
            tried = [Candidate(**one) for one in event["candidates"]]
            if at_end := end_of_grid(float(event["multiple"]), tried):
                told.append(f"Its coefficient is {at_end}.")
    if reason := str(_about_control(view).get("reason", "")):
        told.append(f"{sentence(reason.rstrip('.'))}.")
    return " ".join([*told, "What that changes, only a study of several pairs can say."])


def _about_control(view: RunView) -> Mapping[str, Any]:
    return view.endpoints().get(CONTROL, {}) if view.has(ENDPOINTS) else {}


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
