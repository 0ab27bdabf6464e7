from dataclasses import fields

import pytest

from meor.errors import ConfigError
from meor.methods.variants import MEOR, VARIANTS, variant


def test_each_control_changes_exactly_one_part_of_meor():
    for name, one in VARIANTS.items():
        changed = [f.name for f in fields(one) if getattr(one, f.name) != getattr(MEOR, f.name)]
        expected = {"meor": [], "mmr": ["aggregate"], "uor": ["reference"]}
        expected |= {"shuffled": ["assignment"], "uncentered": ["centered"]}
        assert changed == expected[name]


def test_an_unknown_name_is_refused_with_the_known_ones():
    assert variant("mmr") is VARIANTS["mmr"]
    with pytest.raises(ConfigError, match="uncentered"):
        variant("meer")
