"""The norm cap: exact after every step, composed with every method, refused where it means nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.growth import random_model
from tests.tiny_run import each_step, made_once, results, tiny_config, tiny_stream
from torch import nn

from meor.errors import ConfigError
from meor.methods import METHODS, needs_coefficient
from meor.methods.cap import NormLaw, degrees, longest_newcomers, loosened
from meor.methods.coefficient import TRIAL_SEED_OFFSET
from meor.methods.registry import CAP, CAP_FACTOR, NONE, at_size, with_cap
from meor.run.prepare import longest_rows, update_of
from meor.run.session import start
from meor.run.view import RunView
from meor.stream.snapshot import Stream
from meor.study.plan import Study
from meor.training.adam import Adam, Longest

FAST = ("refine.learning_rate=0.3", "refine.passes=4", "refine.replay_size=60", "cap.factor=0.8")


@pytest.fixture(scope="module")
def stream() -> Stream:
    return tiny_stream()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, stream: Stream) -> Callable[..., RunView]:
    return made_once(tmp_path_factory.mktemp("cap"), stream, *FAST)


def test_the_law_is_the_line_of_least_squares() -> None:
    degree = np.array([0, 1, 3, 7, 15, 3])
    rows = torch.zeros(6, 4, dtype=torch.float64)
    rows[:, 1] = torch.from_numpy(1.5 + 0.25 * np.log2(1.0 + degree))
    law = NormLaw.fit(rows, degree)
    assert (law.a, law.b) == pytest.approx((1.5, 0.25), rel=1e-12)
    assert law(np.array([0, 31])) == pytest.approx([1.5, 2.75], rel=1e-12)
    noisy = NormLaw.fit(rows + torch.eye(6, 4, dtype=torch.float64), degree)
    norm = np.linalg.norm((rows + torch.eye(6, 4)).numpy(), axis=1)
    assert (noisy.b, noisy.a) == pytest.approx(tuple(np.polyfit(np.log2(1.0 + degree), norm, 1)), rel=1e-9)
    flat = NormLaw.fit(rows[:2], np.array([4, 4]))
    assert (flat.a, flat.b) == (pytest.approx(1.625), 0.0)


def test_a_degree_counts_facts_and_a_fact_that_names_an_entity_twice_counts_once() -> None:
    fact = np.array([[0, 0, 1], [1, 1, 0], [2, 0, 2], [1, 0, 3]])
    assert degrees(fact, 6).tolist() == [2, 3, 1, 1, 0, 0]


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_step_shortens_the_rows_that_became_too_long(fixed: bool, dtype: torch.dtype) -> None:
    start_rows = torch.randn(5, 7, generator=torch.Generator().manual_seed(1), dtype=dtype)
    longest = Longest(np.array([0.5, 2.0, np.inf, 100.0, 3.0]), fixed)
    free, bound = nn.Parameter(start_rows.clone()), nn.Parameter(start_rows.clone())
    free.grad, bound.grad = torch.ones_like(free), torch.ones_like(bound)
    Adam({"rows": free}, 0.1).step()
    Adam({"rows": bound}, 0.1, longest={"rows": longest}).step()
    wanted = free.data.clone()
    longest.shorten(wanted)
    tolerance = 1e-12 if dtype is torch.float64 else 1e-6
    torch.testing.assert_close(bound.data, wanted, rtol=tolerance, atol=tolerance)
    assert torch.equal(bound.data[2], free.data[2])
    norm = bound.data.double().norm(dim=1)
    assert norm[0].item() == pytest.approx(0.5, rel=1e-6)
    assert (norm[3].item() == pytest.approx(100.0, rel=1e-6)) == fixed


def test_without_a_cap_a_step_has_the_bits_it_had() -> None:
    rows = torch.randn(5, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    one, other = nn.Parameter(rows.clone()), nn.Parameter(rows.clone())
    one.grad, other.grad = torch.ones_like(rows), torch.ones_like(rows)
    Adam({"rows": one}, 0.1).step()
    Adam({"rows": other}, 0.1, longest={"rows": Longest(np.full(5, np.inf))}).step()
    assert torch.equal(one, other)


def test_newcomers_stay_within_their_cap_and_old_rows_are_left_alone(
    made: Callable[..., RunView], stream: Stream
) -> None:
    view, free = made(f"method={CAP}"), made()
    outgrew = 0
    for number in stream.updates:
        update = update_of(view.config, stream, number)
        longest = longest_rows(view.config, stream, update, view.model(0))
        assert longest is not None
        norm = view.model(number).entity[update.n_old :].norm(dim=1).numpy()
        assert (norm <= longest.norm * (1 + 1e-12)).all()
        outgrew += int((free.model(number).entity[update.n_old :].norm(dim=1).numpy() > longest.norm).sum())
        assert torch.equal(view.model(number).entity[: update.n_old], view.model(number - 1).entity)
    assert outgrew > 4, "without a cap these rows would be longer"


def test_the_cap_loosens_from_update_to_update_as_often_as_it_was_measured(stream: Stream) -> None:
    base = random_model(stream, "complex", 0).entity
    at_first = longest_newcomers(base, stream, 1, 1.2, growth=1.5)
    assert at_first.norm == pytest.approx(longest_newcomers(base, stream, 1, 1.2).norm)
    later = longest_newcomers(base, stream, 2, 1.2, growth=1.5)
    assert later.norm == pytest.approx(1.5 * longest_newcomers(base, stream, 2, 1.2).norm)
    assert loosened(1.5, 4) == loosened(1.5, 9) == pytest.approx(1.5**3)


def test_norms_can_be_kept_at_what_the_degree_suggests(made: Callable[..., RunView], stream: Stream) -> None:
    view = made(f"method={CAP}", "cap.norm=exactly")
    longest = longest_rows(view.config, stream, update_of(view.config, stream, 1), view.model(0))
    assert longest is not None
    norm = view.model(1).entity[24:].norm(dim=1).numpy()
    assert norm == pytest.approx(longest.norm, rel=1e-12)


@pytest.mark.parametrize("name", ["meor", "calibration"])
def test_it_composes_and_is_balanced_against_the_capped_host(made: Callable[..., RunView], name: str) -> None:
    capped = made(f"method={CAP}")
    sets = (f"method={with_cap(name)}", *(("coefficient=0.0",) if needs_coefficient(name) else ()))
    same = made(*sets)
    for update in (1, 2):
        assert torch.equal(same.model(update).entity, capped.model(update).entity)
    if needs_coefficient(name):
        strong = made(f"method={with_cap(name)}", "coefficient=50.0")
        assert not torch.equal(strong.model(2).entity, capped.model(2).entity)
        events = list(made(f"method={with_cap(name)}").events())
        assert {each["rule"] for each in events if each["event"] == "coefficient"} == {"balance"}


def test_the_run_that_is_given_must_be_the_capped_one(
    tmp_path: Path, made: Callable[..., RunView], stream: Stream
) -> None:
    config = tiny_config(*FAST, f"method={with_cap('calibration')}")
    given = each_step(tmp_path / "cache", alone=made(f"method={CAP}").path)
    start(config, tmp_path / "run", stream=stream, resources=given)
    alone = made(f"method={with_cap('calibration')}")
    files = {name: value for name, value in results(tmp_path / "run").items() if "optimizer" not in name}
    assert files == {name: value for name, value in results(alone.path).items() if "optimizer" not in name}
    wrong = each_step(tmp_path / "cache", alone=made().path)
    with pytest.raises(Exception, match="Give one with the same"):
        start(config, tmp_path / "other", stream=stream, resources=wrong)


def test_a_factor_is_chosen_on_validation_facts_before_the_run_begins(
    tmp_path: Path, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    factors = (0.8, 40.0, 50.0)  # rows of the tiny stream grow long: only a wide cap keeps newcomers
    monkeypatch.setattr("meor.run.session.FACTORS", factors)
    config = tiny_config(*FAST, f"method={CAP}", "cap.factor=validated")
    resources = each_step(tmp_path / "cache")
    start(config, tmp_path / "run", stream=stream, resources=resources)
    view = RunView.open(tmp_path / "run")
    (told,) = [event for event in view.events() if event["event"] == "cap"]
    admitted = [one for one in told["candidates"] if one["admitted"]]
    best = max(admitted, key=lambda one: (one["H_cur"], -one["multiple"]))
    assert view.config.cap.factor == best["multiple"]
    assert [one["multiple"] for one in told["candidates"]] == list(factors)
    given = tiny_config(*FAST, f"method={CAP}", f"cap.factor={best['multiple']}")
    start(given, tmp_path / "given", stream=stream, resources=resources)
    assert results(tmp_path / "run") == results(tmp_path / "given")
    trials = [RunView.open(path.parent) for path in (tmp_path / "cache" / "trials").rglob("config.yaml")]
    assert len(trials) == len(factors) + 1
    assert {trial.config.evaluation.split for trial in trials} == {("valid",)}
    assert {trial.config.seed for trial in trials} == {config.seed + TRIAL_SEED_OFFSET}


def test_where_no_factor_keeps_newcomers_none_is_taken(
    tmp_path: Path, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meor.run.session.FACTORS", (1e-9,))
    config = tiny_config(*FAST, f"method={CAP}", "cap.factor=validated")
    with pytest.raises(ConfigError, match="keeps A_TN on validation facts"):
        start(config, tmp_path / "run", stream=stream, resources=each_step(tmp_path / "cache"))
    assert not (tmp_path / "run").exists()


def test_what_is_no_single_run_needs_a_number(stream: Stream) -> None:
    config = tiny_config(f"method={CAP}", "cap.factor=validated")
    update = update_of(config, stream, 1)
    with pytest.raises(ConfigError, match="Give a number here"):
        longest_rows(config, stream, update, random_model(stream, "complex", 0))
    with pytest.raises(ConfigError, match=r"curve along cap\.factor"):
        Study.resolve(
            {"study": "s", "stream": "world", "methods": ["none", "cap"], "sets": ["cap.factor=validated"]}
        )


def test_it_is_refused_where_a_norm_is_no_scale_of_scores(tmp_path: Path, stream: Stream) -> None:
    with pytest.raises(ConfigError, match="a longer row does not score higher"):
        start(tiny_config(f"method={CAP}", "backbone=transe"), tmp_path / "run", stream=stream)
    assert not (tmp_path / "run").exists()


def test_every_method_has_a_capped_one_beside_it_and_settings_name_it() -> None:
    plain = [name for name, method in METHODS.items() if not method.capped]
    assert [with_cap(name) for name in plain] == [name for name, method in METHODS.items() if method.capped]
    assert METHODS[CAP].label == "Cap"
    balanced = [name for name in plain if METHODS[name].coefficient is None]
    assert {METHODS[with_cap(name)].start for name in balanced} == {CAP}
    assert METHODS[with_cap("guard")].start == NONE, "nothing is balanced, so nothing has to be there"
    assert {METHODS[name].start for name in plain} == {NONE}
    dumped = tiny_config(f"method={CAP}", "cap.factor=0.9").model_dump(mode="json")
    assert dumped["cap"] == {"factor": 0.9, "growth": 1.15, "norm": "at-most"}
    assert "cap" not in tiny_config().model_dump(mode="json")


def test_unless_it_is_given_the_factor_follows_the_size_of_an_update(stream: Stream) -> None:
    by_size = tiny_config(f"method={CAP}", "cap.factor=size")
    assert by_size == tiny_config(f"method={CAP}")
    assert by_size.cap.factor == CAP_FACTOR, "a run says by which numbers it was made"
    small, large = CAP_FACTOR
    assert (at_size(CAP_FACTOR, 0.0), at_size(CAP_FACTOR, 1.0)) == (small, large)
    assert at_size(CAP_FACTOR, 0.5) == pytest.approx((small + large) / 2)
    assert at_size(1.1, 0.3) == 1.1
    base = torch.ones(stream.entity_counts[0], 4, dtype=torch.float64)
    for update in stream.updates:
        share = len(stream.newcomers(update)) / stream.entity_counts[0]
        assert 0 < share < 1
        assert stream.growth(update) == share
        found = longest_newcomers(base, stream, update)
        given = longest_newcomers(base, stream, update, at_size(CAP_FACTOR, share))
        assert np.array_equal(found.norm, given.norm)


def test_a_row_of_zeros_cannot_be_stretched_and_stays() -> None:
    for fixed in (False, True):
        rows = nn.Parameter(torch.zeros(2, 3, dtype=torch.float64))
        rows.grad = torch.zeros_like(rows)
        longest = Longest(np.ones(2), fixed)
        Adam({"rows": rows}, 0.1, longest={"rows": longest}).step()
        plain = torch.zeros(2, 3, dtype=torch.float64)
        longest.shorten(plain)
        assert not rows.any()
        assert torch.equal(plain, rows.data)
