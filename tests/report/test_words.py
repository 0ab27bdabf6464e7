"""Numbers and names, as a person reads them."""

from __future__ import annotations

import pytest

from meor.escape import clipped
from meor.report.words import (
    clipped_path,
    count,
    interval,
    listed,
    number,
    plural,
    query,
    share,
    signed,
    spelled_out,
    svg_symbols,
    symbols,
    without_places,
)
from meor.study.effects import effect_name


@pytest.mark.parametrize(
    ("value", "plain", "with_sign"),
    [
        (0.00571, "0.0057", "+0.0057"),
        (-0.0043, "−0.0043", "−0.0043"),
        (-0.00001, "0.0000", "0.0000"),
        (None, "--", "--"),
    ],
)
def test_a_number_has_four_places_a_true_minus_and_never_a_negative_zero(value, plain, with_sign) -> None:
    assert (number(value), signed(value)) == (plain, with_sign)


def test_an_abbreviation_has_its_words_where_it_first_stands_and_only_there() -> None:
    first, second = spelled_out(["MEOR is above UOR.", "Cap + MEOR, not MEORs."])
    assert first == (
        "MEOR (Matched Excess-Outranker Regularization) is above UOR (Unmatched Old Regularizer)."
    )
    assert second == "Cap + MEOR, not MEORs."


def test_shares_counts_and_lists_read_well() -> None:
    assert [share(part) for part in (0, 0.0312, 0.5, 1, None)] == [
        "0\xa0%",
        "3.1\xa0%",
        "50\xa0%",
        "100\xa0%",
        "--",
    ]
    assert (count(14541), plural(1, "pair"), plural(2, "entity", "entities")) == (
        "14,541",
        "1 pair",
        "2 entities",
    )
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert interval(-0.001, 0.002) == "[−0.0010, 0.0020]"


def test_a_query_shows_its_gap() -> None:
    assert query("Ada", "knows", "Bo", head_missing=True).split() == ["?", "knows", "Bo"]
    assert query("Ada", "knows", "Bo", head_missing=False).split() == ["Ada", "knows", "?"]


def test_labels_are_shortened_where_they_say_least() -> None:
    assert clipped("Letters on the Gilded Season", 10) == "Letters o…"
    path = "/film/film/other_crew./film/film_crew_gig/film_crew_role"
    assert clipped_path(path, 34) == "…/film_crew_gig/film_crew_role"
    assert clipped_path("has lived in", 34) == "has lived in"


def test_symbols_are_set_and_everything_else_is_escaped() -> None:
    assert symbols("H_cur <b>") == "<i>H</i><sub>cur</sub> &lt;b&gt;"
    assert symbols("my_H_cur_x") == "my_H_cur_x"
    assert "<b>" not in svg_symbols("ΔA_TN <b>")
    assert effect_name("D_MCI") == "D_MCI reduction"


def test_an_error_loses_its_places_and_keeps_its_sense() -> None:
    text = "/srv/x/update-1/model.safetensors cannot be read. `meor resume /srv/x` makes it again; see a/b."
    assert without_places(text) == (
        "model.safetensors cannot be read. `meor resume x` makes it again; see a/b."
    )
    assert without_places(r"C:\Users\me\x.npy is empty") == "x.npy is empty"
