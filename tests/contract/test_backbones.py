"""What every backbone promises. A backbone in `BACKBONES` is covered by being there."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

import meor.backbone as package
from meor.backbone import BACKBONES, Backbone, Model
from meor.errors import ModelError
from meor.typing import SIDES, Side

EVERY = pytest.mark.parametrize("backbone", BACKBONES.values(), ids=BACKBONES.keys())


def model_of(backbone: Backbone, seed: int = 0) -> Model:
    generator = torch.Generator().manual_seed(seed)
    width = backbone.width(6)
    entity = torch.randn(11, width, generator=generator, dtype=torch.float64)
    columns = backbone.relation_columns(width)
    return Model(backbone, entity, torch.randn(3, columns, generator=generator, dtype=torch.float64))


def test_every_backbone_class_is_registered_and_so_covered() -> None:
    classes = {
        value
        for _, value in inspect.getmembers(package, inspect.isclass)
        if issubclass(value, Backbone) and value is not Backbone
    }
    assert classes == {type(backbone) for backbone in BACKBONES.values()}
    # A private class wraps plain functions; other tests define classes of their own.
    ours = (each for each in Backbone.__subclasses__() if each.__module__.startswith("meor."))
    assert classes == {each for each in ours if not each.__name__.startswith("_")}


@EVERY
def test_both_directions_give_a_fact_one_score(backbone: Backbone) -> None:
    model = model_of(backbone)
    rng = np.random.default_rng(1)
    fact = np.stack([rng.integers(0, 11, 50), rng.integers(0, 3, 50), rng.integers(0, 11, 50)], 1)
    whole = model.score_facts(fact)
    rows = torch.arange(50)
    has_inverse = backbone.relation_columns(1) > 1  # the head is then asked through a vector of its own
    for side in [Side.TAIL] if has_inverse else SIDES:
        scores = model.score(fact[:, side.anchor_column], fact[:, 1], side)
        torch.testing.assert_close(scores[rows, torch.from_numpy(fact[:, side.answer_column])], whole)


@EVERY
def test_given_candidates_are_scored_as_among_all(backbone: Backbone) -> None:
    model = model_of(backbone)
    anchor, relation = np.array([0, 4]), np.array([1, 2])
    chosen = np.array([7, 3, 3, 10])
    for side in SIDES:
        some = model.score(anchor, relation, side, chosen)
        torch.testing.assert_close(some, model.score(anchor, relation, side)[:, torch.from_numpy(chosen)])


@EVERY
def test_growing_keeps_old_rows_bit_identical_and_old_scores_with_them(backbone: Backbone) -> None:
    model = model_of(backbone)
    before = model.entity.clone(), model.relation.clone()
    extra = model_of(backbone, seed=9)
    grown = model.grow(extra.entity[:4], extra.relation[:1])
    assert torch.equal(grown.entity[:11], before[0])
    assert torch.equal(grown.relation[:3], before[1])
    assert (grown.n_entities, grown.n_relations) == (15, 4)
    grown.entity[0, 0] += 1
    assert torch.equal(model.entity, before[0])


@EVERY
def test_scores_are_differentiable_in_every_row(backbone: Backbone) -> None:
    model = model_of(backbone)
    model.entity.requires_grad_()
    model.relation.requires_grad_()
    model.score(np.array([2]), np.array([1]), Side.HEAD).sum().backward()
    assert model.entity.grad is not None
    assert bool((model.entity.grad.abs().sum(1) > 0).all())


@EVERY
def test_tables_of_unequal_width_are_refused(backbone: Backbone) -> None:
    for rows in (torch.zeros(3, 4), torch.zeros(2, 6)), (torch.zeros(3), torch.zeros(2, 6)):
        with pytest.raises(ModelError, match="width"):
            Model(backbone, *rows)


def _complex(row: np.ndarray) -> np.ndarray:
    half = len(row) // 2
    return row[:half] + 1j * row[half:]


def _turned(head: np.ndarray, relation: np.ndarray) -> np.ndarray:
    return _complex(head) * np.exp(1j * np.angle(_complex(relation)))


@EVERY
def test_scores_follow_the_published_formula(backbone: Backbone) -> None:
    model = model_of(backbone)
    head, relation, tail = (rows.numpy() for rows in (model.entity[1], model.relation[2], model.entity[5]))
    half = len(head) // 2

    def unit(row: np.ndarray) -> np.ndarray:
        return row / np.linalg.norm(row)

    formulas = {
        "complex": lambda: float(
            np.sum(
                (head[:half] + 1j * head[half:])
                * (relation[:half] + 1j * relation[half:])
                * np.conj(tail[:half] + 1j * tail[half:])
            ).real
        ),
        "distmult": lambda: float(np.sum(head * relation * tail)),
        "transe": lambda: float(9.0 - np.abs(head + relation - tail).sum()),
        "transe-inverse": lambda: float(
            9.0 - np.abs(unit(head) + unit(relation[: len(head)]) - unit(tail)).sum()
        ),
        "transe-l2": lambda: float(9.0 - np.sqrt(np.square(head + relation - tail).sum())),
        "rotate": lambda: float(9.0 - np.linalg.norm(_turned(head, relation) - _complex(tail))),
        "transdot": lambda: float(np.sum((head + relation) * tail)),
    }
    expected = formulas[backbone.name]()
    assert float(model.score_facts(np.array([[1, 2, 5]]))[0]) == pytest.approx(expected, abs=1e-12)


def test_the_head_is_asked_through_the_inverse() -> None:
    model = model_of(BACKBONES["transe-inverse"])
    entity, inverse = model.entity.numpy(), model.relation.numpy()[2, 6:]
    rows = [row / np.linalg.norm(row) for row in (entity[5], inverse, entity[1])]
    expected = 9.0 - np.abs(rows[0] + rows[1] - rows[2]).sum()
    found = model.score(np.array([5]), np.array([2]), Side.HEAD)[0, 1]
    assert float(found) == pytest.approx(expected, abs=1e-12)
