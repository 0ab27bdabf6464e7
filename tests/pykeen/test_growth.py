"""Rows for newcomers in PyKEEN models, and weights that outlive PyKEEN's own initialisation."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from tests.pykeen.small import SMALL_MODELS, labelled_factory, train, trained
from tests.tiny_run import tiny_stream

import meor
from meor.errors import InputError, ModelError

pytest.importorskip("pykeen", reason="PyKEEN comes with the extra `pykeen`: make setup-bench")

from meor.pykeen import grow, triples_of

STREAM = tiny_stream()


def factories(inverse: bool) -> tuple:
    return tuple(triples_of(STREAM, update, create_inverse_triples=inverse) for update in (0, 1))


def moved(before: dict, after: dict) -> dict[str, list[int]]:
    """Rows that changed, by parameter."""
    found = {}
    for name, value in before.items():
        rows = (after[name] != value).reshape(len(value) if value.ndim else 1, -1).any(1)
        if rows.any():
            found[name.removesuffix("._embeddings.weight")] = torch.nonzero(rows)[:, 0].tolist()
    return found


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("name", SMALL_MODELS)
def test_training_moves_the_rows_of_newcomers_and_of_new_relations_alone(name: str, inverse: bool) -> None:
    old, new = factories(inverse)
    model = trained(name, old)
    given = copy.deepcopy(model.state_dict())
    grown = grow(model, old, new)
    before = copy.deepcopy(grown.state_dict())
    train(grown, new, optimizer_kwargs={"lr": 0.05, "weight_decay": 0.1})  # moves rows without a gradient
    allowed = {"entity": list(STREAM.newcomers(1)), "relation": [6, 7] if inverse else [3]}
    found = moved(before, grown.state_dict())
    assert found
    for table, rows in found.items():
        assert set(rows) <= set(allowed[table.partition("_")[0]])
    assert any(table.startswith("entity") for table in found)
    assert not moved(given, model.state_dict())


@pytest.mark.parametrize("inverse", [False, True])
def test_old_facts_keep_their_scores(inverse: bool) -> None:
    old, new = factories(inverse)
    model = trained("DistMult", old)
    grown = grow(model, old, new)
    facts = torch.from_numpy(STREAM.snapshots[0].train.copy())
    assert torch.equal(model.predict_hrt(facts), grown.predict_hrt(facts))
    assert torch.equal(model.predict_h(facts[:, 1:]), grown.predict_h(facts[:, 1:])[:, : old.num_entities])


def test_rows_find_their_place_by_label() -> None:
    old, new = labelled_factory(STREAM, 0), labelled_factory(STREAM, 1)  # PyKEEN's own order: by alphabet
    assert old.entity_to_id["e9"] != new.entity_to_id["e9"]
    model = trained("TransE", old)
    grown = grow(model, old, new)
    rows, larger = (each.entity_representations[0]._embeddings.weight for each in (model, grown))
    for label, row in old.entity_to_id.items():
        assert torch.equal(rows[row], larger[new.entity_to_id[label]])


def test_without_freezing_every_row_may_move_and_training_still_begins_with_what_was_learned() -> None:
    old, new = factories(False)
    grown = grow(trained("ComplEx", old), old, new, frozen=False)
    start = copy.deepcopy(grown.state_dict())
    grown.reset_parameters_()
    assert not moved(start, grown.state_dict())
    train(grown, new)
    assert min(moved(start, grown.state_dict())["entity_representations.0"]) < old.num_entities
    grown.reset_parameters_()  # nothing is shared with what was trained
    assert not moved(start, grown.state_dict())


def test_a_grown_model_grows_again_and_is_copied_and_pickled_whole() -> None:
    old, new = factories(False)
    last = triples_of(STREAM, 2)
    twice = grow(grow(trained("DistMult", old), old, new), new, last)
    file = io.BytesIO()
    torch.save(twice, file)
    file.seek(0)
    for each in (copy.deepcopy(twice), torch.load(file, weights_only=False)):
        before = copy.deepcopy(each.state_dict())
        train(each, last)
        found = moved(before, each.state_dict())
        assert min(found["entity_representations.0"]) >= new.num_entities
        assert not moved(before, twice.state_dict())


def test_what_cannot_grow_is_refused_with_a_sentence() -> None:
    old, new = factories(False)
    with pytest.raises(InputError, match="inverse triples"):
        grow(trained("DistMult", old), old, factories(True)[1])
    with pytest.raises(InputError, match="has no entity 'e24'"):
        grow(trained("DistMult", new), new, old)
    with pytest.raises(ModelError, match="are computed"):
        grow(trained("RGCN", old), old, new)
    model = trained("DistMult", old)
    from pykeen.nn.init import PretrainedInitializer

    rows = model.entity_representations[0]
    rows.initializer = PretrainedInitializer(rows._embeddings.weight.detach().clone())
    with pytest.raises(ModelError, match="draws no rows"):
        grow(model, old, new)


def test_triples_are_in_the_ids_of_the_stream() -> None:
    new = triples_of(STREAM, 1, "valid")
    assert new.mapped_triples.tolist() == STREAM.snapshots[1].valid.tolist()
    assert new.num_entities == STREAM.entity_counts[1]
    whole = triples_of(STREAM, 1, "valid", since=0)
    assert whole.mapped_triples.tolist() == STREAM.prefix(1, ["valid"]).tolist()
    assert whole.num_entities == new.num_entities
    assert new.entity_to_id[STREAM.entities.label(30)] == 30
    assert meor.pykeen.triples_of is triples_of
