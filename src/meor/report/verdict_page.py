"""The page of one admission: its cost with the bound, the worst answers by name, the newcomers to blame."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from meor.errors import InputError
from meor.escape import clipped, visible
from meor.report.evidence import ENTITY_LABEL
from meor.report.page import LIMITS, Block, Card, Page, Prose, Said, Section
from meor.report.words import count, number, plural
from meor.storage.json_file import read_json
from meor.study.table import Column, Entry, Table, Value

SOURCES = {"golden": "the golden file", "held-out": "held-out facts", "sample": "a sample of known facts"}
WORDS = {
    "admitted": "The batch was admitted",
    "flagged": "The batch was admitted and flagged: a limit lies within the uncertainty of an estimate",
    "refused": "The batch was refused, and the store answers as before",
}


def read_verdict(path: Path) -> dict[str, Any]:
    found = read_json(path)
    if not isinstance(found, dict) or not {"verdict", "rules", "worst", "blame", "batch"} <= set(found):
        raise InputError("is not a verdict", remedy="Name a folder of a store's verdicts", path=path)
    return found


def verdict_page(told: Mapping[str, Any]) -> Page:
    batch = told["batch"]
    facts = sum(batch["facts"].values())
    outcome = "The batch was refused, and admitted by force" if told["forced"] else WORDS[told["verdict"]]
    sentence = (
        f"{outcome}. It brings {plural(facts, 'fact')} and {plural(batch['newcomers'], 'newcomer')}; judged "
        f"are {plural(told['protected']['queries'], 'protected query', 'protected queries')} of "
        f"{SOURCES[told['protected']['source']]}."
    )
    reason = [Said("Why", visible(told["reason"]))] if told["reason"] else []
    return Page(
        title=f"Admission: {'forced' if told['forced'] else told['verdict']}",
        kicker=f"Report of one admission into a store · made from {told['made_from']}",
        lead=(Said("What happened", sentence), *reason),
        cards=tuple(_card(rule) for rule in told["rules"]),
        sections=(_rules(told), _waiting(told), _worst(told), _blame(told), LIMITS),
    )


def _card(rule: Mapping[str, Any]) -> Card:
    exact = rule["low"] == rule["high"]
    return Card(
        visible(rule["rule"]),
        number(rule["value"], 4),
        f"{rule['kind']} {rule['limit']:.4g}: {rule['outcome']}",
        tone="new" if rule["outcome"] == "broken" else "",
        spread="" if exact else f"{number(rule['low'], 4)} to {number(rule['high'], 4)}",
    )


def _rules(told: Mapping[str, Any]) -> Section:
    columns = (
        *(Column("rule"), Column("limit"), Column("found", "level", 4)),
        *(Column("between"), Column("queries", "count"), Column("outcome")),
    )
    rows = tuple(
        (
            visible(rule["rule"]),
            f"{rule['kind']} {rule['limit']:.4g}",
            rule["value"],
            f"{number(rule['low'], 4)} to {number(rule['high'], 4)}",
            rule["queries"],
            Entry(None, text=rule["outcome"], tone="" if rule["outcome"] == "held" else "new"),
        )
        for rule in told["rules"]
    )
    blocks: list[Block] = [Table("Rules of the gate", columns, rows)]
    missed = told["learned"]["facts_not_learned"]
    if missed:
        blocks.append(
            Prose(
                f"{plural(missed, 'fact')} between known entities recorded and not learned: the host freezes "
                "old rows.",
                "note",
            )
        )
    return Section("rules", "What the gate found", tuple(blocks))


def _waiting(told: Mapping[str, Any]) -> Section:
    found = told["what_if"]
    if found["found"]:
        names = ", ".join(_shown(label) for label in found["newcomers"])
        gained = "" if found["A_TN"] is None else f" and A_TN {number(found['A_TN'], 4)}"
        text = (
            f"If {plural(len(found['newcomers']), 'newcomer')} waited, D_MCI would be "
            f"{number(found['D_MCI'], 4)}{gained}, with {plural(found['facts_that_would_wait'], 'fact')} "
            f"waiting: {names}. This is exact for the rows at hand; trained without them, rows differ."
        )
    elif told["verdict"] == "refused" or told["forced"]:
        text = "No set of newcomers was found whose waiting would satisfy the gate."
    else:
        text = "Nobody needs to wait."
    return Section("waiting", "What if they wait?", (Prose(text),))


def _worst(told: Mapping[str, Any]) -> Section:
    columns = (
        *(Column("query"), Column("answer"), Column("rank before", "count"), Column("rank now", "count")),
        *(Column("newcomers ahead"), Column("top k it left")),
    )
    rows: tuple[tuple[Value, ...], ...] = tuple(
        (
            " · ".join(_shown(row[part]) for part in ("head", "relation", "tail")),
            _shown(row["answer"]),
            row["rank_old"],
            row["rank_current"],
            ", ".join(_shown(label) for label in row["newcomers_ahead"][:5]),
            "" if row["left_its_top"] is None else count(row["left_its_top"]),
        )
        for row in told["worst"]
    )
    if not rows:
        return Section("worst", "Answers that lost most", (Prose("No protected answer lost rank."),))
    return Section("worst", "Answers that lost most", (Table("Answers that lost most", columns, rows),))


def _blame(told: Mapping[str, Any]) -> Section:
    columns = (
        *(Column("newcomer"), Column("answers behind it", "count")),
        *(Column("share of D_MCI", "level"), Column("facts", "count")),
    )
    rows = tuple(
        (_shown(row["newcomer"]), row["answers"], row["charge"], row["facts"]) for row in told["blame"]
    )
    if not rows:
        return Section("blame", "Newcomers to blame", (Prose("No newcomer stands ahead of one."),))
    return Section("blame", "Newcomers to blame", (Table("Newcomers to blame", columns, rows),))


def _shown(label: str) -> str:
    return clipped(visible(label), ENTITY_LABEL)
