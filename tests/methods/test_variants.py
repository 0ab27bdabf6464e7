from dataclasses import fields

from meor.methods import penalties
from meor.methods.registry import MEOR


def test_each_control_changes_exactly_one_part_of_meor():
    for name, one in penalties().items():
        changed = [f.name for f in fields(one) if getattr(one, f.name) != getattr(MEOR, f.name)]
        expected = {"meor": [], "mmr": ["aggregate"], "uor": ["reference"]}
        expected |= {
            "shuffled": ["assignment"],
            "shuffled-values": ["assignment"],
            "uncentered": ["centered"],
        }
        assert changed == expected[name]
