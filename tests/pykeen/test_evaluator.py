"""Both universes from one pass of PyKEEN's evaluator."""

from __future__ import annotations

import pytest
import torch
from tests.pykeen.small import trained
from tests.tiny_run import tiny_stream

import meor
from meor.errors import InputError

pytest.importorskip("pykeen", reason="PyKEEN comes with the extra `pykeen`: make setup-bench")

from pykeen.evaluation import RankBasedEvaluator, evaluator_resolver
from pykeen.pipeline import pipeline

from meor.pykeen import MeorEvaluator, triples_of

STREAM = tiny_stream()
LAST = triples_of(STREAM, 2)
MRR = "realistic.inverse_harmonic_mean_rank"


def known(update: int) -> list[torch.Tensor]:
    return [torch.from_numpy(STREAM.prefix(update).copy())]


def asked(update: int) -> torch.Tensor:
    return torch.from_numpy(STREAM.prefix(update, ["test"]).copy())


def evaluated(model, update: int, **options):
    return MeorEvaluator(newcomers=STREAM.newcomers(update)).evaluate(
        model,
        mapped_triples=asked(update),
        additional_filter_triples=known(update),
        restrict_entities_to=list(range(STREAM.entity_counts[update])),
        batch_size=16,
        use_tqdm=False,
        **options,
    )


@pytest.mark.parametrize("name", ["ComplEx", "TransE", "TuckER"])
@pytest.mark.parametrize("update", [1, 2])
def test_it_finds_the_endpoints_of_an_audit(name: str, update: int) -> None:
    model = trained(name, LAST)
    found = evaluated(model, update)
    audit = meor.audit(meor.from_pykeen(model, LAST), STREAM, update)
    names = {"H_cur": "cur", "H_old": "old", "A_TN": "target_newcomer", "A_QN": "query_newcomer"}
    for endpoint, universe in names.items():
        for cell in audit.endpoints[endpoint].cells:
            assert found.get_metric(f"{universe}.{cell.side.label}.mrr") == pytest.approx(
                cell.value, abs=1e-6
            )
    for short in ("H_cur", "H_old", "D_MCI"):
        assert found.get_metric(short) == pytest.approx(audit.endpoints[short].value, abs=1e-6)
    assert found.get_metric("lost.hits@3") == pytest.approx(audit.endpoints["D_MCI_hits@3"].value, abs=1e-6)


def test_all_facts_among_all_entities_are_what_pykeen_says() -> None:
    model = trained("DistMult", LAST)
    options = {"mapped_triples": asked(2), "additional_filter_triples": known(2), "use_tqdm": False}
    theirs = RankBasedEvaluator().evaluate(model, **options)
    found = MeorEvaluator(newcomers=STREAM.newcomers(2)).evaluate(model, **options)
    for key, value in theirs.data.items():
        assert found.data["all", *key] == pytest.approx(value, nan_ok=True)
    assert set(found.to_dict()) == {"all", "cur", "old", "lost", "target_newcomer", "query_newcomer"}
    assert list(found.to_df().columns) == ["Universe", "Side", "Rank_type", "Metric", "Value"]


def test_the_model_is_asked_once_for_both_universes(monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained("DistMult", LAST)
    calls, predict = [], type(model).predict
    monkeypatch.setattr(type(model), "predict", lambda *args, **kw: calls.append(1) or predict(*args, **kw))
    evaluated(model, 2)
    assert len(calls) == 2 * -(-len(asked(2)) // 16)  # sides times batches


def test_a_pipeline_takes_it_by_name_and_stops_by_its_metrics() -> None:
    assert evaluator_resolver.lookup("meor") is MeorEvaluator
    result = pipeline(
        training=LAST,
        validation=triples_of(STREAM, 2, "valid"),
        testing=triples_of(STREAM, 1, "test"),
        model="DistMult",
        model_kwargs={"embedding_dim": 6},
        training_kwargs={"num_epochs": 2, "use_tqdm": False},
        evaluator="meor",
        evaluator_kwargs={"newcomers": list(STREAM.newcomers(2))},
        stopper="early",
        stopper_kwargs={"frequency": 1, "patience": 1, "metric": "all.both.realistic.mrr"},
        random_seed=0,
        device="cpu",
        use_tqdm=False,
    )
    cur, old = (result.metric_results.get_metric(f"{name}.both.{MRR}") for name in ("cur", "old"))
    assert old >= cur > 0
    assert result.get_metric("D_MCI") == pytest.approx(old - cur)


def test_unfiltered_ranks_are_refused() -> None:
    with pytest.raises(InputError, match="filtered"):
        MeorEvaluator(newcomers=[1], filtered=False)
