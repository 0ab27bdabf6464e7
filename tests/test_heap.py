from __future__ import annotations

import pytest

from meor.errors import InputError
from meor.heap import parse_bytes


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1GiB", 2**30),
        ("512 mib", 2**29),
        ("1.5G", 3 * 2**29),
        ("800MB", 8 * 10**8),
        ("4096", 4096),
        ("1b", 1),
        *((f"3{unit}", 3 * 1000**power) for power, unit in enumerate(("", "kb", "MB", "GB", "TB"))),
        *((f"3{unit}", 3 * 1024**power) for power, unit in enumerate(("b", "K", "m", "G", "t"))),
        *((f"3{unit}", 3 * 1024**power) for power, unit in enumerate(("B", "KiB", "mib", "GiB", "TiB"))),
    ],
)
def test_amounts_are_read_as_people_write_them(text, value):
    assert parse_bytes(text) == value


@pytest.mark.parametrize(
    "text", ["", "GiB", "-1GiB", "1 GiBs", "0", "0.2", "1e9", "١GiB", "nan", "inf", "9" * 40]
)
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(InputError, match="amount of memory"):
        parse_bytes(text)
