from __future__ import annotations

import numpy as np
import pytest
import torch

from meor.backbone import BACKBONES, Backbone, Model
from meor.errors import ConfigError
from meor.stream.snapshot import Stream
from meor.training.host import Update
from meor.training.initialise import Scheme, base_model, grow, row_norms, rows_sha256
from meor.typing import Side

SCHEMES: tuple[Scheme, ...] = ("base", "matched", "neighbours", "schema")


def _trained(stream: Stream, backbone: Backbone, dim: int = 6, spread: float = 0.7) -> Model:
    return base_model(backbone, dim, stream.entity_counts[0], stream.relation_counts[0], seed=9, std=spread)


def _classes(stream: Stream) -> dict[int, list[str]]:
    return {id: [f"class {id % 3}"] for id in range(len(stream.entities) - 1)}


def test_base_rows_are_normal_with_std_05_on_every_real_coordinate() -> None:
    model = base_model(BACKBONES["complex"], 200, 3000, 200, seed=0)
    assert model.entity.shape == (3000, 400)
    assert model.relation.shape == (200, 400)
    for table in (model.entity, model.relation):
        assert table.dtype == torch.float64
        assert table.std().item() == pytest.approx(0.05, rel=0.01)
        assert table.mean().item() == pytest.approx(0.0, abs=1e-3)
        assert (table.std(0) - 0.05).abs().max() < 0.02


def test_float32_is_a_cast_of_the_same_draw() -> None:
    double = base_model(BACKBONES["transe"], 8, 20, 3, seed=1)
    single = base_model(BACKBONES["transe"], 8, 20, 3, seed=1, dtype=torch.float32)
    assert torch.equal(double.entity.float(), single.entity)


