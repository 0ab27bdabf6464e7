"""Endpoints of a PyKEEN model are those of PyKEEN's own evaluator, in both universes (extra `pykeen`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.pykeen_models import CASES, labelled, save, trained
from tests.tiny_run import tiny_stream

import meor
from meor.evaluation.labelled import Labelled, LabelledScore
from meor.stream.snapshot import Stream
from meor.typing import SIDES, Role, Side

pytest.importorskip("pykeen", reason="PyKEEN comes with the extra `pykeen`")


def by_pykeen(model, factory, stream: Stream, update: int, side: Side, universe: int) -> float:
    """Mean reciprocal rank of historical test facts among the first `universe` entities."""
    from pykeen.evaluation import RankBasedEvaluator

    def mapped(facts: np.ndarray) -> torch.Tensor:
        return factory.map_triples(labelled(stream, facts))

    past = [snapshot.test for snapshot in stream.snapshots[:update]]
    known = [each.facts() for each in stream.snapshots[: update + 1]]
    found = RankBasedEvaluator(filtered=True).evaluate(
        model,
        mapped_triples=mapped(np.concatenate(past)),
        additional_filter_triples=[mapped(np.concatenate(known))],
        restrict_entities_to=[factory.entity_to_id[stream.entities.label(e)] for e in range(universe)],
        targets=(side.label,),
        batch_size=16,
        use_tqdm=False,
    )
    return float(found.get_metric(f"{side.label}.realistic.inverse_harmonic_mean_rank"))


@pytest.fixture(scope="module")
def stream() -> Stream:
    return tiny_stream()


@pytest.mark.parametrize(("name", "inverse"), CASES)
def test_endpoints_are_those_of_pykeens_evaluator(name, inverse, stream, tmp_path: Path) -> None:
    model, factory = trained(name, inverse, stream)
    found = meor.audit(meor.from_pykeen(model, factory), stream)
    for endpoint, last in (("H_cur", 0), ("H_old", 1)):
        for cell in found.endpoints[endpoint].cells:
            universe = stream.entity_counts[cell.update - last]
            theirs = by_pykeen(model, factory, stream, cell.update, cell.side, universe)
            assert cell.value == pytest.approx(theirs, abs=1e-6)
    save(model, factory, tmp_path)
    saved = meor.read_pykeen(tmp_path)
    assert meor.audit(saved, stream).endpoints == found.endpoints


def test_any_other_model_is_asked_for_its_scores(stream) -> None:
    model, factory = trained("ConvKB", False, stream, num_filters=3)
    given = meor.from_pykeen(model, factory)
    assert isinstance(given, LabelledScore)
    for side in SIDES:
        (ranks,) = meor.rank_update(stream, given, 2, sides=[side])
        past = ranks.select(ranks.occurrences.role == Role.HISTORICAL)
        theirs = by_pykeen(model, factory, stream, 2, side, stream.entity_counts[2])
        assert float(np.mean(1 / past.cur)) == pytest.approx(theirs, abs=1e-6)


def test_rows_and_scores_of_a_known_model_give_the_same_ranks(stream) -> None:
    model, factory = trained("RotatE", True, stream)
    rows = meor.from_pykeen(model, factory)
    assert isinstance(rows, Labelled)
    from meor.evaluation.pykeen_model import _score_of

    asked = LabelledScore(_score_of(model.double()), rows.entities, rows.relations)
    for ours, theirs in zip(
        meor.rank_update(stream, rows, 2), meor.rank_update(stream, asked, 2), strict=True
    ):
        assert (ours.cur == theirs.cur).all()


def test_a_power_of_a_norm_is_refused_or_asked(stream) -> None:
    model, factory = trained("TransE", False, stream)
    model.interaction.power_norm = True
    with pytest.raises(meor.MeorError, match="power"):
        meor.from_pykeen(model, factory)
