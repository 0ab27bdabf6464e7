"""Files about the project agree with it: one version everywhere, and a citation that can be read."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import meor

ROOT = Path(__file__).parents[2]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINNED = dict(re.findall(r"^([\w.-]+)==(.+)$", (ROOT / "constraints.txt").read_text(), re.M))


def is_orcid(address: str) -> bool:
    """The last digit of an ORCID is a checksum (ISO 7064, mod 11-2)."""
    digits = address.removeprefix("https://orcid.org/").replace("-", "")
    total = 0
    for digit in digits[:-1]:
        total = 2 * (total + int(digit))
    return len(digits) == 16 and digits[-1] == "0123456789X"[(12 - total % 11) % 11]


def test_there_is_one_version() -> None:
    changes = re.findall(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert meor.__version__ == PROJECT["version"] == CITATION["version"] == changes[0]
    assert changes == sorted(changes, reverse=True)


def test_the_citation_names_the_paper_and_its_authors() -> None:
    paper = CITATION["preferred-citation"]
    assert [author["family-names"] for author in paper["authors"]] == ["Ren", "Gao", "Jiang"]
    assert paper["title"].startswith("Matched Excess-Outranker Regularization")
    assert all(is_orcid(author["orcid"]) for author in paper["authors"])
    assert CITATION["license"] == PROJECT["license"]
    assert not is_orcid("https://orcid.org/0000-0003-2169-0112")


def test_the_citation_has_what_its_format_requires() -> None:
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= CITATION.keys()
    assert {"type", "title", "authors"} <= CITATION["preferred-citation"].keys()


def test_pre_commit_runs_the_ruff_that_is_pinned() -> None:
    (hooks,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert hooks["rev"] == f"v{PINNED['ruff']}"


@pytest.mark.parametrize("extra", ["docs", "dev", "serve", "rdf", "dask", "pykeen"])
def test_what_an_extra_needs_is_pinned(extra: str) -> None:
    pinned = {name.lower().replace("_", "-") for name in PINNED}
    for wanted in PROJECT["optional-dependencies"][extra]:
        name = re.match(r"[\w-]+", wanted)[0].lower()  # type: ignore[index]
        assert name == "meor" or name in pinned, wanted