def test_a_seed_is_an_address() -> None:
    first, same, other = (base_model(BACKBONES["transe"], 8, 20, 3, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.entity, same.entity)
    assert not torch.equal(first.entity, other.entity)
    assert not torch.equal(first.entity[:3], first.relation)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("backbone", BACKBONES.values(), ids=lambda backbone: backbone.name)
def test_growing_keeps_old_rows_bit_for_bit_and_repeats_itself(
    stream: Stream, backbone: Backbone, scheme: Scheme
) -> None:
    old, update = _trained(stream, backbone), Update.of(stream, 1)
    before = old.entity.clone(), old.relation.clone()
    grown = grow(old, update, seed=4, scheme=scheme, classes=_classes(stream))
    again = grow(old, update, seed=4, scheme=scheme, classes=_classes(stream))
    assert (grown.n_entities, grown.n_relations) == (update.n_entities, update.m_relations)
    assert torch.equal(grown.entity[: update.n_old], before[0])
    assert torch.equal(grown.relation[: update.m_old], before[1])
    assert torch.equal(grown.entity, again.entity)
    assert torch.equal(grown.relation, again.relation)
    assert torch.isfinite(grown.entity).all()


def test_base_newcomers_have_the_base_distribution_and_matched_ones_that_of_old_rows() -> None:
    backbone = BACKBONES["complex"]
    old = base_model(backbone, 50, 500, 50, seed=0, std=0.7)
    update = Update(1, np.empty((0, 3), np.int64), 500, 1500, 50, 100)
    plain, matched = (grow(old, update, seed=0, scheme=scheme) for scheme in ("base", "matched"))
    assert plain.entity[500:].std().item() == pytest.approx(0.05, rel=0.02)
    assert plain.relation[50:].std().item() == pytest.approx(0.05, rel=0.05)
    assert matched.entity[500:].std().item() == pytest.approx(old.entity.std().item(), rel=0.02)
    assert matched.relation[50:].std().item() == pytest.approx(old.relation.std().item(), rel=0.05)


def predicted(old: Model, anchor: int, relation: int, side: Side) -> torch.Tensor:
    """The query row; TransDot's has one more column, which is no coordinate."""
    return old.query(np.array([anchor]), np.array([relation]), side)[0, : old.entity.shape[1]]


@pytest.mark.parametrize("backbone", BACKBONES.values(), ids=lambda backbone: backbone.name)
def test_neighbours_are_the_mean_of_what_old_partners_predict(backbone: Backbone) -> None:
    old = base_model(backbone, 4, 5, 2, seed=0, std=0.5)
    train = np.array([[0, 0, 5], [5, 1, 2], [6, 0, 7], [7, 2, 1], [3, 1, 6]])  # relation 2 is new
    update = Update(1, train, 5, 8, 2, 3)
    grown, plain = (grow(old, update, seed=0, scheme=scheme) for scheme in ("neighbours", "base"))
    as_tail = predicted(old, 0, 0, Side.TAIL)
    as_head = predicted(old, 2, 1, Side.HEAD)
    torch.testing.assert_close(grown.entity[5], (as_tail + as_head) / 2)
    torch.testing.assert_close(grown.entity[6], predicted(old, 3, 1, Side.TAIL))
    # 7 meets a newcomer, and an old entity through a new relation only: it keeps the base draw
    assert torch.equal(grown.entity[7], plain.entity[7])
    assert torch.equal(grown.relation, plain.relation)


def test_neighbours_of_transe_are_h_plus_r_and_t_minus_r() -> None:
    old = base_model(BACKBONES["transe"], 4, 5, 2, seed=0, std=0.5)
    update = Update(1, np.array([[0, 0, 5], [6, 1, 2]]), 5, 7, 2, 2)
    grown = grow(old, update, seed=0, scheme="neighbours")
    torch.testing.assert_close(grown.entity[5], old.entity[0] + old.relation[0])
    torch.testing.assert_close(grown.entity[6], old.entity[2] - old.relation[1])


def test_schema_starts_from_class_means_and_leaves_the_classless_alone(stream: Stream) -> None:
    old, update = _trained(stream, BACKBONES["distmult"]), Update.of(stream, 1)
    classes: dict[int, list[str]] = {0: ["a"], 1: ["a", "b"], 2: ["b"]}
    newcomer = update.n_old
    classes |= {newcomer: ["a"], newcomer + 1: ["a", "b", "unheard of"], newcomer + 2: ["unheard of"]}
    exact = grow(old, update, seed=0, scheme="schema", classes=classes, noise=0.0)
    plain = grow(old, update, seed=0, scheme="base")
    a, b = old.entity[:2].mean(0), old.entity[1:3].mean(0)
    torch.testing.assert_close(exact.entity[newcomer], a)
    torch.testing.assert_close(exact.entity[newcomer + 1], (a + b) / 2)
    assert torch.equal(exact.entity[newcomer + 2 :], plain.entity[newcomer + 2 :])
    noisy = grow(old, update, seed=0, scheme="schema", classes=classes, noise=0.1)
    assert not torch.equal(noisy.entity[newcomer], exact.entity[newcomer])


def test_schema_without_classes_says_what_to_give(stream: Stream) -> None:
    with pytest.raises(ConfigError, match="Give the classes"):
        grow(_trained(stream, BACKBONES["transe"]), Update.of(stream, 1), seed=0, scheme="schema")


def test_row_norms_tell_old_rows_from_new_ones() -> None:
    model = Model(BACKBONES["transe"], torch.tensor([[3.0, 4.0], [0.0, 1.0]]), torch.ones(1, 2))
    assert row_norms(model, 1) == {
        **{"old_mean": 5.0, "old_std": 0.0, "old_min": 5.0, "old_max": 5.0},
        **{"new_mean": 1.0, "new_std": 0.0, "new_min": 1.0, "new_max": 1.0},
    }
    assert set(row_norms(model, 2)) == {"old_mean", "old_std", "old_min", "old_max"}


@pytest.mark.parametrize("scheme", ["matched", "neighbours", "schema"])
def test_later_newcomers_start_from_rows_of_snapshot_0_alone(stream: Stream, scheme: Scheme) -> None:
    base, first, second = _trained(stream, BACKBONES["complex"]), Update.of(stream, 1), Update.of(stream, 2)
    options = {"seed": 4, "scheme": scheme, "classes": _classes(stream)}
    grown = []
    for moved in (0.0, 3.0):
        model = grow(base, first, **options)  # type: ignore[arg-type]
        model.entity[first.n_old :] += moved  # what training made of the newcomers of update 1
        model.relation[first.m_old :] += moved
        grown.append(grow(model, second, base=base, **options))  # type: ignore[arg-type]
    assert not torch.equal(
        grown[0].entity[first.n_old : second.n_old], grown[1].entity[first.n_old : second.n_old]
    )
    assert torch.equal(grown[0].entity[second.n_old :], grown[1].entity[second.n_old :])
    assert rows_sha256(grown[0], second) == rows_sha256(grown[1], second)
    plain = grow(model, second, seed=4)
    assert rows_sha256(plain, second) != rows_sha256(grown[1], second)
    with pytest.raises(ConfigError, match="snapshot 0 was not given"):
        grow(model, second, **options)  # type: ignore[arg-type]
