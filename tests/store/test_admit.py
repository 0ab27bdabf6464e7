"""Admissions: the update of a run to the bit, judged by the gate's rules, switched or refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from tests.tiny_run import each_step, tiny_config, tiny_stream

from meor.errors import InputError, MeorError
from meor.run.session import start
from meor.run.view import RunView
from meor.store.admit import Outcome, Request, admit
from meor.store.answers import Query
from meor.store.create import content_of_run
from meor.store.explain import Subject, explain
from meor.store.folder import Store, create
from meor.store.graph import extended, through
from meor.store.settings import GateSettings
from meor.store.version import Content, Version
from meor.stream.occurrence import EvaluationFilter
from meor.typing import SIDES, Split


def state(store: Path) -> dict[str, str]:
    return {
        str(path.relative_to(store)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(store.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def asked(store: Path, facts: Path, **more: Any) -> Outcome:
    return admit(store, Request(facts, **more))


def test_an_admission_is_the_update_of_a_run(store: Path, batch: Path, finished: Path) -> None:
    outcome = asked(store, batch)
    view, version = RunView.open(finished / "run"), Store(store).version()
    assert outcome.version == version.name
    assert torch.equal(version.model().entity, view.model(2).entity)
    assert torch.equal(version.model().relation, view.model(2).relation)
    assert version.stream().content_hash() == view.stream().content_hash()
    told, cells = version.verdict(), view.endpoints()["test"]
    for name in ("H_old", "H_cur", "D_MCI"):
        wanted = np.mean([cell["value"] for cell in cells[name]["cells"] if cell["update"] == 2])
        assert told["endpoints"][name] == pytest.approx(wanted, abs=1e-12)
    entry = Store(store).log()[-1]
    assert json.loads((store / entry["verdict"] / "verdict.json").read_text()) == told
    assert entry["newcomers"] == 8


@pytest.mark.parametrize(("method", "given"), [("meor", True), ("meor", False), ("cap+guard", False)])
def test_a_penalty_goes_on_as_in_a_run(tmp_path: Path, batch: Path, method: str, given: bool) -> None:
    sets = [f"method={method}", "refine.learning_rate=0.3", "refine.replay_size=64"]
    config = tiny_config(*sets, *(["coefficient=0.5"] if given else []))
    start(config, tmp_path / "run", stream=tiny_stream(), resources=each_step(tmp_path / "cache"))
    view = RunView.open(tmp_path / "run")
    content = content_of_run_with(view, update=1 if given else 0)
    create(tmp_path / "store", content)
    if given:
        asked(tmp_path / "store", batch, budget=1.0)
        assert torch.equal(Store(tmp_path / "store").version().model().entity, view.model(2).entity)
    else:
        lines = ["head\trelation\ttail\tsplit\n"]
        stream = tiny_stream()
        for split in ("train", "valid", "test"):
            for h, r, t in stream.snapshots[1].facts([split]).tolist():
                names = stream.entities.label(h), stream.relations.label(r), stream.entities.label(t), split
                lines.append("\t".join(names) + "\n")
        (tmp_path / "first.tsv").write_text("".join(lines))
        asked(tmp_path / "store", tmp_path / "first.tsv", budget=1.0, new_relations=True)
        version = Store(tmp_path / "store").version()
        assert version.state()["coefficient"] == view.endpoints()["control"]["coefficient"]
        assert torch.equal(version.model().entity, view.model(1).entity)


def content_of_run_with(view: RunView, update: int) -> Content:
    """The run was made with a stream in memory."""
    with patch.object(RunView, "stream", lambda self, data_dir=None: tiny_stream()):
        return content_of_run(view.path, GateSettings(), update=update)


def test_verdicts_and_exit_codes(store: Path, batch: Path, golden: Path) -> None:
    before = Store(store).current()
    refused = asked(store, batch, budget=0.0, protect=golden)
    assert (refused.exit_code, refused.verdict["verdict"], refused.version) == (3, "refused", None)
    assert Store(store).current() == before
    assert Store(store).log()[-1]["event"] == "refused"
    cost = refused.verdict["rules"][0]
    assert cost["low"] == cost["value"] == cost["high"] > 0
    exactly = asked(store, batch, budget=cost["value"], protect=golden, dry_run=True)
    assert (exactly.exit_code, exactly.verdict["verdict"]) == (0, "admitted")
    estimate = asked(store, batch, budget=cost["value"], dry_run=True)  # the same facts, as a sample of more
    assert estimate.verdict["rules"][0]["value"] == pytest.approx(cost["value"])
    assert (estimate.exit_code, estimate.verdict["verdict"]) == (4, "flagged")
    with pytest.raises(InputError, match="--reason"):
        asked(store, batch, budget=0.0, force=True, reason=" ")
    flagged = asked(store, batch, budget=cost["value"])
    assert (flagged.exit_code, flagged.version) == (4, Store(store).current())


def test_a_forced_admission_says_so(store: Path, batch: Path, golden: Path) -> None:
    forced = asked(store, batch, budget=0.0, protect=golden, force=True, reason="launch day")
    assert (forced.exit_code, forced.verdict["verdict"], forced.verdict["forced"]) == (0, "flagged", True)
    entry = Store(store).log()[-1]
    assert (entry["event"], entry["reason"], entry["current"]) == ("flagged", "launch day", forced.version)
    assert Store(store).version().gate().budget == 0.2  # what the command line says is for one admission


def test_a_fact_of_an_entity_with_itself_counts_once(store: Path, tmp_path: Path) -> None:
    (tmp_path / "loop.tsv").write_text("loop\tr0\tloop\nloop\tr1\te3\n")
    (row,) = asked(store, tmp_path / "loop.tsv", budget=1.0).verdict["blame"]
    assert (row["newcomer"], row["facts"]) == ("loop", 2)


def test_blame_adds_up_and_the_worst_answers_are_explained_alike(store: Path, batch: Path) -> None:
    told = asked(store, batch).verdict
    assert sum(row["charge"] for row in told["blame"]) == pytest.approx(told["endpoints"]["D_MCI"])
    charges = [row["charge"] for row in told["blame"]]
    assert charges == sorted(charges, reverse=True)
    assert told["worst"]
    lost = [row["lost"] for row in told["worst"]]
    assert lost == sorted(lost, reverse=True)
    subject = Subject.of(store)
    for row in told["worst"][:5]:
        found = explain(subject, Query.of(row["head"], row["relation"], row["tail"]), answer=row["answer"])
        assert (found["rank_old"], found["rank_current"]) == (row["rank_old"], row["rank_current"])
        assert {each["newcomer"] for each in found["displacers"]} == set(row["newcomers_ahead"])


def test_a_floor_keeps_newcomers_that_learned_nothing_out(store: Path, batch: Path) -> None:
    outcome = asked(store, batch, budget=1.0, floor=0.99)
    assert outcome.exit_code == 3
    assert [rule["rule"] for rule in outcome.verdict["rules"] if rule["outcome"] == "broken"] == ["A_TN"]


def test_a_dry_run_changes_nothing(store: Path, batch: Path) -> None:
    before = state(store)
    told = asked(store, batch, dry_run=True).verdict
    assert state(store) == before
    after = asked(store, batch).verdict
    assert {**told, "dry_run": False} == after


def plain_cost(version: Version, waits: set[str]) -> float:
    """D_MCI of all held-out facts, from scores of every entity that does not wait."""
    stream, model = version.stream(), version.model()
    known, n_old = EvaluationFilter.through(stream, 2), stream.entity_counts[1]
    stay = np.array([label not in waits for label in stream.entities.labels])
    lost = []
    for side in SIDES:
        for fact in stream.prefix(1, ["test"]):
            anchor, relation, answer = fact[side.anchor_column], fact[1], fact[side.answer_column]
            score = model.score(np.array([anchor]), np.array([relation]), side)[0].numpy()
            rival = stay.copy()
            rival[known.on(side).of(int(anchor), int(relation))] = False
            ahead = (score > score[answer]) & rival
            lost.append(1 / (1 + ahead[:n_old].sum()) - 1 / (1 + ahead.sum()))
    return float(np.mean(lost))


def test_who_should_wait_is_exact_for_the_rows_at_hand(store: Path, batch: Path, golden: Path) -> None:
    first = asked(store, batch, protect=golden, dry_run=True).verdict["endpoints"]["D_MCI"]
    refused = asked(store, batch, protect=golden, budget=first / 4)
    told = refused.verdict["what_if"]
    assert refused.exit_code == 3
    assert told["found"]
    assert 0 < len(told["newcomers"]) < 8
    assert told["D_MCI"] <= first / 4
    asked(store, batch, budget=1.0)
    version = Store(store).version()
    assert plain_cost(version, set()) == pytest.approx(first, abs=1e-12)
    assert plain_cost(version, set(told["newcomers"])) == pytest.approx(told["D_MCI"], abs=1e-12)


def test_who_is_held_back_waits_in_the_store_and_is_offered_again(
    store: Path, batch: Path, golden: Path, tmp_path: Path
) -> None:
    assert not asked(store, batch, protect=golden, budget=0.0, dry_run=True).verdict["what_if"]["found"]
    cost = asked(store, batch, dry_run=True).verdict["endpoints"]["D_MCI"]
    refused = asked(store, batch, protect=golden, budget=cost / 4)
    assert refused.folder is not None
    waits = store / refused.folder / "hold-back.txt"
    names = set(waits.read_text().split())
    assert names == set(refused.verdict["what_if"]["newcomers"])
    second = asked(store, batch, budget=1.0, hold_back=waits)
    version = Store(store).version()
    assert second.version == version.name
    assert not names & set(version.stream().entities.labels)
    waiting = {fact for part in version.waiting().values() for fact in part}
    assert {end for fact in waiting for end in (fact[0], fact[2])} >= names
    given = {tuple(line.split("\t")[:3]) for line in batch.read_text().splitlines()[1:]}
    there = {tuple(fact) for fact in _labelled(version)}
    assert there >= given - waiting
    assert not there & waiting
    (tmp_path / "more.tsv").write_text("e0\tr0\te39\n" if "e39" not in names else "e0\tr3\te17\n")
    third = asked(store, tmp_path / "more.tsv", budget=1.0)
    assert third.verdict["batch"]["had_waited"] == len(waiting)
    assert names <= set(Store(store).version().stream().entities.labels)
    assert not any(Store(store).version().waiting().values())


def _labelled(version: Version) -> list[tuple[str, str, str]]:
    stream = version.stream()
    return [
        (stream.entities.label(h), stream.relations.label(r), stream.entities.label(t))
        for h, r, t in stream.prefix(99).tolist()
    ]


def test_new_facts_between_old_entities_are_recorded_and_not_learned(store: Path, tmp_path: Path) -> None:
    (tmp_path / "old.tsv").write_text("e0\tr0\te20\ne1\tr0\te21\n")
    before = Store(store).version()
    outcome = asked(store, tmp_path / "old.tsv")
    version = Store(store).version()
    assert outcome.exit_code == 0
    assert outcome.verdict["learned"] == {"steps": 0, "facts_not_learned": 2, "coefficient": None}
    assert torch.equal(version.model().entity, before.model().entity)
    assert ("e0", "r0", "e20") in _labelled(version)
    again = outcome.verdict["endpoints"]
    assert again["D_MCI"] == 0


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "empty"),
        ("head\trelation\ttail\n", "no new fact"),
        ("e0\tr0\te1\n", "no new fact to admit: 1 are known"),
        ("e0\tr0\te1\ne0\tR0\tnew\n", r"line 2: the store has no relation 'R0'. Correct it, or"),
        ("e0\tr0\n", "line 1: 2 columns"),
        ("head\trelation\ttail\tsplit\ne0\tr0\tnew\ttest\n", "no train fact"),
        ("head\trelation\ttail\tsplit\ne0\tr0\tnew\ttrain\ne0\tr0\tother\ttest\n", "line 3.*'other'"),
        ("e0\tr0\t\n", "the tail is empty"),
        ("e0\tr0\tnew\x00\n", "NUL"),
    ],
)
def test_a_batch_that_cannot_be_admitted_says_why(store: Path, tmp_path: Path, text: str, match: str) -> None:
    (tmp_path / "bad.tsv").write_text(text)
    before = state(store)
    with pytest.raises(MeorError, match=match):
        asked(store, tmp_path / "bad.tsv")
    assert state(store) == before


def test_repeats_and_known_facts_are_counted(store: Path, tmp_path: Path) -> None:
    (tmp_path / "some.tsv").write_text("e0\tr0\te1\ne0\tr0\tnew\ne0\tr0\tnew\nnew\tr1\te3\n")
    told = asked(store, tmp_path / "some.tsv", budget=1.0).verdict["batch"]
    assert (told["repeated"], told["already_known"], told["newcomers"]) == (1, 1, 1)
    assert told["facts"] == {"train": 2, "valid": 0, "test": 0}


def test_holding_back_what_is_no_newcomer_is_an_error(store: Path, batch: Path, tmp_path: Path) -> None:
    waits = tmp_path / "waits.txt"
    for text, match in (("e0\n", "line 1: 'e0' is no newcomer"), ("e32\nx\n", "line 2"), ("\n", "line 1")):
        waits.write_text(text)
        with pytest.raises(InputError, match=match):
            asked(store, batch, hold_back=waits)
    waits.write_text("".join(f"e{n}\n" for n in range(32, 40)))
    (tmp_path / "new.tsv").write_text("e32\tr0\te33\n")
    waits.write_text("e32\n")
    with pytest.raises(InputError, match="leaves no fact"):
        asked(store, tmp_path / "new.tsv", hold_back=waits)


def test_every_group_keeps_to_the_budget(store: Path, batch: Path, golden: Path, tmp_path: Path) -> None:
    (tmp_path / "groups.tsv").write_text(
        "".join(f"e{n}\t{'even' if n % 2 == 0 else 'odd'}\n" for n in range(32))
    )
    how = {"groups": tmp_path / "groups.tsv", "protect": golden, "dry_run": True}
    told = asked(store, batch, budget=1.0, **how).verdict
    rules = {rule["rule"]: rule for rule in told["rules"]}
    even, odd = rules["D_MCI of group even"], rules["D_MCI of group odd"]
    assert even["queries"] + odd["queries"] == rules["D_MCI"]["queries"]
    both = even["value"] * even["queries"] + odd["value"] * odd["queries"]
    assert both / rules["D_MCI"]["queries"] == pytest.approx(rules["D_MCI"]["value"])
    worse = max(even, odd, key=lambda rule: rule["value"])
    told = asked(store, batch, budget=(worse["value"] + rules["D_MCI"]["value"]) / 2, **how).verdict
    assert told["verdict"] == "refused"
    broken = [rule["rule"] for rule in told["rules"] if rule["outcome"] == "broken"]
    assert broken == [worse["rule"]]


def test_extended_numbers_labels_as_a_stream_does() -> None:
    stream = tiny_stream()
    last = {
        split: [
            (stream.entities.label(h), stream.relations.label(r), stream.entities.label(t))
            for h, r, t in stream.snapshots[2].facts([split]).tolist()
        ]
        for split in ("train", "valid", "test")
    }
    grown = extended(through(stream, 1), {Split(name): part for name, part in last.items()})
    assert grown.content_hash() == stream.content_hash()
    assert grown.entity_counts == stream.entity_counts
